import createClient, { type Middleware } from 'openapi-fetch';
import { currentKey, refuseKey } from '../session/session';
import type { components, paths } from './schema';

export type Schema = components['schemas'];
export type Conversation = Schema['AppConversation'];
export type StartTask = Schema['AppConversationStartTask'];
export type Provider = paths['/api/v1/git/repositories/search']['get']['parameters']['query']['provider'];

/** Where the server is: the page's own address, whatever path a proxy puts before it. */
export const base = new URL('.', document.baseURI.replace(/[?#].*$/, '')).href.replace(/\/$/, '');

/** Where in a request something is wrong, and what. */
export interface WrongField {
  path: (string | number)[];
  text: string;
}

/** What the server said about a request that failed. */
export class ApiError extends Error {
  readonly status: number; // 0: the server was not reached
  readonly code: string;
  readonly fields: readonly WrongField[]; // of a request that is not valid
  constructor(status: number, code: string, message: string, fields: readonly WrongField[] = []) {
    super(message);
    this.status = status;
    this.code = code;
    this.fields = fields;
  }
}

const credentials: Middleware = {
  onRequest({ request }) {
    const key = currentKey();
    if (key !== null && !request.headers.has('X-Session-API-Key'))
      request.headers.set('Authorization', `Bearer ${key}`);
    return request;
  },
  async onResponse({ request, response }) {
    const sent = request.headers.get('Authorization');
    if (response.status !== 401 || sent === null) return;
    if (
      !ofGitProvider(
        await response
          .clone()
          .json()
          .catch(() => null),
      )
    )
      refuseKey(sent.slice('Bearer '.length));
  },
};

/** Whether a 401 is about the token of a git provider, which has the same status, and not about the key. */
export function ofGitProvider(body: unknown): boolean {
  return typeof body === 'string' || (isRecord(body) && typeof body.code === 'string' && body.code.startsWith('git_'));
}

export const api = createClient<paths>({ baseUrl: base });
api.use(credentials);

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** Returns the data of an answer, or throws what the server said as an ApiError. */
export async function ask<T>(answer: Promise<Answer<T>>): Promise<T> {
  let got: Answer<T>;
  try {
    got = await answer;
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new ApiError(0, 'unreachable', '');
  }
  if (got.error !== undefined || !got.response.ok) throw explain(got.response.status, got.error);
  return got.data as T;
}

/** Reads the several shapes of errors that the APIs have. */
export function explain(status: number, body: unknown): ApiError {
  const record = isRecord(body) ? body : {};
  const code = typeof record.code === 'string' ? record.code : '';
  const detail = record.detail ?? record.error ?? (typeof body === 'string' ? body : undefined);
  if (Array.isArray(detail)) {
    const fields = detail.filter(isRecord).map((each) => ({
      path: (Array.isArray(each.loc) ? each.loc : []).filter(
        (part) => typeof part === 'number' || (typeof part === 'string' && part !== 'body'),
      ),
      text: `${each.msg}`,
    }));
    const lines = fields.map(({ path, text }) => (path.length === 0 ? text : `${path.join('.')}: ${text}`));
    return new ApiError(status, code, lines.join('\n'), fields);
  }
  return new ApiError(status, code, typeof detail === 'string' ? detail : '');
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
