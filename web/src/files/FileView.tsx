import { useMutation, useQuery } from '@tanstack/react-query';
import { ArrowLeft, Download } from 'lucide-react';
import { useEffect, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { ApiError, type Conversation } from '../api/client';
import { Code } from '../conversation/Code';
import { explainError } from '../lib/errors';
import { bytes } from '../lib/format';
import { visible } from '../lib/visible';
import { Button } from '../ui/Button';
import { type Content, languageOf, read, rootOf, save, shortPath } from './files';

/** One file: its text or image if it is one and not too large, and a way to have it whole. */
export function FileView({
  conversation: c,
  path,
  onBack,
}: {
  conversation: Conversation;
  path: string;
  onBack: () => void;
}) {
  const { t, i18n } = useTranslation();
  const back = useRef<HTMLButtonElement>(null);
  useEffect(() => back.current?.focus(), []);
  const file = useQuery({
    queryKey: ['files', c.id, 'content', path],
    queryFn: ({ signal }) => read(c, path, signal),
    gcTime: 0,
    retry: (failures, error) => failures < 2 && !(error instanceof ApiError && error.status >= 400),
  });
  const download = useMutation({ mutationFn: () => save(c, path) });
  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <div className="flex shrink-0 flex-wrap items-center gap-x-2 gap-y-1 border-b border-line px-2 py-1.5">
        <Button ref={back} small kind="quiet" icon={<ArrowLeft size={14} aria-hidden />} onClick={onBack}>
          {t('files.back')}
        </Button>
        <Button
          small
          className="ml-auto"
          icon={<Download size={14} aria-hidden />}
          disabled={download.isPending}
          onClick={() => download.mutate()}
        >
          {t('files.download')}
        </Button>
        <p className="w-full px-2 font-mono text-[13px] [overflow-wrap:anywhere]">
          {visible(shortPath(path, rootOf(c)))}
          {file.data && (
            <span className="ml-2 font-sans text-xs text-ink-soft">{bytes(file.data.size, i18n.language)}</span>
          )}
        </p>
      </div>
      <div className="min-h-0 flex-1 overflow-auto p-3">
        {file.error && <p className="text-sm text-bad">{explainError(file.error, t)}</p>}
        {file.data && <Shown content={file.data} name={path} />}
      </div>
    </div>
  );
}

function Shown({ content, name }: { content: Content; name: string }) {
  const { t, i18n } = useTranslation();
  if (content.kind === 'image') return <Picture blob={content.blob} name={name} />;
  if (content.kind !== 'text') return <p className="text-sm text-ink-soft">{t(`files.${content.kind}`)}</p>;
  if (content.size === 0) return <p className="text-sm text-ink-soft">{t('files.noText')}</p>;
  return (
    <>
      {content.cut && (
        <p className="mb-2 text-[13px] text-warn">
          {t('files.cut', { size: bytes(content.text.length, i18n.language) })}
        </p>
      )}
      <div className="prose">
        <Code text={visible(content.text.replaceAll('\r\n', '\n'))} language={languageOf(name)} />
      </div>
    </>
  );
}

/** An image of the sandbox. The bytes told what it is; nothing is loaded from elsewhere. */
function Picture({ blob, name }: { blob: Blob; name: string }) {
  const [url, setUrl] = useState('');
  useEffect(() => {
    const made = URL.createObjectURL(blob);
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [blob]);
  if (url === '') return null;
  return (
    <img
      src={url}
      alt={visible(name.slice(name.lastIndexOf('/') + 1))}
      className="max-w-full rounded-md border border-line"
    />
  );
}
