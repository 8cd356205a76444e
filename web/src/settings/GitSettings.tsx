import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, ask, type Provider } from '../api/client';
import { settings } from '../api/queries';
import { explainError } from '../lib/errors';
import { providers } from '../lib/providers';
import { Button } from '../ui/Button';
import { SelectField, TextField } from '../ui/Field';
import { toast } from '../ui/Toast';
import { Entries, Entry } from './Entry';
import { GitTrialButton, GitTrialResult, useGitTrial } from './GitTrial';

export function GitSettings() {
  const { t } = useTranslation();
  const client = useQueryClient();
  const stored = useQuery(settings);
  const [provider, setProvider] = useState<Provider>('github');
  const [token, setToken] = useState('');
  const [host, setHost] = useState('');
  const trial = useGitTrial();
  const hostOrNull = host.trim() === '' ? null : host.trim();
  const set = (stored.data?.provider_tokens_set ?? {}) as Partial<Record<Provider, string | null>>;
  const renew = () => client.invalidateQueries({ queryKey: ['settings'] });

  // What is named is the whole set; an empty token keeps the one that is stored.
  const store = async (next: Partial<Record<Provider, { token: string; host: string | null }>>) => {
    if (Object.keys(next).length === 0) return ask(api.DELETE('/api/v1/secrets/git-providers'));
    return ask(api.POST('/api/v1/secrets/git-providers', { body: { provider_tokens: next } }));
  };
  const kept = () =>
    Object.fromEntries(Object.entries(set).map(([name, at]) => [name, { token: '', host: at ?? null }])) as Partial<
      Record<Provider, { token: string; host: string | null }>
    >;
  const add = useMutation({
    mutationFn: () => store({ ...kept(), [provider]: { token, host: hostOrNull } }),
    onSuccess: () => {
      setToken('');
      setHost('');
      trial.reset();
      toast(t('settings.saved'));
      return renew();
    },
    meta: { quiet: true },
  });
  const remove = useMutation({
    mutationFn: (name: Provider) => {
      const next = kept();
      delete next[name];
      return store(next);
    },
    onSuccess: renew,
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    add.mutate();
  };
  return (
    <div className="space-y-6">
      <p className="text-sm text-ink-soft">{t('settings.git.intro')}</p>
      {stored.error && <p className="text-sm text-bad">{explainError(stored.error, t)}</p>}
      {!stored.isPending && (
        <Entries none={t('settings.git.none')}>
          {(Object.keys(set) as Provider[]).map((name) => (
            <Stored key={name} provider={name} host={set[name] ?? null} onDelete={() => remove.mutate(name)} />
          ))}
        </Entries>
      )}
      <form onSubmit={submit} className="space-y-4" autoComplete="off">
        <SelectField
          label={t('settings.git.provider')}
          value={provider}
          onChange={(event) => {
            setProvider(event.target.value as Provider);
            trial.reset();
          }}
        >
          {Object.entries(providers).map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </SelectField>
        <TextField
          label={t('settings.git.token')}
          help={t('settings.secrets.valueHelp')}
          type="password"
          autoComplete="off"
          required
          value={token}
          onChange={(event) => {
            setToken(event.target.value);
            trial.reset();
          }}
        />
        <TextField
          label={t('settings.git.host')}
          help={t('settings.git.hostHelp')}
          value={host}
          spellCheck={false}
          placeholder="git.example.com"
          onChange={(event) => {
            setHost(event.target.value);
            trial.reset();
          }}
        />
        {add.error && (
          <p role="alert" className="text-sm whitespace-pre-wrap text-bad">
            {explainError(add.error, t)}
          </p>
        )}
        <div className="flex flex-wrap gap-2">
          <Button kind="primary" type="submit" disabled={token === '' || add.isPending || stored.isPending}>
            {t('settings.git.store')}
          </Button>
          <GitTrialButton trial={trial} asked={{ provider, token, host: hostOrNull }} disabled={token === ''} />
        </div>
        <GitTrialResult trial={trial} />
      </form>
    </div>
  );
}

/** A token that is stored: it may have expired since. */
function Stored({ provider, host, onDelete }: { provider: Provider; host: string | null; onDelete: () => void }) {
  const { t } = useTranslation();
  const trial = useGitTrial();
  const name = providers[provider] ?? provider;
  return (
    <Entry
      title={name}
      detail={host || t('settings.git.publicHost')}
      question={t('settings.git.deleteTitle', { name })}
      consequence={t('settings.git.deleteText')}
      onDelete={onDelete}
      actions={<GitTrialButton trial={trial} asked={{ provider }} name={name} />}
    >
      <div className="mt-2 empty:hidden">
        <GitTrialResult trial={trial} />
      </div>
    </Entry>
  );
}
