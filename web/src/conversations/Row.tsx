import { useQueryClient } from '@tanstack/react-query';
import clsx from 'clsx';
import { GitBranch, GitFork, MoreHorizontal, Pencil, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import type { Conversation } from '../api/client';
import { ago, money, repositoryName, useNow } from '../lib/format';
import { go } from '../lib/router';
import { IconButton } from '../ui/Button';
import { Menu, MenuItem } from '../ui/Menu';
import { deletions } from './deletions';
import { canFork, useForkOf } from './fork';
import { Rename } from './Rename';
import { type Shown, StatusDot, shownStatus } from './StatusDot';

// States that are also said in words: they change what the user does next.
const noted: Partial<Record<Shown, string>> = {
  starting: 'text-info',
  running: 'text-good',
  waiting: 'text-warn font-medium',
  paused: 'text-warn',
  error: 'text-bad',
  failed: 'text-bad',
  gone: 'text-bad',
};

/** One conversation of the list, with what can be done to it. */
export function Row({ conversation: c, current }: { conversation: Conversation; current: boolean }) {
  const { t, i18n } = useTranslation();
  const now = useNow(30_000);
  const [renaming, setRenaming] = useState(false);
  const client = useQueryClient();
  const remove = () => {
    deletions.schedule(c.id, c.title, () => void client.invalidateQueries({ queryKey: ['conversations'] }));
    if (current) go('#/', true);
  };
  const fork = useForkOf(c);
  const cost = c.metrics.accumulated_cost;
  const status = shownStatus(c);
  return (
    <li className={clsx('group relative rounded-md', current ? 'bg-accent-soft' : 'hover:bg-hover')}>
      <a
        href={`#/c/${c.id}`}
        aria-current={current ? 'page' : undefined}
        className="block rounded-md py-2 pr-10 pl-2.5 focus-visible:-outline-offset-2"
      >
        <span className="flex items-center gap-2">
          <StatusDot status={status} />
          <span className="truncate text-sm font-medium">{c.title || t('list.untitled')}</span>
        </span>
        <span className="mt-0.5 flex flex-wrap items-center gap-x-2 pl-4.5 text-xs text-ink-soft">
          {noted[status] && (
            // The dot has it for screen readers.
            <span aria-hidden className={clsx('whitespace-nowrap', noted[status])}>
              {t(`status.${status}`)}
            </span>
          )}
          {c.selected_repository && (
            <span className="flex min-w-0 items-center gap-1">
              <GitBranch size={12} aria-hidden className="shrink-0" />
              <span className="truncate" title={c.selected_repository}>
                {repositoryName(c.selected_repository)}
              </span>
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
          {canFork(c) && (
            <MenuItem icon={<GitFork size={15} aria-hidden />} onSelect={() => fork()}>
              {t('conversation.fork')}
            </MenuItem>
          )}
          <MenuItem icon={<Trash2 size={15} aria-hidden />} danger onSelect={remove}>
            {t('list.delete')}
          </MenuItem>
        </Menu>
      </div>
      {renaming && <Rename conversation={c} onDone={() => setRenaming(false)} />}
    </li>
  );
}
