// Server-sent events over fetch: unlike an EventSource it can send the key in a header.

export interface Frame {
  id: string; // '' = none
  event: string;
  data: string;
}

/** Cuts a stream of text into frames; the text may be cut anywhere. */
export class FrameParser {
  #rest = '';
  #id = '';
  #event = '';
  #data: string[] = [];

  push(text: string): Frame[] {
    const frames: Frame[] = [];
    let buffer = this.#rest + text;
    // A lone CR at the end may be half of a CRLF.
    const held = buffer.endsWith('\r') ? '\r' : '';
    if (held !== '') buffer = buffer.slice(0, -1);
    const lines = buffer.split(/\r\n|\n|\r/);
    this.#rest = (lines.pop() ?? '') + held;
    for (const line of lines) {
      if (line === '') {
        if (this.#data.length > 0) frames.push({ id: this.#id, event: this.#event, data: this.#data.join('\n') });
        this.#id = '';
        this.#event = '';
        this.#data = [];
        continue;
      }
      const colon = line.indexOf(':');
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
      if (field === 'id') this.#id = value;
      else if (field === 'event') this.#event = value;
      else if (field === 'data') this.#data.push(value);
    }
    return frames;
  }
}

export type StreamState = 'connecting' | 'open' | 'waiting' | 'closed';

export interface StreamOptions {
  /** Address that continues after what is known; asked before each connection. */
  url: () => string;
  headers: () => Record<string, string>;
  onFrame: (frame: Frame) => void;
  onState: (state: StreamState) => void;
  /** Whether to try again after this status. */
  onRefused: (status: number) => boolean;
}

// The server sends something every 10 s; a connection that is silent for longer is dead.
const silence = 25_000;
const shortestWait = 300;
const longestWait = 8_000;

/** Follows a stream until it is closed, over any number of connections. */
export class Stream {
  readonly #options: StreamOptions;
  #abort = new AbortController();
  #closed = false;
  #wake: (() => void) | null = null;

  constructor(options: StreamOptions) {
    this.#options = options;
    addEventListener('online', this.#hurry);
    document.addEventListener('visibilitychange', this.#hurry);
    void this.#run();
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    removeEventListener('online', this.#hurry);
    document.removeEventListener('visibilitychange', this.#hurry);
    this.#abort.abort();
    this.#wake?.();
    this.#options.onState('closed');
  }

  #hurry = (): void => {
    if (document.visibilityState === 'visible') this.#wake?.();
  };

  async #run(): Promise<void> {
    let wait = shortestWait;
    while (!this.#closed) {
      this.#options.onState('connecting');
      const began = Date.now();
      const status = await this.#connect();
      if (this.#closed) return;
      if (status !== 0 && !this.#options.onRefused(status)) {
        this.close();
        return;
      }
      if (Date.now() - began > longestWait) wait = shortestWait;
      this.#options.onState('waiting');
      await this.#sleep(wait * (0.75 + Math.random() / 2));
      wait = Math.min(wait * 2, longestWait);
    }
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((done) => {
      const timer = setTimeout(done, ms);
      this.#wake = () => {
        clearTimeout(timer);
        done();
      };
    });
  }

  /** One connection. Returns the status of a refusal, 0 if it broke or ended. */
  async #connect(): Promise<number> {
    this.#abort = new AbortController();
    const abort = this.#abort;
    let timer = setTimeout(() => abort.abort(), silence);
    try {
      const answer = await fetch(this.#options.url(), {
        headers: { Accept: 'text/event-stream', ...this.#options.headers() },
        signal: abort.signal,
        cache: 'no-store',
      });
      if (!answer.ok || answer.body === null) return answer.status;
      this.#options.onState('open');
      const parser = new FrameParser();
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return 0;
        clearTimeout(timer);
        timer = setTimeout(() => abort.abort(), silence);
        for (const frame of parser.push(value)) {
          if (this.#closed) return 0;
          this.#options.onFrame(frame);
        }
      }
    } catch {
      return 0;
    } finally {
      clearTimeout(timer);
    }
  }
}
