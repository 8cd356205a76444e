import clsx from 'clsx';
import { FolderTree } from 'lucide-react';
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

const Panel = createContext({ open: false, toggle: () => {} });

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

/** A conversation with the files of its sandbox beside it; over it where there is no room. */
export function Beside({ conversation, children }: { conversation: Conversation; children: ReactNode }) {
  const [open, setOpen] = useState(false);
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
  const close = () => {
    setOpen(false);
    // When it can be focused again.
    requestAnimationFrame(() => column.current?.querySelector<HTMLElement>('[data-files-button]')?.focus());
  };
  return (
    <Panel value={{ open, toggle: () => setOpen(!open) }}>
      <div className="relative flex min-h-0 flex-1">
        <div ref={column} inert={open && !isWide} className="flex min-w-0 flex-1 flex-col">
          {children}
        </div>
        {open && (
          <div
            className={clsx(
              'flex flex-col bg-surface',
              isWide ? 'w-[45%] max-w-3xl border-l border-line' : 'absolute inset-0 z-20',
            )}
          >
            <Suspense fallback={null}>
              <FilesPanel conversation={conversation} onClose={close} />
            </Suspense>
          </div>
        )}
      </div>
    </Panel>
  );
}

/** Shows the files and takes them away again. */
export function FilesButton() {
  const { t } = useTranslation();
  const { open, toggle } = useContext(Panel);
  return (
    <IconButton
      label={t('files.title')}
      aria-expanded={open}
      data-files-button=""
      onClick={toggle}
      className={open ? 'bg-hover !text-ink' : ''}
    >
      <FolderTree size={17} aria-hidden />
    </IconButton>
  );
}
