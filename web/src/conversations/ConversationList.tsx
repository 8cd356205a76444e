import { useInfiniteQuery } from '@tanstack/react-query';
import clsx from 'clsx';
import { Plus, Search, X } from 'lucide-react';
import { useDeferredValue, useEffect, useState, useSyncExternalStore } from 'react';
import { useTranslation } from 'react-i18next';
import { conversations } from '../api/queries';
import { explainError } from '../lib/errors';
import { go } from '../lib/router';
import { Button } from '../ui/Button';
import { inputClass } from '../ui/Field';
import { deletions } from './deletions';
import { Found } from './Found';
import { matches, repositoriesOf, type State, states } from './filter';
import { Row } from './Row';

/** How many are shown at least, if there are so many, before older pages are asked for by hand. */
const enough = 20;

export function ConversationList({ current }: { current: string }) {
  const { t } = useTranslation();
  const [query, setQuery] = useState('');
  const [filter, setFilter] = useState<State>('all');
  const [repository, setRepository] = useState('');
  const words = useDeferredValue(query.trim());
  return (
    <>
      <div className="space-y-2 border-b border-line p-2.5">
        <div className="flex gap-2">
          <div className="relative min-w-0 flex-1">
            <Search size={15} aria-hidden className="pointer-events-none absolute top-2.5 left-2.5 text-ink-faint" />
            <input
              id="search"
              type="search"
              value={query}
              onChange={(event) => setQuery(event.target.value)}
              onKeyDown={(event) => {
                if (event.key === 'Escape') setQuery('');
              }}
              placeholder={t('list.search')}
              aria-label={t('list.search')}
              className={clsx(inputClass, 'h-9 pl-8 [&::-webkit-search-cancel-button]:hidden')}
            />
            {query !== '' && (
              <button
                type="button"
                aria-label={t('list.clear')}
                onClick={() => setQuery('')}
                className="absolute top-1.5 right-1.5 rounded-sm p-1 text-ink-soft hover:bg-hover"
              >
                <X size={15} aria-hidden />
              </button>
            )}
          </div>
          <Button
            kind="primary"
            icon={<Plus size={16} aria-hidden />}
            onClick={() => go('#/new')}
            aria-keyshortcuts="Alt+N"
          >
            {t('list.new')}
          </Button>
        </div>
        {words === '' && (
          <fieldset className="flex flex-wrap gap-1">
            <legend className="sr-only">{t('list.filter')}</legend>
            {(Object.keys(states) as State[]).map((each) => (
              <button
                key={each}
                type="button"
                aria-pressed={filter === each}
                onClick={() => setFilter(each)}
                className={clsx(
                  'rounded-full border px-2.5 py-0.5 text-[13px] whitespace-nowrap focus-visible:-outline-offset-2',
                  filter === each
                    ? 'border-accent bg-accent-soft text-accent-text'
                    : 'border-line text-ink-soft hover:bg-hover',
                )}
              >
                {t(`list.filters.${each}`)}
              </button>
            ))}
            <RepositoryFilter value={repository} onChange={setRepository} />
          </fieldset>
        )}
      </div>
      {words === '' ? <All current={current} filter={filter} repository={repository} /> : <Found query={words} />}
    </>
  );
}

/** There only if conversations have repositories. */
function RepositoryFilter({ value, onChange }: { value: string; onChange: (repository: string) => void }) {
  const { t } = useTranslation();
  const pages = useInfiniteQuery(conversations);
  const names = repositoriesOf(pages.data?.pages.flatMap((page) => page.items) ?? []);
  if (names.length === 0 && value === '') return null;
  return (
    <select
      aria-label={t('list.repository')}
      value={value}
      onChange={(event) => onChange(event.target.value)}
      className={clsx(
        'max-w-full rounded-full border bg-canvas px-2 py-0.5 text-[13px]',
        value === '' ? 'border-line text-ink-soft' : 'border-accent text-accent-text',
      )}
    >
      <option value="">{t('list.anyRepository')}</option>
      {[...new Set([...names, ...(value === '' ? [] : [value])])].map((name) => (
        <option key={name}>{name}</option>
      ))}
    </select>
  );
}

function All({ current, filter, repository }: { current: string; filter: State; repository: string }) {
  const { t } = useTranslation();
  const pages = useInfiniteQuery(conversations);
  const hidden = useSyncExternalStore(deletions.subscribe, deletions.get);
  const all = pages.data?.pages.flatMap((page) => page.items).filter((c) => !hidden.has(c.id)) ?? [];
  const shown = all.filter((c) => matches(c, filter, repository));
  const { hasNextPage, isFetching, fetchNextPage } = pages;
  const few = (filter !== 'all' || repository !== '') && shown.length < enough;
  // The server does not filter by these: what is asked for may be on a later page.
  useEffect(() => {
    if (few && hasNextPage && !isFetching) void fetchNextPage();
  }, [few, hasNextPage, isFetching, fetchNextPage]);
  const searching = few && hasNextPage;
  if (pages.error && all.length === 0) {
    return <p className="p-4 text-sm text-bad">{explainError(pages.error, t)}</p>;
  }
  return (
    <div className="min-h-0 flex-1 overflow-y-auto">
      {pages.isSuccess && shown.length === 0 && !searching && (
        <p className="p-4 text-sm text-ink-soft">{t(all.length === 0 ? 'list.empty' : 'list.none')}</p>
      )}
      <ul className="p-1.5">
        {shown.map((c) => (
          <Row key={c.id} conversation={c} current={c.id === current} />
        ))}
      </ul>
      {searching && <p className="px-4 pb-3 text-[13px] text-ink-soft">{t('list.looking')}</p>}
      {hasNextPage && !searching && (
        <div className="p-2 text-center">
          <Button small disabled={pages.isFetchingNextPage} onClick={() => void fetchNextPage()}>
            {t('list.more')}
          </Button>
        </div>
      )}
    </div>
  );
}
