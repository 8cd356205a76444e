import { useQuery } from '@tanstack/react-query';
import type { TFunction } from 'i18next';
import { useEffect, useMemo, useState } from 'react';
import { useTranslation } from 'react-i18next';
import type { Conversation, Schema } from '../../api/client';
import { explainError } from '../../lib/errors';
import { count, duration, money } from '../../lib/format';
import { Button } from '../../ui/Button';
import type { Usage } from '../fold';
import { Columns, Legend } from './Chart';
import { axisEnd, type Call, callsOf, type Group, groupCalls } from './calls';
import { spending, stateUpdates } from './queries';

const columns = 60;
const rows = 100;

/** What the conversation's model calls cost, over time. */
export function Costs({ conversation, usage }: { conversation: Conversation; usage: Usage | null }) {
  const { t, i18n } = useTranslation();
  const updates = useQuery(stateUpdates(conversation.id));
  const sums = useQuery(spending(conversation.id));
  const data = useMemo(() => updates.data && callsOf(updates.data.events, updates.data.whole), [updates.data]);

  // A call that was made since shows in the totals of the timeline.
  const told = usage === null ? '' : `${usage.cost}/${usage.prompt}/${usage.completion}`;
  const { refetch: readUpdates } = updates;
  const { refetch: readSums } = sums;
  useEffect(() => {
    if (told === '') return;
    void readUpdates();
    void readSums();
  }, [told, readUpdates, readSums]);

  const clock = clockFor(data?.calls[0]?.at ?? 0, data?.calls.at(-1)?.at ?? 0, i18n.language);
  const error = updates.error ?? sums.error;
  return (
    <div className="space-y-6">
      {error && <p className="text-sm text-bad">{explainError(error, t)}</p>}
      {sums.data && <Sums sums={sums.data} />}
      {data && data.calls.length === 0 && <p className="text-sm text-ink-soft">{t('details.cost.none')}</p>}
      {data && data.calls.length > 0 && (
        <>
          {updates.data?.whole === false && (
            <p className="text-sm text-ink-soft">{t('details.cost.part', { count: data.calls.length })}</p>
          )}
          <Charts groups={groupCalls(data, columns)} clock={clock} />
          <Table calls={data.calls} clock={clock} />
        </>
      )}
    </div>
  );
}

function Sums({ sums }: { sums: Schema['ConversationUsage'] }) {
  const { t, i18n } = useTranslation();
  const { own, by_use: byUse, with_sub_conversations: all, max_budget_per_task: most } = sums;
  const figures = [
    { label: t('details.cost.own'), value: money(own.cost, i18n.language) },
    { label: t('details.cost.withAgents'), value: all.calls > own.calls && money(all.cost, i18n.language) },
    { label: t('details.cost.uncertain'), value: own.uncertain_cost > 0 && money(own.uncertain_cost, i18n.language) },
    { label: t('details.cost.budget'), value: most !== null && money(most, i18n.language) },
    { label: t('details.cost.calls'), value: count(own.calls, i18n.language) },
    { label: t('details.cost.read'), value: count(own.prompt_tokens, i18n.language) },
    {
      label: t('details.cost.cached'),
      value: own.cache_read_tokens > 0 && share(own.cache_read_tokens, own.prompt_tokens, i18n.language),
    },
    { label: t('details.cost.written'), value: count(own.completion_tokens, i18n.language) },
  ].filter((each) => each.value !== false);
  const others = Object.entries(byUse).filter(([use, each]) => use !== 'agent' && each.calls > 0);
  return (
    <div className="space-y-1.5">
      <dl className="flex flex-wrap gap-x-6 gap-y-2">
        {figures.map(({ label, value }) => (
          <div key={label}>
            <dt className="text-xs text-ink-soft">{label}</dt>
            <dd className="font-medium tabular-nums">{value}</dd>
          </div>
        ))}
      </dl>
      {others.length > 0 && (
        <p className="text-[13px] text-ink-soft">
          {t('details.cost.ofIt', {
            list: others.map(([use, each]) => `${nameOfUse(use, t)} ${money(each.cost, i18n.language)}`).join(', '),
          })}
        </p>
      )}
    </div>
  );
}

function share(part: number, whole: number, language: string): string {
  return new Intl.NumberFormat(language, { style: 'percent' }).format(whole > 0 ? part / whole : 0);
}

function nameOfUse(use: string, t: TFunction): string {
  switch (use) {
    case 'agent':
    case 'title':
    case 'condenser':
    case 'analyzer':
      return t(`details.cost.uses.${use}`);
    default:
      return use;
  }
}

const tokenColours = ['fill-info', 'fill-accent', 'fill-warn'] as const;
const costColours = ['fill-line-strong', 'fill-accent'] as const;

function Charts({ groups, clock }: { groups: Group[]; clock: Clock }) {
  const { t, i18n } = useTranslation();
  const language = i18n.language;
  const last = groups.at(-1);
  const ends = {
    from: clock(groups[0]?.from ?? 0),
    to: groups.length > 1 ? clock(last?.to ?? 0) : '',
  };
  const costEnd = axisEnd(last?.total ?? 0);
  const tokenEnd = axisEnd(Math.max(...groups.map((each) => each.prompt + each.completion)));
  const when = (each: Group) =>
    each.calls === 1
      ? clock(each.from)
      : t('details.cost.several', {
          count: each.calls,
          from: clock(each.from),
          to: clock(each.to),
        });
  const cached = groups.some((each) => each.cached > 0);
  const most = groups[0]?.calls ?? 1;
  return (
    <div className="space-y-5">
      {most > 1 && <p className="text-[13px] text-ink-soft">{t('details.cost.grouped', { count: most })}</p>}
      {last && last.total > 0 ? (
        <div>
          <Columns
            label={t('details.cost.costChart')}
            top={money(costEnd, language)}
            end={costEnd}
            colours={costColours}
            {...ends}
            columns={groups.map((each) => ({
              parts: [each.total - each.cost, each.cost],
              title: `${when(each)}: ${money(each.cost, language)} → ${money(each.total, language)}`,
            }))}
          />
          <Legend
            entries={[
              { label: t('details.cost.ofCall'), colour: 'bg-accent' },
              { label: t('details.cost.ofEarlier'), colour: 'bg-line-strong' },
            ]}
          />
        </div>
      ) : (
        <p className="text-sm text-ink-soft">{t('details.cost.free')}</p>
      )}
      <div>
        <Columns
          label={t('details.cost.tokenChart')}
          top={count(tokenEnd, language)}
          end={tokenEnd}
          colours={tokenColours}
          {...ends}
          columns={groups.map((each) => ({
            parts: [each.cached, Math.max(0, each.prompt - each.cached), each.completion],
            title: `${when(each)}: ${t('details.cost.tokensOf', {
              prompt: count(each.prompt, language),
              completion: count(each.completion, language),
            })}`,
          }))}
        />
        <Legend
          entries={[
            { label: t('details.cost.written'), colour: 'bg-warn' },
            { label: t(cached ? 'details.cost.fresh' : 'details.cost.read'), colour: 'bg-accent' },
            ...(cached ? [{ label: t('details.cost.fromCache'), colour: 'bg-info' }] : []),
          ]}
        />
      </div>
    </div>
  );
}

type Clock = (ms: number) => string;

/** Times as short as they can be: without the day, if all are of one. */
function clockFor(first: number, last: number, language: string): Clock {
  const day = (ms: number) => new Date(ms).toLocaleDateString(language, { dateStyle: 'short' });
  const time = (ms: number) => new Date(ms).toLocaleTimeString(language, { timeStyle: 'medium' });
  return day(first) === day(last) ? time : (ms) => `${day(ms)} ${time(ms)}`;
}

/** The calls one by one, the newest first. */
function Table({ calls, clock }: { calls: Call[]; clock: Clock }) {
  const { t, i18n } = useTranslation();
  const [open, setOpen] = useState(false);
  const [shown, setShown] = useState(rows);
  const language = i18n.language;
  const head = 'px-2 py-1 text-left font-medium whitespace-nowrap';
  const figure = 'px-2 py-1 text-right tabular-nums whitespace-nowrap';
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)} className="text-sm">
      <summary className="rounded-sm font-medium hover:text-ink">{t('details.cost.table')}</summary>
      {open && (
        // biome-ignore lint/a11y/useSemanticElements: it scrolls, so it must be reached with the keyboard
        <div role="region" aria-label={t('details.cost.table')} tabIndex={0} className="mt-2 overflow-x-auto">
          <table className="w-full text-[13px]">
            <thead className="border-b border-line text-ink-soft">
              <tr>
                <th className={head}>{t('details.cost.time')}</th>
                <th className={`${head} !text-right`}>{t('details.cost.cost')}</th>
                <th className={`${head} !text-right`}>{t('details.cost.read')}</th>
                <th className={`${head} !text-right`}>{t('details.cost.written')}</th>
                <th className={`${head} !text-right`}>{t('details.cost.took')}</th>
                <th className={head}>{t('details.cost.use')}</th>
                <th className={head}>{t('details.cost.model')}</th>
              </tr>
            </thead>
            <tbody className="divide-y divide-line">
              {calls
                .slice(-shown)
                .reverse()
                .map((call) => (
                  <tr key={call.id}>
                    <td className="px-2 py-1 whitespace-nowrap tabular-nums">{clock(call.at)}</td>
                    <td className={figure}>{money(call.cost, language)}</td>
                    <td className={figure}>{count(call.prompt, language)}</td>
                    <td className={figure}>{count(call.completion, language)}</td>
                    <td className={figure}>{call.seconds === null ? '–' : duration(call.seconds, language)}</td>
                    <td className="px-2 py-1">{nameOfUse(call.use, t)}</td>
                    <td className="max-w-48 truncate px-2 py-1">{call.model}</td>
                  </tr>
                ))}
            </tbody>
          </table>
          {calls.length > shown && (
            <Button small className="mt-2" onClick={() => setShown(shown + rows)}>
              {t('list.more')}
            </Button>
          )}
        </div>
      )}
    </details>
  );
}
