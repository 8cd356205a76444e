import { useQueryClient } from '@tanstack/react-query';
import clsx from 'clsx';
import { RefreshCw, Upload, X } from 'lucide-react';
import { type DragEvent, useEffect, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';
import type { Conversation } from '../api/client';
import { explainError } from '../lib/errors';
import { visible } from '../lib/visible';
import { Button, IconButton } from '../ui/Button';
import { Dialog } from '../ui/Dialog';
import { toast, toastError } from '../ui/Toast';
import { FileView } from './FileView';
import { dropped, exists, freeName, join, rootOf, store } from './files';
import { Tree } from './Tree';

interface Asked {
  dir: string;
  files: File[];
  taken: string[]; // names that are there already
}

/** The files of the sandbox: a tree, one of them, and new ones from outside. */
export function FilesPanel({ conversation: c, onClose }: { conversation: Conversation; onClose: () => void }) {
  const { t } = useTranslation();
  const client = useQueryClient();
  const root = rootOf(c);
  const runs = c.sandbox_status === 'RUNNING';
  const [opened, setOpened] = useState<ReadonlySet<string>>(() => new Set());
  const [file, setFile] = useState<string | null>(null);
  const [last, setLast] = useState<string | null>(null); // where the focus goes back to
  const [over, setOver] = useState(false);
  const [busy, setBusy] = useState('');
  const [asked, setAsked] = useState<Asked | null>(null);
  const panel = useRef<HTMLElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  useEffect(() => panel.current?.focus(), []);

  const refresh = () => client.invalidateQueries({ queryKey: ['files', c.id] });
  // What the agent does shows while it does it.
  const { updated_at } = c;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the time is what tells that something was done
  useEffect(() => {
    void client.invalidateQueries({ queryKey: ['files', c.id] });
  }, [client, c.id, updated_at]);

  const put = async (dir: string, files: File[], names: (file: File) => Promise<string>) => {
    let done = 0;
    try {
      for (const each of files) {
        setBusy(each.name);
        await store(c, join(dir, await names(each)), each);
        done++;
      }
    } catch (error) {
      toastError(explainError(error, t));
    }
    setBusy('');
    if (done > 0) toast(t('files.uploaded', { count: done }));
    if (dir !== root) setOpened((before) => new Set(before).add(dir));
    void refresh();
  };
  const offer = async (dir: string, files: File[], directories = false) => {
    if (directories) toastError(t('files.noDirectories'));
    if (files.length === 0 || busy !== '') return;
    const taken: string[] = [];
    setBusy(files[0]?.name ?? '');
    try {
      for (const each of files) if (await exists(c, join(dir, each.name))) taken.push(each.name);
    } catch (error) {
      setBusy('');
      toastError(explainError(error, t));
      return;
    }
    setBusy('');
    if (taken.length > 0) setAsked({ dir, files, taken });
    else await put(dir, files, async (each) => each.name);
  };
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    const { files, directories } = dropped(event.dataTransfer);
    const dir = (event.target as Element).closest('[data-dir]')?.getAttribute('data-dir');
    if (runs) void offer(dir ?? root, files, directories);
  };

  return (
    <section
      ref={panel}
      tabIndex={-1}
      aria-label={t('files.title')}
      onKeyDown={(event) => {
        if (event.key === 'Escape' && !event.defaultPrevented && asked === null) onClose();
      }}
      onDrop={drop}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setOver(false);
      }}
      className={clsx('flex min-h-0 flex-1 flex-col outline-none', over && runs && 'bg-accent-soft')}
    >
      <div className="flex shrink-0 items-center gap-1 border-b border-line py-1.5 pr-2 pl-4">
        <h2 className="min-w-0 flex-1 text-sm font-semibold">{t('files.title')}</h2>
        {runs && (
          <>
            <Button
              small
              icon={<Upload size={14} aria-hidden />}
              disabled={busy !== ''}
              onClick={() => picker.current?.click()}
            >
              {t('files.upload')}
            </Button>
            <input
              ref={picker}
              type="file"
              multiple
              hidden
              aria-label={t('files.upload')}
              onChange={(event) => {
                void offer(root, [...(event.target.files ?? [])]);
                event.target.value = '';
              }}
            />
            <IconButton label={t('files.refresh')} onClick={() => void refresh()}>
              <RefreshCw size={15} aria-hidden />
            </IconButton>
          </>
        )}
        <IconButton label={t('common.close')} onClick={onClose}>
          <X size={16} aria-hidden />
        </IconButton>
      </div>
      <p role="status" className={clsx('text-[13px] text-ink-soft', busy !== '' && 'border-b border-line px-4 py-1.5')}>
        {busy !== '' && t('files.uploading', { name: visible(busy) })}
      </p>
      {!runs ? (
        <p className="p-4 text-sm text-ink-soft">{t('files.asleep')}</p>
      ) : file !== null ? (
        <FileView
          key={file}
          conversation={c}
          path={file}
          onBack={() => {
            setLast(file);
            setFile(null);
          }}
        />
      ) : (
        <div className="min-h-0 flex-1 overflow-auto p-2">
          <p className="px-2 pb-1 font-mono text-xs text-ink-soft [overflow-wrap:anywhere]">{visible(root)}</p>
          <Tree conversation={c} root={root} opened={opened} onOpened={setOpened} onFile={setFile} focus={last} />
          <p className="mt-3 px-2 text-xs text-ink-soft pointer-coarse:hidden">{t('files.dropHint')}</p>
        </div>
      )}
      {asked && (
        <Taken
          names={asked.taken}
          onDone={() => setAsked(null)}
          onReplace={() => void put(asked.dir, asked.files, async (each) => each.name)}
          onBoth={() =>
            void put(asked.dir, asked.files, (each) => freeName(each.name, (name) => exists(c, join(asked.dir, name))))
          }
        />
      )}
    </section>
  );
}

interface TakenProps {
  names: string[];
  onDone: () => void;
  onReplace: () => void;
  onBoth: () => void;
}

/** Asks what to do with files whose names are taken. */
function Taken({ names, onDone, onReplace, onBoth }: TakenProps) {
  const { t } = useTranslation();
  const choose = (then: () => void) => () => {
    onDone();
    then();
  };
  return (
    <Dialog open onOpenChange={onDone} title={t('files.taken.title', { count: names.length })}>
      <ul className="max-h-40 space-y-0.5 overflow-auto font-mono text-[13px] [overflow-wrap:anywhere]">
        {names.map((each) => (
          <li key={each}>{visible(each)}</li>
        ))}
      </ul>
      <div className="mt-4 flex flex-wrap justify-end gap-2">
        <Button onClick={onDone}>{t('common.cancel')}</Button>
        <Button onClick={choose(onBoth)}>{t('files.taken.both')}</Button>
        <Button kind="danger" onClick={choose(onReplace)}>
          {t('files.taken.replace')}
        </Button>
      </div>
    </Dialog>
  );
}
