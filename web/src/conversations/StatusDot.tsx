import clsx from 'clsx';
import { useTranslation } from 'react-i18next';
import type { Conversation } from '../api/client';

export type Shown =
  | 'starting'
  | 'running'
  | 'waiting'
  | 'paused'
  | 'finished'
  | 'error'
  | 'idle'
  | 'asleep'
  | 'failed'
  | 'gone';

/** One word for where a conversation is, from the states of its agent and its sandbox. */
export function shownStatus(c: Pick<Conversation, 'sandbox_status' | 'execution_status'>): Shown {
  if (c.sandbox_status === 'STARTING') return 'starting';
  if (c.sandbox_status === 'PAUSED') return 'asleep';
  if (c.sandbox_status === 'ERROR') return 'failed';
  if (c.sandbox_status === 'MISSING') return 'gone';
  switch (c.execution_status) {
    case 'running':
      return 'running';
    case 'waiting_for_confirmation':
      return 'waiting';
    case 'paused':
      return 'paused';
    case 'finished':
      return 'finished';
    case 'error':
    case 'stuck':
      return 'error';
    default:
      return 'idle';
  }
}

const colours: Record<Shown, string> = {
  starting: 'bg-info pulse-dot',
  running: 'bg-good pulse-dot',
  waiting: 'bg-warn',
  paused: 'border-2 border-warn',
  finished: 'bg-good',
  error: 'bg-bad',
  idle: 'border-2 border-line-strong',
  asleep: 'border-2 border-line-strong',
  failed: 'bg-bad',
  gone: 'border-2 border-bad',
};

export function StatusDot({ status }: { status: Shown }) {
  const { t } = useTranslation();
  const label = t(`status.${status}`);
  return (
    <span
      role="img"
      aria-label={label}
      title={label}
      className={clsx('inline-block size-2.5 shrink-0 rounded-full', colours[status])}
    />
  );
}
