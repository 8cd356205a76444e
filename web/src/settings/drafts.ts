import { useState } from 'react';

// What was changed in a form and not saved yet, by the form's name: looking at another tab
// does not lose it. It goes with the page.
const drafts = new Map<string, object>();

interface Draft<T> {
  now: T; // as the form shows it
  set: (now: T) => void;
  saved: () => void; // what the form shows is what is stored
}

/** The values of a form: what is stored, with what the user changed and has not saved. */
export function useDraft<T extends object>(name: string, stored: T): Draft<T> {
  const [changes, setChanges] = useState<Partial<T>>(() => drafts.get(name) ?? {});
  const keep = (next: Partial<T>) => {
    if (Object.keys(next).length === 0) drafts.delete(name);
    else drafts.set(name, next);
    setChanges(next);
  };
  return {
    now: { ...stored, ...changes },
    set: (next) =>
      keep(
        Object.fromEntries(
          Object.entries(next).filter(([key, value]) => value !== stored[key as keyof T]),
        ) as Partial<T>,
      ),
    saved: () => keep({}),
  };
}

/** Forgets what nobody saved, as for another user. */
export function forgetDrafts(): void {
  drafts.clear();
}
