import { useQueryClient } from '@tanstack/react-query';
import clsx from 'clsx';
import { Copy, Minus, PersonStanding, RotateCw, X } from 'lucide-react';
import { type ReactNode, type Ref, useEffect, useImperativeHandle, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, ask, type Conversation } from '../api/client';
import { explainError } from '../lib/errors';
import { visible } from '../lib/visible';
import { Button, IconButton } from '../ui/Button';
import { toast, toastError } from '../ui/Toast';
import { begun, Emulator, type State } from './emulator';

const readerName = 'parley:terminal:reader';

function readerWanted(): boolean {
  try {
    return localStorage.getItem(readerName) === 'on';
  } catch {
    return false;
  }
}

interface Props {
  conversation: Conversation;
  shown: boolean;
  onHide: () => void; // the shell goes on
  onClose: () => void; // and ends
}

/** A shell of one's own in the sandbox. */
export function TerminalPanel({ conversation: c, shown, onHide, onClose }: Props) {
  const { t } = useTranslation();
  const client = useQueryClient();
  const panel = useRef<HTMLElement>(null);
  const screen = useRef<ScreenHandle>(null);
  const [state, setState] = useState<State>(begun);
  const [reader, setReader] = useState(readerWanted);
  const [resuming, setResuming] = useState(false);
  // Once there is a screen it stays, whatever becomes of the sandbox: what was shown can
  // be read.
  const runs = c.sandbox_status === 'RUNNING';
  const [opened, setOpened] = useState(runs);
  if (runs && !opened) setOpened(true);

  useEffect(() => {
    if (!shown) return;
    if (screen.current) screen.current.focus();
    else panel.current?.focus();
  }, [shown]);

  const copy = async (text: string) => {
    try {
      await navigator.clipboard.writeText(text);
      toast(t('common.copied'));
    } catch {
      toastError(t('common.notCopied')); // pages without TLS have no clipboard
    }
  };
  const resume = async () => {
    setResuming(true);
    try {
      await ask(api.POST('/api/v1/sandboxes/{sandbox_id}/resume', { params: { path: { sandbox_id: c.sandbox_id } } }));
      await client.invalidateQueries({ queryKey: ['conversation', c.id] });
      screen.current?.focus();
    } catch (error) {
      toastError(explainError(error, t));
    }
    setResuming(false);
  };
  const toggleReader = () => {
    setReader(!reader);
    try {
      localStorage.setItem(readerName, reader ? 'off' : 'on');
    } catch {
      // it lives as long as the page
    }
  };

  const asleep = c.sandbox_status === 'PAUSED' || state.paused;
  const ended = state.phase === 'ended';
  let notice: ReactNode = null;
  if (asleep)
    notice = (
      <Notice text={t('console.asleep')}>
        <Button small disabled={resuming} onClick={() => void resume()}>
          {t('sandboxes.resume')}
        </Button>
      </Notice>
    );
  else if (!runs) notice = <Notice text={t(c.sandbox_status === 'STARTING' ? 'console.starting' : 'console.lost')} />;
  else if (ended)
    notice = (
      <Notice
        text={
          state.exit !== null
            ? t('console.exited', { code: state.exit })
            : visible(state.trouble) || t('console.disconnected')
        }
      >
        <Button small icon={<RotateCw size={14} aria-hidden />} onClick={() => screen.current?.again()}>
          {t('console.again')}
        </Button>
      </Notice>
    );
  else if (state.phase === 'connecting') notice = <Notice text={t('console.connecting')} />;
  else if (state.trouble !== '') notice = <Notice text={visible(state.trouble)} />;

  return (
    <section
      ref={panel}
      tabIndex={-1}
      aria-label={t('console.title')}
      onKeyDown={(event) => {
        // The shell has an Escape of its own.
        const inside = (event.target as Element).closest('.xterm') !== null;
        if (event.key === 'Escape' && !event.defaultPrevented && !inside) onHide();
      }}
      className={clsx('min-h-0 flex-1 flex-col outline-none', shown ? 'flex' : 'hidden')}
    >
      <div className="flex shrink-0 items-center gap-1 border-b border-line py-1.5 pr-2 pl-4">
        <h2 className="min-w-0 flex-1 truncate text-sm font-semibold">{t('console.title')}</h2>
        <IconButton
          label={t('console.copy')}
          disabled={!state.selected}
          onClick={() => void copy(screen.current?.selection() ?? '')}
        >
          <Copy size={15} aria-hidden />
        </IconButton>
        <IconButton
          label={t('console.reader')}
          aria-pressed={reader}
          onClick={toggleReader}
          className={reader ? 'bg-hover !text-ink' : ''}
        >
          <PersonStanding size={16} aria-hidden />
        </IconButton>
        <IconButton label={t('console.hide')} onClick={onHide}>
          <Minus size={16} aria-hidden />
        </IconButton>
        <IconButton label={t('console.close')} onClick={onClose}>
          <X size={16} aria-hidden />
        </IconButton>
      </div>
      <div role="status">{notice}</div>
      {opened && (
        <Screen
          ref={screen}
          key={c.sandbox_id}
          sandbox={c.sandbox_id}
          dir={c.workspace?.working_dir ?? ''}
          reader={reader}
          tell={(change) => setState((before) => ({ ...before, ...change }))}
          leave={() => panel.current?.focus()}
          copied={(text) => void copy(text)}
        />
      )}
      <p className="shrink-0 border-t border-line px-4 py-1 text-xs text-ink-soft pointer-coarse:hidden">
        {t('console.keys')}
      </p>
    </section>
  );
}

function Notice({ text, children }: { text: string; children?: ReactNode }) {
  return (
    <div className="flex flex-wrap items-center gap-x-3 gap-y-1 border-b border-line px-4 py-1.5 text-[13px] text-ink-soft">
      <p className="min-w-0 flex-1 [overflow-wrap:anywhere]">{text}</p>
      {children}
    </div>
  );
}

interface ScreenHandle {
  focus: () => void;
  again: () => void;
  selection: () => string;
}

interface ScreenProps {
  ref: Ref<ScreenHandle>;
  sandbox: string;
  dir: string;
  reader: boolean;
  tell: (change: Partial<State>) => void;
  leave: () => void;
  copied: (text: string) => void;
}

/** The emulator, which lives as long as this does. */
function Screen({ ref, sandbox, dir, reader, ...calls }: ScreenProps) {
  const { t } = useTranslation();
  const host = useRef<HTMLDivElement>(null);
  const emulator = useRef<Emulator>(null);
  const latest = useRef(calls);
  latest.current = calls;
  const first = useRef({ dir, reader, label: t('console.input') });
  useImperativeHandle(
    ref,
    () => ({
      focus: () => emulator.current?.focus(),
      again: () => {
        emulator.current?.connect();
        emulator.current?.focus();
      },
      selection: () => emulator.current?.selection() ?? '',
    }),
    [],
  );
  useEffect(() => {
    if (host.current === null) return;
    const made = new Emulator(host.current, {
      sandbox,
      ...first.current,
      tell: (change) => latest.current.tell(change),
      leave: () => latest.current.leave(),
      copied: (text) => latest.current.copied(text),
    });
    emulator.current = made;
    made.connect();
    made.focus();
    return () => {
      made.dispose();
      emulator.current = null;
    };
  }, [sandbox]);
  useEffect(() => emulator.current?.setReader(reader), [reader]);
  return (
    <div className="min-h-0 flex-1 overflow-hidden bg-sunken py-1 pl-2">
      <div ref={host} className="h-full" />
    </div>
  );
}
