import { describe, expect, it } from 'vitest';
import type { Step } from './fold';
import { subAgentOf } from './subAgents';

const id = (n: number) => String(n).padStart(32, '0');
const tasks = [
  { id: 'task_1', conversation_id: id(1), description: 'look', status: 'finished' },
  { id: 'task_2', conversation_id: id(2), description: 'look', status: 'running' },
  { id: 'task_3', conversation_id: id(3), description: 'twice', status: 'running' },
  { id: 'task_4', conversation_id: id(4), description: 'twice', status: 'running' },
  { id: 'task_5', conversation_id: 'https://192.0.2.1/', description: 'evil', status: 'finished' },
];

const call = (change: Partial<Step>): Step =>
  ({ state: 'open', action: {}, result: null, tool: 'task', ...change }) as Step;

describe("a task's conversation", () => {
  it.each([
    ['is named by the answer', call({ state: 'done', result: { task_id: 'task_1' } }), id(1)],
    ['is named by a call that goes on with it', call({ action: { resume: 'task_2' } }), id(2)],
    ['is the one that runs under that name', call({ action: { description: ' look ' } }), id(2)],
    ['is not guessed among several', call({ action: { description: 'twice' } }), null],
    ['is not guessed after the end', call({ state: 'failed', action: { description: 'look' } }), null],
    ['is not the one of a call without a name', call({}), null],
    ['has an id that is one', call({ state: 'done', result: { task_id: 'task_5' } }), null],
  ])('%s', (_, step, found) => expect(subAgentOf(step, tasks)).toBe(found));

  it('is not found in what is no list', () => expect(subAgentOf(call({}), 'x')).toBeNull());
});
