import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, ask } from '../api/client';
import { CopyButton } from '../conversation/CopyButton';
import { explainError } from '../lib/errors';
import { ago, useNow } from '../lib/format';
import { Button } from '../ui/Button';
import { TextField } from '../ui/Field';
import { Entries, Entry } from './Entry';

export function KeySettings() {
  const { t, i18n } = useTranslation();
  const now = useNow(60_000);
  const client = useQueryClient();
  const [name, setName] = useState('');
  const keys = useQuery({ queryKey: ['keys'], queryFn: () => ask(api.GET('/api/keys')) });
  const renew = () => client.invalidateQueries({ queryKey: ['keys'] });
  const create = useMutation({
    mutationFn: () => ask(api.POST('/api/keys', { body: { name: name.trim() } })),
    onSuccess: () => {
      setName('');
      return renew();
    },
  });
  const remove = useMutation({
    mutationFn: (id: number) => ask(api.DELETE('/api/keys/{key_id}', { params: { path: { key_id: id } } })),
    onSuccess: renew,
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    create.mutate();
  };
  return (
    <div className="space-y-6">
      <p className="text-sm text-ink-soft">{t('settings.keys.intro')}</p>
      <form onSubmit={submit} className="flex flex-wrap items-end gap-2">
        <div className="min-w-48 flex-1">
          <TextField
            label={t('settings.keys.name')}
            value={name}
            maxLength={255}
            required
            onChange={(event) => setName(event.target.value)}
          />
        </div>
        <Button kind="primary" type="submit" disabled={name.trim() === '' || create.isPending}>
          {t('settings.keys.create')}
        </Button>
      </form>
      <div role="status">
        {create.data && (
          <div className="rounded-md bg-good-soft px-3 py-2.5 text-sm">
            <p className="text-good">{t('settings.keys.once')}</p>
            <p className="flex items-center gap-2">
              <code className="min-w-0 font-mono text-[13px] [overflow-wrap:anywhere]">{create.data.key}</code>
              <CopyButton text={create.data.key ?? ''} />
            </p>
          </div>
        )}
      </div>
      {keys.error && <p className="text-sm text-bad">{explainError(keys.error, t)}</p>}
      {keys.data && (
        <Entries none={t('settings.keys.none')}>
          {keys.data.map((key) => (
            <Entry
              key={key.id}
              title={key.name ?? String(key.id)}
              detail={`${t('settings.keys.made', { when: ago(new Date(key.created_at), now, i18n.language) })}, ${
                key.last_used_at
                  ? t('settings.keys.used', { when: ago(new Date(key.last_used_at), now, i18n.language) })
                  : t('settings.keys.unused')
              }`}
              question={t('settings.keys.deleteTitle', { name: key.name ?? key.id })}
              consequence={t('settings.keys.deleteText')}
              onDelete={() => remove.mutate(key.id)}
            />
          ))}
        </Entries>
      )}
    </div>
  );
}
