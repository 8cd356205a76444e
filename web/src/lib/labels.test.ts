import i18next from 'i18next';
import { beforeAll, describe, expect, it } from 'vitest';
import { ApiError, explain } from '../api/client';
import { startLanguage } from '../i18n';
import { explainError } from './errors';
import { labelOf, relabel } from './labels';

beforeAll(startLanguage);

describe('errors', () => {
  it.each([
    [['body', 'agent_settings_diff', 'llm', 'temperature'], 'Temperature'],
    [['body', 'agent_settings_diff', 'mcp_config', 'url', 'url'], 'url · Address'],
    [['body', 'server', 'files', 'args', 0], 'files · Arguments · 1'],
    [['body', 'unheard_of'], 'unheard_of'],
    [['body'], ''],
  ])('are told at the label of %s', (path, label) => {
    expect(labelOf(path, i18next.t)).toBe(label);
  });

  it('name fields as the forms do', () => {
    expect(relabel('Set llm_model in agent_settings.llm_base_url, not in some_thing or a.json.', i18next.t)).toBe(
      'Set “Model” in “Base URL”, not in some_thing or a.json.',
    );
  });

  it('come out of what the API answers', () => {
    const detail = [
      { loc: ['body', 'llm', 'top_p'], msg: 'Input should be less than or equal to 1' },
      { loc: ['body', 'llm', 'api_key'], msg: 'Value error, The stored value belongs to another endpoint' },
    ];
    expect(explainError(explain(422, { detail }), i18next.t)).toBe(
      'Top p: Input should be less than or equal to 1\nAPI key: The stored value belongs to another endpoint',
    );
    expect(explainError(explain(400, { detail: 'Give max_iterations.' }), i18next.t)).toBe(
      'Give “Steps of a run at most”.',
    );
    expect(explainError(new ApiError(503, '', ''), i18next.t)).toContain('503');
  });
});
