import { useEffect, useState, useSyncExternalStore } from 'react';
import type { Conversation } from '../api/client';
import { Feed, type FeedState } from './feed';

/** Follows a conversation while the component is shown. */
export function useFeed(conversation: Conversation): { feed: Feed; state: FeedState } {
  const [feed] = useState(() => new Feed(conversation.id));
  const state = useSyncExternalStore(feed.subscribe, feed.get);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the first answer is enough, the stream tells the rest
  useEffect(() => {
    feed.open(conversation);
    return () => feed.close();
  }, [feed]);
  return { feed, state };
}
