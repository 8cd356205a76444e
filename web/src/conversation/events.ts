// Events of a conversation's log as the UI reads them. What comes from the log is
// checked where it is used: unknown kinds and members must never break the page.
import { isRecord } from '../api/client';

export interface LogEvent {
  readonly id: string;
  readonly kind: string;
  readonly timestamp: string;
  readonly source: string;
  readonly [member: string]: unknown;
}

export type Part = { type: 'text'; text: string } | { type: 'image'; urls: string[] };

export function parseEvent(data: string): LogEvent | null {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch {
    return null;
  }
  return isEvent(value) ? value : null;
}

export function isEvent(value: unknown): value is LogEvent {
  return isRecord(value) && typeof value.id === 'string' && typeof value.kind === 'string';
}

export function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

export function record(value: unknown): Record<string, unknown> {
  return isRecord(value) ? value : {};
}

export function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

export function number(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}

export function parts(content: unknown): Part[] {
  const out: Part[] = [];
  for (const each of list(content)) {
    const part = record(each);
    if (typeof part.text === 'string') out.push({ type: 'text', text: part.text });
    else if (Array.isArray(part.image_urls)) out.push({ type: 'image', urls: part.image_urls.map(text) });
  }
  return out;
}

export function plainText(content: unknown): string {
  return parts(content)
    .map((part) => (part.type === 'text' ? part.text : ''))
    .join('\n')
    .trim();
}
