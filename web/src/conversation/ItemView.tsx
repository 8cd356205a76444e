import clsx from 'clsx';
import type { TFunction } from 'i18next';
import { Braces, Pause, Route, Scissors, ShieldQuestion, Sparkles, Square, TriangleAlert } from 'lucide-react';
import { memo, type ReactNode, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { relabel } from '../lib/labels';
import { visible } from '../lib/visible';
import { Aside, type OnFork } from './Aside';
import { BoundedCode, BoundedText } from './bounded';
import { text } from './events';
import { type Failure, type Item, type Message, type Note, type Raw, type Status, type Thought, textOf } from './fold';
import { Images } from './Image';
import { Markdown } from './Markdown';
import { StepView } from './StepView';

interface Props {
  item: Item;
  marked: boolean;
  status: Status;
  onFork: OnFork;
}

export const ItemView = memo(
  function ItemView({ item, marked, status, onFork }: Props) {
    return (
      <div
        className={clsx(
          'group/item relative',
          item.type === 'step' ? 'pb-1.5' : 'pb-2.5',
          marked && '-mx-2 rounded-md bg-warn-soft px-2 pt-2',
        )}
      >
        <View item={item} status={status} onFork={onFork} />
      </div>
    );
  },
  // Every fold makes new items; what they show is compared.
  (a, b) =>
    a.marked === b.marked &&
    a.status === b.status &&
    (a.onFork === null) === (b.onFork === null) &&
    same(a.item, b.item),
);

function same(a: Item, b: Item): boolean {
  if (a.key !== b.key || a.type !== b.type) return false;
  if (a.type !== 'step' || b.type !== 'step') return true;
  return a.state === b.state && a.cost === b.cost && a.answer === b.answer;
}

function View({ item, status, onFork }: Omit<Props, 'marked'>): ReactNode {
  switch (item.type) {
    case 'message':
      return <MessageView item={item} onFork={onFork} />;
    case 'thought':
      return <ThoughtView item={item} />;
    case 'step':
      return (
        <StepView
          step={item}
          waiting={status === 'waiting_for_confirmation'}
          running={status === 'running'}
          onFork={onFork}
        />
      );
    case 'failure':
      return <FailureView item={item} onFork={onFork} />;
    case 'note':
      return <NoteView item={item} onFork={onFork} />;
    case 'raw':
      return <RawView item={item} onFork={onFork} />;
  }
}

function MessageView({ item, onFork }: { item: Message; onFork: OnFork }) {
  const { t } = useTranslation();
  const text = textOf(item);
  const images = item.content.flatMap((part) => (part.type === 'image' ? part.urls : []));
  const user = item.from === 'user';
  return (
    <article
      aria-label={t(`timeline.from.${user ? 'user' : item.from === 'agent' ? 'agent' : 'environment'}`)}
      className={clsx(user && 'flex flex-col items-end')}
    >
      {item.reasoning !== '' && <Reasoning text={item.reasoning} />}
      <div
        className={clsx(
          user
            ? 'max-w-[90%] rounded-lg bg-accent-soft px-3.5 py-2.5'
            : item.from !== 'agent' && 'rounded-md border border-line bg-canvas px-3 py-2 text-sm',
        )}
      >
        {user ? (
          <BoundedText text={text} className="whitespace-pre-wrap [overflow-wrap:anywhere]" />
        ) : (
          <Markdown text={text} />
        )}
        {images.length > 0 && (
          <div className="mt-2 flex flex-wrap gap-2">
            <Images urls={images} />
          </div>
        )}
      </div>
      <Aside at={item.at} eventId={item.key} text={text} onFork={onFork} />
    </article>
  );
}

function Reasoning({ text }: { text: string }) {
  const { t } = useTranslation();
  return (
    <details className="mb-1.5 text-sm text-ink-soft">
      <summary className="inline-flex items-center gap-1.5 rounded-sm hover:text-ink">
        <Sparkles size={13} aria-hidden />
        {t('timeline.reasoning')}
      </summary>
      <p className="mt-1 border-l-2 border-line pl-3 whitespace-pre-wrap [overflow-wrap:anywhere]">{text}</p>
    </details>
  );
}

function ThoughtView({ item }: { item: Thought }) {
  return (
    <div>
      {item.reasoning !== '' && <Reasoning text={item.reasoning} />}
      {item.text !== '' && <Markdown text={item.text} />}
    </div>
  );
}

// Where what went wrong can be set otherwise.
function settingsOf(code: string): string {
  return /Budget|Iterations/.test(code) ? '#/settings/general' : '#/settings/model';
}

function FailureView({ item, onFork }: { item: Failure; onFork: OnFork }) {
  const { t } = useTranslation();
  return (
    <section
      aria-label={t('timeline.failure')}
      className="flex gap-2.5 rounded-md border border-bad bg-bad-soft px-3 py-2.5 text-sm"
    >
      <TriangleAlert size={16} className="mt-0.5 shrink-0 text-bad" aria-hidden />
      <div className="min-w-0">
        <p className="font-medium text-bad">{t('timeline.failure')}</p>
        <BoundedText text={relabel(item.detail, t)} className="whitespace-pre-wrap [overflow-wrap:anywhere]" />
        <p className="mt-1 flex flex-wrap gap-x-3 text-xs text-ink-soft">
          <code className="font-mono">{item.code}</code>
          {item.action === 'settings' && (
            <a href={settingsOf(item.code)} className="text-accent-text underline">
              {t('timeline.toSettings')}
            </a>
          )}
        </p>
        <Aside at={item.at} eventId={item.key} onFork={onFork} always />
      </div>
    </section>
  );
}

const noteIcons = {
  paused: Pause,
  interrupted: Square,
  condensed: Scissors,
  stuck: ShieldQuestion,
  moved: Route,
  model: Sparkles,
};

function NoteView({ item, onFork }: { item: Note; onFork: OnFork }) {
  const { t } = useTranslation();
  const Icon = noteIcons[item.note];
  const line = (
    <>
      <Icon size={13} aria-hidden />
      <span>{t(`timeline.notes.${item.note}`, { detail: item.detail })}</span>
    </>
  );
  if (item.note === 'condensed' && item.detail !== '') {
    return (
      <details className="text-[13px] text-ink-soft">
        <summary className="flex items-center gap-1.5">{line}</summary>
        <div className="mt-1 border-l-2 border-line pl-3">
          <Markdown text={item.detail} />
        </div>
      </details>
    );
  }
  // What only tells of a change of the state is no place to go on from.
  const event = item.note === 'paused' || item.note === 'interrupted';
  return (
    <div className="flex min-h-7 items-center gap-1.5 text-[13px] text-ink-soft">
      {line}
      {event && <Aside at={item.at} eventId={item.key} onFork={onFork} />}
    </div>
  );
}

/** Events that have no view of their own: the system prompt, hooks, kinds to come. */
function RawView({ item, onFork }: { item: Raw; onFork: OnFork }) {
  const { t } = useTranslation();
  const [open, setOpen] = useState(false);
  const label =
    item.kind === 'SystemPromptEvent'
      ? t('timeline.systemPrompt')
      : item.kind === 'HookExecutionEvent'
        ? hookLine(item, t)
        : item.kind;
  return (
    <details className="text-[13px] text-ink-soft" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className="flex items-center gap-1.5 hover:text-ink">
        <Braces size={13} aria-hidden />
        {label}
      </summary>
      {open && (
        <div className="prose mt-1 max-h-96 overflow-y-auto">
          <BoundedCode text={rawText(item)} language={item.kind === 'SystemPromptEvent' ? 'markdown' : 'json'} />
        </div>
      )}
      {open && item.kind !== 'Unreadable' && <Aside at={item.at} eventId={item.key} onFork={onFork} always />}
    </details>
  );
}

/** Which hook ran, and why it held something back. */
function hookLine({ event }: Raw, t: TFunction): string {
  const command = visible(text(event.hook_command)).slice(0, 120);
  const name = [t('timeline.hook'), command].filter(Boolean).join(': ');
  if (event.blocked !== true) return name;
  return `${name} · ${t('timeline.hookBlocked', { reason: visible(text(event.reason)).slice(0, 300) })}`;
}

function rawText(item: Raw): string {
  const prompt = item.event.system_prompt as { text?: unknown } | undefined;
  return typeof prompt?.text === 'string' ? prompt.text : JSON.stringify(item.event, null, 2);
}
