import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { LogEvent } from '../events';
import { axisEnd, callsOf, groupCalls, nothing } from './calls';

type Totals = Record<string, [cost: number, prompt: number, completion: number]>;

function stats(n: number, totals: Totals, latency?: Record<string, number>): LogEvent {
  return {
    id: `e${n}`,
    kind: 'ConversationStateUpdateEvent',
    timestamp: `2026-01-01T00:00:${String(n % 60).padStart(2, '0')}.000000`,
    source: 'environment',
    key: 'stats',
    value: {
      usage_to_metrics: Object.fromEntries(
        Object.entries(totals).map(([use, [cost, prompt, completion]]) => [
          use,
          {
            model_name: 'm',
            accumulated_cost: cost,
            accumulated_token_usage: { model: 'm', prompt_tokens: prompt, completion_tokens: completion },
          },
        ]),
      ),
      ...(latency ? { latency } : {}),
    },
  };
}

describe('calls', () => {
  it('are the differences between totals, for each use alone', () => {
    const { calls, before } = callsOf(
      [
        stats(1, { agent: [0.5, 100, 10] }, { agent: 1.5 }),
        stats(2, { agent: [0.5, 100, 10], title: [0.1, 20, 5] }),
        { ...stats(3, {}), key: 'execution_status', value: 'running' },
        stats(4, { agent: [0.75, 300, 15], title: [0.1, 20, 5] }),
      ],
      true,
    );
    expect(before).toEqual(nothing());
    expect(calls.map(({ use, cost, prompt, completion, seconds }) => [use, cost, prompt, completion, seconds])).toEqual(
      [
        ['agent', 0.5, 100, 10, 1.5],
        ['title', 0.1, 20, 5, null],
        ['agent', 0.25, 200, 5, null],
      ],
    );
    expect(calls[2]?.at).toBe(Date.UTC(2026, 0, 1, 0, 0, 4));
  });

  it('before the first known totals are one sum', () => {
    const { calls, before } = callsOf(
      [stats(1, { agent: [5, 1000, 100], title: [1, 10, 1] }), stats(2, { agent: [6, 1500, 120], title: [1, 10, 1] })],
      false,
    );
    expect(before).toMatchObject({ cost: 6, prompt: 1010, completion: 101 });
    expect(calls).toHaveLength(1);
    expect(calls[0]).toMatchObject({ cost: 1, prompt: 500, completion: 20 });
  });

  it('of a copy are counted from nothing', () => {
    const { calls } = callsOf([stats(1, { agent: [5, 1000, 100] }), stats(2, { agent: [1, 200, 10] })], true);
    expect(calls.map((call) => call.cost)).toEqual([1]);
  });

  it('are never made of what is no number', () => {
    const strange = { ...stats(1, {}), value: { usage_to_metrics: { agent: { accumulated_cost: 'x' }, b: null } } };
    expect(callsOf([strange, { ...strange, id: 'e2', value: null }], true).calls).toEqual([]);
  });
});

describe('groups', () => {
  it('lose nothing, stay in order and are few', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(100), fc.nat(5000), fc.nat(500)), { maxLength: 400 }),
        fc.integer({ min: 1, max: 120 }),
        (used, most) => {
          const sum: [number, number, number] = [0, 0, 0];
          const events = used.map(([cost, prompt, completion], n) => {
            sum[0] += cost;
            sum[1] += prompt;
            sum[2] += completion;
            return stats(n, { agent: [...sum] });
          });
          const calls = callsOf(events, true);
          const groups = groupCalls(calls, most);
          expect(groups.length).toBeLessThanOrEqual(most);
          expect(groups.reduce((n, each) => n + each.calls, 0)).toBe(calls.calls.length);
          expect(groups.reduce((n, each) => n + each.prompt, 0)).toBe(sum[1]);
          expect(groups.at(-1)?.total ?? 0).toBe(sum[0]);
        },
      ),
    );
  });
});

describe('an axis', () => {
  it.each([
    [0, 1],
    [0.00012, 0.0002],
    [1, 1],
    [1.1, 2],
    [2.2, 2.5],
    [7, 10],
    [10_800, 20_000],
  ])('up to %d ends at %d', (value, end) => expect(axisEnd(value)).toBe(end));

  it('holds its value, whatever it is', () => {
    fc.assert(
      fc.property(fc.double({ min: 1e-9, max: 1e12, noNaN: true }), (value) => {
        expect(axisEnd(value)).toBeGreaterThanOrEqual(value * 0.999);
        expect(axisEnd(value)).toBeLessThanOrEqual(value * 10.01);
      }),
    );
  });
});
