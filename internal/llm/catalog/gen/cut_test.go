package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/internal/llm/catalog"
)

// The table that comes of a source, line by line.
func TestCut(t *testing.T) {
	const tokens = `"mode": "chat", "max_input_tokens": 1000, "max_output_tokens": 100`
	source := `{
		"sample_spec": {"mode": "one of: chat, embedding", "max_input_tokens": "max input tokens"},
		"gpt": {"litellm_provider": "openai", ` + tokens + `, "supports_vision": true, "supports_function_calling": false,
			"input_cost_per_token": 1e-6, "output_cost_per_token": "4e-6", "cache_read_input_token_cost": 1e-7, "deprecation_date": "2027-01-31"},
		"gpt-pro": {"litellm_provider": "openai", "mode": "responses", "max_input_tokens": 1000, "input_cost_per_token": 1e-6},
		"claude": {"litellm_provider": "anthropic", ` + tokens + `, "input_cost_per_token": 3e-6, "output_cost_per_token": 15e-6,
			"cache_read_input_token_cost": 3e-7, "cache_creation_input_token_cost": 3.75e-6, "cache_creation_input_token_cost_above_1hr": 6e-6,
			"input_cost_per_token_above_200k_tokens": 6e-6, "output_cost_per_token_above_200k_tokens": 22.5e-6},
		"deepseek-chat": {"litellm_provider": "deepseek", ` + tokens + `},
		"deepseek/deepseek-chat": {"litellm_provider": "deepseek", ` + tokens + `, "supports_reasoning": true, "cache_creation_input_token_cost": 0.0,
			"input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6},
		"dashscope/qwen": {"litellm_provider": "dashscope", "mode": "chat", "tiered_pricing": [
			{"range": [0, 32000.0], "input_cost_per_token": 1e-6, "output_cost_per_token": 5e-6, "output_cost_per_reasoning_token": 8e-6},
			{"range": [32000.0, 128000.0], "input_cost_per_token": 2e-6, "output_cost_per_token": 9e-6}]},
		"us.anthropic.claude": {"litellm_provider": "bedrock_converse", ` + tokens + `, "supported_modalities": ["text"]},
		"bedrock/us-east-1/1-month-commitment/anthropic.claude": {"litellm_provider": "bedrock", ` + tokens + `},
		"ollama/llama": {"litellm_provider": "ollama", ` + tokens + `, "input_cost_per_token": 0, "output_cost_per_token": 0},
		"ollama/huge:600b-cloud": {"litellm_provider": "ollama", ` + tokens + `, "input_cost_per_token": 0, "output_cost_per_token": 0},
		"gemini/trial": {"litellm_provider": "gemini", ` + tokens + `, "input_cost_per_token": 0, "output_cost_per_token": 0},
		"azure_ai/typo": {"litellm_provider": "azure_ai", ` + tokens + `, "input_cost_per_token": 0.0032, "output_cost_per_token": 0.00971},
		"perplexity/sonar": {"litellm_provider": "perplexity", ` + tokens + `, "input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6},
		"gemini/paints": {"litellm_provider": "gemini", ` + tokens + `, "supported_output_modalities": ["image"]},
		"openai/nothing-known": {"litellm_provider": "openai", "mode": "chat"},
		"embedder": {"litellm_provider": "openai", "mode": "embedding", "max_input_tokens": 1},
		"elsewhere/x": {"litellm_provider": "elsewhere", ` + tokens + `}
	}`
	var entries map[string]json.RawMessage
	if err := json.Unmarshal([]byte(source), &entries); err != nil {
		t.Fatal(err)
	}
	got, err := cut(entries)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"anthropic/claude\t1000\t100\t\t3/15/0.3/3.75/6>200000:6/22.5/0.6/7.5/12\t",
		"azure_ai/typo\t1000\t100\t\t\t",
		"bedrock/us.anthropic.claude\t1000\t100\tv\t\t",
		"dashscope/qwen\t\t\t\t1/8>32000:2/9\t",
		"deepseek/deepseek-chat\t1000\t100\tR\t1/2\t",
		"gemini/trial\t1000\t100\t\t\t",
		"ollama/huge:600b-cloud\t1000\t100\t\t\t",
		"ollama/llama\t1000\t100\t\t0/0\t",
		"openai/gpt\t1000\t100\tVt\t1/4/0.1\t2027-01-31",
		"openai/gpt-pro\t1000\t\tS\t\t",
		"perplexity/sonar\t1000\t100\t\t\t",
		"",
	}, "\n")
	if diff := cmp.Diff(want, string(catalog.Format(got))); diff != "" {
		t.Error(diff)
	}
}

func TestCutRefuses(t *testing.T) {
	if _, err := cut(map[string]json.RawMessage{"x": json.RawMessage(`[]`)}); err == nil {
		t.Error("an entry that is no object was accepted")
	}
	if err := run(nil); err == nil {
		t.Error("no arguments were accepted")
	}
}
