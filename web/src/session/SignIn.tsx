import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { Trans, useTranslation } from 'react-i18next';
import { ApiError, base, explain } from '../api/client';
import { explainError } from '../lib/errors';
import { Button } from '../ui/Button';
import { TextField } from '../ui/Field';
import { signIn, wasRefused } from './session';

async function check(key: string): Promise<void> {
  let answer: Response;
  try {
    answer = await fetch(`${base}/api/v1/users/me`, { headers: { Authorization: `Bearer ${key}` } });
  } catch {
    throw new ApiError(0, 'unreachable', '');
  }
  // Without stored settings there is no user yet, but the key is taken.
  if (!answer.ok && answer.status !== 404) throw explain(answer.status, await answer.json().catch(() => null));
}

export function SignIn() {
  const { t } = useTranslation();
  const [key, setKey] = useState('');
  const open = useMutation({ mutationFn: check, onSuccess: () => signIn(key), meta: { quiet: true } });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (key.trim() !== '') open.mutate(key.trim());
  };
  const wrong = open.error instanceof ApiError && open.error.status === 401;
  const error = wrong ? t('signIn.wrong') : open.error ? explainError(open.error, t) : '';
  return (
    <main className="flex h-full items-center justify-center overflow-y-auto p-4">
      <form onSubmit={submit} className="w-full max-w-md space-y-4 rounded-lg border border-line bg-surface p-6">
        <h1 className="text-xl font-semibold">Parley</h1>
        {wasRefused() && <p className="rounded-md bg-warn-soft px-3 py-2 text-sm text-warn">{t('signIn.refused')}</p>}
        <TextField
          label={t('signIn.key')}
          type="password"
          autoComplete="off"
          autoFocus
          value={key}
          onChange={(event) => setKey(event.target.value)}
          error={error}
        />
        <Button kind="primary" type="submit" disabled={key.trim() === '' || open.isPending} className="w-full">
          {t('signIn.open')}
        </Button>
        <div className="space-y-2 text-[13px] text-ink-soft">
          <p>
            <Trans i18nKey="signIn.where" components={{ code: <code className="font-mono text-ink" /> }} />
          </p>
          <p>{t('signIn.kept')}</p>
        </div>
      </form>
    </main>
  );
}
