import { useQuery } from '@tanstack/react-query';
import { CornerLeftUp } from 'lucide-react';
import { useTranslation } from 'react-i18next';
import type { Conversation } from '../../api/client';
import { StatusDot, shownStatus } from '../../conversations/StatusDot';
import { explainError } from '../../lib/errors';
import { ago, money, useNow } from '../../lib/format';
import { conversationsById } from './queries';

const deepest = 5; // the server nests no deeper than three

/** The conversations of the agents that were given tasks, as a tree. */
export function Agents({ conversation: c }: { conversation: Conversation }) {
  const { t } = useTranslation();
  return (
    <div className="space-y-3">
      <p className="text-[13px] text-ink-soft">{t('details.agents.intro')}</p>
      {c.parent_conversation_id && <Parent id={c.parent_conversation_id} />}
      {c.sub_conversation_ids.length === 0 ? (
        <p className="text-sm text-ink-soft">{t('details.agents.none')}</p>
      ) : (
        <Branch ids={c.sub_conversation_ids} depth={1} label={t('details.agents.tree')} />
      )}
    </div>
  );
}

function Parent({ id }: { id: string }) {
  const { t } = useTranslation();
  return (
    <p className="text-sm">
      <a href={`#/c/${id}`} className="inline-flex items-center gap-1.5 text-accent-text underline">
        <CornerLeftUp size={14} aria-hidden />
        {t('details.agents.parent')}
      </a>
    </p>
  );
}

function Branch({ ids, depth, label }: { ids: string[]; depth: number; label: string }) {
  const { t, i18n } = useTranslation();
  const now = useNow(30_000);
  const found = useQuery(conversationsById(ids));
  if (found.error) return <p className="text-sm text-bad">{explainError(found.error, t)}</p>;
  return (
    <ul aria-label={label} className={depth > 1 ? 'ml-1.5 border-l border-line pl-3' : ''}>
      {found.data?.map((each) => (
        <li key={each.id}>
          <a
            href={`#/c/${each.id}`}
            className="flex items-baseline gap-2 rounded-sm px-1 py-1.5 text-sm hover:bg-hover focus-visible:-outline-offset-2"
          >
            <StatusDot status={shownStatus(each)} />
            <span className="min-w-0 flex-1 [overflow-wrap:anywhere]">{each.title || t('list.untitled')}</span>
            <span className="flex shrink-0 gap-2 text-xs text-ink-soft tabular-nums">
              {each.metrics.accumulated_cost > 0 && <span>{money(each.metrics.accumulated_cost, i18n.language)}</span>}
              <span>{ago(new Date(each.created_at), now, i18n.language)}</span>
            </span>
          </a>
          {each.sub_conversation_ids.length > 0 && depth < deepest && (
            <Branch
              ids={each.sub_conversation_ids}
              depth={depth + 1}
              label={t('details.agents.below', { title: each.title })}
            />
          )}
        </li>
      ))}
    </ul>
  );
}
