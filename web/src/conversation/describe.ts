// What a tool call is about, in one line, and what of it is shown.
import { visible } from '../lib/visible';
import { number, plainText, text } from './events';
import type { Step } from './fold';

export type ToolKind =
  | 'terminal'
  | 'edit'
  | 'view'
  | 'search'
  | 'think'
  | 'finish'
  | 'plan'
  | 'browser'
  | 'task'
  | 'mcp'
  | 'other';

export function toolKind(step: Step): ToolKind {
  const kind = text(step.action.kind);
  if (kind === 'TerminalAction' || step.tool === 'terminal') return 'terminal';
  if (kind === 'FinishAction') return 'finish';
  if (kind === 'ThinkAction') return 'think';
  if (kind === 'FileEditorAction' || kind === 'PlanningFileEditorAction')
    return step.action.command === 'view' ? 'view' : 'edit';
  if (kind === 'ApplyPatchAction' || /^(edit|write_file)$/.test(step.tool)) return 'edit';
  if (/^(glob|grep|read_file|list_directory)$/.test(step.tool)) return step.tool === 'read_file' ? 'view' : 'search';
  if (kind === 'TaskTrackerAction') return 'plan';
  if (kind.startsWith('Browser')) return 'browser';
  if (kind === 'TaskAction' || step.tool === 'task') return 'task';
  if (kind === 'MCPToolAction') return 'mcp';
  return 'other';
}

/**
 * What a call is about, in a line: its command, path or question; else what the model says
 * that it is for, else its arguments. Paths below the working directory go without it.
 */
export function subject(step: Step, workingDir: string): string {
  const a = step.action;
  const line =
    text(a.command) && toolKind(step) === 'terminal'
      ? text(a.command)
      : text(a.path) || text(a.file_path) || text(a.url) || text(a.pattern) || text(a.query) || text(a.description);
  // A line has no room for more.
  const short = visible((line || step.summary || (toolKind(step) === 'plan' ? '' : step.args)).slice(0, 500))
    .replace(/\s+/g, ' ')
    .trim();
  return workingDir !== '' && short.startsWith(`${workingDir}/`) ? short.slice(workingDir.length + 1) : short;
}

export interface Change {
  path: string;
  before: string;
  after: string;
  whole: boolean; // both are whole files
}

/** The change of a file that a call makes or has made; null if it is no such call. */
export function changeOf(step: Step): Change | null {
  const a = step.action;
  const r = step.result ?? {};
  const path = text(a.path) || text(a.file_path) || text(r.path);
  if (typeof r.new_content === 'string')
    return { path, before: text(r.old_content), after: r.new_content, whole: true };
  if (typeof a.file_text === 'string') return { path, before: '', after: a.file_text, whole: true };
  if (typeof a.content === 'string' && step.tool === 'write_file')
    return { path, before: '', after: a.content, whole: true };
  if (typeof a.old_str === 'string') return { path, before: a.old_str, after: text(a.new_str), whole: false };
  if (typeof a.old_string === 'string') return { path, before: a.old_string, after: text(a.new_string), whole: false };
  if (typeof a.new_str === 'string') return { path, before: '', after: a.new_str, whole: false };
  return null;
}

export function resultText(step: Step): string {
  return plainText(step.result?.content);
}

export function exitCode(step: Step): number | null {
  return number(step.result?.exit_code);
}

export function prettyArgs(step: Step): string {
  try {
    return visible(JSON.stringify(JSON.parse(step.args), null, 2));
  } catch {
    return visible(step.args);
  }
}
