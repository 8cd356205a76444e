import clsx from 'clsx';
import { ArrowUp, ImagePlus, Paperclip, X } from 'lucide-react';
import {
  type ClipboardEvent,
  type DragEvent,
  type KeyboardEvent,
  type ReactNode,
  useEffect,
  useId,
  useRef,
  useState,
} from 'react';
import { useTranslation } from 'react-i18next';
import type { MessageContent } from '../api/queries';
import { dropped } from '../files/files';
import { explainError } from '../lib/errors';
import { type Attached, attach, attachable } from '../lib/images';
import { visible } from '../lib/visible';
import { IconButton } from '../ui/Button';
import { toastError } from '../ui/Toast';

interface Props {
  /** Sends the message; what was typed stays if it fails. */
  onSend: (content: MessageContent) => Promise<unknown>;
  placeholder: string;
  label: string;
  draftKey: string;
  autoFocus?: boolean;
  disabled?: boolean;
  initial?: string;
  rows?: number;
  /** Stores files that are no part of the message, and returns what it calls them. */
  onUpload?: (files: File[]) => Promise<string[]>;
  children?: ReactNode; // further controls in the bar
}

/** Where messages are written. Enter sends, Shift+Enter makes a line; images can be pasted. */
export function Composer({
  onSend,
  placeholder,
  label,
  draftKey,
  autoFocus,
  disabled = false,
  initial = '',
  rows = 1,
  onUpload,
  children,
}: Props) {
  const { t } = useTranslation();
  const id = useId();
  const [text, setText] = useState(() => initial || readDraft(draftKey));
  const [images, setImages] = useState<Attached[]>([]);
  const [sending, setSending] = useState(false);
  const [uploading, setUploading] = useState('');
  const [over, setOver] = useState(false);
  const area = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);

  useEffect(() => writeDraft(draftKey, text), [draftKey, text]);
  useEffect(() => {
    const box = area.current;
    if (!box || text === undefined) return;
    box.style.height = 'auto';
    box.style.height = `${Math.min(box.scrollHeight + 2, window.innerHeight * 0.4)}px`;
  }, [text]);

  const upload = async (files: File[]) => {
    if (!onUpload || files.length === 0 || uploading !== '') return;
    setUploading(files.map((each) => visible(each.name)).join(', '));
    try {
      const lines = (await onUpload(files)).map((path) => t('files.mention', { path: visible(path) }));
      setText((before) => [before.replace(/\n+$/, ''), ...lines].filter((each) => each !== '').join('\n'));
      area.current?.focus();
    } catch (error) {
      toastError(explainError(error, t));
    } finally {
      setUploading('');
    }
  };
  const add = async (files: Iterable<File>) => {
    const all = [...files];
    const got = await attach(onUpload ? all.filter(attachable) : all);
    if (onUpload) void upload(all.filter((each) => !attachable(each)));
    if (got.problem) toastError(t(`composer.image.${got.problem}`));
    setImages((before) => [...before, ...got.images].slice(0, 10));
  };
  const empty = text.trim() === '' && images.length === 0;
  const send = async () => {
    if (empty || sending || disabled || uploading !== '') return;
    const content: MessageContent = [];
    if (text.trim() !== '') content.push({ type: 'text', text, cache_prompt: false });
    if (images.length > 0)
      content.push({ type: 'image', image_urls: images.map((each) => each.url), cache_prompt: false });
    setSending(true);
    try {
      await onSend(content);
      setText('');
      setImages([]);
    } catch {
      // it was told where it happened
    } finally {
      setSending(false);
      area.current?.focus();
    }
  };
  const press = (event: KeyboardEvent) => {
    // While a word is composed, Enter chooses it.
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    void send();
  };
  const paste = (event: ClipboardEvent) => {
    const files = [...event.clipboardData.files];
    if (files.length === 0) return;
    event.preventDefault();
    void add(files);
  };
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    const { files, directories } = dropped(event.dataTransfer);
    if (directories) toastError(t('files.noDirectories'));
    if (!disabled) void add(files);
  };

  const addLabel = onUpload ? t('files.add') : t('composer.addImage');

  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: dropping files has a button beside it
    <div
      onDrop={drop}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      className={clsx(
        'rounded-lg border bg-surface focus-within:border-accent focus-within:outline focus-within:outline-accent',
        over ? 'border-accent' : 'border-line-strong',
      )}
    >
      {images.length > 0 && (
        <ul className="flex flex-wrap gap-2 p-2.5 pb-0">
          {images.map((each, i) => (
            <li key={`${i}-${each.name}`} className="relative">
              <img src={each.url} alt={each.name} className="size-16 rounded-md border border-line object-cover" />
              <button
                type="button"
                aria-label={t('composer.removeImage', { name: each.name })}
                onClick={() => setImages(images.filter((_, at) => at !== i))}
                className="absolute -top-1.5 -right-1.5 rounded-full border border-line bg-raised p-0.5"
              >
                <X size={12} aria-hidden />
              </button>
            </li>
          ))}
        </ul>
      )}
      <label htmlFor={id} className="sr-only">
        {label}
      </label>
      <textarea
        id={id}
        ref={area}
        rows={rows}
        value={text}
        disabled={disabled}
        autoFocus={autoFocus}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={press}
        onPaste={paste}
        placeholder={placeholder}
        className="block w-full resize-none bg-transparent px-3.5 pt-2.5 pb-1 text-[15px] outline-none"
      />
      {onUpload && (
        <p role="status" className="px-3.5 text-[13px] text-ink-soft [overflow-wrap:anywhere]">
          {uploading !== '' && t('files.uploading', { name: uploading })}
        </p>
      )}
      <div className="flex items-center gap-1 p-1.5">
        <IconButton label={addLabel} onClick={() => picker.current?.click()} disabled={disabled || uploading !== ''}>
          {onUpload ? <Paperclip size={17} aria-hidden /> : <ImagePlus size={17} aria-hidden />}
        </IconButton>
        <input
          ref={picker}
          type="file"
          accept={onUpload ? undefined : 'image/png,image/jpeg,image/gif,image/webp'}
          multiple
          hidden
          aria-label={addLabel}
          onChange={(event) => {
            void add(event.target.files ?? []);
            event.target.value = '';
          }}
        />
        <div className="ml-auto flex items-center gap-1.5">
          {children}
          <IconButton
            label={t('composer.send')}
            disabled={empty || sending || disabled || uploading !== ''}
            onClick={() => void send()}
            className="bg-accent !text-accent-ink hover:bg-accent-strong"
          >
            <ArrowUp size={17} aria-hidden />
          </IconButton>
        </div>
      </div>
    </div>
  );
}

// What was typed and not sent survives a reload of the page.
function readDraft(key: string): string {
  try {
    return sessionStorage.getItem(`parley:draft:${key}`) ?? '';
  } catch {
    return '';
  }
}

export function writeDraft(key: string, text: string): void {
  try {
    if (text === '') sessionStorage.removeItem(`parley:draft:${key}`);
    else sessionStorage.setItem(`parley:draft:${key}`, text);
  } catch {
    // it lives as long as the page
  }
}

/** Forgets what was typed and not sent, as for another user. */
export function forgetWritten(): void {
  try {
    for (const key of Object.keys(sessionStorage)) if (key.startsWith('parley:draft:')) sessionStorage.removeItem(key);
  } catch {
    // there is nothing
  }
}
