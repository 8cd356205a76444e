// MCP servers as the settings hold them, and as the form for one shows them.
import { isRecord } from '../api/client';

/** Stands for a secret that is stored: sent back, it stays. */
export const mask = '**********';

export type Kind = 'http' | 'sse' | 'stdio';
export type Servers = Record<string, Record<string, unknown>>;

/** A name with a value that may be a secret; one that is stored is not shown. */
export interface Pair {
  id: number;
  name: string;
  value: string;
  stored: boolean;
}

export interface Draft {
  name: string;
  kind: Kind;
  enabled: boolean;
  url: string;
  auth: 'none' | 'bearer' | 'kept'; // kept: one that the form cannot show
  token: string;
  tokenStored: boolean;
  headers: Pair[];
  command: string;
  args: string; // one a line
  env: Pair[];
  cwd: string;
  timeout: string; // seconds
}

let last = 0;
export const pair = (name = '', value = '', stored = false): Pair => ({ id: ++last, name, value, stored });

export const emptyDraft = (): Draft => ({
  name: '',
  kind: 'http',
  enabled: true,
  url: '',
  auth: 'none',
  token: '',
  tokenStored: false,
  headers: [],
  command: '',
  args: '',
  env: [],
  cwd: '',
  timeout: '',
});

const text = (value: unknown) => (typeof value === 'string' ? value : '');
const texts = (value: unknown) => (Array.isArray(value) ? value.filter((each) => typeof each === 'string') : []);

export function kindOf(server: Record<string, unknown>): Kind {
  if (typeof server.command === 'string') return 'stdio';
  return server.transport === 'sse' ? 'sse' : 'http';
}

export const isEnabled = (server: Record<string, unknown>) => server.enabled !== false;

/** Where a server is, in one line. */
export function placeOf(server: Record<string, unknown>): string {
  return kindOf(server) === 'stdio' ? [text(server.command), ...texts(server.args)].join(' ') : text(server.url);
}

/** Names with values, as the server shows them: ten asterisks for what is stored. */
export function pairsOf(values: unknown): Pair[] {
  if (!isRecord(values)) return [];
  return Object.entries(values).map(([name, value]) =>
    value === mask ? pair(name, '', true) : pair(name, text(value)),
  );
}

/** What of pairs is sent: a stored value that was not written over stays. */
export function valuesOf(pairs: Pair[]): Record<string, string> {
  return Object.fromEntries(
    pairs
      .filter((each) => each.name.trim() !== '')
      .map((each) => [each.name.trim(), each.stored && each.value === '' ? mask : each.value]),
  );
}

export function draftOf(name: string, server: Record<string, unknown>): Draft {
  const auth = isRecord(server.auth) ? server.auth : null;
  const strategy = auth === null ? 'none' : text(auth.strategy);
  const token = text(auth?.value);
  return {
    ...emptyDraft(),
    name,
    kind: kindOf(server),
    enabled: isEnabled(server),
    url: text(server.url),
    auth: strategy === 'none' || strategy === 'bearer' ? strategy : 'kept',
    token: strategy === 'bearer' && token !== mask ? token : '',
    tokenStored: strategy === 'bearer' && token === mask,
    headers: pairsOf(server.headers),
    command: text(server.command),
    args: texts(server.args).join('\n'),
    env: pairsOf(server.env),
    cwd: text(server.cwd),
    timeout: typeof server.timeout === 'number' ? String(server.timeout) : '',
  };
}

// What has a meaning for one kind of server only.
const own: Record<'remote' | 'stdio', string[]> = {
  remote: ['url', 'headers', 'auth'],
  stdio: ['command', 'args', 'env', 'cwd'],
};

/**
 * The server that a draft describes. What the form does not show stays as it is stored,
 * as far as it has a meaning for the kind.
 */
export function serverOf(draft: Draft, stored: Record<string, unknown> = {}): Record<string, unknown> {
  const out: Record<string, unknown> = { ...stored, transport: draft.kind, enabled: draft.enabled };
  delete out.type;
  for (const member of own[draft.kind === 'stdio' ? 'remote' : 'stdio']) delete out[member];
  if (draft.timeout.trim() === '') delete out.timeout;
  else out.timeout = Number(draft.timeout);
  if (draft.kind === 'stdio') {
    out.command = draft.command.trim();
    // Arguments may have line breaks, which the form cannot tell from the next argument.
    const before = texts(stored.args);
    out.args = before.join('\n') === draft.args ? before : draft.args.split('\n').filter((each) => each.trim() !== '');
    out.env = valuesOf(draft.env);
    if (draft.cwd.trim() === '') delete out.cwd;
    else out.cwd = draft.cwd.trim();
    return out;
  }
  out.url = draft.url.trim();
  const headers = valuesOf(draft.headers);
  if (Object.keys(headers).length > 0) out.headers = headers;
  else delete out.headers;
  if (draft.auth === 'none') delete out.auth;
  if (draft.auth === 'bearer')
    out.auth = { strategy: 'bearer', value: draft.tokenStored && draft.token === '' ? mask : draft.token };
  return out;
}
