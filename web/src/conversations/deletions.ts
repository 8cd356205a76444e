// Deleting with a way back: the server is asked when the time for it is over, or when
// the page is left.
import i18next from 'i18next';
import { deleteNow } from '../api/queries';
import { explainError } from '../lib/errors';
import { toast, toastError } from '../ui/Toast';

const graceful = 7000;
const pending = new Map<string, () => Promise<void>>();
const listeners = new Set<() => void>();
let hidden: ReadonlySet<string> = new Set();

function hide(id: string, yes: boolean): void {
  const next = new Set(hidden);
  if (yes) next.add(id);
  else next.delete(id);
  hidden = next;
  for (const each of listeners) each();
}

/** Carries out at once what still could be taken back. */
function now(): Promise<unknown> {
  return Promise.all([...pending.values()].map((carryOut) => carryOut()));
}

addEventListener('pagehide', () => void now());

export const deletions = {
  subscribe(listener: () => void): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
  get: (): ReadonlySet<string> => hidden,
  now,
  schedule(id: string, title: string, done: () => void): void {
    hide(id, true);
    const carryOut = async () => {
      if (!pending.delete(id)) return;
      try {
        await deleteNow(id);
        done();
      } catch (error) {
        hide(id, false);
        toastError(explainError(error, i18next.t));
      }
    };
    pending.set(id, carryOut);
    toast(i18next.t('list.deleted', { title }), {
      ms: graceful,
      action: {
        label: i18next.t('list.undo'),
        run: () => {
          if (pending.delete(id)) hide(id, false);
        },
      },
      onGone: () => void carryOut(),
    });
  },
};
