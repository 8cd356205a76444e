import { useTranslation } from 'react-i18next';
import type { StartTask } from '../api/client';
import { duration, eventTime, useNow } from '../lib/format';

/** How far a start is; one that takes long says why that may be. */
export function Starting({ task, status }: { task: StartTask; status: Exclude<StartTask['status'], 'ERROR'> }) {
  const { t, i18n } = useTranslation();
  const now = useNow(1000);
  const seconds = Math.floor((now - eventTime(task.created_at).getTime()) / 1000);
  return (
    <>
      <p role="status" className="flex items-center gap-2.5 text-ink-soft">
        <span className="pulse-dot size-2.5 rounded-full bg-info" />
        {t(`start.${status}`)}
        {seconds >= 3 && (
          <span className="tabular-nums" aria-hidden>
            {duration(seconds, i18n.language)}
          </span>
        )}
      </p>
      {task.detail && <p className="max-w-prose text-sm whitespace-pre-wrap text-ink-soft">{task.detail}</p>}
      {seconds >= 8 && status === 'WAITING_FOR_SANDBOX' && (
        <p className="max-w-prose text-sm text-ink-soft">{t('start.image')}</p>
      )}
      {seconds >= 8 && status === 'PREPARING_REPOSITORY' && (
        <p className="max-w-prose text-sm text-ink-soft">{t('start.large')}</p>
      )}
    </>
  );
}
