// Files of a conversation's sandbox: what is in a directory, what a file is, and
// getting files in and out.
import { ApiError, api, ask, type Conversation } from '../api/client';
import { saveBlob } from '../api/queries';

/** How many entries the server lists of one directory. */
export const mostListed = 2000;
/** How many bytes of a text are shown, and of an image. */
export const mostText = 400_000;
export const mostImage = 16 << 20;

export interface Entry {
  name: string;
  path: string; // absolute
  dir: boolean;
}

export function join(dir: string, name: string): string {
  return dir.endsWith('/') ? dir + name : `${dir}/${name}`;
}

/** Reads what the server lists: directories have a slash at their end. */
export function entriesOf(dir: string, names: string[]): Entry[] {
  return names.map((each) => {
    const name = each.replace(/\/$/, '');
    return { name, path: join(dir, name), dir: each.endsWith('/') };
  });
}

/** How a path is called in messages: relative to where the agent works, if it is there. */
export function shortPath(path: string, root: string): string {
  return path.startsWith(join(root, '')) ? path.slice(join(root, '').length) : path;
}

/** A name that is not taken: data.csv, data-1.csv, data-2.csv and so on. */
export async function freeName(name: string, taken: (name: string) => Promise<boolean>): Promise<string> {
  const dot = name.lastIndexOf('.');
  const [stem, end] = dot > 0 ? [name.slice(0, dot), name.slice(dot)] : [name, ''];
  for (let n = 0; n < 1000; n++) {
    const tried = n === 0 ? name : `${stem}-${n}${end}`;
    if (!(await taken(tried))) return tried;
  }
  return `${stem}-${Date.now()}${end}`;
}

const magic: [string, (head: string) => boolean][] = [
  ['image/png', (head) => head.startsWith('\x89PNG\r\n\x1a\n')],
  ['image/jpeg', (head) => head.startsWith('\xff\xd8\xff')],
  ['image/gif', (head) => /^GIF8[79]a/.test(head)],
  ['image/webp', (head) => head.startsWith('RIFF') && head.slice(8, 12) === 'WEBP'],
];

/** The type of an image by its first bytes, whatever its name says; null if it is none. */
export function imageType(bytes: Uint8Array): string | null {
  const head = String.fromCharCode(...bytes.subarray(0, 16));
  return magic.find(([, is]) => is(head))?.[0] ?? null;
}

/** The text that bytes are, null if they are none. The last character may be cut off. */
export function textOf(bytes: Uint8Array, cut: boolean): string | null {
  if (bytes.includes(0)) return null;
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: cut });
  } catch {
    return null;
  }
}

const languages: Record<string, string> = {
  bash: 'bash sh zsh',
  c: 'c h',
  cpp: 'cc cpp cxx hpp hh',
  csharp: 'cs',
  css: 'css scss',
  diff: 'diff patch',
  go: 'go',
  ini: 'ini toml cfg conf properties',
  java: 'java',
  javascript: 'js mjs cjs jsx',
  json: 'json jsonl',
  kotlin: 'kt kts',
  makefile: 'mk',
  markdown: 'md markdown',
  php: 'php',
  python: 'py pyi',
  ruby: 'rb',
  rust: 'rs',
  sql: 'sql',
  swift: 'swift',
  typescript: 'ts tsx mts',
  xml: 'xml html htm svg xhtml',
  yaml: 'yaml yml',
};
const byEnd = new Map(Object.entries(languages).flatMap(([name, ends]) => ends.split(' ').map((end) => [end, name])));

/** The language of a file by its name, '' if that tells none. */
export function languageOf(name: string): string {
  const lower = name.toLowerCase();
  if (/^(dockerfile|containerfile)(\..*)?$/.test(lower)) return 'dockerfile';
  if (/^(gnu)?makefile$/.test(lower)) return 'makefile';
  return byEnd.get(/\.([^.]+)$/.exec(lower)?.[1] ?? '') ?? '';
}

export type Content =
  | { kind: 'text'; text: string; size: number; cut: boolean }
  | { kind: 'image'; blob: Blob; size: number }
  | { kind: 'large'; size: number } // an image of which too much would be loaded
  | { kind: 'binary'; size: number };

/** Tells what a file is and takes as much of it as is shown; the rest is not loaded. */
export async function readContent(body: ReadableStream<Uint8Array>, size: number): Promise<Content> {
  const reader = body.getReader();
  const parts: Uint8Array[] = [];
  let have = 0;
  let most = mostText;
  let image: string | null | undefined;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (value) {
        parts.push(value);
        have += value.length;
      }
      if (image === undefined && (have >= 16 || done)) {
        image = imageType(concat(parts));
        if (image !== null) most = mostImage;
        if (image !== null && size > most) return { kind: 'large', size };
      }
      if (done || have > most) break;
    }
  } finally {
    void reader.cancel().catch(() => {});
  }
  const bytes = concat(parts);
  const whole = Math.max(size, have);
  if (image)
    return have > most ? { kind: 'large', size: whole } : { kind: 'image', blob: blob(bytes, image), size: have };
  const cut = have > most;
  const text = textOf(cut ? bytes.subarray(0, most) : bytes, cut);
  return text === null ? { kind: 'binary', size: whole } : { kind: 'text', text, size: whole, cut };
}

function blob(bytes: Uint8Array<ArrayBuffer>, type: string): Blob {
  return new Blob([bytes], { type });
}

function concat(parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** Where the agent works. */
export function rootOf(c: Conversation): string {
  return c.workspace?.working_dir || '/workspace/project';
}

export async function list(c: Conversation, dir: string): Promise<Entry[]> {
  const names = await ask(
    api.GET('/api/v1/app-conversations/{conversation_id}/files', {
      params: { path: { conversation_id: c.id }, query: { path: dir, level: true } },
    }),
  );
  return entriesOf(dir, names);
}

// Files go in and out by the sandbox's own protocol, which its key opens.
function at(c: Conversation, path: string) {
  return {
    params: { path: { sandbox_id: c.sandbox_id }, query: { path } },
    headers: { 'X-Session-API-Key': c.session_api_key ?? '' },
  };
}

/** The shown part of a file. */
export async function read(c: Conversation, path: string, signal: AbortSignal): Promise<Content> {
  const asked = api.GET('/agent/{sandbox_id}/api/file/download', { ...at(c, path), parseAs: 'stream', signal });
  const body = (await ask(asked)) as ReadableStream<Uint8Array> | null | undefined;
  const size = Number((await asked).response.headers.get('Content-Length') ?? 0);
  return body ? readContent(body, size) : { kind: 'text', text: '', size: 0, cut: false };
}

/** Whether something is called so. */
export async function exists(c: Conversation, path: string): Promise<boolean> {
  const stop = new AbortController();
  try {
    await ask(
      api.GET('/agent/{sandbox_id}/api/file/download', { ...at(c, path), parseAs: 'stream', signal: stop.signal }),
    );
    return true;
  } catch (error) {
    if (!(error instanceof ApiError) || error.status === 0 || error.status >= 500) throw error;
    return error.status !== 404;
  } finally {
    stop.abort(); // what it holds is not wanted
  }
}

export async function save(c: Conversation, path: string): Promise<void> {
  const data = await ask(api.GET('/agent/{sandbox_id}/api/file/download', { ...at(c, path), parseAs: 'blob' }));
  saveBlob((data as Blob | undefined) ?? new Blob(), path.slice(path.lastIndexOf('/') + 1));
}

/** Stores a file, in place of what is called so. */
export async function store(c: Conversation, path: string, file: File): Promise<void> {
  const form = new FormData();
  form.append('file', file, 'file'); // where it goes is in the query
  await ask(
    api.POST('/agent/{sandbox_id}/api/file/upload', {
      ...at(c, path),
      body: { file: '' },
      bodySerializer: () => form,
    }),
  );
}

/** Stores files where the agent works, beside what is there, and returns their paths. */
export async function storeBeside(c: Conversation, files: File[]): Promise<string[]> {
  const root = rootOf(c);
  const paths: string[] = [];
  for (const file of files) {
    const name = await freeName(file.name, (tried) => exists(c, join(root, tried)));
    await store(c, join(root, name), file);
    paths.push(name);
  }
  return paths;
}

/** The files that were dropped; directories cannot be read like files. */
export function dropped(transfer: DataTransfer): { files: File[]; directories: boolean } {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.() ?? null);
  const files = [...transfer.files].filter((_, i) => !entries[i]?.isDirectory);
  return { files, directories: entries.some((each) => each?.isDirectory) };
}
