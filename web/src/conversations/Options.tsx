import { useQuery } from '@tanstack/react-query';
import { ChevronDown } from 'lucide-react';
import { useTranslation } from 'react-i18next';
import type { Provider } from '../api/client';
import { type Settings, sandboxSpecs } from '../api/queries';
import { ModelField } from '../settings/ModelField';
import { SelectField, TextField } from '../ui/Field';
import { type Choice, type Chosen, namesRepository } from './choice';
import { RepositoryPicker } from './RepositoryPicker';

interface Props {
  settings: Settings | null;
  choice: Choice;
  onChange: (choice: Choice) => void;
}

/** What there is to choose for a new conversation; what has one choice only is not shown. */
export function Options({ settings, choice, onChange }: Props) {
  const { t } = useTranslation();
  const specs = useQuery(sandboxSpecs);
  const profiles = Object.entries(settings?.llm_profiles.profiles ?? {});
  const providers = Object.keys(settings?.provider_tokens_set ?? {}) as Provider[];
  const manySpecs = (specs.data?.length ?? 0) > 1;
  const stored = settings?.agent_settings.llm.model ?? '';
  const set = (change: Partial<Choice>) => onChange({ ...choice, ...change });
  const parts = [
    t('new.repository'),
    ...(stored !== '' || profiles.length > 0 ? [t('new.model')] : []),
    ...(manySpecs ? [t('new.spec')] : []),
  ];
  return (
    <details className="group rounded-lg border border-line" open={Object.values(choice).some(Boolean) || undefined}>
      <summary className="flex list-none items-center gap-1.5 rounded-lg px-3.5 py-2 text-sm text-ink-soft hover:bg-hover">
        <ChevronDown size={15} aria-hidden className="-rotate-90 transition-transform group-open:rotate-0" />
        {t('new.options')}: {parts.join(', ')}
      </summary>
      <div className="space-y-3 border-t border-line p-3.5">
        {providers.length > 0 ? (
          <RepositoryPicker
            providers={providers}
            chosen={choice.repository}
            onChange={(repository) => set({ repository })}
          />
        ) : (
          <Address chosen={choice.repository} onChange={(repository) => set({ repository })} />
        )}
        {profiles.length > 0 && (
          <SelectField
            label={t('new.profile')}
            value={choice.profile}
            onChange={(event) => set({ profile: event.target.value })}
          >
            <option value="">{t('new.modelDefault', { model: stored || '-' })}</option>
            {profiles.map(([name, llm]) => (
              <option key={name} value={name}>
                {typeof llm.model === 'string' ? `${name} (${llm.model})` : name}
              </option>
            ))}
          </SelectField>
        )}
        {(stored !== '' || choice.profile !== '') && (
          <ModelField
            label={t('new.model')}
            help={t('new.modelHelp')}
            placeholder={stored}
            value={choice.model}
            onModel={(model) => set({ model })}
          />
        )}
        {manySpecs && (
          <SelectField
            label={t('new.spec')}
            value={choice.spec}
            onChange={(event) => set({ spec: event.target.value })}
          >
            <option value="">{t('new.specDefault')}</option>
            {specs.data?.map((each) => (
              <option key={each.id} value={each.id}>
                {each.id}
              </option>
            ))}
          </SelectField>
        )}
      </div>
    </details>
  );
}

/** A repository that needs no provider: its address. */
function Address({ chosen, onChange }: { chosen: Chosen | null; onChange: (chosen: Chosen | null) => void }) {
  const { t } = useTranslation();
  const change = (name: string, branch: string) =>
    onChange(name.trim() === '' ? null : { provider: null, name: name.trim(), branch });
  const wrong = chosen !== null && !namesRepository(chosen);
  return (
    <div className="space-y-2">
      <div className="grid items-start gap-3 sm:grid-cols-2">
        <TextField
          label={t('new.repository')}
          type="url"
          value={chosen?.name ?? ''}
          placeholder="https://"
          autoComplete="off"
          spellCheck={false}
          help={t('new.addressHelp')}
          error={wrong ? t('new.noAddress') : ''}
          onChange={(event) => change(event.target.value, chosen?.branch ?? '')}
        />
        {chosen && (
          <TextField
            label={t('new.branch')}
            value={chosen.branch}
            placeholder={t('new.branchDefault')}
            spellCheck={false}
            onChange={(event) => change(chosen.name, event.target.value)}
          />
        )}
      </div>
      <p className="text-[13px]">
        <a href="#/settings/git" className="text-accent-text underline">
          {t('new.toProviders')}
        </a>
      </p>
    </div>
  );
}
