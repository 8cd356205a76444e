import { useVirtualizer } from '@tanstack/react-virtual';
import { ArrowDown, TriangleAlert } from 'lucide-react';
import { type KeyboardEvent, useCallback, useEffect, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Button } from '../ui/Button';
import { toastError } from '../ui/Toast';
import type { OnFork } from './Aside';
import type { Feed, FeedState } from './feed';
import type { Item, Status } from './fold';
import { ItemView } from './ItemView';
import { Streaming } from './Markdown';

interface Props {
  feed: Feed;
  state: FeedState;
  status: Status;
  goTo?: string; // id of an event
  onFork: OnFork;
}

/** What happened, as a list of which only the visible part exists. */
export function Timeline({ feed, state, status, goTo, onFork }: Props) {
  const { t } = useTranslation();
  const box = useRef<HTMLDivElement>(null);
  const { items, failures } = state.timeline;
  const [marked, setMarked] = useState('');
  const [atEnd, setAtEnd] = useState(true);
  const draft = status === 'running' ? state.draft : null;
  const length = items.length + (draft ? 1 : 0);

  const virtual = useVirtualizer({
    count: length,
    getScrollElement: () => box.current,
    estimateSize: (at) => estimate(items[at]),
    // The list measures all again when this changes: only with the items, not with every frame.
    getItemKey: useCallback((at: number) => items[at]?.key ?? 'draft', [items]),
    overscan: 8,
    paddingStart: 16,
    paddingEnd: 12,
    anchorTo: 'end', // older pages and growing texts move nothing that is being read
    followOnAppend: true,
    scrollEndThreshold: 60,
  });

  // The newest first: an opened conversation shows its end.
  const opened = useRef(false);
  useEffect(() => {
    if (opened.current || !state.ready || items.length === 0) return;
    opened.current = true;
    if (goTo === undefined) virtual.scrollToIndex(items.length - 1, { align: 'end' });
  }, [state.ready, items.length, virtual, goTo]);

  // The way to a place takes a few frames, and older pages may move it meanwhile.
  const going = useRef({ key: '', since: 0 });
  const show = (at: number, key: string) => {
    going.current = { key, since: Date.now() };
    setMarked(key);
    virtual.scrollToIndex(at, { align: 'center' });
  };
  const stay = () => {
    going.current = { key: '', since: 0 };
  };
  useEffect(() => {
    const { key, since } = going.current;
    const at = key !== '' && Date.now() - since < 3000 ? items.findIndex((item) => item.key === key) : -1;
    if (at >= 0) virtual.scrollToIndex(at, { align: 'center' });
  }, [items, virtual]);
  useReach(feed, state, goTo, show);

  const { older } = state;
  const top = useRef(0);
  const scrolled = () => {
    const element = box.current;
    if (!element) return;
    setAtEnd(element.scrollHeight - element.scrollTop - element.clientHeight < 80);
    const up = element.scrollTop < top.current; // not while the list finds its end
    top.current = element.scrollTop;
    if (
      up &&
      older === 'some' &&
      Date.now() - going.current.since > 1000 &&
      element.scrollTop < Math.max(4000, 5 * element.clientHeight)
    )
      void feed.loadOlder();
  };
  const toEnd = () => virtual.scrollToIndex(length - 1, { align: 'end' });
  // To the first event, also where it is not loaded yet, and to the last: the browser
  // knows only guesses of where that is.
  const press = (event: KeyboardEvent) => {
    stay();
    if (event.target !== box.current) return;
    if (event.key === 'End') toEnd();
    else if (event.key === 'Home' && older === 'some')
      void feed.reachStart().then(
        () => setTimeout(() => virtual.scrollToIndex(0), 50), // the list has to know of them first
        () => {}, // it can be tried again
      );
    else return;
    event.preventDefault();
  };
  // A tail that does not fill the page brings older pages by itself.
  useEffect(() => {
    const element = box.current;
    if (element && state.ready && older === 'some' && element.scrollHeight <= element.clientHeight + 200)
      void feed.loadOlder();
  }, [feed, state.ready, older]);

  const rows = virtual.getVirtualItems();
  const first = rows[0];
  const failure = useFailures(failures, first?.index ?? 0, atEnd, (at) => show(at, items[at]?.key ?? ''));

  return (
    <div className="relative flex min-h-0 flex-1 flex-col">
      <section
        ref={box}
        onScroll={scrolled}
        onKeyDown={press}
        onWheel={stay}
        onPointerDown={stay}
        tabIndex={0}
        aria-label={t('timeline.title')}
        className="min-h-0 flex-1 overflow-y-auto [overflow-anchor:none] focus-visible:-outline-offset-2"
      >
        {older === 'loading' && (
          <p className="absolute inset-x-0 top-1 z-10 text-center text-xs text-ink-soft">{t('timeline.older')}</p>
        )}
        <div className="relative mx-auto w-full max-w-3xl" style={{ height: virtual.getTotalSize() }}>
          <div
            className="absolute inset-x-0 top-0 px-3 md:px-5"
            style={{ transform: `translateY(${first?.start ?? 0}px)` }}
          >
            {rows.map((row) => {
              const item = items[row.index];
              return (
                <div key={row.key} data-index={row.index} ref={virtual.measureElement}>
                  {item ? (
                    <ItemView item={item} marked={marked === item.key} status={status} onFork={onFork} />
                  ) : (
                    draft && <DraftView draft={draft} />
                  )}
                </div>
              );
            })}
          </div>
        </div>
        {state.ready && items.length === 0 && !draft && (
          <p className="p-6 text-center text-ink-soft">{t('timeline.empty')}</p>
        )}
      </section>
      <div className="pointer-events-none absolute right-4 bottom-3 flex gap-2 *:pointer-events-auto">
        {failures.length > 0 && (
          <Button
            small
            icon={<TriangleAlert size={14} aria-hidden className="text-bad" />}
            onClick={failure}
            className="shadow-raised"
          >
            {t('timeline.failures', { count: failures.length })}
          </Button>
        )}
        {!atEnd && (
          <Button small icon={<ArrowDown size={14} aria-hidden />} onClick={toEnd} className="shadow-raised">
            {t('timeline.toEnd')}
          </Button>
        )}
      </div>
    </div>
  );
}

function DraftView({ draft }: { draft: { text: string; reasoning: string } }) {
  const { t } = useTranslation();
  return (
    <div className="pb-3" aria-busy>
      {draft.reasoning !== '' && draft.text === '' && (
        <p className="border-l-2 border-line pl-3 text-sm text-ink-soft italic [overflow-wrap:anywhere]">
          {t('timeline.reasoning')}: {draft.reasoning.slice(-400)}
        </p>
      )}
      {draft.text !== '' && <Streaming text={draft.text} />}
    </div>
  );
}

/** Guesses of heights before they are measured. */
function estimate(item: Item | undefined): number {
  switch (item?.type) {
    case 'message':
      return 90;
    case 'step':
      return 48;
    case 'thought':
      return 60;
    default:
      return 44;
  }
}

/** Goes to an event that the address names, over as many pages as it takes. */
function useReach(feed: Feed, state: FeedState, id: string | undefined, show: (at: number, key: string) => void): void {
  const { t } = useTranslation();
  const done = useRef('');
  useEffect(() => {
    if (id === undefined || !state.ready || done.current === id) return;
    done.current = id;
    const loading = feed.reach(id).catch(() => false);
    void loading.then((there) => {
      const { items } = feed.get().timeline;
      const at = there
        ? items.findIndex(
            (item) => item.key === id || item.key === `${id}/thought` || (item.type === 'step' && item.answer === id),
          )
        : -1;
      if (at < 0) toastError(t('timeline.notFound'));
      // The list has to know of the loaded pages first.
      else setTimeout(() => show(at, items[at]?.key ?? ''), 50);
    });
  }, [feed, id, state.ready, show, t]);
}

/** Goes from one failure to the one before it, from the end. */
function useFailures(failures: number[], firstShown: number, atEnd: boolean, show: (at: number) => void): () => void {
  const last = useRef(-1);
  return () => {
    const from = atEnd && last.current < firstShown ? Number.POSITIVE_INFINITY : last.current;
    const before = failures.filter((at) => at < from).at(-1) ?? failures.at(-1);
    if (before === undefined) return;
    last.current = before;
    show(before);
  };
}
