import clsx from 'clsx';
import { GitFork } from 'lucide-react';
import { useTranslation } from 'react-i18next';
import { clock, eventTime, moment } from '../lib/format';
import { IconButton } from '../ui/Button';
import { CopyButton } from './CopyButton';

/** Begins a conversation that goes on from an event; null where that cannot be. */
export type OnFork = ((eventId: string) => void) | null;

/** Time of an event, and what can be done from it. */
export function Aside({
  at,
  eventId,
  text,
  onFork,
  always = false,
}: {
  at: string;
  eventId?: string;
  text?: string;
  onFork: OnFork;
  always?: boolean; // else while it is pointed at
}) {
  const { t, i18n } = useTranslation();
  const time = eventTime(at);
  return (
    <span
      className={clsx(
        'flex shrink-0 items-center gap-0.5 text-xs text-ink-faint',
        !always &&
          'opacity-0 transition-opacity group-focus-within/item:opacity-100 group-hover/item:opacity-100 pointer-coarse:opacity-100',
      )}
    >
      <time
        dateTime={Number.isNaN(time.getTime()) ? undefined : time.toISOString()}
        title={moment(time, i18n.language)}
        className="px-1 tabular-nums"
      >
        {clock(time, i18n.language)}
      </time>
      {text && <CopyButton text={text} className="!size-7" />}
      {eventId && onFork && (
        <IconButton label={t('timeline.fork')} className="!size-7" onClick={() => onFork(eventId)}>
          <GitFork size={14} aria-hidden />
        </IconButton>
      )}
    </span>
  );
}
