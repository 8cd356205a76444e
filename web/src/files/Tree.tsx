import { useQuery } from '@tanstack/react-query';
import clsx from 'clsx';
import { ChevronRight, File, Folder } from 'lucide-react';
import { type KeyboardEvent, useEffect, useRef } from 'react';
import { useTranslation } from 'react-i18next';
import type { Conversation } from '../api/client';
import { explainError } from '../lib/errors';
import { visible } from '../lib/visible';
import { type Entry, list, mostListed } from './files';

interface Props {
  conversation: Conversation;
  root: string;
  opened: ReadonlySet<string>;
  onOpened: (opened: ReadonlySet<string>) => void;
  onFile: (path: string) => void;
  focus: string | null; // the entry that is focused at first
}

/** Directories that unfold; what is in one is asked for when it is open. */
export function Tree({ focus, ...rest }: Props) {
  const { t } = useTranslation();
  const top = useRef<HTMLElement>(null);
  useEffect(() => {
    if (focus === null) return;
    for (const each of entries(top.current)) if (each.dataset.entry === focus) each.focus();
  }, [focus]);
  // The arrows go through the entries, and open and close directories.
  const press = (event: KeyboardEvent) => {
    const all = entries(top.current);
    const at = all.indexOf(document.activeElement as HTMLElement);
    const here = all[at];
    if (!here) return;
    const state = here.getAttribute('aria-expanded');
    let to: HTMLElement | null | undefined;
    if (event.key === 'ArrowDown') to = all[at + 1];
    else if (event.key === 'ArrowUp') to = all[at - 1];
    else if (event.key === 'Home') to = all[0];
    else if (event.key === 'End') to = all.at(-1);
    else if (event.key === 'ArrowRight' && state === 'false') here.click();
    else if (event.key === 'ArrowRight' && state === 'true') to = all[at + 1];
    else if (event.key === 'ArrowLeft' && state === 'true') here.click();
    else if (event.key === 'ArrowLeft')
      to = here.parentElement?.parentElement?.closest('[data-dir]')?.querySelector<HTMLElement>('[data-entry]');
    else return;
    event.preventDefault();
    to?.focus();
  };
  return (
    <nav ref={top} aria-label={t('files.tree')} onKeyDown={press}>
      <Level dir={rest.root} {...rest} />
    </nav>
  );
}

function entries(top: HTMLElement | null): HTMLElement[] {
  return [...(top?.querySelectorAll<HTMLElement>('[data-entry]') ?? [])];
}

function Level({ dir, ...rest }: Omit<Props, 'focus'> & { dir: string }) {
  const { t } = useTranslation();
  const { conversation: c } = rest;
  const found = useQuery({ queryKey: ['files', c.id, dir], queryFn: () => list(c, dir), retry: 1 });
  if (found.error) return <p className="px-2 py-1 text-[13px] text-bad">{explainError(found.error, t)}</p>;
  if (!found.data) return null;
  if (found.data.length === 0) return <p className="px-2 py-1 text-[13px] text-ink-soft">{t('files.empty')}</p>;
  return (
    <ul>
      {found.data.map((each) => (
        <Row key={each.path} entry={each} {...rest} />
      ))}
      {found.data.length >= mostListed && (
        <li className="px-2 py-1 text-[13px] text-warn">{t('files.more', { count: mostListed })}</li>
      )}
    </ul>
  );
}

function Row({ entry, ...rest }: Omit<Props, 'focus'> & { entry: Entry }) {
  const { opened, onOpened, onFile } = rest;
  const open = entry.dir && opened.has(entry.path);
  const toggle = () => {
    const next = new Set(opened);
    if (!next.delete(entry.path)) next.add(entry.path);
    onOpened(next);
  };
  const Icon = entry.dir ? Folder : File;
  return (
    <li data-dir={entry.dir ? entry.path : undefined}>
      <button
        type="button"
        data-entry={entry.path}
        aria-expanded={entry.dir ? open : undefined}
        onClick={entry.dir ? toggle : () => onFile(entry.path)}
        className="flex w-full items-center gap-1.5 rounded-sm px-1.5 py-1 text-left text-[13px] hover:bg-hover focus-visible:-outline-offset-2"
      >
        <ChevronRight
          size={14}
          aria-hidden
          className={clsx(
            'shrink-0 text-ink-soft transition-transform',
            open && 'rotate-90',
            !entry.dir && 'invisible',
          )}
        />
        <Icon size={15} aria-hidden className={clsx('shrink-0', entry.dir ? 'text-accent-text' : 'text-ink-faint')} />
        <span className="min-w-0 [overflow-wrap:anywhere]">{visible(entry.name)}</span>
      </button>
      {open && (
        <div className="ml-3 border-l border-line pl-1">
          <Level dir={entry.path} {...rest} />
        </div>
      )}
    </li>
  );
}
