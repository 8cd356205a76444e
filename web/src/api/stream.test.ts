import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Stream, type StreamState } from './sse';

// The server's side: one connection after the other, each written to by hand.
interface Connection {
  url: string;
  signal: AbortSignal;
  send: (text: string) => void;
  end: () => void;
}

const connections: Connection[] = [];
const states: StreamState[] = [];
let last = -1;
let stream: Stream;
let visibility: DocumentVisibilityState;

beforeEach(() => {
  vi.useFakeTimers();
  connections.length = states.length = 0;
  last = -1;
  visibility = 'visible';
  vi.spyOn(document, 'visibilityState', 'get').mockImplementation(() => visibility);
  vi.stubGlobal('fetch', (url: string, { signal }: { signal: AbortSignal }) => {
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        connections.push({
          url,
          signal,
          send: (text) => controller.enqueue(new TextEncoder().encode(text)),
          end: () => controller.close(),
        });
        signal.addEventListener('abort', () => controller.error(signal.reason));
      },
    });
    return Promise.resolve(new Response(body));
  });
  stream = new Stream({
    url: () => `after=${last}`,
    headers: () => ({}),
    onFrame: (frame) => {
      last = Number(frame.id);
    },
    onState: (state) => states.push(state),
    onRefused: () => true,
  });
});

afterEach(() => {
  stream.close();
  vi.useRealTimers();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);
const look = (state: DocumentVisibilityState) => {
  visibility = state;
  document.dispatchEvent(new Event('visibilitychange'));
};

it('goes on after the last event when a connection ends, cut in the middle of one', async () => {
  await pass(0);
  connections[0]?.send('id: 0\ndata: {}\n\nid: 1\ndata: {"ha');
  await pass(0);
  connections[0]?.end();
  await pass(1000);
  expect(connections.map((each) => each.url)).toEqual(['after=-1', 'after=0']);
  expect(states).toEqual(['connecting', 'open', 'waiting', 'connecting', 'open']);
});

it('leaves a connection that is silent for longer than heartbeats come', async () => {
  await pass(0);
  for (let i = 0; i < 5; i++) {
    await pass(10_000);
    connections[0]?.send(': heartbeat\n\n');
  }
  expect(connections).toHaveLength(1);
  await pass(32_000);
  expect(connections[0]?.signal.aborted).toBe(true);
  expect(connections).toHaveLength(2);
});

it('does not wait for the rest of the silence after the computer slept', async () => {
  await pass(0);
  vi.setSystemTime(Date.now() + 3_600_000); // timers stand still meanwhile
  document.dispatchEvent(new Event('resume'));
  await pass(500);
  expect(connections).toHaveLength(2);
});

it('leaves its connection to others while nobody looks, and goes on when somebody does', async () => {
  await pass(0);
  connections[0]?.send('id: 6\ndata: {}\n\n');
  look('hidden');
  await pass(29_000);
  connections[0]?.send(': heartbeat\n\n');
  expect(connections[0]?.signal.aborted).toBe(false);
  await pass(60_000);
  expect(connections[0]?.signal.aborted).toBe(true);
  expect(connections).toHaveLength(1);
  look('visible');
  await pass(0);
  expect(connections.map((each) => each.url)).toEqual(['after=-1', 'after=6']);
});

it('keeps its connection when somebody looks away for a moment', async () => {
  await pass(0);
  look('hidden');
  await pass(5000);
  look('visible');
  for (let i = 0; i < 6; i++) {
    connections[0]?.send(': heartbeat\n\n');
    await pass(10_000);
  }
  expect(connections).toHaveLength(1);
});
