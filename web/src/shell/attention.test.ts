import { describe, expect, it } from 'vitest';
import { iconOf, needUser, statesOf, titleOf } from './attention';

const known = (states: Record<string, [string, string | null]>) =>
  statesOf(
    Object.entries(states).map(([id, [sandbox, agent]]) => ({
      id,
      sandbox_status: sandbox as 'RUNNING',
      execution_status: agent as 'running',
    })),
  );

describe('what the tab tells', () => {
  it.each<[string, string | null, string | null, boolean]>([
    ['a run that finishes', 'running', 'finished', true],
    ['a run that asks', 'running', 'waiting_for_confirmation', true],
    ['a run that fails', 'running', 'error', true],
    ['a run that goes on', 'running', 'running', false],
    ['a run that the user paused', 'running', 'paused', false],
    ['a run that ends before it was seen to go on', 'waiting_for_confirmation', 'finished', true],
    ['what waits as before', 'waiting_for_confirmation', 'waiting_for_confirmation', false],
    ['what was done before', 'finished', 'finished', false],
    ['what begins', 'idle', 'running', false],
  ])('%s calls the user: from %s to %s', (_, from, to, calls) => {
    const found = needUser(known({ a: ['RUNNING', from] }), known({ a: ['RUNNING', to] }));
    expect(found).toEqual(calls ? ['a'] : []);
  });

  it('calls for nothing that it has not seen under way', () => {
    expect(needUser(known({}), known({ a: ['RUNNING', 'finished'] }))).toEqual([]);
  });

  it('shows what waits before what runs', () => {
    expect(iconOf(known({ a: ['RUNNING', 'finished'] }))).toBe('usual');
    expect(iconOf(known({ a: ['RUNNING', 'running'] }))).toBe('running');
    expect(iconOf(known({ a: ['RUNNING', 'running'], b: ['RUNNING', 'waiting_for_confirmation'] }))).toBe('waiting');
  });

  it('has the page, its state and how many wait in the title', () => {
    expect(titleOf(0, [])).toBe('Parley');
    expect(titleOf(2, ['Mend it', 'Running'])).toBe('(2) Mend it · Running · Parley');
  });
});
