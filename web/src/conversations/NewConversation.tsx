import { useQuery, useQueryClient } from '@tanstack/react-query';
import { FlaskConical, KeyRound, TriangleAlert, X } from 'lucide-react';
import { useState } from 'react';
import { Trans, useTranslation } from 'react-i18next';
import type { Schema } from '../api/client';
import { type MessageContent, serverInfo, settings, startConversation } from '../api/queries';
import { Composer, writeDraft } from '../conversation/Composer';
import { beginWith } from '../files/begin';
import { explainError } from '../lib/errors';
import { go } from '../lib/router';
import { visible } from '../lib/visible';
import { Button, IconButton } from '../ui/Button';
import { toastError } from '../ui/Toast';
import { namesRepository, requestOf, usual } from './choice';
import { Options } from './Options';

type Start = Schema['AppConversationStartRequest'];

export function NewConversation() {
  const { t } = useTranslation();
  const client = useQueryClient();
  const info = useQuery(serverInfo);
  const stored = useQuery(settings);
  const [choice, setChoice] = useState(usual);
  const [files, setFiles] = useState<File[]>([]);
  const [starting, setStarting] = useState(false);

  const start = async (content: MessageContent, title?: string) => {
    // It would begin without the repository that was asked for.
    if (choice.repository && !namesRepository(choice.repository)) {
      toastError(t('new.noRepository', { name: choice.repository.name }));
      throw new Error('no repository');
    }
    const body: Partial<Start> = files.length === 0 ? { initial_message: { role: 'user', content, run: true } } : {};
    if (title) body.title = title;
    Object.assign(body, requestOf(choice));
    let id = '';
    try {
      if (files.length === 0) id = await startConversation(body as Start);
      else
        await beginWith(
          files,
          body as Start,
          content,
          (path) => t('files.mention', { path: visible(path) }),
          (made) => {
            id = made;
            setStarting(true);
          },
        );
      void client.invalidateQueries({ queryKey: ['conversations'] });
      go(`#/c/${id}`);
    } catch (error) {
      toastError(explainError(error, t));
      setStarting(false);
      // What was begun is not begun again: it goes on there, with what was written.
      if (id !== '') {
        const text = content.find((each) => each.type === 'text');
        if (text?.type === 'text') writeDraft(id, text.text);
        go(`#/c/${id}`);
      }
      throw error;
    }
  };

  const configured = (stored.data?.agent_settings.llm.model ?? '') !== '' || choice.profile !== '';
  const demo = info.data?.demo === true;
  const known = info.isSuccess && !stored.isPending;
  return (
    <div className="min-h-0 flex-1 overflow-y-auto">
      <div className="mx-auto flex min-h-full max-w-2xl flex-col justify-center gap-5 p-4 py-8">
        <h1 className="text-center text-2xl font-semibold">{t('new.title')}</h1>
        <Composer
          onSend={start}
          placeholder={t('new.placeholder')}
          label={t('new.message')}
          draftKey="new"
          rows={3}
          autoFocus={matchMedia('(min-width: 48rem)').matches}
          onUpload={async (added) => {
            setFiles((before) => [...before, ...added]);
            return [];
          }}
        />
        <Attached files={files} onChange={setFiles} starting={starting} />
        <Options settings={stored.data ?? null} choice={choice} onChange={setChoice} />
        {known && !configured && (demo ? <Demo onStart={start} /> : <NoModel />)}
        {stored.error && <p className="text-sm text-bad">{explainError(stored.error, t)}</p>}
      </div>
    </div>
  );
}

/** Files that go into the sandbox before the message is sent. */
function Attached({
  files,
  onChange,
  starting,
}: {
  files: File[];
  onChange: (files: File[]) => void;
  starting: boolean;
}) {
  const { t } = useTranslation();
  return (
    <div className={files.length === 0 ? 'hidden' : 'space-y-2'}>
      <ul className="flex flex-wrap gap-2">
        {files.map((each, i) => (
          <li
            key={`${i}-${each.name}`}
            className="flex items-center gap-1 rounded-md border border-line bg-canvas py-0.5 pr-0.5 pl-2 text-[13px]"
          >
            <span className="[overflow-wrap:anywhere]">{visible(each.name)}</span>
            <IconButton
              label={t('composer.removeImage', { name: visible(each.name) })}
              className="!size-6"
              disabled={starting}
              onClick={() => onChange(files.filter((_, at) => at !== i))}
            >
              <X size={13} aria-hidden />
            </IconButton>
          </li>
        ))}
      </ul>
      <p role="status" className="text-[13px] text-ink-soft">
        {t(starting ? 'files.beginning' : 'files.before')}
      </p>
    </div>
  );
}

function Demo({ onStart }: { onStart: (content: MessageContent, title: string) => Promise<unknown> }) {
  const { t } = useTranslation();
  const [busy, setBusy] = useState(false);
  const script = t('new.demo.script');
  const run = async () => {
    setBusy(true);
    try {
      await onStart([{ type: 'text', text: script, cache_prompt: false }], t('new.demo.name'));
    } catch {
      // it was told
    } finally {
      setBusy(false);
    }
  };
  return (
    <section aria-labelledby="demo" className="rounded-lg border border-line bg-canvas p-4">
      <h2 id="demo" className="flex items-center gap-2 font-semibold">
        <FlaskConical size={17} className="text-accent-text" aria-hidden />
        {t('new.demo.title')}
      </h2>
      <p className="mt-1 text-sm text-ink-soft">
        <Trans i18nKey="new.demo.text" components={{ code: <code className="font-mono text-[13px] text-ink" /> }} />
      </p>
      <div className="mt-3 flex flex-wrap gap-2">
        <Button kind="primary" disabled={busy} onClick={() => void run()}>
          {t('new.demo.start')}
        </Button>
        <Button icon={<KeyRound size={15} aria-hidden />} onClick={() => go('#/settings/model')}>
          {t('new.demo.model')}
        </Button>
      </div>
    </section>
  );
}

function NoModel() {
  const { t } = useTranslation();
  return (
    <section className="rounded-lg border border-line bg-warn-soft p-4">
      <h2 className="flex items-center gap-2 font-semibold text-warn">
        <TriangleAlert size={17} aria-hidden />
        {t('new.noModel.title')}
      </h2>
      <p className="mt-1 text-sm">{t('new.noModel.text')}</p>
      <Button
        className="mt-3"
        kind="primary"
        icon={<KeyRound size={15} aria-hidden />}
        onClick={() => go('#/settings/model')}
      >
        {t('new.noModel.set')}
      </Button>
    </section>
  );
}
