import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import {
  ArrowLeft,
  ChartColumn,
  Download,
  FileDiff,
  FileJson,
  GitFork,
  MoreHorizontal,
  Pencil,
  Trash2,
} from 'lucide-react';
import { lazy, type ReactNode, Suspense, useEffect, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { ApiError, api, ask, type Conversation } from '../api/client';
import { conversation as conversationQuery, download, type MessageContent, startTask } from '../api/queries';
import { deletions } from '../conversations/deletions';
import { canFork, useForkOf } from '../conversations/fork';
import { Rename } from '../conversations/Rename';
import { StatusDot, shownStatus } from '../conversations/StatusDot';
import { Beside, PanelButton } from '../files/Beside';
import { storeBeside } from '../files/files';
import { explainError } from '../lib/errors';
import { count, money, repositoryName } from '../lib/format';
import { go } from '../lib/router';
import { Button, IconButton } from '../ui/Button';
import { Menu, MenuItem, MenuSeparator } from '../ui/Menu';
import { toastError } from '../ui/Toast';
import { Changes } from './Changes';
import { Composer } from './Composer';
import { Confirmation } from './Confirmation';
import type { Detail } from './details/Details';
import { type Item, type Status, textOf } from './fold';
import { Plan } from './Plan';
import { Starting } from './Starting';
import { Controls, StatusLine } from './StatusLine';
import { SubAgents } from './subAgents';
import { Timeline } from './Timeline';
import { TrustQuestions } from './TrustQuestions';
import { useFeed } from './useFeed';
import { WorkingDir } from './workingDir';

const Details = lazy(() => import('./details/Details').then((m) => ({ default: m.Details })));

export function ConversationPage({ id, event }: { id: string; event?: string }) {
  const { t } = useTranslation();
  const found = useQuery(conversationQuery(id));
  const missing = found.error instanceof ApiError && found.error.status === 404;
  const task = useQuery({ ...startTask(id), enabled: missing });
  const started = task.data?.status === 'READY';
  const { refetch } = found;
  useEffect(() => {
    if (started) void refetch();
  }, [started, refetch]);

  if (found.data)
    return (
      <Beside conversation={found.data}>
        <Open conversation={found.data} event={event} />
      </Beside>
    );
  if (missing && task.data && task.data.status !== 'ERROR') {
    return (
      <Centre>
        <Starting task={task.data} status={task.data.status} />
      </Centre>
    );
  }
  if (missing && task.data) {
    return (
      <Centre>
        <h1 className="text-lg font-semibold">{t('start.failed')}</h1>
        <p className="max-w-prose whitespace-pre-wrap text-bad">{task.data.detail}</p>
        <Button onClick={() => go('#/new')}>{t('start.again')}</Button>
      </Centre>
    );
  }
  if (missing && task.isSuccess) return <Gone />;
  if (found.error && !missing) {
    return (
      <Centre>
        <p className="text-bad">{explainError(found.error, t)}</p>
        <Button onClick={() => void refetch()}>{t('common.retry')}</Button>
      </Centre>
    );
  }
  return <Centre>{null}</Centre>;
}

function Centre({ children }: { children: ReactNode }) {
  return <div className="flex flex-1 flex-col items-center justify-center gap-3 p-6 text-center">{children}</div>;
}

function Gone() {
  const { t } = useTranslation();
  return (
    <Centre>
      <p>{t('conversation.gone')}</p>
      <Button onClick={() => go('#/')}>{t('conversation.toList')}</Button>
    </Centre>
  );
}

function Open({ conversation, event }: { conversation: Conversation; event?: string }) {
  const { t } = useTranslation();
  const { feed, state } = useFeed(conversation);
  const client = useQueryClient();
  const forkFrom = useForkOf(conversation);
  const status: Status = state.status ?? conversation.execution_status ?? 'idle';
  const asleep = conversation.sandbox_status === 'PAUSED';
  const { refetch } = useQuery(conversationQuery(conversation.id));

  // What the stream tells shows in the list at once.
  useEffect(() => {
    if (state.status === null) return;
    void client.invalidateQueries({ queryKey: ['conversations'] });
    void refetch(); // the state of the sandbox may be another one, too
  }, [state.status, client, refetch]);

  const send = async (content: MessageContent) => {
    try {
      if (asleep || conversation.sandbox_status === 'STARTING') await awake(conversation);
      await ask(
        api.POST('/api/v1/app-conversations/{conversation_id}/send-message', {
          params: { path: { conversation_id: conversation.id } },
          body: { role: 'user', content, run: true },
        }),
      );
      void refetch();
    } catch (error) {
      toastError(explainError(error, t));
      throw error;
    }
  };
  if (state.missing) return <Gone />;
  const lost = conversation.sandbox_status === 'MISSING';
  const onFork = canFork(conversation) ? forkFrom : null;
  return (
    <WorkingDir value={conversation.workspace?.working_dir ?? ''}>
      <Head
        conversation={conversation}
        status={status}
        usage={state.timeline.usage}
        onFork={onFork && (() => onFork())}
      />
      <SubAgents value={state.timeline.notes.tasks}>
        <Timeline feed={feed} state={state} status={status} goTo={event} onFork={onFork} />
      </SubAgents>
      <div className="mx-auto w-full max-w-3xl shrink-0 space-y-2 px-3 pb-3 md:px-5">
        <Plan tasks={state.timeline.tasks} />
        <TrustQuestions conversation={conversation} notes={state.timeline.notes} />
        {status === 'waiting_for_confirmation' && (
          <Confirmation conversation={conversation} steps={state.timeline.waiting} />
        )}
        <StatusLine conversation={conversation} state={state} status={status} />
        <Composer
          key={conversation.id}
          draftKey={conversation.id}
          onSend={send}
          placeholder={t(`composer.hints.${hintOf(conversation, status)}`)}
          label={t('composer.message')}
          disabled={lost}
          onUpload={async (files) => storeBeside(await awake(conversation), files)}
        >
          <Controls
            conversation={conversation}
            status={status}
            asleep={asleep}
            first={firstMessage(state.timeline.items)}
          />
        </Composer>
      </div>
    </WorkingDir>
  );
}

/** What a message does now, by the name of its text. */
function hintOf(c: Conversation, status: Status): 'lost' | 'asleep' | 'steer' | 'undecided' | 'usual' {
  if (c.sandbox_status === 'MISSING') return 'lost';
  if (c.sandbox_status === 'PAUSED') return 'asleep';
  if (status === 'running') return 'steer';
  return status === 'waiting_for_confirmation' ? 'undecided' : 'usual';
}

/** What the user asked for at first, as far as it is known. */
function firstMessage(items: readonly Item[]): string {
  const first = items.find((item) => item.type === 'message' && item.from === 'user');
  return first?.type === 'message' ? textOf(first) : '';
}

/** Waits until the sandbox takes messages; one that is paused is resumed. */
async function awake(conversation: Conversation): Promise<Conversation> {
  if (conversation.sandbox_status === 'PAUSED')
    await ask(
      api.POST('/api/v1/sandboxes/{sandbox_id}/resume', { params: { path: { sandbox_id: conversation.sandbox_id } } }),
    );
  for (const end = Date.now() + 60_000; Date.now() < end; ) {
    const now = await ask(
      api.GET('/api/v1/app-conversations/{conversation_id}', {
        params: { path: { conversation_id: conversation.id } },
      }),
    );
    if (now.sandbox_status !== 'PAUSED' && now.sandbox_status !== 'STARTING') return now;
    await new Promise((done) => setTimeout(done, 300));
  }
  return conversation;
}

interface HeadProps {
  conversation: Conversation;
  status: Status;
  usage: { cost: number; prompt: number; completion: number } | null;
  onFork: (() => void) | null;
}

function Head({ conversation: c, status, usage, onFork }: HeadProps) {
  const { t, i18n } = useTranslation();
  const client = useQueryClient();
  const [renaming, setRenaming] = useState(false);
  const [changes, setChanges] = useState(false);
  const [detail, setDetail] = useState<Detail | null>(null);
  const tokens = c.metrics.accumulated_token_usage;
  const total = usage ?? {
    cost: c.metrics.accumulated_cost,
    prompt: tokens.prompt_tokens ?? 0,
    completion: tokens.completion_tokens ?? 0,
  };
  // Tokens that cost nothing are the demo's, or nobody knows their price.
  const priced = total.cost > 0 || total.prompt === 0 || (c.llm_model ?? '').startsWith('demo/');
  const name = c.title.replace(/[^\p{L}\p{N}]+/gu, '-').slice(0, 60) || c.id;
  const save = useMutation({
    mutationFn: (what: 'zip' | 'trajectory') =>
      what === 'zip'
        ? download(`/api/v1/app-conversations/${c.id}/download`, `${name}.zip`)
        : download(`/api/conversations/${c.id}/trajectory`, `${name}.json`),
  });
  const remove = () => {
    deletions.schedule(c.id, c.title, () => void client.invalidateQueries({ queryKey: ['conversations'] }));
    go('#/', true);
  };
  return (
    <header className="flex shrink-0 items-center gap-2 border-b border-line px-2 py-1.5 md:px-4">
      <a
        href="#/"
        aria-label={t('conversation.toList')}
        className="rounded-md p-1.5 text-ink-soft hover:bg-hover md:hidden"
      >
        <ArrowLeft size={18} aria-hidden />
      </a>
      <StatusDot status={shownStatus({ ...c, execution_status: status })} />
      <div className="min-w-0 flex-1">
        <h1 className="truncate text-[15px] font-semibold" title={c.title}>
          {c.title || t('list.untitled')}
        </h1>
        <p className="flex flex-wrap gap-x-3 text-xs text-ink-soft">
          {c.llm_model && <span className="max-w-48 truncate">{c.llm_model}</span>}
          {c.selected_repository && (
            <span className="max-w-64 truncate">
              {repositoryName(c.selected_repository)}
              {c.selected_branch && ` · ${c.selected_branch}`}
            </span>
          )}
          <button
            type="button"
            onClick={() => setDetail('cost')}
            className="rounded-sm tabular-nums hover:text-ink hover:underline"
            title={t('conversation.tokens', {
              prompt: count(total.prompt, i18n.language),
              completion: count(total.completion, i18n.language),
            })}
          >
            {priced ? money(total.cost, i18n.language) : t('conversation.noPrice')} ·{' '}
            {t('conversation.tokensShort', {
              count: total.prompt + total.completion,
              total: count(total.prompt + total.completion, i18n.language),
            })}
          </button>
          {c.parent_conversation_id && (
            <a href={`#/c/${c.parent_conversation_id}`} className="text-accent-text underline">
              {t('details.agents.parent')}
            </a>
          )}
        </p>
      </div>
      <PanelButton panel="terminal" />
      <PanelButton panel="files" />
      <Menu
        trigger={
          <IconButton label={t('conversation.actions')}>
            <MoreHorizontal size={18} aria-hidden />
          </IconButton>
        }
      >
        <MenuItem icon={<Pencil size={15} aria-hidden />} onSelect={() => setRenaming(true)}>
          {t('list.rename')}
        </MenuItem>
        {onFork && (
          <MenuItem icon={<GitFork size={15} aria-hidden />} onSelect={onFork}>
            {t('conversation.fork')}
          </MenuItem>
        )}
        {c.sandbox_status === 'RUNNING' && (
          <MenuItem icon={<FileDiff size={15} aria-hidden />} onSelect={() => setChanges(true)}>
            {t('changes.open')}
          </MenuItem>
        )}
        <MenuItem icon={<ChartColumn size={15} aria-hidden />} onSelect={() => setDetail('cost')}>
          {t('details.open')}
        </MenuItem>
        <MenuItem icon={<Download size={15} aria-hidden />} onSelect={() => save.mutate('zip')}>
          {t('conversation.download')}
        </MenuItem>
        {c.sandbox_status !== 'MISSING' && (
          // For the legacy API, whose form it has, a conversation ends with its sandbox.
          <MenuItem icon={<FileJson size={15} aria-hidden />} onSelect={() => save.mutate('trajectory')}>
            {t('conversation.trajectory')}
          </MenuItem>
        )}
        <MenuSeparator />
        <MenuItem icon={<Trash2 size={15} aria-hidden />} danger onSelect={remove}>
          {t('list.delete')}
        </MenuItem>
      </Menu>
      {changes && <Changes conversation={c} onDone={() => setChanges(false)} />}
      {detail && (
        <Suspense fallback={null}>
          <Details conversation={c} usage={usage} shown={detail} onShow={setDetail} />
        </Suspense>
      )}
      {renaming && <Rename conversation={c} onDone={() => setRenaming(false)} />}
    </header>
  );
}
