// Server-sent events over fetch: unlike an EventSource it can send the key in a header.

export interface Frame {
  id: string; // '' = none
  event: string;
  data: string;
}

/** Cuts a stream of text into frames; the text may be cut anywhere. */
export class FrameParser {
  #line = ''; // the begin of a line whose end has not come; texts are looked at once
  #return = false; // the last character was a CR: a LF that follows belongs to it
  #id = '';
  #event = '';
  #data: string[] = [];

  push(text: string): Frame[] {
    const frames: Frame[] = [];
    let from = this.#return && text.startsWith('\n') ? 1 : 0;
    if (text !== '') this.#return = text.endsWith('\r');
    const ends = /\r\n|\n|\r/g;
    ends.lastIndex = from;
    for (let end = ends.exec(text); end !== null; end = ends.exec(text)) {
      this.#take(this.#line + text.slice(from, end.index), frames);
      this.#line = '';
      from = ends.lastIndex;
    }
    this.#line += text.slice(from);
    return frames;
  }

  #take(line: string, frames: Frame[]): void {
    if (line === '') {
      if (this.#data.length > 0) frames.push({ id: this.#id, event: this.#event, data: this.#data.join('\n') });
      this.#id = '';
      this.#event = '';
      this.#data = [];
      return;
    }
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (field === 'id') this.#id = value;
    else if (field === 'event') this.#event = value;
    else if (field === 'data') this.#data.push(value);
  }
}

const slice = 12; // ms of work before the page may draw

/**
 * Hands over the frames of an answer until it ends, or until each returns false. heard is
 * told of everything that comes, heartbeats too. Much at once does not hold up the page.
 */
export async function readFrames(
  body: ReadableStream<Uint8Array>,
  each: (frame: Frame) => boolean,
  heard: () => void = () => {},
): Promise<void> {
  const parser = new FrameParser();
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let began = performance.now();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      heard();
      for (const frame of parser.push(decoder.decode(value, { stream: true }))) if (!each(frame)) return;
      if (performance.now() - began > slice) {
        await new Promise((drawn) => setTimeout(drawn));
        began = performance.now();
      }
    }
  } finally {
    void reader.cancel().catch(() => {}); // it may be broken already
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
const doubtful = 12_000; // after a sleep nobody waits for the rest of it
const shortestWait = 300;
const longestWait = 8_000;
// Browsers have six connections to a server for all their tabs: those that nobody looks
// at leave theirs to others, and go on where they were when they are looked at.
const unseen = 30_000;

/** Follows a stream until it is closed, over any number of connections. */
export class Stream {
  readonly #options: StreamOptions;
  #abort = new AbortController();
  #closed = false;
  #heard = 0; // when something came
  #wait = shortestWait;
  #wake: (() => void) | null = null;
  #hidden: ReturnType<typeof setTimeout> | null = null;
  readonly #watch: ReturnType<typeof setInterval>;

  constructor(options: StreamOptions) {
    this.#options = options;
    addEventListener('online', this.#hurry);
    document.addEventListener('visibilitychange', this.#hurry);
    document.addEventListener('resume', this.#hurry); // after the browser froze the page
    this.#watch = setInterval(() => this.#leaveIfSilent(silence), 5000);
    this.#hurry();
    void this.#run();
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    removeEventListener('online', this.#hurry);
    document.removeEventListener('visibilitychange', this.#hurry);
    document.removeEventListener('resume', this.#hurry);
    clearInterval(this.#watch);
    if (this.#hidden !== null) clearTimeout(this.#hidden);
    this.#abort.abort();
    this.#wake?.();
    this.#options.onState('closed');
  }

  #hurry = (): void => {
    if (this.#hidden !== null) clearTimeout(this.#hidden);
    this.#hidden = null;
    if (document.visibilityState === 'hidden') {
      this.#hidden = setTimeout(() => this.#abort.abort(), unseen);
      return;
    }
    this.#wait = shortestWait;
    this.#leaveIfSilent(doubtful);
    this.#wake?.();
  };

  #leaveIfSilent(limit: number): void {
    if (this.#heard > 0 && Date.now() - this.#heard > limit) this.#abort.abort();
  }

  async #run(): Promise<void> {
    while (!this.#closed) {
      this.#options.onState('connecting');
      const began = Date.now();
      const status = await this.#connect();
      if (this.#closed) return;
      if (status !== 0 && !this.#options.onRefused(status)) {
        this.close();
        return;
      }
      if (Date.now() - began > longestWait) this.#wait = shortestWait;
      this.#options.onState('waiting');
      const wait = this.#wait * (0.75 + Math.random() / 2);
      this.#wait = Math.min(this.#wait * 2, longestWait);
      await this.#sleep(wait);
    }
  }

  /** Waits a while, and as long as nobody looks. */
  #sleep(ms: number): Promise<void> {
    return new Promise((done) => {
      const end = () => {
        clearTimeout(timer);
        this.#wake = null;
        done();
      };
      const timer = setTimeout(() => {
        if (document.visibilityState !== 'hidden') end();
      }, ms);
      this.#wake = end;
    });
  }

  /** One connection. Returns the status of a refusal, 0 if it broke or ended. */
  async #connect(): Promise<number> {
    this.#abort = new AbortController();
    this.#heard = Date.now();
    try {
      const answer = await fetch(this.#options.url(), {
        headers: { Accept: 'text/event-stream', ...this.#options.headers() },
        signal: this.#abort.signal,
        cache: 'no-store',
      });
      if (!answer.ok || answer.body === null) return answer.status;
      this.#options.onState('open');
      await readFrames(
        answer.body,
        (frame) => {
          if (!this.#closed) this.#options.onFrame(frame);
          return !this.#closed;
        },
        () => {
          this.#heard = Date.now();
        },
      );
      return 0;
    } catch {
      return 0;
    } finally {
      this.#heard = 0;
    }
  }
}
