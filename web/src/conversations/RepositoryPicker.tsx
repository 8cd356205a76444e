import { useQuery } from '@tanstack/react-query';
import { useDeferredValue, useId, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, ask, type Provider } from '../api/client';
import { explainError } from '../lib/errors';
import { SelectField, TextField } from '../ui/Field';
import { type Chosen, namesRepository } from './choice';

interface Props {
  providers: Provider[];
  chosen: Chosen | null;
  onChange: (chosen: Chosen | null) => void;
}

/** Chooses a repository of a git provider, and one of its branches. */
export function RepositoryPicker({ providers, chosen, onChange }: Props) {
  const { t } = useTranslation();
  const list = useId();
  const [provider, setProvider] = useState(providers[0] ?? 'github');
  const [typed, setTyped] = useState(chosen?.name ?? '');
  const query = useDeferredValue(typed.trim());
  const repositories = useQuery({
    queryKey: ['repositories', provider, query],
    queryFn: () =>
      ask(
        api.GET('/api/v1/git/repositories/search', {
          params: { query: { provider, limit: 30, sort_order: 'updated-desc', ...(query === '' ? {} : { query }) } },
        }),
      ),
    placeholderData: (before) => before,
    staleTime: 30_000,
    retry: false,
  });
  const named = chosen !== null && namesRepository(chosen);
  const branches = useQuery({
    queryKey: ['branches', provider, chosen?.name],
    queryFn: () =>
      ask(
        api.GET('/api/v1/git/branches/search', {
          params: { query: { provider, repository: chosen?.name ?? '', query: '', limit: 100 } },
        }),
      ),
    enabled: named,
    retry: false,
  });
  const choose = (name: string) => {
    setTyped(name);
    onChange(name.trim() === '' ? null : { provider, name: name.trim(), branch: '' });
  };
  return (
    <div className="grid gap-3 sm:grid-cols-2">
      {providers.length > 1 && (
        <SelectField
          label={t('new.provider')}
          value={provider}
          onChange={(event) => {
            setProvider(event.target.value as Provider);
            setTyped('');
            onChange(null);
          }}
        >
          {providers.map((each) => (
            <option key={each} value={each}>
              {each}
            </option>
          ))}
        </SelectField>
      )}
      <div>
        <TextField
          label={t('new.repository')}
          list={list}
          value={typed}
          placeholder={t('new.repositoryNone')}
          error={repositories.error ? explainError(repositories.error, t) : ''}
          onChange={(event) => choose(event.target.value)}
          autoComplete="off"
          spellCheck={false}
        />
        <datalist id={list}>
          {repositories.data?.items.map((each) => (
            <option key={each.id} value={each.full_name} />
          ))}
        </datalist>
      </div>
      {chosen && named && (
        <SelectField
          label={t('new.branch')}
          value={chosen.branch}
          onChange={(event) => onChange({ ...chosen, branch: event.target.value })}
        >
          <option value="">{t('new.branchDefault')}</option>
          {branches.data?.items.map((each) => (
            <option key={each.name} value={each.name}>
              {each.name}
            </option>
          ))}
        </SelectField>
      )}
    </div>
  );
}
