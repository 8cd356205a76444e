import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import type { LogEvent } from './events';
import { Fold, Folder, fold } from './fold';
import { EventLog } from './log';

/** A log with runs of everything the fold looks at. */
function story(length: number): LogEvent[] {
  const kinds = ['user', 'action', 'stats', 'observation', 'error', 'status', 'pause', 'strange'];
  return Array.from({ length }, (_, n) => {
    const base = {
      id: `e${n}`,
      timestamp: `2026-01-01T00:00:${String(n % 60).padStart(2, '0')}.000000`,
      source: 'agent',
    };
    const call = `call-${n - (n % kinds.length)}`;
    switch (kinds[n % kinds.length]) {
      case 'user':
        return { ...base, kind: 'MessageEvent', source: 'user', llm_message: { content: [{ text: `hello ${n}` }] } };
      case 'action':
        return {
          ...base,
          kind: 'ActionEvent',
          thought: [{ text: 'so' }],
          tool_name: 'terminal',
          tool_call_id: call,
          action: { kind: 'TerminalAction', command: 'ls' },
          tool_call: { arguments: '{}' },
          security_risk: 'LOW',
        };
      case 'stats':
        return {
          ...base,
          kind: 'ConversationStateUpdateEvent',
          key: 'stats',
          value: {
            usage_to_metrics: { agent: { accumulated_cost: n / 100, accumulated_token_usage: { prompt_tokens: n } } },
          },
        };
      case 'observation':
        return { ...base, kind: 'ObservationEvent', tool_call_id: call, observation: { content: [{ text: 'x' }] } };
      case 'error':
        return { ...base, kind: 'ConversationErrorEvent', code: 'C', detail: 'd' };
      case 'status':
        return { ...base, kind: 'ConversationStateUpdateEvent', key: 'execution_status', value: 'running' };
      case 'pause':
        return { ...base, kind: 'PauseEvent' };
      default:
        return { ...base, kind: 'KindOfTomorrow', what: { is: ['this'] } };
    }
  });
}

/** What arrives: pages downwards from the anchor, the stream upwards, both again after breaks. */
const deliveries = fc
  .record({ length: fc.integer({ min: 0, max: 60 }), seed: fc.infiniteStream(fc.nat(1000)) })
  .chain(({ length }) =>
    fc.record({
      length: fc.constant(length),
      anchor: fc.integer({ min: 0, max: length }),
      order: fc.shuffledSubarray(
        Array.from({ length }, (_, n) => n),
        { minLength: length, maxLength: length },
      ),
      again: fc.array(fc.nat(Math.max(0, length - 1)), { maxLength: 30 }),
    }),
  );

describe('EventLog', () => {
  it('is the same range, and folds to the same timeline, in whatever order and how often events come', () => {
    fc.assert(
      fc.property(deliveries, ({ length, anchor, order, again }) => {
        const events = story(length);
        const straight = new EventLog(0);
        events.forEach((event, n) => {
          straight.add(n, event);
        });
        const mixed = new EventLog(anchor);
        for (const n of [...order, ...again]) {
          const event = events[n];
          if (event) mixed.add(n, event);
        }
        expect([mixed.low, mixed.high]).toEqual([0, length]);
        expect(fold(mixed)).toEqual(fold(straight));
      }),
    );
  });

  it('never has a gap: a hole ends the range until it is filled', () => {
    fc.assert(
      fc.property(deliveries, ({ length, anchor, order }) => {
        const events = story(length);
        const log = new EventLog(anchor);
        const have = new Set<number>();
        for (const n of order) {
          log.add(n, events[n] as LogEvent);
          have.add(n);
          for (let at = log.low; at < log.high; at++) expect(have.has(at)).toBe(true);
          expect(have.has(log.high)).toBe(false);
          expect(have.has(log.low - 1)).toBe(false);
        }
      }),
    );
  });

  it('tells a new event from one that it has', () => {
    const log = new EventLog(5);
    const [event] = story(1) as [LogEvent];
    expect(log.add(5, event)).toBe(true);
    expect(log.add(5, event)).toBe(false);
    expect(log.add(-1, event)).toBe(false);
    expect(log.add(Number.NaN, event)).toBe(false);
  });
});

/** So that a change of what was shown throws. */
function frozen<T extends { items: readonly object[] }>(timeline: T): T {
  for (const item of timeline.items) Object.freeze(item);
  return Object.freeze(timeline);
}

describe('Fold', () => {
  it('is the same as of the whole log after every event, and changes nothing that was shown', () => {
    fc.assert(
      fc.property(deliveries, ({ length, anchor, order, again }) => {
        const events = story(length);
        const log = new EventLog(anchor);
        const growing = new Fold(log);
        for (const n of [...order, ...again]) {
          const event = events[n];
          if (event) log.add(n, event);
          if (n % 3 === 0) expect(frozen(growing.timeline())).toEqual(fold(log));
        }
        expect(growing.timeline()).toEqual(fold(log));
      }),
    );
  });

  it('looks at an event that comes at the end once, however long the log is', () => {
    const work = vi.spyOn(Folder.prototype, 'add');
    const events = story(2100);
    const log = new EventLog(0);
    const growing = new Fold(log);
    events.forEach((event, n) => {
      log.add(n, event);
      if (n >= 2000) growing.timeline();
    });
    expect(work).toHaveBeenCalledTimes(events.length);
    work.mockRestore();
  });

  it('knows what failed in the order of the log, however late it was answered', () => {
    const log = new EventLog(0);
    const add = (n: number, event: Record<string, unknown>) =>
      log.add(n, { id: `e${n}`, timestamp: '2026-01-01T00:00:00', source: 'agent', ...event } as unknown as LogEvent);
    const growing = new Fold(log);
    for (let n = 0; n < 3; n++) add(n, { kind: 'ActionEvent', tool_call_id: `c${n}`, tool_name: 'terminal' });
    add(3, { kind: 'ConversationErrorEvent' });
    add(4, { kind: 'AgentErrorEvent', tool_call_id: 'c2', error: 'lost' });
    expect(growing.timeline().failures).toEqual([2, 3]);
    add(5, { kind: 'ObservationEvent', tool_call_id: 'c0', observation: { exit_code: 1 } });
    expect(growing.timeline().failures).toEqual([0, 2, 3]);
    add(6, { kind: 'ObservationEvent', tool_call_id: 'c2', observation: { exit_code: 0 } }); // it came after all
    expect(growing.timeline().failures).toEqual([0, 3]);
    expect(growing.timeline().waiting.map((step) => step.callId)).toEqual(['c1']);
  });
});
