import clsx from 'clsx';
import type { TFunction } from 'i18next';
import {
  Ban,
  Bot,
  Check,
  ChevronRight,
  CircleHelp,
  FileText,
  Globe,
  ListChecks,
  Loader,
  type LucideIcon,
  PenLine,
  Plug,
  Search,
  Sparkles,
  Terminal as TerminalIcon,
  TriangleAlert,
  Wrench,
} from 'lucide-react';
import { useId, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { duration, money } from '../lib/format';
import { visible } from '../lib/visible';
import { Aside, type OnFork } from './Aside';
import { BoundedCode, BoundedText } from './bounded';
import { Diff, diffCounts, diffOf } from './Diff';
import { changeOf, exitCode, prettyArgs, resultText, subject, type ToolKind, toolKind } from './describe';
import { parts } from './events';
import type { Risk, Step } from './fold';
import { Images } from './Image';
import { Markdown } from './Markdown';
import { useSubAgent } from './subAgents';
import { Terminal } from './Terminal';
import { useWorkingDir } from './workingDir';

const icons: Record<ToolKind, LucideIcon> = {
  terminal: TerminalIcon,
  edit: PenLine,
  view: FileText,
  search: Search,
  think: Sparkles,
  finish: Check,
  plan: ListChecks,
  browser: Globe,
  task: Bot,
  mcp: Plug,
  other: Wrench,
};

// What the user opened and closed; rows that scroll away are unmounted.
const toggled = new Map<string, boolean>();

interface Props {
  step: Step;
  waiting: boolean; // open steps wait for the user
  running: boolean;
  onFork: OnFork;
}

export function StepView({ step, waiting, running, onFork }: Props) {
  const kind = toolKind(step);
  if (kind === 'finish' && step.state !== 'rejected') return <Finish step={step} onFork={onFork} />;
  return <Foldable step={step} kind={kind} waiting={waiting} running={running} onFork={onFork} />;
}

function Finish({ step, onFork }: { step: Step; onFork: OnFork }) {
  const { t } = useTranslation();
  const said = typeof step.action.message === 'string' ? step.action.message : '';
  return (
    <article aria-label={t('timeline.from.agent')}>
      <Markdown text={said} />
      <Aside at={step.at} eventId={step.answer || undefined} text={said} onFork={onFork} />
    </article>
  );
}

function Foldable({ step, kind, waiting, running, onFork }: Props & { kind: ToolKind }) {
  const { t, i18n } = useTranslation();
  const body = useId();
  const workingDir = useWorkingDir();
  const usual = step.state === 'failed' || (step.state === 'open' && running && !waiting);
  const [open, setOpen] = useState(toggled.get(step.key) ?? usual);
  const [settled, setSettled] = useState(step.state);
  if (settled !== step.state) {
    // A step that went well folds by itself, unless the user decided.
    setSettled(step.state);
    if (!toggled.has(step.key)) setOpen(usual);
  }
  const toggle = () => {
    toggled.set(step.key, !open);
    setOpen(!open);
  };
  const Icon = icons[kind];
  return (
    <div
      className={clsx(
        'rounded-md border',
        step.state === 'failed' ? 'border-bad/50' : 'border-line',
        open && 'bg-canvas',
      )}
    >
      <div className="flex items-center">
        <button
          type="button"
          aria-expanded={open}
          aria-controls={body}
          onClick={toggle}
          className="flex min-h-9 min-w-0 flex-1 items-center gap-2 rounded-md px-2 py-1 text-left text-sm hover:bg-hover focus-visible:-outline-offset-2"
        >
          <ChevronRight
            size={14}
            aria-hidden
            className={clsx('shrink-0 text-ink-faint transition-transform', open && 'rotate-90')}
          />
          <Icon size={15} aria-hidden className="shrink-0 text-ink-soft" />
          <span className="shrink-0 font-medium">{toolLabel(step, kind, t)}</span>
          <span className="min-w-0 flex-1 truncate font-mono text-[13px] text-ink-soft">
            {kind === 'think' ? '' : subject(step, workingDir)}
          </span>
          {kind === 'edit' && <Counts step={step} />}
          <RiskBadge risk={step.risk} />
          <span className="flex shrink-0 items-center gap-2 text-xs text-ink-soft tabular-nums">
            {step.cost !== null && step.cost > 0 && (
              <span title={t('step.cost')}>{money(step.cost, i18n.language)}</span>
            )}
            {step.seconds !== null && step.seconds >= 0.1 && (
              <span title={t('step.duration')}>{duration(step.seconds, i18n.language)}</span>
            )}
          </span>
          <StateMark step={step} waiting={waiting} running={running} />
        </button>
      </div>
      {open && (
        <div id={body} className="space-y-2 px-3 pt-1 pb-3">
          {step.summary !== '' && (
            <p className="text-sm text-ink-soft [overflow-wrap:anywhere]">{visible(step.summary)}</p>
          )}
          <Body step={step} kind={kind} />
          {kind === 'task' && <SubAgentLink step={step} />}
          {step.error !== '' && (
            <BoundedText text={step.error} className="text-sm whitespace-pre-wrap text-bad [overflow-wrap:anywhere]" />
          )}
          <Aside at={step.at} eventId={step.answer || undefined} onFork={onFork} always />
        </div>
      )}
    </div>
  );
}

function SubAgentLink({ step }: { step: Step }) {
  const { t } = useTranslation();
  const conversation = useSubAgent(step);
  if (conversation === null) return null;
  return (
    <p className="text-sm">
      <a href={`#/c/${conversation}`} className="text-accent-text underline">
        {t('details.agents.of')}
      </a>
    </p>
  );
}

export function toolLabel(step: Step, kind: ToolKind, t: TFunction): string {
  if (kind === 'mcp' || kind === 'other') return step.tool;
  return t(`step.kinds.${kind}`);
}

export function RiskBadge({ risk }: { risk: Risk }) {
  const { t } = useTranslation();
  if (risk === 'UNKNOWN') return null;
  const colours = { LOW: 'bg-good-soft text-good', MEDIUM: 'bg-warn-soft text-warn', HIGH: 'bg-bad-soft text-bad' };
  return (
    <span className={clsx('shrink-0 rounded-sm px-1.5 text-xs font-medium', colours[risk])}>
      {t(`step.risk.${risk}`)}
    </span>
  );
}

function Counts({ step }: { step: Step }) {
  const change = changeOf(step);
  if (!change) return null;
  const { added, removed } = diffCounts(diffOf(change.before, change.after));
  return (
    <span className="shrink-0 font-mono text-xs">
      <span className="text-good">+{added}</span> <span className="text-bad">-{removed}</span>
    </span>
  );
}

function StateMark({ step, waiting, running }: { step: Step; waiting: boolean; running: boolean }) {
  const { t } = useTranslation();
  switch (step.state) {
    case 'done':
      return <Check size={15} role="img" aria-label={t('step.states.done')} className="shrink-0 text-good" />;
    case 'failed':
      return <TriangleAlert size={15} role="img" aria-label={t('step.states.failed')} className="shrink-0 text-bad" />;
    case 'rejected':
      return <Ban size={15} role="img" aria-label={t('step.states.rejected')} className="shrink-0 text-warn" />;
    default:
      if (waiting)
        return <CircleHelp size={15} role="img" aria-label={t('step.states.waiting')} className="shrink-0 text-warn" />;
      return running ? (
        <Loader
          size={15}
          role="img"
          aria-label={t('step.states.running')}
          className="shrink-0 animate-spin text-ink-soft"
        />
      ) : null;
  }
}

/** The call and its result. It is also what is confirmed: all of what will run is in it. */
export function Body({ step, kind }: { step: Step; kind: ToolKind }) {
  const output = resultText(step);
  const all = parts(step.result?.content).flatMap((part) => (part.type === 'image' ? part.urls : []));
  const shot = step.result?.screenshot_data;
  if (typeof shot === 'string' && shot !== '') all.push(`data:image/png;base64,${shot}`);
  const images = [...new Set(all)]; // what the model sees is also the screenshot
  switch (kind) {
    case 'terminal':
      return (
        <Terminal
          command={typeof step.action.command === 'string' ? step.action.command : step.args}
          output={output}
          exitCode={exitCode(step)}
        />
      );
    case 'edit': {
      const change = changeOf(step);
      if (change)
        return (
          <>
            <p className="font-mono text-[13px] text-ink-soft [overflow-wrap:anywhere]">{change.path}</p>
            <Diff before={change.before} after={change.after} numbered={change.whole} />
            {step.state === 'failed' && <Output text={output} />}
          </>
        );
      break;
    }
    case 'view':
      return <Output text={output || prettyArgs(step)} />;
    case 'think':
      return <Markdown text={typeof step.action.thought === 'string' ? step.action.thought : ''} />;
    case 'plan':
      return <Output text={output || prettyArgs(step)} />;
  }
  return (
    <>
      <div className="prose">
        <BoundedCode
          text={typeof step.action.patch === 'string' ? step.action.patch : prettyArgs(step)}
          language={typeof step.action.patch === 'string' ? 'diff' : 'json'}
        />
      </div>
      <Output text={output} />
      <Images urls={images} />
    </>
  );
}

function Output({ text }: { text: string }) {
  return text === '' ? null : <Terminal command="" output={text} exitCode={null} />;
}
