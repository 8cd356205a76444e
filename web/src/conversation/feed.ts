// One conversation as it is now: the tail of its log first, older pages when they are
// asked for, and what comes live. It reconnects by itself and goes on after the last
// event it knows.
import { api, ask, type Conversation } from '../api/client';
import { type Frame, Stream, type StreamState } from '../api/sse';
import { currentKey, refuseKey } from '../session/session';
import { isEvent, type LogEvent, parseEvent, record, text } from './events';
import { Fold, fold, type Status, type Timeline } from './fold';
import { EventLog } from './log';
import { countEvents, readRange, streamOf, takeCount, timeOf } from './range';

export interface Draft {
  text: string;
  reasoning: string;
}

export interface FeedState {
  ready: boolean; // the tail is there
  missing: boolean; // there is no such conversation, or it was deleted
  failed: Error | null; // why it could not be opened
  connection: StreamState;
  timeline: Timeline;
  draft: Draft | null; // an answer that is being written
  notice: string; // trouble that the server tells of
  older: 'none' | 'some' | 'loading';
  status: Status | null; // of the agent, where the known events do not tell it
}

const tail = 200;
const page = 100; // the most that the search gives
const ahead = 3; // pages that are loaded before the page is drawn again
const around = 30; // events before one that is gone to

const empty: Timeline = fold(new EventLog(0));

export class Feed {
  readonly #id: string;
  readonly #listeners = new Set<() => void>();
  #log: EventLog | null = null;
  #fold: Fold | null = null;
  #stream: Stream | null = null;
  #until = 0; // the number up to which events make the tail
  #dirty = false;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #closed = true;
  #opened = 0; // how often, so that what an earlier opening began ends
  #retry: ReturnType<typeof setTimeout> | null = null;
  #reading: AbortController | null = null; // of a part that is gone to
  #state: FeedState = {
    ready: false,
    missing: false,
    failed: null,
    connection: 'connecting',
    timeline: empty,
    draft: null,
    notice: '',
    older: 'none',
    status: null,
  };

  constructor(id: string) {
    this.#id = id;
  }

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  get = (): FeedState => this.#state;

  open(conversation: Conversation | undefined): void {
    this.#closed = false;
    this.#opened++;
    if (conversation?.execution_status) this.#set({ status: conversation.execution_status });
    void this.#begin();
  }

  close(): void {
    this.#closed = true;
    this.#stream?.close();
    this.#stream = null;
    if (this.#timer !== null) clearTimeout(this.#timer);
    if (this.#retry !== null) clearTimeout(this.#retry);
    this.#reading?.abort();
    this.#timer = null;
  }

  async #begin(): Promise<void> {
    const opened = this.#opened;
    const left = () => this.#closed || this.#opened !== opened;
    if (this.#log === null) {
      let total: number;
      try {
        total = await takeCount(this.#id);
      } catch (error) {
        if (left()) return;
        this.#set({ failed: error as Error, connection: 'waiting' });
        this.#retry = setTimeout(() => void this.#begin(), 2000);
        return;
      }
      if (left()) return;
      this.#log = new EventLog(Math.max(0, total - tail));
      this.#fold = new Fold(this.#log);
      this.#until = total;
      this.#set({ failed: null });
    }
    const log = this.#log;
    this.#stream = new Stream({
      url: () => streamOf(this.#id, log.high - 1).url,
      headers: () => streamOf(this.#id, log.high - 1).headers,
      onFrame: (frame) => this.#frame(log, frame),
      onState: (connection) => {
        // Pieces of an answer that were missed do not come again.
        if (connection !== this.#state.connection)
          this.#set({ connection, ...(connection === 'waiting' ? { draft: null } : {}) });
        if (connection === 'open' && this.#until === 0) this.#flush();
      },
      onRefused: (status) => {
        if (status === 401) refuseKey(currentKey());
        if (status === 404) this.#set({ missing: true });
        return status !== 401 && status !== 404;
      },
    });
  }

  #frame(log: EventLog, frame: Frame): void {
    if (frame.id !== '') {
      const stored = add(log, Number(frame.id), frame.data);
      if (stored === null) return;
      const ends = stored.source === 'agent' || stored.kind.endsWith('ErrorEvent') || stored.key === 'execution_status';
      if (ends && this.#state.draft) this.#set({ draft: null });
      if (this.#state.notice !== '') this.#set({ notice: '' });
      this.#changed(log);
      return;
    }
    switch (frame.event) {
      case 'delta':
        return this.#delta(frame.data);
      case 'notice':
        this.#set({ notice: text(parseEvent(frame.data)?.detail) });
        return;
      case 'state': {
        const status = text(record(parseEvent(frame.data)?.value).execution_status);
        if (status !== '') this.#set({ status: status as Status });
        return;
      }
      case 'deleted':
        this.#set({ missing: true });
        this.#stream?.close();
    }
  }

  #delta(data: string): void {
    const event = parseEvent(data);
    if (!event) return;
    const draft = this.#state.draft ?? { text: '', reasoning: '' };
    this.#state = {
      ...this.#state,
      draft: { text: draft.text + text(event.content), reasoning: draft.reasoning + text(event.reasoning_content) },
    };
    this.#schedule();
  }

  #changed(log: EventLog): void {
    this.#dirty = true;
    if (!this.#state.ready && log.high >= this.#until) this.#flush();
    else if (this.#state.ready) this.#schedule();
  }

  // Bursts of events and pieces of text make one change of the page.
  #schedule(): void {
    this.#timer ??= setTimeout(() => this.#flush(), 40);
  }

  #flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const log = this.#log;
    if (!log || !this.#fold) return;
    if (this.#dirty || !this.#state.ready) {
      this.#dirty = false;
      const timeline = this.#fold.timeline();
      const older = this.#state.older === 'loading' ? 'loading' : log.low > 0 ? 'some' : 'none';
      this.#state = { ...this.#state, ready: true, timeline, status: timeline.status ?? this.#state.status, older };
    }
    this.#tell();
  }

  #set(change: Partial<FeedState>): void {
    this.#state = { ...this.#state, ...change };
    this.#tell();
  }

  #tell(): void {
    for (const each of this.#listeners) each();
  }

  /** Loads pages before the oldest known event. */
  async loadOlder(): Promise<void> {
    const log = this.#log;
    if (!log || !this.#state.ready || this.#state.older !== 'some') return;
    this.#set({ older: 'loading' });
    try {
      for (let pages = 0; pages < ahead && log.low > 0 && !this.#closed; pages++) await this.#page(log);
    } catch {
      // it is asked for again when the user scrolls
    }
    this.#loaded(log);
  }

  async #page(log: EventLog): Promise<void> {
    const from = log.low;
    const oldest = log.at(from);
    const got = await ask(
      api.GET('/api/v1/conversation/{conversation_id}/events/search', {
        params: {
          path: { conversation_id: this.#id },
          query: { sort_order: 'TIMESTAMP_DESC', page_id: oldest?.id, limit: page },
        },
      }),
    );
    // The page begins with the event that is known and goes down by one.
    if (oldest === undefined || got.items[0]?.id !== oldest.id) throw new Error('the log has changed');
    got.items.forEach((event, i) => {
      if (isEvent(event)) log.add(from - i, event);
    });
    if (log.low === from) throw new Error('there is nothing before');
  }

  // Shows what came from elsewhere than the stream.
  #loaded(log: EventLog): void {
    this.#dirty = true;
    this.#state = { ...this.#state, older: log.low > 0 ? 'some' : 'none' };
    this.#flush();
  }

  /** Loads what lies between an event and what is known; reports whether it is there. */
  async reach(eventId: string): Promise<boolean> {
    const log = this.#log;
    if (!log) return false;
    if (log.numberOf(eventId) !== undefined) return true;
    const at = await timeOf(this.#id, eventId);
    if (at === null) return false;
    // Two events may have the same time, and a clock may have been set back: where it is
    // not found, it is looked for further on.
    for (let from = (await countEvents(this.#id, at)) - around; ; from -= 1000) {
      await this.#reachFrom(log, from);
      if (log.numberOf(eventId) !== undefined) return true;
      if (log.low === 0) return false;
    }
  }

  /** Loads all that came before. */
  async reachStart(): Promise<void> {
    if (this.#log && this.#state.ready) await this.#reachFrom(this.#log, 0);
  }

  async #reachFrom(log: EventLog, from: number): Promise<void> {
    if (log.low === 0) return;
    this.#reading?.abort();
    const reading = new AbortController();
    this.#reading = reading;
    this.#set({ older: 'loading' });
    const begin = Math.max(0, Math.min(from, log.low - 1));
    try {
      await readRange(this.#id, begin, log.low, (seq, data) => add(log, seq, data), reading.signal);
    } finally {
      if (this.#reading === reading) this.#loaded(log);
    }
  }
}

// What cannot be read is kept as an empty place: the log must have no gap. Returns the
// event, null if it was known.
function add(log: EventLog, seq: number, data: string): LogEvent | null {
  const event = parseEvent(data) ?? {
    id: `unreadable-${seq}`,
    kind: 'Unreadable',
    timestamp: '',
    source: 'environment',
  };
  return log.add(seq, event) ? event : null;
}
