import { useInfiniteQuery } from '@tanstack/react-query';
import { useDeferredValue, useState } from 'react';
import { useTranslation } from 'react-i18next';
import type { Conversation, Schema } from '../../api/client';
import { explainError } from '../../lib/errors';
import { bytes, duration } from '../../lib/format';
import { visible } from '../../lib/visible';
import { Button } from '../../ui/Button';
import { SelectField, TextField } from '../../ui/Field';
import { connections, type Verdict } from './queries';

const verdicts: Verdict[] = ['allowed', 'refused', 'failed'];
const colours: Record<Verdict, string> = {
  allowed: 'bg-good-soft text-good',
  refused: 'bg-bad-soft text-bad',
  failed: 'bg-warn-soft text-warn',
};

/** What programs in the sandbox connected to, and what became of it. */
export function Network({ conversation }: { conversation: Conversation }) {
  const { t } = useTranslation();
  const [verdict, setVerdict] = useState<Verdict | ''>('');
  const [host, setHost] = useState('');
  const pages = useInfiniteQuery(connections(conversation.id, verdict, useDeferredValue(host.trim())));
  const all = pages.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <div className="space-y-3">
      <p className="text-[13px] text-ink-soft">{t('details.network.intro')}</p>
      <div className="grid grid-cols-2 gap-3">
        <SelectField
          label={t('details.network.verdict')}
          value={verdict}
          onChange={(event) => setVerdict(event.target.value as Verdict | '')}
        >
          <option value="">{t('details.network.all')}</option>
          {verdicts.map((each) => (
            <option key={each} value={each}>
              {t(`details.network.verdicts.${each}`)}
            </option>
          ))}
        </SelectField>
        <TextField label={t('details.network.host')} value={host} onChange={(event) => setHost(event.target.value)} />
      </div>
      {pages.error && <p className="text-sm text-bad">{explainError(pages.error, t)}</p>}
      {pages.isSuccess && all.length === 0 && (
        <p className="text-sm text-ink-soft">
          {verdict === '' && host === '' ? t('details.network.none') : t('details.network.noneFound')}
        </p>
      )}
      <ul className="divide-y divide-line">
        {all.map((each) => (
          <Row key={each.id} connection={each} />
        ))}
      </ul>
      {pages.hasNextPage && (
        <Button small disabled={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
          {t('list.more')}
        </Button>
      )}
    </div>
  );
}

function Row({ connection: c }: { connection: Schema['Connection'] }) {
  const { t, i18n } = useTranslation();
  const time = new Date(c.time);
  const port = c.port === null ? '' : `:${c.port}`;
  const moved = c.bytes_sent > 0 || c.bytes_received > 0;
  return (
    <li className="py-1.5 text-sm">
      <p className="flex items-baseline gap-2">
        <span className={`shrink-0 rounded-sm px-1.5 text-xs font-medium ${colours[c.verdict]}`}>
          {t(`details.network.verdicts.${c.verdict}`)}
        </span>
        <span className="min-w-0 flex-1 font-mono text-[13px] [overflow-wrap:anywhere]">
          {visible(c.host ?? c.address ?? '?')}
          {port}
        </span>
        <time
          dateTime={c.time}
          title={time.toLocaleString(i18n.language)}
          className="shrink-0 text-xs text-ink-soft tabular-nums"
        >
          {time.toLocaleTimeString(i18n.language)}
        </time>
      </p>
      <p className="flex flex-wrap gap-x-3 text-xs text-ink-soft [overflow-wrap:anywhere]">
        <span>{c.protocol.toUpperCase()}</span>
        {c.host !== null && c.address !== null && <span className="font-mono">{visible(c.address)}</span>}
        {moved && (
          <span className="tabular-nums">
            {t('details.network.bytes', {
              sent: bytes(c.bytes_sent, i18n.language),
              received: bytes(c.bytes_received, i18n.language),
            })}
          </span>
        )}
        {c.open ? (
          <span>{t('details.network.open')}</span>
        ) : (
          c.duration_ms >= 100 && <span className="tabular-nums">{duration(c.duration_ms / 1000, i18n.language)}</span>
        )}
        {c.reason && <span>{visible(c.reason)}</span>}
      </p>
    </li>
  );
}
