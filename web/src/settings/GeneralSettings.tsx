import { useQuery } from '@tanstack/react-query';
import type { FormEvent, ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import type { Schema } from '../api/client';
import { type Settings, sandboxSpecs, settings, useStoreSettings } from '../api/queries';
import { explainError } from '../lib/errors';
import { Button } from '../ui/Button';
import { CheckField, SelectField, TextField } from '../ui/Field';
import { toast } from '../ui/Toast';
import { useDraft } from './drafts';

export function GeneralSettings() {
  const { t } = useTranslation();
  const stored = useQuery(settings);
  if (stored.error) return <p className="text-bad">{explainError(stored.error, t)}</p>;
  if (stored.isPending) return null;
  return <Form stored={stored.data} />;
}

const groupings = [
  'NO_GROUPING',
  'GROUP_BY_NEWEST',
  'LEAST_RECENTLY_USED',
  'FEWEST_CONVERSATIONS',
  'ADD_TO_ANY',
] as const;

interface Values {
  confirm: boolean;
  analyzer: string;
  iterations: string;
  budget: string;
  condense: boolean;
  condenseSize: string;
  subAgents: boolean;
  fullClone: boolean;
  grouping: (typeof groupings)[number];
  spec: string;
  gitName: string;
  gitEmail: string;
}

function valuesOf(s: Settings | null): Values {
  return {
    confirm: s?.conversation_settings.confirmation_mode ?? false,
    analyzer: s?.conversation_settings.security_analyzer === 'llm' ? 'llm' : '',
    iterations: String(s?.conversation_settings.max_iterations ?? 500),
    budget: s?.max_budget_per_task == null ? '' : String(s.max_budget_per_task),
    condense: s?.agent_settings.condenser.enabled ?? true,
    condenseSize: String(s?.agent_settings.condenser.max_size ?? 80),
    subAgents: s?.agent_settings.enable_sub_agents ?? false,
    fullClone: s?.git_full_clone ?? false,
    grouping: s?.sandbox_grouping_strategy ?? 'NO_GROUPING',
    spec: s?.default_sandbox_spec_id ?? '',
    gitName: s?.git_user_name ?? '',
    gitEmail: s?.git_user_email ?? '',
  };
}

/** Only what the user changed is sent: what was never set keeps the server's own default. */
function changesOf(before: Values, now: Values): Schema['SettingsChange'] {
  const changed = <K extends keyof Values>(key: K) => before[key] !== now[key];
  const text = (value: string) => (value.trim() === '' ? null : value.trim());
  const amount = (value: string) => (value.trim() === '' ? null : Number(value));
  const out: Schema['SettingsChange'] = {};
  const conversation: NonNullable<Schema['ConversationSettingsChange']> = {};
  const agent: NonNullable<Schema['AgentSettingsChange']> = {};
  if (changed('confirm')) conversation.confirmation_mode = now.confirm;
  if (changed('analyzer')) conversation.security_analyzer = now.analyzer === 'llm' ? 'llm' : null;
  if (changed('iterations')) conversation.max_iterations = amount(now.iterations);
  if (changed('subAgents')) agent.enable_sub_agents = now.subAgents;
  if (changed('condense') || changed('condenseSize'))
    agent.condenser = { enabled: now.condense, max_size: amount(now.condenseSize) };
  if (changed('budget')) out.max_budget_per_task = amount(now.budget);
  if (changed('fullClone')) out.git_full_clone = now.fullClone;
  if (changed('grouping')) out.sandbox_grouping_strategy = now.grouping;
  if (changed('spec')) out.default_sandbox_spec_id = text(now.spec);
  if (changed('gitName')) out.git_user_name = text(now.gitName);
  if (changed('gitEmail')) out.git_user_email = text(now.gitEmail);
  if (Object.keys(conversation).length > 0) out.conversation_settings_diff = conversation;
  if (Object.keys(agent).length > 0) out.agent_settings_diff = agent;
  return out;
}

function Form({ stored }: { stored: Settings | null }) {
  const { t } = useTranslation();
  const before = valuesOf(stored);
  const { now, set: setNow, saved } = useDraft('general', before);
  const specs = useQuery(sandboxSpecs);
  const store = useStoreSettings();
  const set = <K extends keyof Values>(key: K, value: Values[K]) => setNow({ ...now, [key]: value });
  const changes = changesOf(before, now);
  const save = (event: FormEvent) => {
    event.preventDefault();
    store.mutate(changes, {
      onSuccess: () => {
        saved();
        toast(t('settings.saved'));
      },
    });
  };
  const g = 'settings.general';
  return (
    <form onSubmit={save} className="space-y-8">
      <Group title={t(`${g}.safety`)}>
        <CheckField
          label={t(`${g}.confirm`)}
          help={t(`${g}.confirmHelp`)}
          checked={now.confirm}
          onChange={(e) => set('confirm', e.target.checked)}
        />
        <SelectField
          label={t(`${g}.analyzer`)}
          help={t(`${g}.analyzerHelp`)}
          value={now.analyzer}
          onChange={(e) => set('analyzer', e.target.value)}
        >
          <option value="llm">{t(`${g}.analyzerLlm`)}</option>
          <option value="">{t(`${g}.analyzerNone`)}</option>
        </SelectField>
      </Group>
      <Group title={t(`${g}.limits`)}>
        <TextField
          label={t(`${g}.budget`)}
          help={t(`${g}.budgetHelp`)}
          type="number"
          min="0"
          step="any"
          value={now.budget}
          onChange={(e) => set('budget', e.target.value)}
        />
        <TextField
          label={t(`${g}.iterations`)}
          help={t(`${g}.iterationsHelp`)}
          type="number"
          min="1"
          step="1"
          required
          value={now.iterations}
          onChange={(e) => set('iterations', e.target.value)}
        />
        <CheckField
          label={t(`${g}.condense`)}
          help={t(`${g}.condenseHelp`)}
          checked={now.condense}
          onChange={(e) => set('condense', e.target.checked)}
        />
        {now.condense && (
          <TextField
            label={t(`${g}.condenseSize`)}
            type="number"
            min="20"
            step="1"
            required
            value={now.condenseSize}
            onChange={(e) => set('condenseSize', e.target.value)}
          />
        )}
        <CheckField
          label={t(`${g}.subAgents`)}
          help={t(`${g}.subAgentsHelp`)}
          checked={now.subAgents}
          onChange={(e) => set('subAgents', e.target.checked)}
        />
      </Group>
      <Group title={t(`${g}.sandboxes`)}>
        <SelectField label={t(`${g}.spec`)} value={now.spec} onChange={(e) => set('spec', e.target.value)}>
          <option value="">{t('new.specDefault')}</option>
          {specs.data?.map((each) => (
            <option key={each.id} value={each.id}>
              {each.id}
            </option>
          ))}
        </SelectField>
        <SelectField
          label={t(`${g}.grouping`)}
          help={t(`${g}.groupingHelp`)}
          value={now.grouping}
          onChange={(e) => set('grouping', e.target.value as Values['grouping'])}
        >
          {groupings.map((each) => (
            <option key={each} value={each}>
              {t(`${g}.groupings.${each}`)}
            </option>
          ))}
        </SelectField>
      </Group>
      <Group title={t(`${g}.git`)}>
        <TextField
          label={t(`${g}.gitName`)}
          help={t(`${g}.gitHelp`)}
          value={now.gitName}
          onChange={(e) => set('gitName', e.target.value)}
        />
        <TextField
          label={t(`${g}.gitEmail`)}
          type="email"
          value={now.gitEmail}
          onChange={(e) => set('gitEmail', e.target.value)}
        />
        <CheckField
          label={t(`${g}.fullClone`)}
          help={t(`${g}.fullCloneHelp`)}
          checked={now.fullClone}
          onChange={(e) => set('fullClone', e.target.checked)}
        />
      </Group>
      {store.error && (
        <p role="alert" className="text-sm whitespace-pre-wrap text-bad">
          {explainError(store.error, t)}
        </p>
      )}
      <Button kind="primary" type="submit" disabled={Object.keys(changes).length === 0 || store.isPending}>
        {t('common.save')}
      </Button>
    </form>
  );
}

export function Group({ title, children }: { title: string; children: ReactNode }) {
  return (
    <fieldset className="space-y-4">
      <legend className="mb-3 text-base font-semibold">{title}</legend>
      {children}
    </fieldset>
  );
}
