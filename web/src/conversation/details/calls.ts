// The model calls of a conversation, from the totals that its log has after each of
// them: a call is the difference between two totals.
import { eventTime } from '../../lib/format';
import { type LogEvent, number, record, text } from '../events';

export interface Amounts {
  cost: number; // USD
  prompt: number; // tokens, those of the cache included
  cached: number; // tokens of the prompt that were read from the cache
  completion: number; // tokens, reasoning included
}

export interface Call extends Amounts {
  id: string; // unique in the list
  at: number; // ms, when it was recorded
  use: string; // agent, title, condenser, ...
  model: string;
  seconds: number | null;
}

export interface Calls {
  calls: Call[]; // oldest first
  before: Amounts; // what came before the first of them
}

export function nothing(): Amounts {
  return { cost: 0, prompt: 0, cached: 0, completion: 0 };
}

/**
 * Reads the calls out of events, oldest first. If they are not all there are (whole is
 * false), the first totals only say what came before.
 */
export function callsOf(events: readonly LogEvent[], whole: boolean): Calls {
  const last = new Map<string, Amounts>();
  let calls: Call[] = [];
  let before = nothing();
  let told = whole;
  for (const event of events) {
    if (event.kind !== 'ConversationStateUpdateEvent' || event.key !== 'stats') continue;
    const value = record(event.value);
    const uses = Object.entries(record(value.usage_to_metrics)).map(([use, each]) => ({ use, metrics: record(each) }));
    // Totals that fall are those of a copy, which counts from nothing again.
    const fell = uses.some(({ use, metrics }) => isLess(amounts(metrics), last.get(use)));
    if (fell) {
      calls = [];
      before = nothing();
      last.clear();
    }
    for (const { use, metrics } of uses) {
      const now = amounts(metrics);
      const old = last.get(use) ?? nothing();
      last.set(use, now);
      if (!told) {
        before = plus(before, now);
        continue;
      }
      const used = minus(now, old);
      if (used.cost <= 0 && used.prompt <= 0 && used.completion <= 0) continue;
      calls.push({
        ...used,
        id: `${event.id}/${use}`,
        at: eventTime(event.timestamp).getTime(),
        use,
        model: text(record(metrics.accumulated_token_usage).model) || text(metrics.model_name),
        seconds: number(record(value.latency)[use]),
      });
    }
    told = true;
  }
  return { calls, before };
}

function amounts(metrics: Record<string, unknown>): Amounts {
  const tokens = record(metrics.accumulated_token_usage);
  return {
    cost: number(metrics.accumulated_cost) ?? 0,
    prompt: number(tokens.prompt_tokens) ?? 0,
    cached: number(tokens.cache_read_tokens) ?? 0,
    completion: number(tokens.completion_tokens) ?? 0,
  };
}

function isLess(now: Amounts, old: Amounts | undefined): boolean {
  return old !== undefined && (now.prompt < old.prompt || now.completion < old.completion || now.cost < old.cost);
}

export function plus(a: Amounts, b: Amounts): Amounts {
  return {
    cost: a.cost + b.cost,
    prompt: a.prompt + b.prompt,
    cached: a.cached + b.cached,
    completion: a.completion + b.completion,
  };
}

function minus(a: Amounts, b: Amounts): Amounts {
  return {
    cost: Math.max(0, a.cost - b.cost),
    prompt: Math.max(0, a.prompt - b.prompt),
    cached: Math.max(0, a.cached - b.cached),
    completion: Math.max(0, a.completion - b.completion),
  };
}

/** Some calls after each other, as one mark of the chart. */
export interface Group extends Amounts {
  calls: number;
  from: number; // ms
  to: number;
  total: number; // USD, all that came before included
}

/** Puts calls that follow each other together, into at most so many groups of one size. */
export function groupCalls({ calls, before }: Calls, most: number): Group[] {
  const size = Math.max(1, Math.ceil(calls.length / most));
  const groups: Group[] = [];
  let total = before.cost;
  for (let i = 0; i < calls.length; i += size) {
    const part = calls.slice(i, i + size);
    const sum = part.reduce<Amounts>(plus, nothing());
    total += sum.cost;
    groups.push({ ...sum, calls: part.length, from: part[0]?.at ?? 0, to: part.at(-1)?.at ?? 0, total });
  }
  return groups;
}

/** The round number above a value: where an axis ends. */
export function axisEnd(value: number): number {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 2, 2.5, 5, 10].find((each) => each * power >= value * (1 - 1e-9)) ?? 10;
  return Number((step * power).toPrecision(3));
}
