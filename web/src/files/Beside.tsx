import clsx from 'clsx';
import { FolderTree, SquareTerminal } from 'lucide-react';
import {
  createContext,
  lazy,
  type ReactNode,
  Suspense,
  useContext,
  useEffect,
  useRef,
  useState,
  useSyncExternalStore,
} from 'react';
import { useTranslation } from 'react-i18next';
import type { Conversation } from '../api/client';
import { IconButton } from '../ui/Button';

const FilesPanel = lazy(() => import('./FilesPanel').then((m) => ({ default: m.FilesPanel })));
const TerminalPanel = lazy(() => import('../terminal/TerminalPanel').then((m) => ({ default: m.TerminalPanel })));

type Panel = 'files' | 'terminal';

const Panels = createContext<{ open: Panel | null; toggle: (panel: Panel) => void }>({ open: null, toggle: () => {} });

const wide = matchMedia('(min-width: 64rem)');
const onWide = (listener: () => void) => {
  wide.addEventListener('change', listener);
  return () => wide.removeEventListener('change', listener);
};

// A file that is dropped beside its place would be opened by the browser instead of the page.
const keepPage = (event: DragEvent) => {
  if (event.defaultPrevented || !event.dataTransfer?.types.includes('Files')) return;
  event.preventDefault();
  event.dataTransfer.dropEffect = 'none';
};

/**
 * A conversation with the files of its sandbox, or a terminal in it, beside it; over it
 * where there is no room.
 */
export function Beside({ conversation, children }: { conversation: Conversation; children: ReactNode }) {
  const [open, setOpen] = useState<Panel | null>(null);
  const [shell, setShell] = useState(false); // there is one, maybe hidden
  const isWide = useSyncExternalStore(onWide, () => wide.matches);
  const column = useRef<HTMLDivElement>(null);
  useEffect(() => {
    addEventListener('dragover', keepPage);
    addEventListener('drop', keepPage);
    return () => {
      removeEventListener('dragover', keepPage);
      removeEventListener('drop', keepPage);
    };
  }, []);
  const close = (panel: Panel) => {
    setOpen(null);
    // When it can be focused again.
    requestAnimationFrame(() => column.current?.querySelector<HTMLElement>(`[data-panel="${panel}"]`)?.focus());
  };
  const toggle = (panel: Panel) => {
    setOpen(open === panel ? null : panel);
    if (panel === 'terminal') setShell(true);
  };
  return (
    <Panels value={{ open, toggle }}>
      <div className="relative flex min-h-0 flex-1">
        <div ref={column} inert={open !== null && !isWide} className="flex min-w-0 flex-1 flex-col">
          {children}
        </div>
        <div
          className={clsx(
            'flex-col bg-surface',
            open === null ? 'hidden' : 'flex',
            isWide ? 'w-[45%] max-w-3xl border-l border-line' : 'absolute inset-0 z-20',
          )}
        >
          <Suspense fallback={null}>
            {open === 'files' && <FilesPanel conversation={conversation} onClose={() => close('files')} />}
            {shell && (
              <TerminalPanel
                conversation={conversation}
                shown={open === 'terminal'}
                onHide={() => close('terminal')}
                onClose={() => {
                  close('terminal');
                  setShell(false);
                }}
              />
            )}
          </Suspense>
        </div>
      </div>
    </Panels>
  );
}

const faces = {
  files: { icon: FolderTree, title: 'files.title' },
  terminal: { icon: SquareTerminal, title: 'console.title' },
} as const;

/** Shows what is beside a conversation and takes it away again. */
export function PanelButton({ panel }: { panel: Panel }) {
  const { t } = useTranslation();
  const { open, toggle } = useContext(Panels);
  const { icon: Icon, title } = faces[panel];
  return (
    <IconButton
      label={t(title)}
      aria-expanded={open === panel}
      data-panel={panel}
      onClick={() => toggle(panel)}
      className={open === panel ? 'bg-hover !text-ink' : ''}
    >
      <Icon size={17} aria-hidden />
    </IconButton>
  );
}
