import { describe, expect, it } from 'vitest';
import { draftOf, emptyDraft, mask, pair, placeOf, serverOf } from './mcp';

describe('an MCP server', () => {
  const stored = {
    transport: 'stdio',
    command: 'npx',
    args: ['-y', 'a\nb'],
    env: { KEY: mask, MODE: '$'.concat('{MODE}') },
    timeout: 30,
    enabled: true,
    description: 'kept',
  };

  it('comes out of the form as it went in', () => {
    expect(serverOf(draftOf('files', stored), stored)).toEqual(stored);
    const remote = {
      transport: 'sse',
      url: 'https://x.example/sse',
      auth: { strategy: 'bearer', value: mask },
      enabled: false,
    };
    expect(serverOf(draftOf('x', remote), remote)).toEqual(remote);
  });

  it('keeps credentials that the form does not show', () => {
    const login = {
      transport: 'http',
      url: 'https://x.example',
      auth: { strategy: 'oauth2', state: {} },
      enabled: true,
    };
    expect(serverOf({ ...draftOf('x', login), timeout: '5' }, login)).toEqual({ ...login, timeout: 5 });
    expect(serverOf({ ...draftOf('x', login), auth: 'none' }, login)).not.toHaveProperty('auth');
  });

  it('loses what has no meaning for its new kind', () => {
    expect(serverOf({ ...draftOf('files', stored), kind: 'http', url: ' https://x.example ' }, stored)).toEqual({
      transport: 'http',
      url: 'https://x.example',
      timeout: 30,
      enabled: true,
      description: 'kept',
    });
  });

  it('has arguments by line, and values that were written over', () => {
    const draft = {
      ...draftOf('files', stored),
      args: '--root\n\n/work dir',
      env: [pair('KEY', 'new', true), pair(' ', 'x')],
    };
    expect(serverOf(draft, stored)).toMatchObject({ args: ['--root', '/work dir'], env: { KEY: 'new' } });
  });

  it('of a new one sends only what was said', () => {
    expect(serverOf({ ...emptyDraft(), url: 'https://x.example/mcp', auth: 'bearer', token: 't' })).toEqual({
      transport: 'http',
      url: 'https://x.example/mcp',
      auth: { strategy: 'bearer', value: 't' },
      enabled: true,
    });
  });

  it('is told in a line', () => {
    expect(placeOf(stored)).toBe('npx -y a\nb');
    expect(placeOf({ url: 'https://x.example' })).toBe('https://x.example');
  });
});
