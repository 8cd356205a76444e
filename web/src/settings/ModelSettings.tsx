import { useMutation, useQuery } from '@tanstack/react-query';
import { CircleCheck, PlugZap, TriangleAlert } from 'lucide-react';
import { type FormEvent, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, ask, type Schema } from '../api/client';
import { type Settings, serverInfo, settings, useStoreSettings } from '../api/queries';
import { explainError } from '../lib/errors';
import { duration, money } from '../lib/format';
import { relabel } from '../lib/labels';
import { Button } from '../ui/Button';
import { TextField } from '../ui/Field';
import { toast } from '../ui/Toast';
import { useDraft } from './drafts';
import { ModelField } from './ModelField';

export function ModelSettings() {
  const { t } = useTranslation();
  const stored = useQuery(settings);
  if (stored.error) return <p className="text-bad">{explainError(stored.error, t)}</p>;
  if (stored.isPending) return null;
  return <Form stored={stored.data} />;
}

function Form({ stored }: { stored: Settings | null }) {
  const { t } = useTranslation();
  const info = useQuery(serverInfo);
  const llm = stored?.agent_settings.llm;
  const { now, set, saved } = useDraft('model', { model: llm?.model ?? '', url: llm?.base_url ?? '' });
  const { model, url } = now;
  const [key, setKey] = useState('');
  const store = useStoreSettings();

  const keySet = stored?.llm_api_key_set === true;
  const changed = model.trim() !== (llm?.model ?? '') || url.trim() !== (llm?.base_url ?? '') || key !== '';
  const asked = {
    model: model.trim(),
    base_url: url.trim() === '' ? null : url.trim(),
    ...(key === '' ? {} : { api_key: key }),
  };
  const test = useMutation({
    mutationFn: () =>
      // Without changes the stored model is tried, with its stored key.
      ask(
        api.POST('/api/v1/settings/llm/test', {
          body: changed ? { llm: { ...(keySet && key === '' ? { api_key: '**********' } : {}), ...asked } } : null,
        }),
      ),
    meta: { quiet: true },
  });
  const save = (event: FormEvent) => {
    event.preventDefault();
    store.mutate(
      { agent_settings_diff: { llm: asked } },
      {
        onSuccess: () => {
          setKey('');
          saved();
          toast(t('settings.saved'));
          // A key that does not work is told at once.
          if (model.trim() !== '') test.mutate();
        },
      },
    );
  };
  return (
    <form onSubmit={save} className="space-y-5">
      {info.data?.demo && model.trim() === '' && (
        <p className="rounded-md bg-info-soft px-3 py-2 text-sm text-info">{t('settings.model.demo')}</p>
      )}
      <ModelField
        label={t('settings.model.model')}
        help={t('settings.model.modelHelp')}
        placeholder="anthropic/claude-..."
        value={model}
        onModel={(name) => set({ ...now, model: name })}
      />
      <TextField
        label={t('settings.model.key')}
        help={keySet ? t('settings.model.keySet') : t('settings.model.keyHelp')}
        type="password"
        autoComplete="off"
        placeholder={keySet ? '••••••••••' : ''}
        value={key}
        onChange={(event) => setKey(event.target.value)}
      />
      <TextField
        label={t('settings.model.url')}
        help={t('settings.model.urlHelp')}
        type="url"
        placeholder="https://"
        value={url}
        onChange={(event) => set({ ...now, url: event.target.value })}
      />
      {store.error && (
        <p role="alert" className="text-sm whitespace-pre-wrap text-bad">
          {explainError(store.error, t)}
        </p>
      )}
      <div className="flex flex-wrap gap-2">
        <Button kind="primary" type="submit" disabled={!changed || store.isPending}>
          {t('common.save')}
        </Button>
        <Button
          icon={<PlugZap size={15} aria-hidden />}
          disabled={model.trim() === '' || test.isPending}
          onClick={() => test.mutate()}
        >
          {test.isPending ? t('settings.model.testing') : t('settings.model.test')}
        </Button>
      </div>
      <div role="status">
        {test.data && !test.isPending && <Outcome outcome={test.data} />}
        {test.error && <p className="text-sm text-bad">{explainError(test.error, t)}</p>}
      </div>
    </form>
  );
}

export function Outcome({ outcome }: { outcome: Schema['LLMTest'] }) {
  const { t, i18n } = useTranslation();
  if (outcome.ok) {
    return (
      <div className="flex gap-2.5 rounded-md bg-good-soft px-3 py-2.5 text-sm">
        <CircleCheck size={17} aria-hidden className="mt-0.5 shrink-0 text-good" />
        <p className="min-w-0">
          <span className="font-medium text-good">{t('settings.model.works', { model: outcome.model })}</span>{' '}
          {duration(outcome.latency_seconds, i18n.language)}
          {outcome.cost !== null && ` · ${money(outcome.cost, i18n.language)}`}
          {outcome.text !== '' && (
            <span className="block text-ink-soft [overflow-wrap:anywhere]">“{outcome.text}”</span>
          )}
        </p>
      </div>
    );
  }
  return (
    <div className="flex gap-2.5 rounded-md bg-bad-soft px-3 py-2.5 text-sm">
      <TriangleAlert size={17} aria-hidden className="mt-0.5 shrink-0 text-bad" />
      <div className="min-w-0 [overflow-wrap:anywhere]">
        <p className="font-medium text-bad">{t('settings.model.fails')}</p>
        <p>{outcome.error?.detail}</p>
        {outcome.error?.action && <p className="mt-1 text-ink-soft">{relabel(outcome.error.action, t)}</p>}
      </div>
    </div>
  );
}
