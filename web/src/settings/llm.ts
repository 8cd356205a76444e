// The LLM object of a profile, and the form for one.
import { isRecord } from '../api/client';
import { type Pair, pairsOf, valuesOf } from './mcp';

export const efforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh'];

/** A field as the form has it; what a number stands for in the API may be another one. */
export interface Field {
  key: string;
  kind: 'text' | 'number' | 'whole' | 'choice' | 'switch' | 'secret' | 'names' | 'json';
  max?: number;
  choices?: string[];
  help?: boolean;
  factor?: number; // the form's number is that of the API times this
}

/** What everybody may want to set; then the rest, in groups. */
export const mainFields = [
  { key: 'reasoning_effort', kind: 'choice', choices: efforts, help: true },
  { key: 'fallback_profiles', kind: 'names', help: true },
] as const satisfies Field[];

export const moreFields = {
  limits: [
    { key: 'max_input_tokens', kind: 'whole', help: true },
    { key: 'max_output_tokens', kind: 'whole', help: true },
    { key: 'extended_thinking_budget', kind: 'whole', help: true },
    { key: 'timeout', kind: 'number' },
    { key: 'num_retries', kind: 'whole', help: true },
    { key: 'retry_min_wait', kind: 'number' },
    { key: 'retry_max_wait', kind: 'number' },
    { key: 'retry_multiplier', kind: 'number' },
  ],
  answers: [
    { key: 'temperature', kind: 'number', max: 2 },
    { key: 'top_p', kind: 'number', max: 1 },
    { key: 'top_k', kind: 'number' },
    { key: 'seed', kind: 'whole' },
    { key: 'reasoning_summary', kind: 'choice', choices: ['auto', 'concise', 'detailed'] },
  ],
  abilities: [
    { key: 'native_tool_calling', kind: 'switch', help: true },
    { key: 'caching_prompt', kind: 'switch' },
    { key: 'prompt_cache_retention', kind: 'text' },
    { key: 'disable_vision', kind: 'switch', help: true },
    { key: 'model_canonical_name', kind: 'text', help: true },
  ],
  prices: [
    { key: 'input_cost_per_token', kind: 'number', factor: 1e6, help: true },
    { key: 'output_cost_per_token', kind: 'number', factor: 1e6 },
  ],
  place: [
    { key: 'api_mode', kind: 'choice', choices: ['auto', 'chat', 'responses'], help: true },
    { key: 'api_version', kind: 'text', help: true },
    { key: 'aws_region_name', kind: 'text' },
    { key: 'aws_profile_name', kind: 'text', help: true },
    { key: 'aws_access_key_id', kind: 'secret' },
    { key: 'aws_secret_access_key', kind: 'secret' },
    { key: 'aws_session_token', kind: 'secret' },
    { key: 'litellm_extra_body', kind: 'json', help: true },
  ],
} as const satisfies Record<string, Field[]>;

export type FieldGroup = keyof typeof moreFields;
export type FieldKey = (typeof mainFields)[number]['key'] | (typeof moreFields)[FieldGroup][number]['key'];
export type HelpKey = Extract<
  (typeof mainFields)[number] | (typeof moreFields)[FieldGroup][number],
  { help: true }
>['key'];

const allFields: Field[] = [...mainFields, ...Object.values(moreFields).flat()];

export interface LlmDraft {
  model: string;
  url: string;
  key: string;
  values: Record<string, string>; // of the fields, '' for what is not said
  headers: Pair[];
}

const plain = (value: number) => String(Number(value.toPrecision(12)));

function shown(field: Field, value: unknown): string {
  if (typeof value === 'number') return plain(value * (field.factor ?? 1));
  if (typeof value === 'boolean') return value ? 'on' : 'off';
  if (Array.isArray(value)) return value.join(', ');
  if (isRecord(value)) return JSON.stringify(value, null, 2);
  return typeof value === 'string' ? value : '';
}

export function llmDraftOf(config: Record<string, unknown> = {}): LlmDraft {
  return {
    model: typeof config.model === 'string' ? config.model : '',
    url: typeof config.base_url === 'string' ? config.base_url : '',
    key: '',
    values: Object.fromEntries(
      allFields.map((field) => [field.key, field.kind === 'secret' ? '' : shown(field, config[field.key])]),
    ),
    headers: pairsOf(config.extra_headers),
  };
}

function sent(field: Field, value: string): unknown {
  switch (field.kind) {
    case 'number':
    case 'whole':
      return field.factor ? Number(plain(Number(value) / field.factor)) : Number(value);
    case 'switch':
      return value === 'on';
    case 'names':
      return value.split(/[\s,]+/).filter((each) => each !== '');
    case 'json':
      return JSON.parse(value);
    default:
      return value;
  }
}

/** Is this an object in JSON, or nothing? */
export function isObjectText(text: string): boolean {
  if (text.trim() === '') return true;
  try {
    return isRecord(JSON.parse(text));
  } catch {
    return false;
  }
}

/**
 * The LLM object that a draft describes. Secrets that were not typed are left out, which
 * keeps stored ones; members that the form does not show stay.
 */
export function llmOf(draft: LlmDraft, config: Record<string, unknown> = {}): Record<string, unknown> {
  const out: Record<string, unknown> = { ...config, model: draft.model.trim() };
  out.base_url = draft.url.trim() === '' ? null : draft.url.trim();
  delete out.api_key;
  if (draft.key !== '') out.api_key = draft.key;
  for (const field of allFields) {
    const value = (draft.values[field.key] ?? '').trim();
    delete out[field.key];
    if (value !== '') out[field.key] = sent(field, value);
  }
  // Left out, stored headers would stay.
  out.extra_headers = valuesOf(draft.headers);
  return out;
}
