import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, ask } from '../api/client';
import { type Settings, settings, useStoreSettings } from '../api/queries';
import { chime } from '../lib/chime';
import { explainError } from '../lib/errors';
import { AreaField } from '../ui/AreaField';
import { Button } from '../ui/Button';
import { CheckField, SelectField, TextField } from '../ui/Field';
import { toast } from '../ui/Toast';
import { useDraft } from './drafts';
import { Group } from './GeneralSettings';
import { type MoreValues, moreChanges, moreOf } from './more';
import { Refusal } from './Notice';

export function MoreSettings() {
  const { t } = useTranslation();
  const stored = useQuery(settings);
  if (stored.error) return <p className="text-bad">{explainError(stored.error, t)}</p>;
  if (stored.isPending) return null;
  return (
    <div className="space-y-8">
      <Form stored={stored.data} />
      <Group title={t('setup.rest.keys')}>
        <SecretField member="search_api_key" stored={stored.data?.search_api_key_set === true} />
        <SecretField member="sandbox_api_key" stored={null} />
      </Group>
    </div>
  );
}

function Form({ stored }: { stored: Settings | null }) {
  const { t } = useTranslation();
  const before = moreOf(stored);
  const { now, set: setNow, saved } = useDraft('more', before);
  const store = useStoreSettings();
  const profiles = useQuery({
    queryKey: ['profiles'],
    queryFn: () => ask(api.GET('/api/v1/settings/profiles')),
  });
  const set = <K extends keyof MoreValues>(key: K, value: MoreValues[K]) => setNow({ ...now, [key]: value });
  const changes = moreChanges(before, now);
  const save = (event: FormEvent) => {
    event.preventDefault();
    store.mutate(changes, {
      onSuccess: () => {
        saved();
        toast(t('settings.saved'));
      },
    });
  };
  const g = 'setup.rest';
  const names = profiles.data?.profiles.map((each) => each.name) ?? [];
  return (
    <form onSubmit={save} className="space-y-8">
      <Group title={t(`${g}.agent`)}>
        <SelectField
          label={t(`${g}.title_llm_profile`)}
          help={t(`${g}.titleHelp`)}
          value={now.titles}
          onChange={(event) => set('titles', event.target.value)}
        >
          <option value="">{t(`${g}.ownModel`)}</option>
          {[...names, ...(now.titles !== '' && !names.includes(now.titles) ? [now.titles] : [])].map((name) => (
            <option key={name}>{name}</option>
          ))}
        </SelectField>
        <AreaField
          label={t(`${g}.disabled_skills`)}
          help={t(`${g}.skillsHelp`)}
          value={now.skills}
          onChange={(event) => set('skills', event.target.value)}
        />
      </Group>
      <Group title={t(`${g}.notifications`)}>
        <CheckField
          label={t(`${g}.enable_sound_notifications`)}
          help={t(`${g}.soundHelp`)}
          checked={now.sound}
          onChange={(event) => {
            set('sound', event.target.checked);
            if (event.target.checked) chime(); // how it sounds
          }}
        />
      </Group>
      <Group title={t('settings.general.sandboxes')}>
        <TextField
          label={t(`${g}.sandbox_runtime_container_image`)}
          help={t(`${g}.runtimeHelp`)}
          spellCheck={false}
          value={now.runtime}
          onChange={(event) => set('runtime', event.target.value)}
        />
        <TextField
          label={t(`${g}.sandbox_base_container_image`)}
          help={t(`${g}.baseHelp`)}
          spellCheck={false}
          value={now.base}
          onChange={(event) => set('base', event.target.value)}
        />
        <TextField
          label={t(`${g}.remote_runtime_resource_factor`)}
          help={t(`${g}.factorHelp`)}
          type="number"
          min="1"
          step="1"
          value={now.factor}
          onChange={(event) => set('factor', event.target.value)}
        />
      </Group>
      <Group title={t(`${g}.kept`)}>
        <p className="text-sm text-ink-soft">{t(`${g}.keptText`)}</p>
        <TextField
          label={t(`${g}.email`)}
          type="email"
          help={stored?.email_verified == null ? undefined : t(`${g}.verified.${stored.email_verified ? 'yes' : 'no'}`)}
          value={now.email}
          onChange={(event) => set('email', event.target.value)}
        />
        <TextField
          label={t(`${g}.language`)}
          help={t(`${g}.languageHelp`)}
          maxLength={20}
          value={now.language}
          onChange={(event) => set('language', event.target.value)}
        />
        <TextField
          label={t(`${g}.agentName`)}
          spellCheck={false}
          value={now.agent}
          onChange={(event) => set('agent', event.target.value)}
        />
        <CheckField
          label={t(`${g}.enable_proactive_conversation_starters`)}
          checked={now.starters}
          onChange={(event) => set('starters', event.target.checked)}
        />
        <CheckField
          label={t(`${g}.user_consents_to_analytics`)}
          help={t(`${g}.analyticsHelp`)}
          checked={now.analytics}
          onChange={(event) => set('analytics', event.target.checked)}
        />
        <Solvability />
      </Group>
      {store.error && <Refusal text={explainError(store.error, t)} />}
      <Button kind="primary" type="submit" disabled={Object.keys(changes).length === 0 || store.isPending}>
        {t('common.save')}
      </Button>
    </form>
  );
}

/** Known to the legacy API alone, and so stored by itself. */
function Solvability() {
  const { t } = useTranslation();
  const client = useQueryClient();
  const stored = useQuery({
    queryKey: ['legacy settings'],
    queryFn: () => ask(api.GET('/api/settings')),
    retry: false,
  });
  const store = useMutation({
    mutationFn: async (on: boolean) => {
      // That API sets these to their defaults where they are not sent.
      const now = await ask(api.GET('/api/settings'));
      const body = {
        enable_default_condenser: now.enable_default_condenser,
        enable_proactive_conversation_starters: now.enable_proactive_conversation_starters,
        enable_sound_notifications: now.enable_sound_notifications,
        enable_solvability_analysis: on,
      };
      return ask(api.POST('/api/settings', { body }));
    },
    onSuccess: () => toast(t('settings.saved')),
    onSettled: () => client.invalidateQueries({ queryKey: ['legacy settings'] }),
  });
  return (
    <CheckField
      label={t('setup.rest.enable_solvability_analysis')}
      help={t('setup.rest.solvabilityHelp')}
      checked={store.isPending ? store.variables : stored.data?.enable_solvability_analysis !== false}
      disabled={stored.isPending || store.isPending}
      onChange={(event) => store.mutate(event.target.checked)}
    />
  );
}

/** A key that is stored, or taken away, by itself. stored is null where the server does not tell. */
function SecretField({ member, stored }: { member: 'search_api_key' | 'sandbox_api_key'; stored: boolean | null }) {
  const { t } = useTranslation();
  const [value, setValue] = useState('');
  const store = useStoreSettings();
  const send = (key: string) =>
    store.mutate(
      { [member]: key },
      {
        onSuccess: () => {
          setValue('');
          toast(t('settings.saved'));
        },
      },
    );
  const label = t(`setup.rest.${member}`);
  return (
    <form
      className="space-y-2"
      autoComplete="off"
      onSubmit={(event) => {
        event.preventDefault();
        send(value);
      }}
    >
      <TextField
        label={label}
        help={t(`setup.rest.keyHelp.${member}`)}
        type="password"
        autoComplete="off"
        placeholder={stored ? '••••••••••' : ''}
        value={value}
        onChange={(event) => setValue(event.target.value)}
      />
      {store.error && <Refusal text={explainError(store.error, t)} />}
      <div className="flex gap-2">
        <Button
          type="submit"
          small
          aria-label={`${t('common.save')}: ${label}`}
          disabled={value.trim() === '' || store.isPending}
        >
          {t('common.save')}
        </Button>
        {stored !== false && (
          <Button
            small
            kind="danger"
            aria-label={`${t('setup.rest.removeKey')}: ${label}`}
            disabled={store.isPending}
            onClick={() => send('')}
          >
            {t('setup.rest.removeKey')}
          </Button>
        )}
      </div>
    </form>
  );
}
