import { useRef } from 'react';
import { useTranslation } from 'react-i18next';
import type { Conversation } from '../api/client';
import { useFork } from '../api/queries';
import { go } from '../lib/router';
import { toast } from '../ui/Toast';

/** Whether a copy can be made: it takes the sandbox along, which must still be there. */
export function canFork(c: Pick<Conversation, 'sandbox_status'>): boolean {
  return c.sandbox_status !== 'MISSING' && c.sandbox_status !== 'STARTING';
}

/** Makes a copy of a conversation, up to an event or whole, and opens it; one at a time. */
export function useForkOf(c: Conversation): (from?: string) => void {
  const { t } = useTranslation();
  const fork = useFork();
  const busy = useRef(false);
  return (from) => {
    if (busy.current) return;
    busy.current = true;
    toast(t('conversation.forking'), { ms: 3000 });
    fork.mutate(
      { id: c.id, from, title: t('conversation.forkTitle', { title: c.title }).slice(0, 200) },
      {
        onSuccess: (made) => go(`#/c/${made.id}`),
        onSettled: () => {
          busy.current = false;
        },
      },
    );
  };
}
