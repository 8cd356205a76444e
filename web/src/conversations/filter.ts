// Which conversations of the list are shown.
import type { Conversation } from '../api/client';
import { type Shown, shownStatus } from './StatusDot';

/** States to choose from; none of them is all. */
export const states = {
  all: [],
  active: ['starting', 'running'],
  waiting: ['waiting', 'paused'],
  problem: ['error', 'failed', 'gone'],
} as const satisfies Record<string, readonly Shown[]>;

export type State = keyof typeof states;

type Filtered = Pick<Conversation, 'sandbox_status' | 'execution_status' | 'selected_repository'>;

/** Whether a conversation is in one of the states, and of the repository; '' is any. */
export function matches(c: Filtered, state: State, repository: string): boolean {
  const wanted: readonly Shown[] = states[state];
  return (
    (wanted.length === 0 || wanted.includes(shownStatus(c))) &&
    (repository === '' || c.selected_repository === repository)
  );
}

/** The repositories of conversations, each once, by name. */
export function repositoriesOf(all: readonly Filtered[]): string[] {
  return [...new Set(all.map((c) => c.selected_repository ?? ''))].filter((name) => name !== '').sort();
}
