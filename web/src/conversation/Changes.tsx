import { useQuery } from '@tanstack/react-query';
import clsx from 'clsx';
import { ArrowLeft } from 'lucide-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { ApiError, api, ask, type Conversation } from '../api/client';
import { explainError } from '../lib/errors';
import { Button } from '../ui/Button';
import { Dialog } from '../ui/Dialog';
import { Diff } from './Diff';

const colours = { ADDED: 'text-good', DELETED: 'text-bad', UPDATED: 'text-warn', MOVED: 'text-info' };

/** What differs in the conversation's repository, file by file. */
export function Changes({ conversation, onDone }: { conversation: Conversation; onDone: () => void }) {
  const { t } = useTranslation();
  const [file, setFile] = useState<string | null>(null);
  const root = conversation.workspace?.working_dir ?? '/workspace/project';
  const changes = useQuery({
    queryKey: ['changes', conversation.id],
    queryFn: () =>
      ask(
        api.GET('/api/v1/app-conversations/{conversation_id}/git/changes', {
          params: { path: { conversation_id: conversation.id }, query: { path: root } },
        }),
      ),
    refetchInterval: 5000,
    retry: (failures, error) => failures < 2 && !(error instanceof ApiError && error.status >= 400),
  });
  return (
    <Dialog open onOpenChange={onDone} title={t('changes.title')} wide>
      {changes.error && <p className="text-sm text-bad">{explainError(changes.error, t)}</p>}
      {changes.data?.length === 0 && <p className="text-sm text-ink-soft">{t('changes.none')}</p>}
      {file === null ? (
        <ul className="divide-y divide-line">
          {changes.data?.map((change) => (
            <li key={change.path}>
              <button
                type="button"
                onClick={() => setFile(change.path)}
                className="flex w-full items-center gap-3 rounded-sm px-1 py-1.5 text-left text-sm hover:bg-hover focus-visible:-outline-offset-2"
              >
                <span className={clsx('w-20 shrink-0 text-xs', colours[change.status])}>
                  {t(`changes.status.${change.status}`)}
                </span>
                <span className="min-w-0 font-mono text-[13px] [overflow-wrap:anywhere]">{change.path}</span>
              </button>
            </li>
          ))}
        </ul>
      ) : (
        <>
          <Button small kind="quiet" icon={<ArrowLeft size={14} aria-hidden />} onClick={() => setFile(null)}>
            {t('changes.back')}
          </Button>
          <File conversation={conversation} root={root} path={file} />
        </>
      )}
    </Dialog>
  );
}

function File({ conversation, root, path }: { conversation: Conversation; root: string; path: string }) {
  const { t } = useTranslation();
  const diff = useQuery({
    queryKey: ['diff', conversation.id, path],
    queryFn: () =>
      ask(
        api.GET('/api/v1/app-conversations/{conversation_id}/git/diff', {
          params: { path: { conversation_id: conversation.id }, query: { path: `${root}/${path}` } },
        }),
      ),
    retry: false,
  });
  return (
    <div className="mt-2 space-y-2">
      <p className="font-mono text-[13px] [overflow-wrap:anywhere]">{path}</p>
      {diff.error && <p className="text-sm text-bad">{explainError(diff.error, t)}</p>}
      {diff.data &&
        (diff.data.original === null && diff.data.modified === null ? (
          <p className="text-sm text-ink-soft">{t('changes.binary')}</p>
        ) : (
          <Diff before={diff.data.original ?? ''} after={diff.data.modified ?? ''} />
        ))}
    </div>
  );
}
