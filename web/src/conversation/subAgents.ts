// Which conversation a call of the tool "task" led to.
import { createContext, useContext } from 'react';
import { list, record, text } from './events';
import type { Step } from './fold';

/** What the state of the shown conversation tells of its sub-agents. */
export const SubAgents = createContext<unknown>(undefined);

export function useSubAgent(step: Step): string | null {
  return subAgentOf(step, useContext(SubAgents));
}

/**
 * Finds the sub-agent's conversation: by the task's id, which the answer names; before
 * that by what the call says, if only one that runs was called that way.
 */
export function subAgentOf(step: Step, tasks: unknown): string | null {
  const id = text(step.result?.task_id) || text(step.action.resume);
  const description = text(step.action.description).trim();
  const found = list(tasks)
    .map(record)
    .filter((task) =>
      id !== ''
        ? task.id === id
        : step.state === 'open' && task.status === 'running' && description !== '' && task.description === description,
    );
  const conversation = text(found[0]?.conversation_id);
  return found.length === 1 && /^[0-9a-f]{32}$/.test(conversation) ? conversation : null;
}
