import { describe, expect, it } from 'vitest';
import { addressOf, requestOf, usual } from './choice';

describe('what is chosen for a conversation', () => {
  it('is nothing, as a rule', () => {
    expect(requestOf(usual)).toEqual({});
  });

  it('is asked for in full', () => {
    const repository = { provider: 'github', name: 'a/b', branch: 'dev' } as const;
    expect(requestOf({ profile: 'cheap', model: ' openai/x ', spec: 'small', repository })).toEqual({
      llm_profile: 'cheap',
      llm_model: 'openai/x',
      sandbox_spec_id: 'small',
      selected_repository: 'a/b',
      git_provider: 'github',
      selected_branch: 'dev',
    });
  });

  it('names no provider for an address', () => {
    const repository = { provider: null, name: 'https://git.example/a/b.git', branch: '' };
    expect(requestOf({ ...usual, repository })).toEqual({ selected_repository: 'https://git.example/a/b.git' });
  });

  it.each([
    ['https://git.example/a/b.git', true],
    [' https://git.example/a/b ', true],
    ['http://127.0.0.1:3000/a', true],
    ['https://git.example/', false],
    ['a/b', false],
    ['file:///etc', false],
    ['ext::sh -c x', false],
    ['', false],
  ])('%j is an address of a repository: %s', (typed, yes) => {
    expect(addressOf(typed) !== null).toBe(yes);
  });
});
