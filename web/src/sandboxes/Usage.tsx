import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useTranslation } from 'react-i18next';
import { ApiError, api, ask } from '../api/client';
import { bytes, count } from '../lib/format';
import { type Sample, sampleOf } from './sample';

/** What a running sandbox takes now. */
export function Usage({ id }: { id: string }) {
  const { t, i18n } = useTranslation();
  const client = useQueryClient();
  const usage = useQuery({
    queryKey: ['usage', id],
    queryFn: async () => {
      const before = client.getQueryData<Sample | null>(['usage', id]);
      try {
        const got = await ask(
          api.GET('/api/v1/sandboxes/{sandbox_id}/usage', { params: { path: { sandbox_id: id } } }),
        );
        return sampleOf(before ?? null, got, Date.now());
      } catch (error) {
        if (error instanceof ApiError && (error.status === 409 || error.status === 410)) return null; // it stopped meanwhile
        throw error;
      }
    },
    refetchInterval: 5000,
  });
  if (!usage.data) return null;
  const { usage: u, cpus } = usage.data;
  const share = new Intl.NumberFormat(i18n.language, { maximumFractionDigits: 2 });
  return (
    <dl className="mt-2 flex flex-wrap gap-x-5 gap-y-1 text-[13px]">
      <Figure label={t('sandboxes.cpu')} value={cpus} most={u.limits.cpus} show={(n) => share.format(n)} />
      <Figure
        label={t('sandboxes.memory')}
        value={u.memory_bytes}
        most={u.limits.memory_bytes}
        show={(n) => bytes(n, i18n.language)}
      />
      <Figure
        label={t('sandboxes.disk')}
        value={u.disk_bytes}
        most={u.limits.disk_bytes}
        show={(n) => bytes(n, i18n.language)}
      />
      <Figure
        label={t('sandboxes.processes')}
        value={u.processes}
        most={u.limits.processes}
        show={(n) => count(n, i18n.language)}
      />
    </dl>
  );
}

function Figure({
  label,
  value,
  most,
  show,
}: {
  label: string;
  value: number | null;
  most: number | null;
  show: (n: number) => string;
}) {
  if (value === null) return null;
  return (
    <div className="flex gap-1.5">
      <dt className="text-ink-soft">{label}</dt>
      <dd className="tabular-nums">
        {show(value)}
        {most !== null && <span className="text-ink-soft"> / {show(most)}</span>}
      </dd>
    </div>
  );
}
