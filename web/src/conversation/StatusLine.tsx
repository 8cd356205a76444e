import { useMutation, useQueryClient } from '@tanstack/react-query';
import clsx from 'clsx';
import { Pause, Play, Plus, Square } from 'lucide-react';
import { useTranslation } from 'react-i18next';
import { api, ask, type Conversation } from '../api/client';
import { agentCall } from '../api/queries';
import { duration, eventTime, useNow } from '../lib/format';
import { go } from '../lib/router';
import { Button } from '../ui/Button';
import { writeDraft } from './Composer';
import { subject, toolKind } from './describe';
import { list, number, record, text } from './events';
import type { FeedState } from './feed';
import type { Status } from './fold';
import { toolLabel } from './StepView';

interface Props {
  conversation: Conversation;
  state: FeedState;
  status: Status;
}

/** One line that says what happens, and what is waited for. */
export function StatusLine(props: Props) {
  const line = useLine(props);
  return (
    <div className="min-h-5 px-1 text-[13px]">
      {/* Screen readers hear of changes of the state, not of every second. */}
      <p role="status" className="sr-only">
        {line.announce}
      </p>
      <p
        aria-hidden={line.announce !== ''}
        className={clsx('flex items-baseline gap-2', line.bad ? 'text-bad' : 'text-ink-soft')}
      >
        {line.busy && <span className="pulse-dot size-2 shrink-0 rounded-full bg-good" />}
        <span className="line-clamp-3 min-w-0 [overflow-wrap:anywhere]">{line.shown}</span>
      </p>
    </div>
  );
}

interface Line {
  shown: string;
  announce: string;
  busy: boolean;
  bad: boolean;
}

function useLine({ conversation, state, status }: Props): Line {
  const { t, i18n } = useTranslation();
  const now = useNow(1000);
  const say = (shown: string, announce = shown, busy = false, bad = false): Line => ({ shown, announce, busy, bad });

  if (state.failed || (state.ready && state.connection === 'waiting'))
    return say(t('line.reconnecting'), undefined, false, true);
  if (!state.ready) return say(t('line.opening'));
  if (state.notice !== '') return say(state.notice, undefined, false, true);
  switch (conversation.sandbox_status) {
    case 'STARTING':
      return say(t('line.sandboxStarting'), undefined, true);
    case 'PAUSED':
      return say(t('line.sandboxPaused'));
    case 'ERROR':
      return say(t('line.sandboxFailed'), undefined, false, true);
    case 'MISSING':
      return say(t('line.sandboxGone'), undefined, false, true);
  }
  if (status !== 'running') return say(t(`line.${status}`), undefined, false, status === 'error');

  const retry = record(state.timeline.notes.llm_retry);
  const wait = number(retry.wait_seconds);
  if (wait !== null) {
    const left = Math.max(0, wait - (now - eventTime(state.timeline.notesAt).getTime()) / 1000);
    const reason = text(retry.reason);
    const attempt = number(retry.attempt) ?? 0;
    const seconds = Math.ceil(left);
    if (attempt === 0)
      return say(
        seconds > 0 ? t('line.waitingFor', { reason, seconds }) : t('line.waitingTurn', { reason }),
        t('line.waitingTurn', { reason }),
        true,
      );
    if (seconds === 0) return say(t('line.retryingNow', { reason }), undefined, true);
    return say(
      t('line.retrying', { seconds, reason, attempt, most: number(retry.max_attempts) ?? 0 }),
      t('line.retryingNow', { reason }),
      true,
    );
  }
  const open = state.timeline.waiting.at(-1);
  if (open) {
    const told = list(state.timeline.notes.tool_progress)
      .map(record)
      .find((each) => each.tool_call_id === open.callId);
    const seconds = Math.max(0, Math.floor((now - eventTime(open.at).getTime()) / 1000));
    const what =
      `${toolLabel(open, toolKind(open), t)} ${text(told?.text) || subject(open, conversation.workspace?.working_dir ?? '')}`.slice(
        0,
        160,
      );
    const since = seconds < 2 ? '' : ` · ${duration(seconds, i18n.language)}`;
    return say(`${what}${since}`, t('line.tool', { tool: toolLabel(open, toolKind(open), t) }), true);
  }
  if (state.draft) return say(t('line.writing'), undefined, true);
  // Who waits for long wants to know whether anything goes on.
  const last = state.timeline.items.at(-1);
  const thinking = last ? Math.floor((now - eventTime(last.at).getTime()) / 1000) : 0;
  const since = thinking >= 5 ? ` · ${duration(thinking, i18n.language)}` : '';
  return say(`${t('line.thinking')}${since}`, t('line.thinking'), true);
}

/** Stop, pause and go on. */
export function Controls({
  conversation,
  status,
  asleep,
  first,
}: {
  conversation: Conversation;
  status: Status;
  asleep: boolean;
  first: string; // what was asked for at first
}) {
  const { t } = useTranslation();
  const client = useQueryClient();
  const act = useMutation({
    mutationFn: async (what: 'pause' | 'interrupt' | 'run' | 'wake') => {
      const call = agentCall(conversation);
      if (what === 'wake')
        return ask(
          api.POST('/api/v1/sandboxes/{sandbox_id}/resume', {
            params: { path: { sandbox_id: conversation.sandbox_id } },
          }),
        );
      if (what === 'pause') return ask(api.POST('/agent/{sandbox_id}/api/conversations/{conversation_id}/pause', call));
      if (what === 'interrupt')
        return ask(api.POST('/agent/{sandbox_id}/api/conversations/{conversation_id}/interrupt', call));
      return ask(api.POST('/agent/{sandbox_id}/api/conversations/{conversation_id}/run', call));
    },
    onSettled: () => client.invalidateQueries({ queryKey: ['conversation', conversation.id] }),
  });
  if (asleep) {
    return (
      <Button small icon={<Play size={14} aria-hidden />} disabled={act.isPending} onClick={() => act.mutate('wake')}>
        {t('control.wake')}
      </Button>
    );
  }
  if (conversation.sandbox_status === 'MISSING') {
    return (
      <Button
        small
        icon={<Plus size={14} aria-hidden />}
        onClick={() => {
          writeDraft('new', first);
          go('#/new');
        }}
      >
        {t('control.another')}
      </Button>
    );
  }
  const usable = conversation.session_api_key !== null;
  if (!usable) return null;
  if (status === 'running') {
    return (
      <>
        <Button
          small
          kind="quiet"
          icon={<Pause size={14} aria-hidden />}
          disabled={act.isPending}
          title={t('control.pauseHelp')}
          onClick={() => act.mutate('pause')}
        >
          {t('control.pause')}
        </Button>
        <Button
          small
          icon={<Square size={13} aria-hidden />}
          disabled={act.isPending}
          title={t('control.stopHelp')}
          onClick={() => act.mutate('interrupt')}
        >
          {t('control.stop')}
        </Button>
      </>
    );
  }
  if (status === 'paused' || status === 'error' || status === 'stuck') {
    return (
      <Button small icon={<Play size={14} aria-hidden />} disabled={act.isPending} onClick={() => act.mutate('run')}>
        {t('control.resume')}
      </Button>
    );
  }
  return null;
}
