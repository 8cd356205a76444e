import { type ComponentType, lazy } from 'react';

/**
 * A part of the page that is loaded when it is needed, or before. React waits up to
 * 300 ms before it shows what it had to wait for; what is there by then is shown at once.
 */
export function lazyPage<P>(load: () => Promise<ComponentType<P>>) {
  let loaded: ComponentType<P> | null = null;
  const preload = async () => {
    loaded = await load();
    return { default: loaded };
  };
  type Module = { default: ComponentType<P> };
  const there = (component: ComponentType<P>) =>
    // biome-ignore lint/suspicious/noThenProperty: React asks what is like a promise at once
    ({ then: (done: (module: Module) => void) => done({ default: component }) }) as Promise<Module>;
  return { Page: lazy(() => (loaded ? there(loaded) : preload())), preload };
}
