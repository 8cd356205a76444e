import { useMutation } from '@tanstack/react-query';
import { ShieldAlert } from 'lucide-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, ask, type Conversation } from '../api/client';
import { Button } from '../ui/Button';
import { list, record, text } from './events';

/** What a repository or plugin wants to run by itself waits here for the user's trust. */
export function TrustQuestions({
  conversation,
  notes,
}: {
  conversation: Conversation;
  notes: Record<string, unknown>;
}) {
  const { t } = useTranslation();
  const [later, setLater] = useState<string[]>([]);
  const decide = useMutation({
    mutationFn: (answer: { subject: string; hash: string; trusted: boolean }) =>
      ask(
        api.POST('/api/v1/app-conversations/{conversation_id}/trust', {
          params: { path: { conversation_id: conversation.id } },
          body: answer,
        }),
      ),
  });
  const questions = list(notes.trust_questions)
    .map(record)
    .filter((each) => !later.includes(text(each.hash)));
  return questions.map((question) => {
    const answer = { subject: text(question.subject), hash: text(question.hash) };
    return (
      <section
        key={answer.hash}
        aria-label={t('trust.title')}
        className="rounded-lg border border-warn bg-warn-soft p-3 text-sm"
      >
        <h2 className="flex items-center gap-2 font-semibold text-warn">
          <ShieldAlert size={17} aria-hidden />
          {t('trust.title')}
        </h2>
        <p className="mt-1 [overflow-wrap:anywhere]">{t('trust.text', { subject: answer.subject })}</p>
        <ul className="mt-2 max-h-48 overflow-auto rounded-md border border-line bg-sunken px-3 py-2 font-mono text-[13px]">
          {list(question.runs).map((line, i) => (
            <li key={i} className="whitespace-pre-wrap [overflow-wrap:anywhere]">
              {text(line)}
            </li>
          ))}
        </ul>
        <div className="mt-3 flex flex-wrap gap-2">
          <Button
            kind="primary"
            disabled={decide.isPending}
            onClick={() => decide.mutate({ ...answer, trusted: true })}
          >
            {t('trust.yes')}
          </Button>
          <Button disabled={decide.isPending} onClick={() => decide.mutate({ ...answer, trusted: false })}>
            {t('trust.no')}
          </Button>
          <Button kind="quiet" onClick={() => setLater([...later, answer.hash])}>
            {t('trust.later')}
          </Button>
        </div>
      </section>
    );
  });
}
