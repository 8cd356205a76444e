// What several views ask the server for, and what they change.
import { infiniteQueryOptions, queryOptions, useMutation, useQueryClient } from '@tanstack/react-query';
import { currentKey } from '../session/session';
import { ApiError, api, ask, base, type Conversation, explain, type Schema } from './client';

export const serverInfo = queryOptions({
  queryKey: ['server'],
  queryFn: async () => {
    const got = await ask(api.GET('/server_info'));
    return { version: String(got.parley_version), demo: (got as { demo?: unknown }).demo === true };
  },
  staleTime: Number.POSITIVE_INFINITY,
});

// Keys are never shown: members that tell of them are left out by the types of the answer.
async function loadSettings() {
  try {
    return await ask(api.GET('/api/v1/settings'));
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

export type Settings = NonNullable<Awaited<ReturnType<typeof loadSettings>>>;

/** The settings; null if the user stored none yet. */
export const settings = queryOptions({ queryKey: ['settings'], queryFn: loadSettings });

export function useStoreSettings() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (change: Schema['SettingsChange']) => ask(api.POST('/api/v1/settings', { body: change })),
    onSuccess: () => client.invalidateQueries({ queryKey: ['settings'] }),
    meta: { quiet: true },
  });
}

export const sandboxSpecs = queryOptions({
  queryKey: ['specs'],
  queryFn: async () => (await ask(api.GET('/api/v1/sandbox-specs/search'))).items,
  staleTime: 60_000,
});

/** Names of models that begin with, or have, what was typed. */
export const knownModels = (query: string) =>
  queryOptions({
    queryKey: ['models', query],
    queryFn: async () => {
      const page = await ask(api.GET('/api/v1/config/models/search', { params: { query: { query, limit: 50 } } }));
      return page.items
        .filter((each) => !each.hidden)
        .map((each) => (each.provider ? `${each.provider}/${each.name}` : each.name));
    },
    placeholderData: (before: string[] | undefined) => before,
    staleTime: 60_000,
  });

/** Pages of the list, the last changed first. */
export const conversations = infiniteQueryOptions({
  queryKey: ['conversations'],
  queryFn: ({ pageParam }) =>
    ask(
      api.GET('/api/v1/app-conversations/search', {
        params: { query: { sort_order: 'UPDATED_AT_DESC', limit: 50, ...(pageParam ? { page_id: pageParam } : {}) } },
      }),
    ),
  initialPageParam: '',
  getNextPageParam: (last) => last.next_page_id || undefined,
  // All pages that are shown are asked for again: many of them less often.
  refetchInterval: (query) => 4000 * Math.max(1, query.state.data?.pages.length ?? 1),
  refetchIntervalInBackground: true, // the title of the tab and the tone tell what happens meanwhile
});

export const conversation = (id: string) =>
  queryOptions({
    queryKey: ['conversation', id],
    queryFn: () =>
      ask(api.GET('/api/v1/app-conversations/{conversation_id}', { params: { path: { conversation_id: id } } })),
    refetchInterval: 4000,
  });

/** The start tasks of the conversation; the newest one tells how its start goes. */
export const startTask = (id: string) =>
  queryOptions({
    queryKey: ['start', id],
    queryFn: async () => {
      const page = await ask(
        api.GET('/api/v1/app-conversations/start-tasks/search', {
          params: { query: { conversation_id__eq: id, limit: 1 } },
        }),
      );
      return page.items[0] ?? null;
    },
    refetchInterval: (query) => {
      const status = query.state.data?.status;
      return status === 'READY' || status === 'ERROR' ? false : 500;
    },
  });

export function useRename() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ id, title }: { id: string; title: string }) =>
      ask(
        api.PATCH('/api/v1/app-conversations/{conversation_id}', {
          params: { path: { conversation_id: id } },
          body: { title },
        }),
      ),
    onSuccess: (_, { id }) =>
      Promise.all([
        client.invalidateQueries({ queryKey: ['conversations'] }),
        client.invalidateQueries({ queryKey: ['conversation', id] }),
      ]),
  });
}

export function useFork() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ id, from, title }: { id: string; from?: string; title: string }) =>
      ask(
        api.POST('/api/v1/app-conversations/{conversation_id}/fork', {
          params: { path: { conversation_id: id } },
          body: { title, copy_sandbox: true, reset_metrics: true, ...(from ? { from_event_id: from } : {}) },
        }),
      ),
    onSuccess: () => client.invalidateQueries({ queryKey: ['conversations'] }),
  });
}

/** The agent protocol of a conversation's sandbox, which its own key opens. */
export function agentCall(c: Conversation) {
  return {
    params: { path: { sandbox_id: c.sandbox_id, conversation_id: c.id } },
    headers: { 'X-Session-API-Key': c.session_api_key ?? '' },
  };
}

/** Deletes even while the page is being left. */
export function deleteNow(id: string): Promise<unknown> {
  return ask(
    api.DELETE('/api/v1/app-conversations/{conversation_id}', {
      params: { path: { conversation_id: id } },
      keepalive: true,
    }),
  );
}

/** Saves what an address of the API answers with as a file. */
export async function download(path: string, name: string): Promise<void> {
  let answer: Response;
  try {
    answer = await fetch(`${base}${path}`, { headers: { Authorization: `Bearer ${currentKey() ?? ''}` } });
  } catch {
    throw new ApiError(0, 'unreachable', '');
  }
  if (!answer.ok) throw explain(answer.status, await answer.json().catch(() => null));
  saveBlob(await answer.blob(), name);
}

/** Has the browser save data as a file. */
export function saveBlob(data: Blob, name: string): void {
  const url = URL.createObjectURL(data);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** What is pasted or dropped becomes part of a message as data. */
export type MessageContent = Schema['AppSendMessageRequest']['content'];

/** Starts a conversation under an id of the page's own, so that it can be shown at once. */
export async function startConversation(body: Schema['AppConversationStartRequest']): Promise<string> {
  const id = crypto.randomUUID?.() ?? uuid();
  await ask(api.POST('/api/v1/app-conversations', { body: { ...body, conversation_id: id } }));
  return id.replaceAll('-', '');
}

// Pages that did not come over TLS have no randomUUID, but random numbers.
function uuid(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = [...bytes].map((each) => each.toString(16).padStart(2, '0')).join('');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
