import { describe, expect, it } from 'vitest';
import { namesRepository, requestOf, usual } from './choice';

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
    [null, 'https://git.example/a/b.git', true],
    [null, 'http://127.0.0.1:3000/a', true],
    [null, 'https://git.example/', false],
    [null, 'a/b', false],
    [null, 'file:///etc', false],
    [null, 'ext::sh -c x', false],
    ['github', 'a/b', true],
    ['gitlab', 'a/b/c', true],
    ['github', 'a', false],
    ['github', 'a b/c', false],
  ] as const)('at %s, %j names a repository: %s', (provider, name, yes) => {
    expect(namesRepository({ provider, name })).toBe(yes);
  });
});
