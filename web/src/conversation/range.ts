// Parts of a log by number, over the stream: pages of the search go by ids and by the
// hundred only.
import { ApiError, api, ask, base } from '../api/client';
import { readFrames } from '../api/sse';
import { currentKey } from '../session/session';

/** Address and headers of a conversation's stream after an event. */
export function streamOf(id: string, after: number): { url: string; headers: Record<string, string> } {
  const key = currentKey();
  return {
    url: `${base}/api/v1/conversation/${id}/events/stream?after_seq=${after}`,
    headers: { Accept: 'text/event-stream', ...(key === null ? {} : { Authorization: `Bearer ${key}` }) },
  };
}

/** How many events the conversation has. */
export function countEvents(id: string, before?: string): Promise<number> {
  return ask(
    api.GET('/api/v1/conversation/{conversation_id}/events/count', {
      params: { path: { conversation_id: id }, ...(before === undefined ? {} : { query: { timestamp__lt: before } }) },
    }),
  );
}

/** When an event of the conversation was; null if there is none of that id. */
export async function timeOf(id: string, event: string): Promise<string | null> {
  const [found] = await ask(
    api.GET('/api/v1/conversation/{conversation_id}/events', {
      params: { path: { conversation_id: id }, query: { id: [event] } },
    }),
  );
  return found?.timestamp ?? null;
}

/** Hands over the events from one number up to another (not with it), in their order. */
export async function readRange(
  id: string,
  from: number,
  to: number,
  each: (seq: number, data: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const { url, headers } = streamOf(id, from - 1);
  const answer = await fetch(url, { headers, cache: 'no-store', signal });
  if (!answer.ok || answer.body === null) throw new ApiError(answer.status, '', '');
  let next = from;
  await readFrames(answer.body, (frame) => {
    if (frame.id === '') return true;
    each(Number(frame.id), frame.data);
    next = Number(frame.id) + 1;
    return next < to;
  });
  if (next < to) throw new ApiError(0, 'unreachable', '');
}

// What the page asks for before the conversation's part of it has been loaded.
let early: { id: string; count: Promise<number> } | null = null;

/** Asks for the number of events of a conversation that is about to be opened. */
export function countEarly(id: string): void {
  early = { id, count: countEvents(id) };
  early.count.catch(() => {}); // who takes it is told
}

/** The number that was asked for, once; else it is asked for now. */
export function takeCount(id: string): Promise<number> {
  const taken = early?.id === id ? early.count : countEvents(id);
  early = null;
  return taken;
}
