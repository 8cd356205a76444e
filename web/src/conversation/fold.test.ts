import { describe, expect, it } from 'vitest';
import type { LogEvent } from './events';
import { fold, type Step, type Timeline } from './fold';
import { EventLog } from './log';

function timeline(from: number, ...events: Record<string, unknown>[]): Timeline {
  const log = new EventLog(from);
  events.forEach((event, i) => {
    log.add(from + i, {
      id: `e${from + i}`,
      timestamp: '2026-01-01T00:00:01.500000',
      source: 'agent',
      ...event,
    } as unknown as LogEvent);
  });
  return fold(log);
}

const action = {
  kind: 'ActionEvent',
  tool_name: 'terminal',
  tool_call_id: 'c1',
  action: { kind: 'TerminalAction', command: 'make' },
};
const stats = (cost: number) => ({
  kind: 'ConversationStateUpdateEvent',
  key: 'stats',
  value: {
    usage_to_metrics: {
      agent: { accumulated_cost: cost, accumulated_token_usage: { prompt_tokens: 7, completion_tokens: 3 } },
    },
  },
});
const only = (got: Timeline) => got.items[0] as Step;

describe('steps', () => {
  it('are open until they are answered, and then know how long they took', () => {
    expect(only(timeline(0, action)).state).toBe('open');
    const done = timeline(0, action, {
      kind: 'ObservationEvent',
      action_id: 'e0',
      timestamp: '2026-01-01T00:00:04.000000',
      observation: { exit_code: 0 },
    });
    expect(only(done)).toMatchObject({ state: 'done', seconds: 2.5 });
    expect(done.waiting).toEqual([]);
  });

  it.each([
    ['an exit code', { kind: 'ObservationEvent', action_id: 'e0', observation: { exit_code: 2 } }, 'failed'],
    ['an error of the tool', { kind: 'ObservationEvent', action_id: 'e0', observation: { is_error: true } }, 'failed'],
    ['a call that could not run', { kind: 'AgentErrorEvent', tool_call_id: 'c1', error: 'no such tool' }, 'failed'],
    ['a refusal', { kind: 'UserRejectObservation', action_id: 'e0', rejection_reason: 'no' }, 'rejected'],
    [
      'a command that goes on (exit code -1)',
      { kind: 'ObservationEvent', action_id: 'e0', observation: { exit_code: -1 } },
      'done',
    ],
  ])('%s', (_, answer, state) => {
    expect(only(timeline(0, action, answer)).state).toBe(state);
  });

  it('show what the answer that asked for them cost, once', () => {
    const got = timeline(0, action, { ...action, tool_call_id: 'c2' }, stats(0.25), {
      kind: 'ObservationEvent',
      action_id: 'e0',
      observation: {},
    });
    expect(got.items.map((item) => (item as Step).cost)).toEqual([0.25, null]);
    expect(got.usage).toEqual({ cost: 0.25, prompt: 7, completion: 3 });
  });

  it('claim no cost where the figure before is not known', () => {
    expect(only(timeline(100, action, stats(3))).cost).toBeNull();
    const second = timeline(100, stats(3), { ...action }, stats(3.5));
    expect(only(second).cost).toBe(0.5);
  });

  it.each([
    ['Look at the tests', 'Look at the tests'],
    ['terminal: {"command":"make"}', ''], // the server's, where the model says nothing
    ['', ''],
  ])('say what the model calls them: %j', (summary, wanted) => {
    expect(only(timeline(0, { ...action, summary })).summary).toBe(wanted);
  });

  it('whose action is not loaded are left out', () => {
    expect(timeline(9, { kind: 'ObservationEvent', action_id: 'x', observation: {} }).items).toEqual([]);
  });
});

describe('hostile events', () => {
  it.each([
    [{ kind: 'MessageEvent', llm_message: 'text' }],
    [{ kind: 'MessageEvent', llm_message: { content: [null, 1, { text: 5 }, { image_urls: [7] }] } }],
    [{ kind: 'ActionEvent', thought: 3, action: [], tool_call: null }],
    [{ kind: 'ObservationEvent', observation: null }],
    [{ kind: 'ConversationStateUpdateEvent', key: 'stats', value: [1] }],
    [{ kind: 'ConversationStateUpdateEvent', key: 'agent_state', value: 'x' }],
    [{ kind: '__proto__' }],
  ])('%j does not break the page', (event) => {
    expect(() => timeline(0, event, action)).not.toThrow();
  });
});
