// What is chosen for a new conversation.
import type { Provider, Schema } from '../api/client';

export interface Chosen {
  provider: Provider | null; // null: the name is an address
  name: string; // as it was typed: owner/name, or an address
  branch: string; // '' = the main one
}

export interface Choice {
  profile: string; // '' = the model of the settings
  model: string; // '' = the profile's
  spec: string; // '' = the default
  repository: Chosen | null;
}

export const usual: Choice = { profile: '', model: '', spec: '', repository: null };

/** The part of a start request that a choice makes. */
export function requestOf(choice: Choice): Partial<Schema['AppConversationStartRequest']> {
  const { profile, model, spec, repository } = choice;
  return {
    ...(profile === '' ? {} : { llm_profile: profile }),
    ...(model.trim() === '' ? {} : { llm_model: model.trim() }),
    ...(spec === '' ? {} : { sandbox_spec_id: spec }),
    ...(repository === null
      ? {}
      : {
          selected_repository: repository.name,
          ...(repository.provider === null ? {} : { git_provider: repository.provider }),
          ...(repository.branch.trim() === '' ? {} : { selected_branch: repository.branch.trim() }),
        }),
  };
}

/** Whether what was typed names a repository: owner/name at a provider, else an address. */
export function namesRepository({ provider, name }: Pick<Chosen, 'provider' | 'name'>): boolean {
  if (provider !== null) return /^[^\s/]+(\/[^\s/]+)+$/.test(name);
  try {
    const url = new URL(name);
    return /^https?:$/.test(url.protocol) && url.host !== '' && url.pathname.length > 1;
  } catch {
    return false;
  }
}
