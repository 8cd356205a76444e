import { ApiError, api, ask, type Conversation, type Schema } from '../api/client';
import { type MessageContent, startConversation } from '../api/queries';
import { storeBeside } from './files';

const patience = 10 * 60_000; // an image may have to be fetched first

/**
 * Starts a conversation, puts files into its sandbox, and only then sends the message,
 * to which mention adds what the files are called. onStarted tells its id before that.
 */
export async function beginWith(
  files: File[],
  body: Schema['AppConversationStartRequest'],
  content: MessageContent,
  mention: (path: string) => string,
  onStarted: (id: string) => void,
): Promise<void> {
  const id = await startConversation(body);
  onStarted(id);
  const paths = await storeBeside(await started(id), files);
  await ask(
    api.POST('/api/v1/app-conversations/{conversation_id}/send-message', {
      params: { path: { conversation_id: id } },
      body: { role: 'user', content: withLines(content, paths.map(mention)), run: true },
    }),
  );
}

/** Adds lines to the text of a message. */
export function withLines(content: MessageContent, lines: string[]): MessageContent {
  const at = content.findIndex((each) => each.type === 'text');
  const first = content[at];
  const before = first?.type === 'text' ? [first.text.trimEnd()] : [];
  const text = { type: 'text' as const, text: [...before, ...lines].join('\n'), cache_prompt: false };
  return [text, ...content.filter((_, i) => i !== at)];
}

async function started(id: string): Promise<Conversation> {
  for (const end = Date.now() + patience; Date.now() < end; ) {
    const page = await ask(
      api.GET('/api/v1/app-conversations/start-tasks/search', {
        params: { query: { conversation_id__eq: id, limit: 1 } },
      }),
    );
    const task = page.items[0];
    if (task?.status === 'ERROR') throw new ApiError(500, 'start_failed', task.detail ?? '');
    if (task?.status === 'READY')
      return ask(api.GET('/api/v1/app-conversations/{conversation_id}', { params: { path: { conversation_id: id } } }));
    await new Promise((done) => setTimeout(done, 300));
  }
  throw new ApiError(504, 'start_slow', '');
}
