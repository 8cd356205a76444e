package catalog_test

import (
	"math"
	"testing"

	"parley/internal/conversation"
	"parley/internal/llm"
	"parley/internal/llm/catalog"
)

func TestShippedTable(t *testing.T) {
	c := catalog.Default()
	if len(c.Names()) == 0 {
		t.Fatal("the table is empty")
	}
	for _, name := range c.Names() {
		e, ok := c.Lookup(name)
		if !ok || e.Model != name || e.ContextWindow < 8192 {
			t.Errorf("%s: %+v, %v", name, e, ok)
		}
		p := e.Price
		if p == nil || p.Input <= 0 || p.Output < p.Input || p.CacheRead > p.Input || p.CacheWrite < p.CacheRead || p.Output > 1e-3 {
			t.Errorf("%s: price %+v is not plausible", name, p)
		}
	}
}

func TestLookup(t *testing.T) {
	tests := []struct{ id, want string }{
		{"openai/gpt-4o", "openai/gpt-4o"},
		{"OpenAI/GPT-4o", "openai/gpt-4o"},
		{"openai/gpt-4o-2024-08-06", "openai/gpt-4o"},
		{"openai/gpt-4o-2024-05-13", "openai/gpt-4o-2024-05-13"},
		{"openrouter/openai/gpt-4o", "openai/gpt-4o"},
		{"litellm_proxy/claude-sonnet-4-5-20250929", "anthropic/claude-sonnet-4-5"},
		{"gpt-4o", "openai/gpt-4o"},
		{"openai/gpt-4o-ultra", ""},
		{"ollama/gpt-4o", ""},
		{"", ""},
	}
	for _, tt := range tests {
		e, ok := catalog.Default().Lookup(tt.id)
		if e.Model != tt.want || ok != (tt.want != "") {
			t.Errorf("%q: got %q, %v, want %q", tt.id, e.Model, ok, tt.want)
		}
	}
}

func TestCost(t *testing.T) {
	p := &llm.Price{Input: 2e-6, CacheRead: 0.5e-6, CacheWrite: 2.5e-6, Output: 8e-6}
	tests := []struct {
		name string
		u    conversation.Usage
		want float64
	}{
		{"plain", conversation.Usage{PromptTokens: 1000, CompletionTokens: 100}, 0.0028},
		{"cached", conversation.Usage{PromptTokens: 1000, CacheReadTokens: 600, CacheWriteTokens: 100, CompletionTokens: 100}, 0.0006 + 0.0003 + 0.00025 + 0.0008},
		{"more cached than there is", conversation.Usage{PromptTokens: 100, CacheReadTokens: 900, CacheWriteTokens: 900}, 0.00005},
		{"negative", conversation.Usage{PromptTokens: -5, CompletionTokens: -5, CacheReadTokens: -1}, 0},
	}
	for _, tt := range tests {
		if got := p.Cost(tt.u); math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, bad := range []string{`{`, `{"models":{"a/b":{"source":"nowhere"}}}`} {
		if _, err := catalog.Parse([]byte(bad)); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}
