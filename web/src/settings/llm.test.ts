import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isObjectText, llmDraftOf, llmOf } from './llm';
import { mask } from './mcp';

describe('an LLM profile', () => {
  const config = {
    model: 'anthropic/claude',
    base_url: null,
    api_key: null,
    temperature: 0,
    num_retries: 3,
    caching_prompt: false,
    native_tool_calling: true,
    reasoning_effort: 'high',
    input_cost_per_token: 0.0000025,
    output_cost_per_token: 0.00001,
    fallback_profiles: ['a', 'b'],
    litellm_extra_body: { deep: { er: 1 } },
    extra_headers: { 'X-Org': mask },
    usage_id: 'kept',
  };

  it('comes out of the form as it went in, without its key', () => {
    const { api_key: _, ...rest } = config;
    expect(llmOf(llmDraftOf(config), config)).toEqual(rest);
  });

  it('shows prices of a million tokens', () => {
    expect(llmDraftOf(config).values.input_cost_per_token).toBe('2.5');
  });

  it('keeps every price', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1_000_000 }), (cents) => {
        const price = Number((cents / 1e8).toPrecision(12));
        expect(llmOf(llmDraftOf({ model: 'm', input_cost_per_token: price })).input_cost_per_token).toBe(price);
      }),
    );
  });

  it('sends only what was said, and the key if one was typed', () => {
    expect(llmOf({ ...llmDraftOf(), model: ' m ' })).toEqual({ model: 'm', base_url: null, extra_headers: {} });
    expect(llmOf({ ...llmDraftOf(config), key: 'k' }, config)).toMatchObject({ api_key: 'k' });
  });

  it('takes away what was emptied', () => {
    const draft = llmDraftOf(config);
    draft.values.temperature = '';
    draft.values.fallback_profiles = ' c,\n d ';
    const out = llmOf({ ...draft, headers: [] }, config);
    expect(out).not.toHaveProperty('temperature');
    expect(out).toMatchObject({ fallback_profiles: ['c', 'd'], extra_headers: {} });
  });

  it('knows an object in JSON', () => {
    for (const text of ['', ' {"a": [1]} ']) expect(isObjectText(text)).toBe(true);
    for (const text of ['[]', '1', '{', 'null']) expect(isObjectText(text)).toBe(false);
  });
});
