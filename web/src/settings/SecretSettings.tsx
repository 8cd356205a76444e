import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, ask } from '../api/client';
import { explainError } from '../lib/errors';
import { Button } from '../ui/Button';
import { TextField } from '../ui/Field';
import { toast } from '../ui/Toast';
import { Entries, Entry } from './Entry';

const empty = { name: '', value: '', description: '' };

export function SecretSettings() {
  const { t } = useTranslation();
  const client = useQueryClient();
  const [form, setForm] = useState(empty);
  const secrets = useQuery({ queryKey: ['secrets'], queryFn: () => ask(api.GET('/api/v1/secrets/search')) });
  const renew = () => client.invalidateQueries({ queryKey: ['secrets'] });
  const store = useMutation({
    mutationFn: () =>
      ask(
        api.POST('/api/v1/secrets', {
          body: { name: form.name.trim(), value: form.value, description: form.description.trim() || null },
        }),
      ),
    onSuccess: () => {
      setForm(empty);
      toast(t('settings.saved'));
      return renew();
    },
    meta: { quiet: true },
  });
  const remove = useMutation({
    mutationFn: (name: string) =>
      ask(api.DELETE('/api/v1/secrets/{secret_id}', { params: { path: { secret_id: name } } })),
    onSuccess: renew,
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    store.mutate();
  };
  return (
    <div className="space-y-6">
      <p className="text-sm text-ink-soft">{t('settings.secrets.intro')}</p>
      {secrets.error && <p className="text-sm text-bad">{explainError(secrets.error, t)}</p>}
      {secrets.data && (
        <Entries none={t('settings.secrets.none')}>
          {secrets.data.items.map((secret) => (
            <Entry
              key={secret.name}
              title={secret.name}
              detail={secret.description ?? ''}
              question={t('settings.secrets.deleteTitle', { name: secret.name })}
              consequence={t('settings.secrets.deleteText')}
              onDelete={() => remove.mutate(secret.name)}
            />
          ))}
        </Entries>
      )}
      <form onSubmit={submit} className="space-y-4" autoComplete="off">
        <TextField
          label={t('settings.secrets.name')}
          value={form.name}
          maxLength={256}
          required
          spellCheck={false}
          onChange={(event) => setForm({ ...form, name: event.target.value })}
        />
        <TextField
          label={t('settings.secrets.value')}
          help={t('settings.secrets.valueHelp')}
          type="password"
          autoComplete="off"
          required
          value={form.value}
          onChange={(event) => setForm({ ...form, value: event.target.value })}
        />
        <TextField
          label={t('settings.secrets.description')}
          value={form.description}
          maxLength={4096}
          onChange={(event) => setForm({ ...form, description: event.target.value })}
        />
        {store.error && (
          <p role="alert" className="text-sm whitespace-pre-wrap text-bad">
            {explainError(store.error, t)}
          </p>
        )}
        <Button kind="primary" type="submit" disabled={form.name.trim() === '' || form.value === '' || store.isPending}>
          {t('settings.secrets.store')}
        </Button>
      </form>
    </div>
  );
}
