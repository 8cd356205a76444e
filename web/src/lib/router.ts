// Routes are in the fragment, so that any base path works without being configured.
import { useSyncExternalStore } from 'react';

export type Route =
  | { page: 'home' }
  | { page: 'new' }
  | { page: 'conversation'; id: string; event?: string }
  | { page: 'sandboxes' }
  | { page: 'settings'; tab: string };

export function parseRoute(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?');
  const [head = '', id = ''] = path.split('/');
  if (head === 'new') return { page: 'new' };
  if (head === 'c' && /^[0-9a-f]{32}$/.test(id)) {
    const event = new URLSearchParams(query).get('event');
    return { page: 'conversation', id, ...(event === null ? {} : { event }) };
  }
  if (head === 'sandboxes') return { page: 'sandboxes' };
  if (head === 'settings') return { page: 'settings', tab: id === '' ? 'model' : id };
  return { page: 'home' };
}

export function go(hash: string, replace = false): void {
  if (replace) {
    history.replaceState(null, '', hash);
    dispatchEvent(new HashChangeEvent('hashchange'));
  } else location.hash = hash;
}

const subscribe = (listener: () => void) => {
  addEventListener('hashchange', listener);
  return () => removeEventListener('hashchange', listener);
};

let last = { hash: '', route: parseRoute('') };
const snapshot = (): Route => {
  if (last.hash !== location.hash) last = { hash: location.hash, route: parseRoute(location.hash) };
  return last.route;
};

export function useRoute(): Route {
  return useSyncExternalStore(subscribe, snapshot);
}
