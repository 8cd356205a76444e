import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Pencil, PlugZap, Plus } from 'lucide-react';
import { type FormEvent, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, ask, type Schema } from '../api/client';
import { explainError } from '../lib/errors';
import { Button } from '../ui/Button';
import { Dialog } from '../ui/Dialog';
import { TextField } from '../ui/Field';
import { toast } from '../ui/Toast';
import { Entries, Entry } from './Entry';
import { LlmFields } from './LlmFields';
import { isObjectText, llmDraftOf, llmOf } from './llm';
import { Outcome } from './ModelSettings';
import { Refusal } from './Notice';

type Detail = Pick<Schema['ProfileDetail'], 'name' | 'api_key_set'> & { config: object };

const list = { queryKey: ['profiles'], queryFn: () => ask(api.GET('/api/v1/settings/profiles')) };
const at = (name: string) => ({ params: { path: { name } } });

/** The active profile is the model of the settings. */
function useRenew() {
  const client = useQueryClient();
  return () =>
    Promise.all([
      client.invalidateQueries({ queryKey: ['profiles'] }),
      client.invalidateQueries({ queryKey: ['settings'] }),
    ]);
}

export function ProfileSettings() {
  const { t } = useTranslation();
  const profiles = useQuery(list);
  const [editing, setEditing] = useState<string | null>(null); // '' for a new one
  const [tested, setTested] = useState('');
  const renew = useRenew();
  const remove = useMutation({
    mutationFn: (name: string) => ask(api.DELETE('/api/v1/settings/profiles/{name}', at(name))),
    onSuccess: renew,
  });
  const activate = useMutation({
    mutationFn: (name: string) => ask(api.POST('/api/v1/settings/profiles/{name}/activate', at(name))),
    onSuccess: renew,
  });
  const test = useMutation({
    mutationFn: (name: string) => ask(api.POST('/api/v1/settings/profiles/{name}/test', at(name))),
    onMutate: setTested,
    meta: { quiet: true },
  });
  const detail = useQuery({
    queryKey: ['profiles', editing],
    queryFn: () => ask(api.GET('/api/v1/settings/profiles/{name}', at(editing ?? ''))),
    enabled: editing !== null && editing !== '',
    gcTime: 0,
  });
  if (profiles.error) return <p className="text-bad">{explainError(profiles.error, t)}</p>;
  if (profiles.isPending) return null;
  const { active_profile: active } = profiles.data;
  const g = 'setup.profiles';
  return (
    <div className="space-y-6">
      <p className="text-sm text-ink-soft">{t(`${g}.intro`)}</p>
      <Entries none={t(`${g}.none`)}>
        {profiles.data.profiles.map(({ name, model, base_url, api_key_set }) => (
          <Entry
            key={name}
            title={name}
            detail={
              <>
                {[model, base_url, t(api_key_set ? `${g}.withKey` : `${g}.withoutKey`)].filter(Boolean).join(' · ')}
                {name === active && <span className="block font-medium text-good">{t(`${g}.active`)}</span>}
              </>
            }
            question={t(`${g}.deleteTitle`, { name })}
            consequence={t(`${g}.deleteText`)}
            onDelete={() => remove.mutate(name)}
            actions={
              <>
                {name !== active && (
                  <Button
                    small
                    aria-label={`${t(`${g}.activate`)}: ${name}`}
                    disabled={activate.isPending}
                    onClick={() => activate.mutate(name)}
                  >
                    {t(`${g}.activate`)}
                  </Button>
                )}
                <Button
                  small
                  icon={<PlugZap size={13} aria-hidden />}
                  aria-label={`${t('setup.test')}: ${name}`}
                  disabled={test.isPending}
                  onClick={() => test.mutate(name)}
                >
                  {t('setup.test')}
                </Button>
                <Button
                  small
                  icon={<Pencil size={13} aria-hidden />}
                  aria-label={`${t('setup.edit')}: ${name}`}
                  onClick={() => setEditing(name)}
                >
                  {t('setup.edit')}
                </Button>
              </>
            }
          >
            {tested === name && (
              <div role="status" className="mt-2">
                {test.isPending && <p className="text-[13px] text-ink-soft">{t('settings.model.testing')}</p>}
                {test.data && !test.isPending && <Outcome outcome={test.data} />}
                {test.error && !test.isPending && <Refusal text={explainError(test.error, t)} />}
              </div>
            )}
          </Entry>
        ))}
      </Entries>
      <Button kind="primary" icon={<Plus size={15} aria-hidden />} onClick={() => setEditing('')}>
        {t(`${g}.add`)}
      </Button>
      <Dialog
        open={editing !== null}
        onOpenChange={(open) => !open && setEditing(null)}
        title={editing ? t(`${g}.editTitle`, { name: editing }) : t(`${g}.add`)}
      >
        {detail.error && <Refusal text={explainError(detail.error, t)} />}
        {(editing === '' || detail.data) && (
          <ProfileForm
            key={editing}
            stored={editing === '' ? undefined : detail.data}
            taken={profiles.data.profiles.map((each) => each.name)}
            onDone={(stored) => {
              setEditing(null);
              // A key that does not work is told at once.
              if (stored) test.mutate(stored);
            }}
          />
        )}
      </Dialog>
    </div>
  );
}

interface FormProps {
  stored: Detail | undefined;
  taken: string[];
  onDone: (stored?: string) => void;
}

function ProfileForm({ stored, taken, onDone }: FormProps) {
  const { t } = useTranslation();
  const config = stored?.config as Record<string, unknown> | undefined;
  const [name, setName] = useState(stored?.name ?? '');
  const [draft, setDraft] = useState(() => llmDraftOf(config));
  const [fromSettings, setFromSettings] = useState(false);
  const renew = useRenew();
  const clash = name.trim() !== stored?.name && taken.includes(name.trim());
  const save = useMutation({
    mutationFn: async (copy: boolean) => {
      let to = name.trim();
      const body = copy ? {} : { llm: llmOf(draft, config), preserve_existing_api_key: true, include_secrets: true };
      // The old name first: what is refused is then refused before anything changed.
      await ask(
        api.POST('/api/v1/settings/profiles/{name}', {
          ...at(stored?.name ?? to),
          body: body as Schema['SaveProfileRequest'],
        }),
      );
      if (stored && stored.name !== to)
        to = (
          await ask(api.POST('/api/v1/settings/profiles/{name}/rename', { ...at(stored.name), body: { new_name: to } }))
        ).name;
      return to;
    },
    onSuccess: async (to) => {
      toast(t('settings.saved'));
      await renew();
      onDone(to);
    },
    meta: { quiet: true },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate(fromSettings);
  };
  const wrong = clash || !isObjectText(draft.values.litellm_extra_body ?? '');
  const g = 'setup.profiles';
  return (
    <form onSubmit={submit} className="space-y-4" autoComplete="off">
      <TextField
        label={t(`${g}.name`)}
        help={t(`${g}.nameHelp`)}
        error={clash ? t(`${g}.taken`) : undefined}
        required
        pattern="[A-Za-z0-9._\-]{1,64}"
        maxLength={64}
        value={name}
        spellCheck={false}
        onChange={(event) => setName(event.target.value)}
      />
      {!stored && (
        <label className="flex items-center gap-2.5 text-sm">
          <input
            type="checkbox"
            className="size-4 shrink-0 accent-accent"
            checked={fromSettings}
            onChange={(event) => setFromSettings(event.target.checked)}
          />
          {t(`${g}.copy`)}
        </label>
      )}
      {!fromSettings && <LlmFields draft={draft} keySet={stored?.api_key_set === true} onChange={setDraft} />}
      {save.error && <Refusal text={explainError(save.error, t)} />}
      <div className="flex flex-wrap justify-end gap-2 border-t border-line pt-4">
        <Button onClick={() => onDone()}>{t('common.cancel')}</Button>
        <Button kind="primary" type="submit" disabled={wrong || save.isPending}>
          {t(`${g}.saveAndTest`)}
        </Button>
      </div>
    </form>
  );
}
