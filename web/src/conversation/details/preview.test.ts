import { describe, expect, it } from 'vitest';
import { previews, webAddress } from './preview';

describe('previews', () => {
  it('are what listens, without the interface of the agent', () => {
    const exposed = ['AGENT_SERVER', 'VSCODE', 'WORKER_1'].map((name, port) => ({ name, port, url: '' }));
    expect(previews(exposed).map((each) => each.name)).toEqual(['VSCODE', 'WORKER_1']);
    expect(previews(null)).toEqual([]);
  });

  it.each([
    ['https://8765-sb-1.example.org/?ticket=x', true],
    ['http://127.0.0.1:3000/agent/sb-1/ports/1/', true],
    ['javascript:alert(1)', false],
    ['data:text/html,x', false],
    ['', false],
  ])('%s: opened %s', (link, opened) => expect(webAddress(link) !== null).toBe(opened));
});
