import { describe, expect, it } from 'vitest';
import { matches, repositoriesOf, type State } from './filter';

const of = (sandbox: string, agent: string | null, repository: string | null = null) =>
  ({ sandbox_status: sandbox, execution_status: agent, selected_repository: repository }) as Parameters<
    typeof matches
  >[0];

describe('the filter of the list', () => {
  it.each<[string, string | null, State[]]>([
    ['RUNNING', 'running', ['active']],
    ['STARTING', null, ['active']],
    ['RUNNING', 'waiting_for_confirmation', ['waiting']],
    ['RUNNING', 'paused', ['waiting']],
    ['RUNNING', 'error', ['problem']],
    ['RUNNING', 'stuck', ['problem']],
    ['ERROR', null, ['problem']],
    ['MISSING', null, ['problem']],
    ['RUNNING', 'finished', []],
    ['PAUSED', null, []],
  ])('a sandbox that is %s with an agent that is %s is in %j and in all', (sandbox, agent, wanted) => {
    const c = of(sandbox, agent);
    const found = (['active', 'waiting', 'problem'] as const).filter((state) => matches(c, state, ''));
    expect(found).toEqual(wanted);
    expect(matches(c, 'all', '')).toBe(true);
  });

  it('takes a repository together with a state', () => {
    const c = of('RUNNING', 'running', 'a/b');
    expect(matches(c, 'active', 'a/b')).toBe(true);
    expect(matches(c, 'active', 'a/c')).toBe(false);
    expect(matches(c, 'problem', 'a/b')).toBe(false);
  });

  it('knows each repository once', () => {
    expect(
      repositoriesOf([
        of('PAUSED', null, 'b/b'),
        of('PAUSED', null),
        of('PAUSED', null, 'a/a'),
        of('PAUSED', null, 'b/b'),
      ]),
    ).toEqual(['a/a', 'b/b']);
  });
});
