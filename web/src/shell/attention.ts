// What the tab of the browser tells of conversations that nobody looks at.
import type { Conversation } from '../api/client';
import { type Shown, shownStatus } from '../conversations/StatusDot';

/** States of conversations by id. */
export type Known = ReadonlyMap<string, Shown>;

export function statesOf(all: readonly Pick<Conversation, 'id' | 'sandbox_status' | 'execution_status'>[]): Known {
  return new Map(all.map((c) => [c.id, shownStatus(c)]));
}

const underWay: readonly Shown[] = ['starting', 'running'];
const calls: readonly Shown[] = ['waiting', 'finished', 'error', 'failed', 'gone'];

// What lies between is not always seen: lists are asked for every few seconds.
const mayGoOn: readonly Shown[] = [...underWay, 'idle', 'waiting', 'paused'];

/** Which conversations went on, and now wait for the user, or ended. */
export function needUser(before: Known, now: Known): string[] {
  return [...now].flatMap(([id, state]) => {
    const was = before.get(id);
    return was !== undefined && was !== state && mayGoOn.includes(was) && calls.includes(state) ? [id] : [];
  });
}

/** Which of the icons the tab has: what waits for the user comes first. */
export function iconOf(now: Known): 'waiting' | 'running' | 'usual' {
  const states = [...now.values()];
  if (states.includes('waiting')) return 'waiting';
  return states.some((each) => underWay.includes(each)) ? 'running' : 'usual';
}

/** The title of the tab: what waits, what is shown, how it is. */
export function titleOf(waiting: number, parts: readonly string[]): string {
  const count = waiting === 0 ? '' : `(${waiting}) `;
  return `${count}${[...parts.filter((each) => each !== ''), 'Parley'].join(' · ')}`;
}
