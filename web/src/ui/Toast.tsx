import { X } from 'lucide-react';
import { Toast as Radix } from 'radix-ui';
import { useSyncExternalStore } from 'react';
import { useTranslation } from 'react-i18next';

interface Entry {
  id: number;
  text: string;
  bad: boolean;
  action?: { label: string; run: () => void };
  ms: number;
  onGone?: () => void;
}

let entries: Entry[] = [];
let next = 1;
const listeners = new Set<() => void>();

function change(now: Entry[]): void {
  entries = now;
  for (const each of listeners) each();
}

/** Says something for a while, with at most one thing to do about it. */
export function toast(text: string, options: Partial<Omit<Entry, 'id' | 'text'>> = {}): void {
  const all = [...entries, { id: next++, text, bad: false, ms: 5000, ...options }];
  const dropped = all.slice(0, -4);
  change(all.slice(-4));
  for (const each of dropped) each.onGone?.();
}

export function toastError(text: string): void {
  toast(text, { bad: true, ms: 9000 });
}

function dismiss(id: number): void {
  const gone = entries.find((each) => each.id === id);
  change(entries.filter((each) => each.id !== id));
  gone?.onGone?.();
}

export function Toasts() {
  const { t } = useTranslation();
  const shown = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => entries,
  );
  return (
    <Radix.Provider label={t('common.notification')} swipeDirection="down">
      {shown.map((each) => (
        <Radix.Root
          key={each.id}
          duration={each.ms}
          onOpenChange={(open) => {
            if (!open) dismiss(each.id);
          }}
          className="flex items-center gap-3 rounded-md border border-line bg-raised px-3.5 py-2.5 text-sm shadow-raised"
        >
          <Radix.Description
            className={
              each.bad ? 'min-w-0 flex-1 text-bad [overflow-wrap:anywhere]' : 'min-w-0 flex-1 [overflow-wrap:anywhere]'
            }
          >
            {each.text}
          </Radix.Description>
          {each.action && (
            <Radix.Action asChild altText={each.action.label}>
              <button
                type="button"
                className="shrink-0 rounded-sm px-2 py-1 font-semibold text-accent-text hover:bg-hover"
                onClick={each.action.run}
              >
                {each.action.label}
              </button>
            </Radix.Action>
          )}
          <Radix.Close aria-label={t('common.close')} className="shrink-0 rounded-sm p-1 text-ink-soft hover:bg-hover">
            <X size={15} aria-hidden />
          </Radix.Close>
        </Radix.Root>
      ))}
      <Radix.Viewport className="fixed bottom-4 left-1/2 z-60 flex w-[min(26rem,calc(100vw-1.5rem))] -translate-x-1/2 flex-col gap-2 outline-none" />
    </Radix.Provider>
  );
}
