import { useEffect, useSyncExternalStore } from 'react';
import { go } from '../lib/router';

// Keys alone can be switched off: who speaks to the computer would press them by words.
const name = 'parley:keys';
const listeners = new Set<() => void>();
let single = read();

function read(): boolean {
  try {
    return localStorage.getItem(name) !== 'off';
  } catch {
    return true;
  }
}

export function setSingleKeys(on: boolean): void {
  single = on;
  try {
    localStorage.setItem(name, on ? 'on' : 'off');
  } catch {
    // it lives as long as the page
  }
  for (const each of listeners) each();
}

export function useSingleKeys(): boolean {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => single,
  );
}

/** Alt+N: a new conversation. "/": search. "?": what keys there are. */
export function useShortcuts(help: () => void): void {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      const typing = target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
      const alone = single && !typing && !event.ctrlKey && !event.metaKey && !event.altKey;
      if (event.altKey && !event.ctrlKey && !event.metaKey && event.code === 'KeyN') {
        event.preventDefault();
        go('#/new');
      } else if (alone && event.key === '/') {
        event.preventDefault();
        document.getElementById('search')?.focus();
      } else if (alone && event.key === '?') {
        event.preventDefault();
        help();
      }
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, [help]);
}
