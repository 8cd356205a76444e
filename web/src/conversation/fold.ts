// What the timeline shows, as a fold over the known range of the log.
import { eventTime } from '../lib/format';
import { type LogEvent, number, type Part, parts, plainText, record, text } from './events';
import type { EventLog } from './log';

export type Risk = 'UNKNOWN' | 'LOW' | 'MEDIUM' | 'HIGH';
export type StepState = 'open' | 'done' | 'failed' | 'rejected' | 'unknown';
export type Status =
  | 'idle'
  | 'running'
  | 'paused'
  | 'waiting_for_confirmation'
  | 'finished'
  | 'error'
  | 'stuck'
  | 'deleting';

interface Common {
  key: string; // the id of the event it began with
  seq: number;
  at: string;
}

export interface Message extends Common {
  type: 'message';
  from: string; // source of the event
  content: Part[];
  reasoning: string;
}

export interface Thought extends Common {
  type: 'thought';
  text: string;
  reasoning: string;
}

export interface Step extends Common {
  type: 'step';
  tool: string;
  callId: string;
  action: Record<string, unknown>;
  args: string; // as the model wrote them
  summary: string;
  risk: Risk;
  state: StepState;
  result: Record<string, unknown> | null;
  error: string; // why it failed or was refused
  seconds: number | null; // until it was answered
  cost: number | null; // of the model call that asked for it; once for several steps
  answer: string; // id of the event that answered it
}

export interface Failure extends Common {
  type: 'failure';
  code: string;
  detail: string;
  action: string; // none, retry, settings
}

export interface Note extends Common {
  type: 'note';
  note: 'paused' | 'interrupted' | 'condensed' | 'stuck' | 'moved' | 'model';
  detail: string;
}

export interface Raw extends Common {
  type: 'raw';
  kind: string;
  event: LogEvent;
}

export type Item = Message | Thought | Step | Failure | Note | Raw;

export interface Task {
  title: string;
  status: string;
  notes: string;
}

export interface Usage {
  cost: number;
  prompt: number;
  completion: number;
}

export interface Timeline {
  items: Item[];
  status: Status | null; // null: no event in the range tells
  usage: Usage | null;
  notes: Record<string, unknown>; // agent_state
  notesAt: string;
  tasks: Task[];
  waiting: Step[]; // steps without an answer
  failures: number[]; // places in items of what went wrong
  model: string | null;
}

/** What a message says in words. */
export function textOf(message: Message): string {
  return message.content
    .map((part) => (part.type === 'text' ? part.text : ''))
    .join('\n')
    .trim();
}

/** Folds the known range. The result depends on the events alone, not on how they came. */
export function fold(log: EventLog): Timeline {
  return new Fold(log).timeline();
}

/** The fold of a log that grows: what comes at its end is added to what is there. */
export class Fold {
  readonly #log: EventLog;
  #folder: Folder;
  #low: number;
  #next: number;

  constructor(log: EventLog) {
    this.#log = log;
    this.#low = this.#next = log.low;
    this.#folder = new Folder(log.low === 0);
  }

  /** The timeline as it is now. One that was returned before is not changed. */
  timeline(): Timeline {
    const log = this.#log;
    if (log.low !== this.#low) {
      // What is older may tell of anything that follows: whose output it was, what it cost.
      this.#low = this.#next = log.low;
      this.#folder = new Folder(log.low === 0);
    }
    for (; this.#next < log.high; this.#next++) {
      const event = log.at(this.#next);
      if (event) this.#folder.add(this.#next, event);
    }
    return this.#folder.timeline();
  }
}

/** The state of a fold. Items that a timeline has are replaced, never changed. */
export class Folder {
  readonly #items: Item[] = [];
  #shown = 0; // items before this place are in a timeline
  readonly #open = new Set<number>(); // places of steps without an answer
  readonly #failures: number[] = []; // places of what went wrong, in order
  readonly #steps = new Map<string, number>(); // places in items by tool call
  readonly #byAction = new Map<string, number>();
  #status: Status | null = null;
  #usage: Usage | null;
  #notes: Record<string, unknown> = {};
  #notesAt = '';
  #tasks: Task[] = [];
  #model: string | null = null;
  #answer: number | null = null; // place of the first step of the last answer, which its cost is shown at

  constructor(fromStart: boolean) {
    this.#usage = fromStart ? { cost: 0, prompt: 0, completion: 0 } : null;
  }

  add(seq: number, event: LogEvent): void {
    const common: Common = { key: event.id, seq, at: event.timestamp };
    switch (event.kind) {
      case 'MessageEvent':
        return this.#message(common, event);
      case 'ActionEvent':
        return this.#action(common, event);
      case 'ObservationEvent':
      case 'UserRejectObservation':
      case 'AgentErrorEvent':
        return this.#outcome(common, event);
      case 'ConversationStateUpdateEvent':
        return this.#state(common, event);
      case 'ConversationErrorEvent':
        this.#failed(this.#items.length, true);
        this.#items.push({
          ...common,
          type: 'failure',
          code: text(event.code),
          detail: text(event.detail),
          action: text(record(event.classification).user_action),
        });
        return;
      case 'PauseEvent':
        this.#items.push({ ...common, type: 'note', note: 'paused', detail: '' });
        return;
      case 'InterruptEvent':
        this.#items.push({ ...common, type: 'note', note: 'interrupted', detail: '' });
        return;
      case 'Condensation':
        this.#items.push({ ...common, type: 'note', note: 'condensed', detail: text(event.summary) });
        return;
      case 'CondensationRequest':
        return;
      default:
        this.#items.push({ ...common, type: 'raw', kind: event.kind, event });
    }
  }

  #message(common: Common, event: LogEvent): void {
    const message = record(event.llm_message);
    this.#answer = null;
    this.#items.push({
      ...common,
      type: 'message',
      from: event.source,
      content: parts(message.content),
      reasoning: text(message.reasoning_content),
    });
  }

  #action(common: Common, event: LogEvent): void {
    const said = plainText(event.thought);
    const reasoning = text(event.reasoning_content);
    if (said !== '' || reasoning !== '') {
      this.#items.push({ ...common, key: `${common.key}/thought`, type: 'thought', text: said, reasoning });
    }
    const call = record(event.tool_call);
    const step: Step = {
      key: common.key,
      seq: common.seq,
      at: common.at,
      type: 'step',
      tool: text(event.tool_name),
      callId: text(event.tool_call_id),
      action: record(event.action),
      args: text(call.arguments),
      summary: summaryOf(event),
      risk: riskOf(event.security_risk),
      state: 'open',
      result: null,
      error: '',
      seconds: null,
      cost: null,
      answer: '',
    };
    const at = this.#items.push(step) - 1;
    this.#steps.set(step.callId, at);
    this.#byAction.set(event.id, at);
    this.#answer ??= at;
    this.#open.add(at);
  }

  #outcome(common: Common, event: LogEvent): void {
    this.#answer = null;
    const at = this.#byAction.get(text(event.action_id)) ?? this.#steps.get(text(event.tool_call_id));
    if (at === undefined) return; // its action is in a part of the log that is not loaded
    this.#open.delete(at);
    const step = this.#step(at);
    const failed = step.state === 'failed';
    this.#answered(step, common, event);
    if (failed !== (step.state === 'failed')) this.#failed(at, !failed);
  }

  #answered(step: Step, common: Common, event: LogEvent): void {
    step.answer = event.id;
    step.seconds = Math.max(0, (eventTime(common.at).getTime() - eventTime(step.at).getTime()) / 1000);
    if (event.kind === 'UserRejectObservation') {
      step.state = 'rejected';
      step.error = text(event.rejection_reason);
      return;
    }
    if (event.kind === 'AgentErrorEvent') {
      step.state = 'failed';
      step.error = text(event.error);
      return;
    }
    const result = record(event.observation);
    step.result = result;
    const code = number(result.exit_code);
    step.state = result.is_error === true || (code !== null && code > 0) ? 'failed' : 'done';
    if (Array.isArray(result.task_list)) this.#tasks = result.task_list.map(taskOf);
  }

  #state(common: Common, event: LogEvent): void {
    const value = event.value;
    switch (event.key) {
      case 'execution_status':
        this.#status = text(value) as Status;
        this.#answer = null;
        // As a rule an error before it says more.
        if (value === 'stuck' && this.#items.at(-1)?.type !== 'failure')
          this.#items.push({ ...common, type: 'note', note: 'stuck', detail: '' });
        return;
      case 'stats':
        return this.#stats(value);
      case 'agent_state':
        this.#notes = record(value);
        this.#notesAt = common.at;
        return;
      case 'leaf_event_id':
        this.#items.push({ ...common, type: 'note', note: 'moved', detail: '' });
        return;
      case 'current_model_id':
        this.#model = text(value);
        this.#items.push({ ...common, type: 'note', note: 'model', detail: text(value) });
    }
  }

  #stats(value: unknown): void {
    const total: Usage = { cost: 0, prompt: 0, completion: 0 };
    for (const each of Object.values(record(record(value).usage_to_metrics))) {
      const metrics = record(each);
      const tokens = record(metrics.accumulated_token_usage);
      total.cost += number(metrics.accumulated_cost) ?? 0;
      total.prompt += number(tokens.prompt_tokens) ?? 0;
      total.completion += number(tokens.completion_tokens) ?? 0;
    }
    if (this.#usage && this.#answer !== null)
      this.#step(this.#answer).cost = Math.max(0, total.cost - this.#usage.cost);
    this.#usage = total;
  }

  // Notes that what is at a place went wrong, or did not after all; it is near the end.
  #failed(at: number, wrong: boolean): void {
    let place = this.#failures.length;
    while (place > 0 && (this.#failures[place - 1] ?? 0) >= at) place--;
    if (wrong) this.#failures.splice(place, 0, at);
    else this.#failures.splice(place, 1);
  }

  // The step at a place, to be changed.
  #step(at: number): Step {
    const step = this.#items[at] as Step;
    if (at >= this.#shown) return step;
    const copy = { ...step };
    this.#items[at] = copy;
    return copy;
  }

  timeline(): Timeline {
    this.#shown = this.#items.length;
    return {
      items: this.#items.slice(),
      status: this.#status,
      usage: this.#usage,
      notes: this.#notes,
      notesAt: this.#notesAt,
      tasks: this.#tasks,
      waiting: Array.from(this.#open, (at) => this.#items[at] as Step),
      failures: this.#failures.slice(),
      model: this.#model,
    };
  }
}

// Where the model says nothing, the server puts the call itself there.
function summaryOf(event: LogEvent): string {
  const said = text(event.summary).trim();
  return said.startsWith(`${text(event.tool_name)}: `) ? '' : said;
}

function riskOf(value: unknown): Risk {
  return value === 'LOW' || value === 'MEDIUM' || value === 'HIGH' ? value : 'UNKNOWN';
}

function taskOf(value: unknown): Task {
  const task = record(value);
  return { title: text(task.title), status: text(task.status), notes: text(task.notes) };
}
