import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import { useTranslation } from 'react-i18next';
import { conversation, conversations, settings } from '../api/queries';
import { chime } from '../lib/chime';
import type { Route } from '../lib/router';
import runningIcon from '../styles/icon-running.svg?url';
import waitingIcon from '../styles/icon-waiting.svg?url';
import { iconOf, type Known, needUser, statesOf, titleOf } from './attention';

/** Keeps title and icon of the tab, and plays a tone where the settings say so. */
export function Attention({ route }: { route: Route }): null {
  const { t } = useTranslation();
  const pages = useInfiniteQuery(conversations);
  const stored = useQuery(settings);
  const id = route.page === 'conversation' ? route.id : '';
  const shown = useQuery({ ...conversation(id), enabled: id !== '' });
  const sound = stored.data?.enable_sound_notifications === true;

  const all = pages.data?.pages.flatMap((page) => page.items) ?? [];
  const now = statesOf(all);
  const waiting = [...now].filter(([each, state]) => state === 'waiting' && each !== id).length;
  const state = now.get(id);
  const names: Record<Route['page'], string> = {
    home: '',
    new: t('shell.new'),
    conversation: shown.data?.title ?? '',
    sandboxes: t('shell.sandboxes'),
    settings: t('shell.settings'),
  };
  const title = titleOf(waiting, [names[route.page], state === undefined ? '' : t(`status.${state}`)]);
  useEffect(() => {
    document.title = title;
  }, [title]);
  useIcon(iconOf(now));

  // Who signs out leaves no name behind.
  useEffect(
    () => () => {
      document.title = 'Parley';
    },
    [],
  );

  const before = useRef<Known>(new Map());
  useEffect(() => {
    const looking = (each: string) => each === id && document.hasFocus();
    const called = needUser(before.current, now).filter((each) => !looking(each));
    before.current = now;
    if (sound && called.length > 0) chime();
  });
  return null;
}

function useIcon(which: 'waiting' | 'running' | 'usual'): void {
  const usual = useRef('');
  useEffect(() => {
    const link = document.querySelector<HTMLLinkElement>('link[rel="icon"]');
    if (!link) return;
    usual.current ||= link.href;
    const icons = { waiting: waitingIcon, running: runningIcon, usual: usual.current };
    if (link.href !== icons[which]) link.href = icons[which];
    return () => {
      link.href = icons.usual;
    };
  }, [which]);
}
