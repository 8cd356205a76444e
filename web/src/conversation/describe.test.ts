import { describe, expect, it } from 'vitest';
import { subject } from './describe';
import type { Step } from './fold';

const step = (tool: string, kind: string, action: Record<string, unknown>, summary = '') =>
  ({ tool, action: { kind, ...action }, args: JSON.stringify(action), summary }) as unknown as Step;

describe('what a call is about', () => {
  it.each<[string, Step, string]>([
    [
      'a command, whatever the model calls it',
      step('terminal', 'TerminalAction', { command: 'rm -rf /' }, 'Look around'),
      'rm -rf /',
    ],
    [
      'a path without the working directory',
      step('file_editor', 'FileEditorAction', { command: 'view', path: '/w/a.txt' }),
      'a.txt',
    ],
    [
      'what the model says, where there is neither',
      step('deploy', 'MCPToolAction', { stage: 1 }, 'Deploy it'),
      'Deploy it',
    ],
    ['the arguments, where it says nothing', step('deploy', 'MCPToolAction', { stage: 1 }), '{"stage":1}'],
    ['nothing of a plan, which is shown beside', step('task_tracker', 'TaskTrackerAction', { task_list: [] }), ''],
  ])('is %s', (_, of, wanted) => {
    expect(subject(of, '/w')).toBe(wanted);
  });

  it('shows characters that would hide something', () => {
    expect(subject(step('deploy', 'MCPToolAction', {}, 'safe\u202eevil'), '')).toBe('safe\\u202eevil');
  });
});
