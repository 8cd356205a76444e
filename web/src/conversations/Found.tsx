import { useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, ask, type Schema } from '../api/client';
import { explainError } from '../lib/errors';
import { ago, useNow } from '../lib/format';

/** What the full-text search finds. */
export function Found({ query }: { query: string }) {
  const { t, i18n } = useTranslation();
  const now = useNow(60_000);
  const [asked, setAsked] = useState(query);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => {
    timer.current = setTimeout(() => setAsked(query), 200);
    return () => clearTimeout(timer.current);
  }, [query]);
  const found = useQuery({
    queryKey: ['search', asked],
    queryFn: () => ask(api.GET('/api/v1/search', { params: { query: { query: asked, limit: 50 } } })),
    placeholderData: (before) => before,
  });
  if (found.error) return <p className="p-4 text-sm text-bad">{explainError(found.error, t)}</p>;
  const items = found.data?.items ?? [];
  return (
    <div className="min-h-0 flex-1 overflow-y-auto">
      <p role="status" className="px-4 pt-3 text-[13px] text-ink-soft">
        {found.isSuccess ? (items.length === 0 ? t('list.notFound') : t('list.found', { count: items.length })) : ''}
      </p>
      <ul className="p-1.5">
        {items.map((item) => (
          <li key={`${item.conversation_id}/${item.event_id ?? ''}`}>
            <a
              href={
                item.event_id ? `#/c/${item.conversation_id}?event=${item.event_id}` : `#/c/${item.conversation_id}`
              }
              className="block rounded-md px-2.5 py-2 hover:bg-hover focus-visible:-outline-offset-2"
            >
              <span className="flex items-baseline justify-between gap-2">
                <span className="truncate text-sm font-medium">{item.title || t('list.untitled')}</span>
                {item.timestamp && (
                  <span className="shrink-0 text-xs text-ink-faint">
                    {ago(new Date(`${item.timestamp}Z`), now, i18n.language)}
                  </span>
                )}
              </span>
              <Snippet found={item} />
            </a>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Snippet({ found }: { found: Schema['FoundText'] }) {
  const letters = [...found.snippet]; // the marks count code points
  let at = 0;
  const out = found.marks.map((mark) => {
    const before = letters.slice(at, mark.start).join('');
    at = mark.end;
    return (
      <span key={mark.start}>
        {before}
        <mark className="rounded-sm bg-warn-soft text-warn">{letters.slice(mark.start, mark.end).join('')}</mark>
      </span>
    );
  });
  return (
    <span className="mt-0.5 line-clamp-2 block text-[13px] text-ink-soft [overflow-wrap:anywhere]">
      {out}
      {letters.slice(at).join('')}
    </span>
  );
}
