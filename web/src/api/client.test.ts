import { expect, it, vi } from 'vitest';
import { currentKey, signIn, wasRefused } from '../session/session';
import { api, ask } from './client';

// The client keeps the fetch that there is when it is made.
const server = vi.hoisted(() => {
  const made = { body: null as unknown };
  globalThis.fetch = () => Promise.resolve(new Response(JSON.stringify(made.body), { status: 401 }));
  return made;
});

const search = () =>
  ask(api.GET('/api/v1/git/repositories/search', { params: { query: { provider: 'github', limit: 1 } } }));

it.each([
  ['a text', 'No token for GitHub is stored.'],
  ['a code', { error: 'GitHub rejected the token.', code: 'git_token_rejected' }],
])('a git provider that refuses its token, told as %s, signs nobody out', async (_, body) => {
  signIn('the-key');
  server.body = body;
  await expect(search()).rejects.toMatchObject({ status: 401 });
  expect(currentKey()).toBe('the-key');
});

it('a key that the server refuses is asked for again', async () => {
  signIn('the-key');
  server.body = { detail: 'Unauthorized', error: 'Invalid token' };
  await expect(search()).rejects.toMatchObject({ status: 401 });
  expect(currentKey()).toBeNull();
  expect(wasRefused()).toBe(true);
});
