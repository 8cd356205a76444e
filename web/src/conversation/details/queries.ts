// What the views beside a conversation ask the server for.
import { infiniteQueryOptions, keepPreviousData, queryOptions } from '@tanstack/react-query';
import { api, ask, type Conversation } from '../../api/client';
import { isEvent, type LogEvent } from '../events';

const most = 30; // pages of updates that are read, 100 each

export interface Updates {
  events: LogEvent[]; // oldest first
  whole: boolean; // from the beginning of the log
}

/** Updates of the conversation's state, the newest of them if there are many. */
export const stateUpdates = (id: string) =>
  queryOptions({
    queryKey: ['state-updates', id],
    queryFn: async ({ client, queryKey, signal }): Promise<Updates> => {
      // What is known is not read again: the log only grows.
      const known = client.getQueryData<Updates>(queryKey);
      const newest = known?.events.at(-1)?.id;
      const fresh: LogEvent[] = [];
      let pageId = '';
      for (let page = 0; page < most; page++) {
        const got = await ask(
          api.GET('/api/v1/conversation/{conversation_id}/events/search', {
            params: {
              path: { conversation_id: id },
              query: {
                kind__eq: 'ConversationStateUpdateEvent',
                sort_order: 'TIMESTAMP_DESC',
                ...(pageId ? { page_id: pageId } : {}),
              },
            },
            signal,
          }),
        );
        for (const event of got.items) {
          if (!isEvent(event)) continue;
          if (known && event.id === newest) return { ...known, events: [...known.events, ...fresh.reverse()] };
          fresh.push(event);
        }
        pageId = got.next_page_id ?? '';
        if (pageId === '') return { events: fresh.reverse(), whole: true };
      }
      return { events: fresh.reverse(), whole: false };
    },
    structuralSharing: false,
  });

export const spending = (id: string) =>
  queryOptions({
    queryKey: ['spending', id],
    queryFn: () =>
      ask(api.GET('/api/v1/app-conversations/{conversation_id}/usage', { params: { path: { conversation_id: id } } })),
  });

export type Verdict = 'allowed' | 'refused' | 'failed';

/** The network log, newest first. The first page is kept current until older ones are asked for. */
export const connections = (id: string, verdict: Verdict | '', host: string) =>
  infiniteQueryOptions({
    queryKey: ['network', id, verdict, host],
    queryFn: ({ pageParam }) =>
      ask(
        api.GET('/api/v1/app-conversations/{conversation_id}/network', {
          params: {
            path: { conversation_id: id },
            query: {
              limit: 50,
              ...(verdict === '' ? {} : { verdict }),
              ...(host === '' ? {} : { host }),
              ...(pageParam ? { page_id: pageParam } : {}),
            },
          },
        }),
      ),
    initialPageParam: '',
    getNextPageParam: (last) => last.next_page_id || undefined,
    refetchInterval: (query) => ((query.state.data?.pages.length ?? 0) > 1 ? false : 4000),
    placeholderData: keepPreviousData,
    retry: false,
  });

/** The conversation's sandbox with what listens in it; null if it is gone. */
export const sandboxOf = (c: Conversation) =>
  queryOptions({
    queryKey: ['sandbox', c.sandbox_id],
    queryFn: async () => (await ask(api.GET('/api/v1/sandboxes', { params: { query: { id: [c.sandbox_id] } } })))[0],
    refetchInterval: 3000,
  });

const batch = 100;

/** Conversations by their ids, in their order; those that are gone are left out. */
export const conversationsById = (ids: string[]) =>
  queryOptions({
    queryKey: ['conversations-by-id', ids],
    queryFn: async () => {
      const found: Conversation[] = [];
      for (let i = 0; i < ids.length; i += batch) {
        const got = await ask(
          api.GET('/api/v1/app-conversations', { params: { query: { ids: ids.slice(i, i + batch) } } }),
        );
        for (const each of Array.isArray(got) ? got : got.items) if (each) found.push(each);
      }
      return found;
    },
    placeholderData: keepPreviousData,
    refetchInterval: 3000,
  });
