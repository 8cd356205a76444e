// The socket of a terminal (docs/sandboxes.md): bytes both ways, and notes in JSON.
import { base, isRecord } from '../api/client';
import { currentKey } from '../session/session';

export type Note =
  | { type: 'ready' | 'paused' | 'resumed' }
  | { type: 'exit'; code: number }
  | { type: 'error'; code: string; detail: string; fatal: boolean };

/** What a text frame of the server says, null for one that this page does not know. */
export function readNote(text: string): Note | null {
  let note: unknown;
  try {
    note = JSON.parse(text);
  } catch {
    return null;
  }
  if (!isRecord(note)) return null;
  const { type } = note;
  if (type === 'ready' || type === 'paused' || type === 'resumed') return { type };
  if (type === 'exit') return { type, code: typeof note.exit_code === 'number' ? note.exit_code : -1 };
  if (type !== 'error') return null;
  return { type, code: `${note.code ?? ''}`, detail: `${note.detail ?? ''}`, fatal: note.fatal === true };
}

/** How many bytes the server sends ahead of what the terminal has shown. */
const ahead = 256 << 10;
/** How many shown bytes are worth telling. */
const worth = 64 << 10;
/** How much is typed at once; the server takes no more than 64 KiB. */
const most = 32 << 10;

export interface Place {
  sandbox: string;
  dir: string; // where the shell begins; '' = where the sandbox does
  rows: number;
  cols: number;
}

interface Ears {
  /** Shows bytes, and says when that is done. */
  onOutput: (bytes: Uint8Array, done: () => void) => void;
  onNote: (note: Note) => void;
  /** The socket is closed; nothing follows. */
  onClose: (code: number) => void;
}

export interface Line {
  type: (bytes: Uint8Array) => void;
  resize: (rows: number, cols: number) => void;
  close: () => void;
}

/** Opens a shell. */
export function call(place: Place, ears: Ears): Line {
  const query = new URLSearchParams({ rows: `${place.rows}`, cols: `${place.cols}`, window: `${ahead}` });
  if (place.dir !== '') query.set('dir', place.dir);
  const path = `/api/v1/sandboxes/${encodeURIComponent(place.sandbox)}/terminal?${query}`;
  const socket = new WebSocket(base.replace(/^http/, 'ws') + path);
  socket.binaryType = 'arraybuffer';
  const say = (what: object) => {
    if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(what));
  };
  let shown = 0;
  const done = (count: number) => {
    shown += count;
    if (shown < worth) return;
    say({ type: 'ack', bytes: shown });
    shown = 0;
  };
  // In the first message, not in the address: addresses end up in logs.
  socket.onopen = () => say({ type: 'auth', session_api_key: currentKey() ?? '' });
  socket.onmessage = ({ data }) => {
    if (data instanceof ArrayBuffer) {
      const bytes = new Uint8Array(data);
      ears.onOutput(bytes, () => done(bytes.length));
      return;
    }
    const note = readNote(`${data}`);
    if (note !== null) ears.onNote(note);
  };
  socket.onclose = ({ code }) => ears.onClose(code);
  return {
    type: (bytes) => {
      if (socket.readyState !== WebSocket.OPEN) return;
      for (let at = 0; at < bytes.length; at += most) socket.send(bytes.slice(at, at + most));
    },
    resize: (rows, cols) => say({ type: 'resize', rows, cols }),
    close: () => {
      socket.onmessage = socket.onclose = null;
      socket.close();
    },
  };
}
