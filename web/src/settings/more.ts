// The settings that few need, as a form has them.
import type { Schema } from '../api/client';
import type { Settings } from '../api/queries';

export interface MoreValues {
  titles: string;
  skills: string; // one a line
  runtime: string;
  base: string;
  factor: string;
  email: string;
  language: string;
  agent: string;
  sound: boolean;
  starters: boolean;
  analytics: boolean;
}

export function moreOf(s: Settings | null): MoreValues {
  return {
    titles: s?.title_llm_profile ?? '',
    skills: (s?.disabled_skills ?? []).join('\n'),
    runtime: s?.sandbox_runtime_container_image ?? '',
    base: s?.sandbox_base_container_image ?? '',
    factor: s?.remote_runtime_resource_factor == null ? '' : String(s.remote_runtime_resource_factor),
    email: s?.email ?? '',
    language: s?.language ?? '',
    agent: s?.agent_settings.agent ?? '',
    sound: s?.enable_sound_notifications ?? false,
    starters: s?.enable_proactive_conversation_starters ?? true,
    analytics: s?.user_consents_to_analytics ?? false,
  };
}

/** Only what the user changed is sent; what was emptied is reset. */
export function moreChanges(before: MoreValues, now: MoreValues): Schema['SettingsChange'] {
  const out: Schema['SettingsChange'] = {};
  const changed = <K extends keyof MoreValues>(key: K) => before[key] !== now[key];
  const text = (value: string) => (value.trim() === '' ? null : value.trim());
  if (changed('titles')) out.title_llm_profile = text(now.titles);
  if (changed('skills'))
    out.disabled_skills = now.skills
      .split('\n')
      .map((each) => each.trim())
      .filter(Boolean);
  if (changed('runtime')) out.sandbox_runtime_container_image = text(now.runtime);
  if (changed('base')) out.sandbox_base_container_image = text(now.base);
  if (changed('factor')) out.remote_runtime_resource_factor = now.factor.trim() === '' ? null : Number(now.factor);
  if (changed('email')) out.email = text(now.email);
  if (changed('language')) out.language = text(now.language);
  if (changed('agent')) out.agent_settings_diff = { agent: text(now.agent) };
  if (changed('sound')) out.enable_sound_notifications = now.sound;
  if (changed('starters')) out.enable_proactive_conversation_starters = now.starters;
  if (changed('analytics')) out.user_consents_to_analytics = now.analytics;
  return out;
}
