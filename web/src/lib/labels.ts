// Errors name members of the API; people know the labels of the forms.
import type { TFunction } from 'i18next';
import { mainFields, moreFields } from '../settings/llm';

type Key = Parameters<TFunction>[0];

const own = {
  model: 'settings.model.model',
  llm_model: 'settings.model.model',
  api_key: 'settings.model.key',
  llm_api_key: 'settings.model.key',
  base_url: 'settings.model.url',
  llm_base_url: 'settings.model.url',
  extra_headers: 'setup.llm.headers',
  max_iterations: 'settings.general.iterations',
  confirmation_mode: 'settings.general.confirm',
  security_analyzer: 'settings.general.analyzer',
  max_budget_per_task: 'settings.general.budget',
  enable_default_condenser: 'settings.general.condense',
  condenser_max_size: 'settings.general.condenseSize',
  max_size: 'settings.general.condenseSize',
  enable_sub_agents: 'settings.general.subAgents',
  git_full_clone: 'settings.general.fullClone',
  sandbox_grouping_strategy: 'settings.general.grouping',
  default_sandbox_spec_id: 'settings.general.spec',
  git_user_name: 'settings.general.gitName',
  git_user_email: 'settings.general.gitEmail',
  provider_tokens: 'settings.git.token',
  token: 'settings.git.token',
  title_llm_profile: 'setup.rest.title_llm_profile',
  disabled_skills: 'setup.rest.disabled_skills',
  sandbox_base_container_image: 'setup.rest.sandbox_base_container_image',
  sandbox_runtime_container_image: 'setup.rest.sandbox_runtime_container_image',
  remote_runtime_resource_factor: 'setup.rest.remote_runtime_resource_factor',
  search_api_key: 'setup.rest.search_api_key',
  sandbox_api_key: 'setup.rest.sandbox_api_key',
  email: 'setup.rest.email',
  language: 'setup.rest.language',
  status_only: 'setup.hooks.statusOnly',
  url: 'setup.hooks.url',
  kinds: 'setup.hooks.kinds',
  secret: 'setup.hooks.secret',
  new_name: 'setup.profiles.name',
} as const satisfies Record<string, Key>;

// Of an MCP server.
const server = {
  url: 'setup.mcp.url',
  command: 'setup.mcp.command',
  args: 'setup.mcp.args',
  env: 'setup.mcp.env',
  cwd: 'setup.mcp.cwd',
  headers: 'setup.mcp.headers',
  timeout: 'setup.mcp.timeout',
  auth: 'setup.mcp.auth',
  value: 'setup.mcp.token',
  transport: 'setup.mcp.kind',
} as const satisfies Record<string, Key>;

const labels = new Map<string, Key>([
  ...Object.entries(own),
  ...[...mainFields, ...Object.values(moreFields).flat()].map(
    (each) => [each.key, `setup.llm.fields.${each.key}`] as [string, Key],
  ),
]);
const serverLabels = new Map<string, Key>(Object.entries(server));

// Where members stand, which nobody sees in a form.
const wrappers = [
  'body',
  'query',
  'path',
  'agent_settings_diff',
  'conversation_settings_diff',
  'llm',
  'secrets_store',
  'condenser',
];

const say = (key: Key, t: TFunction) => String(t(key as 'common.save'));

/** The place of a value in a request, in the words of the forms. */
export function labelOf(path: readonly (string | number)[], t: TFunction): string {
  const parts: string[] = [];
  let of = labels;
  for (const [i, part] of path.entries()) {
    if (typeof part === 'number') {
      parts.push(String(part + 1));
      continue;
    }
    if (part === 'mcp_config' || (part === 'server' && i <= 1)) {
      of = serverLabels;
      continue;
    }
    if (wrappers.includes(part)) continue;
    // What follows mcp_config is a name that the user gave.
    const named = of === serverLabels && parts.length === 0;
    const key = named ? undefined : of.get(part);
    parts.push(key === undefined ? part : say(key, t));
  }
  return parts.join(' · ');
}

/** A text of the server, with the labels of the members that it names. */
export function relabel(text: string, t: TFunction): string {
  return text.replace(/\b[a-z]+(?:[._][a-z0-9]+)+\b/g, (name) => {
    const key = name.includes('_') ? labels.get(name.slice(name.lastIndexOf('.') + 1)) : undefined;
    return key === undefined ? name : t('setup.quoted', { text: say(key, t) });
  });
}
