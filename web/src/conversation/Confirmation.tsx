import { useMutation } from '@tanstack/react-query';
import { ShieldQuestion } from 'lucide-react';
import { type FormEvent, useEffect, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, ask, type Conversation } from '../api/client';
import { agentCall } from '../api/queries';
import { visible } from '../lib/visible';
import { Button } from '../ui/Button';
import { TextField } from '../ui/Field';
import { Whole } from './bounded';
import { prettyArgs, toolKind } from './describe';
import type { Step } from './fold';
import { Body, RiskBadge, toolLabel } from './StepView';

/** Asks for consent, and shows all of what will run. */
export function Confirmation({ conversation, steps }: { conversation: Conversation; steps: Step[] }) {
  const { t } = useTranslation();
  const [refusing, setRefusing] = useState(false);
  const [reason, setReason] = useState('');
  const panel = useRef<HTMLElement>(null);
  const respond = useMutation({
    mutationFn: (accept: boolean) =>
      ask(
        api.POST('/agent/{sandbox_id}/api/conversations/{conversation_id}/events/respond_to_confirmation', {
          ...agentCall(conversation),
          body: { accept, reason: reason.trim() || t('confirm.defaultReason') },
        }),
      ),
  });
  useEffect(() => {
    // Who was not typing is brought to the question.
    if (document.activeElement === document.body) panel.current?.focus();
  }, []);
  const refuse = (event: FormEvent) => {
    event.preventDefault();
    respond.mutate(false);
  };
  return (
    <section
      ref={panel}
      tabIndex={-1}
      aria-labelledby="confirm"
      className="rounded-lg border border-warn bg-warn-soft p-3 outline-none"
    >
      <h2 id="confirm" className="flex items-center gap-2 text-sm font-semibold text-warn">
        <ShieldQuestion size={17} aria-hidden />
        {t('confirm.title', { count: steps.length })}
      </h2>
      <ul className="mt-2 max-h-[40dvh] space-y-3 overflow-y-auto">
        {steps.map((step) => (
          <li key={step.key} className="space-y-1">
            <p className="flex items-center gap-2 text-sm font-medium">
              {toolLabel(step, toolKind(step), t)} <RiskBadge risk={step.risk} />
            </p>
            {step.summary !== '' && (
              <p className="text-sm [overflow-wrap:anywhere]">
                {t('confirm.says')} {visible(step.summary)}
              </p>
            )}
            <Whole value={true}>
              <Body step={step} kind={toolKind(step)} />
            </Whole>
            <details className="text-[13px] text-ink-soft">
              <summary>{t('confirm.call')}</summary>
              <pre
                tabIndex={0}
                className="mt-1 max-h-64 overflow-auto rounded-md border border-line bg-sunken p-2 font-mono whitespace-pre-wrap text-ink [overflow-wrap:anywhere]"
              >
                {step.tool} {prettyArgs(step)}
              </pre>
            </details>
          </li>
        ))}
      </ul>
      {refusing ? (
        <form onSubmit={refuse} className="mt-3 space-y-2">
          <TextField
            label={t('confirm.reason')}
            value={reason}
            autoFocus
            maxLength={2000}
            onChange={(event) => setReason(event.target.value)}
          />
          <div className="flex gap-2">
            <Button kind="danger" type="submit" disabled={respond.isPending}>
              {t('confirm.refuse')}
            </Button>
            <Button kind="quiet" onClick={() => setRefusing(false)}>
              {t('common.cancel')}
            </Button>
          </div>
        </form>
      ) : (
        <div className="mt-3 flex gap-2">
          <Button kind="primary" disabled={respond.isPending} onClick={() => respond.mutate(true)}>
            {t('confirm.accept')}
          </Button>
          <Button disabled={respond.isPending} onClick={() => setRefusing(true)}>
            {t('confirm.refuse')}
          </Button>
        </div>
      )}
    </section>
  );
}
