// The key that opens the server. It comes in the fragment of the address that the
// server prints, which browsers never send, and is kept in this browser until the user
// signs out: a key is what the API takes, and a cookie would let other pages use it.
import { useSyncExternalStore } from 'react';

const name = `parley:${location.pathname}:key`;
const listeners = new Set<() => void>();
let key: string | null = null;
let refused = false;

const tell = () => {
  for (const each of listeners) each();
};

function stored(): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null; // storage is off: the key lives as long as the page
  }
}

/** Takes the key out of the address, so that it is not seen, shared or kept in the history. */
export function takeKey(): void {
  const found = /^#key=([^&]+)/.exec(location.hash)?.[1];
  const given = found === undefined ? '' : decode(found);
  if (found !== undefined) history.replaceState(null, '', `${location.pathname}${location.search}#/`);
  // "<your session API key>" is what the server prints for a key that was configured.
  if (given !== '' && !given.startsWith('<')) signIn(given);
  else key = stored();
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function currentKey(): string | null {
  return key;
}

export function signIn(value: string): void {
  key = value.trim();
  refused = false;
  try {
    localStorage.setItem(name, key);
  } catch {
    // it lives as long as the page
  }
  tell();
}

export function signOut(): void {
  key = null;
  refused = false;
  try {
    localStorage.removeItem(name);
  } catch {
    // there is nothing to remove
  }
  tell();
}

/** The server did not take the key: it is asked for again. */
export function refuseKey(tried: string | null): void {
  if (key === null || tried !== key) return; // another one was given meanwhile
  signOut();
  refused = true;
  tell();
}

export function wasRefused(): boolean {
  return refused;
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  const other = (event: StorageEvent) => {
    if (event.key !== name || event.newValue === key) return;
    key = event.newValue;
    tell();
  };
  addEventListener('storage', other);
  // The printed address opened in a tab that has the page already changes the fragment only.
  const changed = () => {
    if (location.hash.startsWith('#key=')) takeKey();
  };
  addEventListener('hashchange', changed);
  return () => {
    listeners.delete(listener);
    removeEventListener('storage', other);
    removeEventListener('hashchange', changed);
  };
}

export function useKey(): string | null {
  return useSyncExternalStore(subscribe, currentKey);
}
