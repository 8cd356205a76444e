import { useSyncExternalStore } from 'react';

export type Theme = 'system' | 'light' | 'dark';

const name = 'parley:theme';
const listeners = new Set<() => void>();
let theme: Theme = read();

function read(): Theme {
  try {
    const value = localStorage.getItem(name);
    return value === 'light' || value === 'dark' ? value : 'system';
  } catch {
    return 'system';
  }
}

export function applyTheme(): void {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

export function setTheme(next: Theme): void {
  theme = next;
  try {
    localStorage.setItem(name, next);
  } catch {
    // it lives as long as the page
  }
  applyTheme();
  for (const each of listeners) each();
}

export function useTheme(): Theme {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => theme,
  );
}
