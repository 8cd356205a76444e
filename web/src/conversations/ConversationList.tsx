import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query';
import clsx from 'clsx';
import { GitBranch, MoreHorizontal, Pencil, Plus, Search, Trash2, X } from 'lucide-react';
import { type FormEvent, useDeferredValue, useEffect, useRef, useState, useSyncExternalStore } from 'react';
import { useTranslation } from 'react-i18next';
import { api, ask, type Conversation, type Schema } from '../api/client';
import { conversations, useRename } from '../api/queries';
import { explainError } from '../lib/errors';
import { ago, money, useNow } from '../lib/format';
import { go } from '../lib/router';
import { Button, IconButton } from '../ui/Button';
import { Dialog } from '../ui/Dialog';
import { inputClass, TextField } from '../ui/Field';
import { Menu, MenuItem } from '../ui/Menu';
import { deletions } from './deletions';
import { type Shown, StatusDot, shownStatus } from './StatusDot';

const filters = {
  all: [],
  active: ['starting', 'running'],
  waiting: ['waiting', 'paused'],
  problem: ['error', 'failed', 'gone'],
} as const;
type Filter = keyof typeof filters;

export function ConversationList({ current }: { current: string }) {
  const { t } = useTranslation();
  const [query, setQuery] = useState('');
  const [filter, setFilter] = useState<Filter>('all');
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
          <fieldset className="flex gap-1 overflow-x-auto">
            <legend className="sr-only">{t('list.filter')}</legend>
            {(Object.keys(filters) as Filter[]).map((each) => (
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
          </fieldset>
        )}
      </div>
      {words === '' ? <All current={current} filter={filter} /> : <Found query={words} />}
    </>
  );
}

function All({ current, filter }: { current: string; filter: Filter }) {
  const { t } = useTranslation();
  const pages = useInfiniteQuery(conversations);
  const hidden = useSyncExternalStore(deletions.subscribe, deletions.get);
  const wanted = filters[filter] as readonly Shown[];
  const all = pages.data?.pages.flatMap((page) => page.items).filter((c) => !hidden.has(c.id)) ?? [];
  const shown = wanted.length === 0 ? all : all.filter((c) => wanted.includes(shownStatus(c)));
  if (pages.error && all.length === 0) {
    return <p className="p-4 text-sm text-bad">{explainError(pages.error, t)}</p>;
  }
  if (pages.isSuccess && shown.length === 0) {
    return <p className="p-4 text-sm text-ink-soft">{all.length === 0 ? t('list.empty') : t('list.none')}</p>;
  }
  return (
    <div className="min-h-0 flex-1 overflow-y-auto">
      <ul className="p-1.5">
        {shown.map((c) => (
          <Row key={c.id} conversation={c} current={c.id === current} />
        ))}
      </ul>
      {pages.hasNextPage && (
        <div className="p-2 text-center">
          <Button small disabled={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
            {t('list.more')}
          </Button>
        </div>
      )}
    </div>
  );
}

function Row({ conversation: c, current }: { conversation: Conversation; current: boolean }) {
  const { t, i18n } = useTranslation();
  const now = useNow(30_000);
  const [renaming, setRenaming] = useState(false);
  const client = useQueryClient();
  const remove = () => {
    deletions.schedule(c.id, c.title, () => void client.invalidateQueries({ queryKey: ['conversations'] }));
    if (current) go('#/', true);
  };
  const cost = c.metrics.accumulated_cost;
  return (
    <li className={clsx('group relative rounded-md', current ? 'bg-accent-soft' : 'hover:bg-hover')}>
      <a
        href={`#/c/${c.id}`}
        aria-current={current ? 'page' : undefined}
        className="block rounded-md py-2 pr-10 pl-2.5 focus-visible:-outline-offset-2"
      >
        <span className="flex items-center gap-2">
          <StatusDot status={shownStatus(c)} />
          <span className="truncate text-sm font-medium">{c.title || t('list.untitled')}</span>
        </span>
        <span className="mt-0.5 flex items-center gap-2 pl-4.5 text-xs text-ink-soft">
          {c.selected_repository && (
            <span className="flex min-w-0 items-center gap-1">
              <GitBranch size={12} aria-hidden className="shrink-0" />
              <span className="truncate">{c.selected_repository}</span>
            </span>
          )}
          <span className="whitespace-nowrap">{ago(new Date(c.updated_at), now, i18n.language)}</span>
          {cost > 0 && <span className="whitespace-nowrap tabular-nums">{money(cost, i18n.language)}</span>}
        </span>
      </a>
      <div className="absolute top-2 right-1.5">
        <Menu
          trigger={
            <IconButton
              label={t('list.actions', { title: c.title })}
              className="opacity-60 group-hover:opacity-100 focus-visible:opacity-100"
            >
              <MoreHorizontal size={16} aria-hidden />
            </IconButton>
          }
        >
          <MenuItem icon={<Pencil size={15} aria-hidden />} onSelect={() => setRenaming(true)}>
            {t('list.rename')}
          </MenuItem>
          <MenuItem icon={<Trash2 size={15} aria-hidden />} danger onSelect={remove}>
            {t('list.delete')}
          </MenuItem>
        </Menu>
      </div>
      {renaming && <Rename conversation={c} onDone={() => setRenaming(false)} />}
    </li>
  );
}

export function Rename({ conversation, onDone }: { conversation: Conversation; onDone: () => void }) {
  const { t } = useTranslation();
  const [title, setTitle] = useState(conversation.title);
  const rename = useRename();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (title.trim() !== '') rename.mutate({ id: conversation.id, title: title.trim() }, { onSuccess: onDone });
  };
  return (
    <Dialog open onOpenChange={onDone} title={t('list.renameTitle')}>
      <form onSubmit={submit} className="space-y-4">
        <TextField
          label={t('list.titleLabel')}
          value={title}
          maxLength={200}
          onChange={(event) => setTitle(event.target.value)}
        />
        <div className="flex justify-end gap-2">
          <Button onClick={onDone}>{t('common.cancel')}</Button>
          <Button kind="primary" type="submit" disabled={title.trim() === '' || rename.isPending}>
            {t('common.save')}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function Found({ query }: { query: string }) {
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
