// The part of a conversation's log that the page knows: a gap-free range of events by
// their number. Events may arrive in any order, from pages and from the stream, and more
// than once: the same events always make the same range.
import type { LogEvent } from './events';

export class EventLog {
  readonly #events = new Map<number, LogEvent>();
  readonly #numbers = new Map<string, number>();
  #low: number;
  #high: number;

  /** anchor is the number of the first event that will come; the range grows from there. */
  constructor(anchor: number) {
    this.#low = anchor;
    this.#high = anchor;
  }

  /** Number of the oldest event in the range. */
  get low(): number {
    return this.#low;
  }

  /** Number after the newest event in the range: where the stream goes on. */
  get high(): number {
    return this.#high;
  }

  get size(): number {
    return this.#high - this.#low;
  }

  /** Adds an event; reports whether it was new. */
  add(number: number, event: LogEvent): boolean {
    if (!Number.isSafeInteger(number) || number < 0 || this.#events.has(number)) return false;
    this.#events.set(number, event);
    this.#numbers.set(event.id, number);
    while (this.#events.has(this.#high)) this.#high++;
    while (this.#events.has(this.#low - 1)) this.#low--;
    return true;
  }

  at(number: number): LogEvent | undefined {
    return this.#events.get(number);
  }

  numberOf(id: string): number | undefined {
    return this.#numbers.get(id);
  }

  /** The events of the range, oldest first. */
  *range(): Generator<[number, LogEvent]> {
    for (let n = this.#low; n < this.#high; n++) {
      const event = this.#events.get(n);
      if (event) yield [n, event];
    }
  }
}
