import { useInfiniteQuery } from '@tanstack/react-query';
import { WifiOff } from 'lucide-react';
import { useTranslation } from 'react-i18next';
import { ApiError } from '../api/client';
import { conversations } from '../api/queries';

/** Says that what is shown may be old, while the server cannot be reached. */
export function Offline() {
  const { t } = useTranslation();
  const { failureReason, error } = useInfiniteQuery(conversations);
  const why = failureReason ?? error;
  const away = why instanceof ApiError && why.status === 0;
  return (
    <div role="status">
      {away && (
        <p className="flex items-center justify-center gap-2 border-b border-line bg-warn-soft px-3 py-1.5 text-sm text-warn">
          <WifiOff size={15} aria-hidden className="shrink-0" />
          {t('shell.offline')}
        </p>
      )}
    </div>
  );
}
