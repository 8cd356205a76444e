import { useMutation } from '@tanstack/react-query';
import { PlugZap } from 'lucide-react';
import { useTranslation } from 'react-i18next';
import { api, ask, type Schema } from '../api/client';
import { explainError } from '../lib/errors';
import { duration } from '../lib/format';
import { relabel } from '../lib/labels';
import { visible } from '../lib/visible';
import { Button } from '../ui/Button';
import { Notice } from './Notice';

/** Tries a token of a git provider: the given one, or the stored one. */
export function useGitTrial() {
  return useMutation({
    mutationFn: (body: Schema['GitTestRequest']) => ask(api.POST('/api/v1/git/test', { body })),
    meta: { quiet: true },
  });
}

interface ButtonProps {
  trial: ReturnType<typeof useGitTrial>;
  asked: Schema['GitTestRequest'];
  name?: string; // of what is tried, where there are several
  disabled?: boolean;
}

export function GitTrialButton({ trial, asked, name, disabled }: ButtonProps) {
  const { t } = useTranslation();
  return (
    <Button
      small={name !== undefined}
      icon={<PlugZap size={name === undefined ? 15 : 13} aria-hidden />}
      aria-label={name === undefined ? undefined : `${t('settings.model.test')}: ${name}`}
      disabled={disabled || trial.isPending}
      onClick={() => trial.mutate(asked)}
    >
      {t(trial.isPending ? 'settings.model.testing' : 'settings.model.test')}
    </Button>
  );
}

export function GitTrialResult({ trial }: { trial: ReturnType<typeof useGitTrial> }) {
  const { t } = useTranslation();
  return (
    <div role="status">
      {trial.data && !trial.isPending && <Outcome outcome={trial.data} />}
      {trial.error && <p className="text-sm whitespace-pre-wrap text-bad">{explainError(trial.error, t)}</p>}
    </div>
  );
}

function Outcome({ outcome }: { outcome: Schema['GitTest'] }) {
  const { t, i18n } = useTranslation();
  const g = 'settings.git';
  if (!outcome.ok)
    return (
      <Notice good={false} title={t(`${g}.fails`)}>
        <p>{visible(outcome.error?.detail ?? '')}</p>
        {outcome.error?.action && <p className="mt-1 text-ink-soft">{relabel(visible(outcome.error.action), t)}</p>}
      </Notice>
    );
  const whose = outcome.login ? t(`${g}.works`, { login: visible(outcome.login) }) : t(`${g}.worksUnnamed`);
  return (
    <Notice good title={whose}>
      <p className="text-ink-soft">
        {[outcome.host && visible(outcome.host), duration(outcome.latency_seconds, i18n.language)]
          .filter(Boolean)
          .join(' · ')}
      </p>
      {outcome.scopes && outcome.scopes.length > 0 && (
        <p className="text-ink-soft">{t(`${g}.scopes`, { scopes: outcome.scopes.map(visible).join(', ') })}</p>
      )}
      {outcome.missing_scopes.length > 0 && (
        <p className="mt-1 font-medium text-warn">{t(`${g}.lacks`, { scopes: outcome.missing_scopes.join(', ') })}</p>
      )}
    </Notice>
  );
}
