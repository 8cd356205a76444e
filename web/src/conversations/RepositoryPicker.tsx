import { useQuery } from '@tanstack/react-query';
import { useId, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, ask, type Provider } from '../api/client';
import { explainError } from '../lib/errors';
import { providers as names } from '../lib/providers';
import { useSettled } from '../lib/settled';
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
  const query = useSettled(typed.trim());
  const settled = useSettled(chosen?.name ?? '');
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
              {names[each] ?? each}
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
      {chosen && namesRepository(chosen) && (
        <BranchPicker
          provider={provider}
          repository={chosen.name}
          known={settled === chosen.name}
          branch={chosen.branch}
          onChange={(branch) => onChange({ ...chosen, branch })}
        />
      )}
    </div>
  );
}

interface BranchProps {
  provider: Provider;
  repository: string;
  known: boolean; // false while its name may still be typed
  branch: string; // '' = the main one
  onChange: (branch: string) => void;
}

/** A list of all branches; where there are more than a page, one that is searched. */
function BranchPicker({ provider, repository, known, branch, onChange }: BranchProps) {
  const { t } = useTranslation();
  const list = useId();
  const query = useSettled(branch.trim());
  const page = (query: string, enabled: boolean) => ({
    queryKey: ['branches', provider, repository, query],
    queryFn: () =>
      ask(api.GET('/api/v1/git/branches/search', { params: { query: { provider, repository, query, limit: 100 } } })),
    enabled,
    staleTime: 30_000,
    retry: false,
  });
  const all = useQuery(page('', known));
  const many = all.data?.next_page_id != null;
  const found = useQuery({ ...page(query, many && query !== ''), placeholderData: (before) => before });
  const common = { label: t('new.branch'), error: all.error ? explainError(all.error, t) : '', value: branch };
  if (!many)
    return (
      <SelectField {...common} onChange={(event) => onChange(event.target.value)}>
        <option value="">{t('new.branchDefault')}</option>
        {all.data?.items.map((each) => (
          <option key={each.name} value={each.name}>
            {each.name}
          </option>
        ))}
      </SelectField>
    );
  return (
    <div>
      <TextField
        {...common}
        list={list}
        placeholder={t('new.branchDefault')}
        autoComplete="off"
        spellCheck={false}
        onChange={(event) => onChange(event.target.value)}
      />
      <datalist id={list}>
        {(query === '' ? all : found).data?.items.map((each) => (
          <option key={each.name} value={each.name} />
        ))}
      </datalist>
    </div>
  );
}
