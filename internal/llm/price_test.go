package llm_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"parley/internal/conversation"
	"parley/internal/llm"
)

const million = 1e-6 // USD per token of a price per million

// tiered is a price with a step at 200,000 tokens.
func tiered() *llm.Price {
	return &llm.Price{Input: 3 * million, CacheRead: 0.3 * million, CacheWrite: 3.75 * million, Output: 15 * million, LongFrom: 200_000,
		Long: &llm.Price{Input: 6 * million, CacheRead: 0.6 * million, CacheWrite: 7.5 * million, Output: 22.5 * million}}
}

func TestPriceCost(t *testing.T) {
	for name, tt := range map[string]struct {
		usage conversation.Usage
		want  float64
	}{
		"nothing":              {conversation.Usage{}, 0},
		"plain":                {conversation.Usage{PromptTokens: 1000, CompletionTokens: 100}, 0.003 + 0.0015},
		"cached":               {conversation.Usage{PromptTokens: 1000, CacheReadTokens: 600, CacheWriteTokens: 300}, 0.0003 + 0.00018 + 0.001125},
		"all cached":           {conversation.Usage{PromptTokens: 1000, CacheReadTokens: 1000}, 0.0003},
		"more cached than all": {conversation.Usage{PromptTokens: 1000, CacheReadTokens: 900, CacheWriteTokens: 900}, 0.00027 + 0.000375},
		"negative":             {conversation.Usage{PromptTokens: -5, CompletionTokens: -5, CacheReadTokens: -5, CacheWriteTokens: -5}, 0},
		"negative cache":       {conversation.Usage{PromptTokens: 1000, CacheReadTokens: -600, CacheWriteTokens: -5}, 0.003},
		"reasoning is output":  {conversation.Usage{CompletionTokens: 100, ReasoningTokens: 80}, 0.0015},
		"at the step":          {conversation.Usage{PromptTokens: 200_000, CompletionTokens: 100}, 0.6 + 0.0015},
		"above the step":       {conversation.Usage{PromptTokens: 200_001, CompletionTokens: 100}, 1.200006 + 0.00225},
	} {
		if got := tiered().Cost(tt.usage); math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// drawPrice draws any price, dear steps that are cheaper included.
func drawPrice(t *rapid.T) *llm.Price {
	one := func(label string) *llm.Price {
		per := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1e-4), rapid.Float64Range(0, 10))
		return &llm.Price{Input: per.Draw(t, label+" input"), CacheRead: per.Draw(t, label+" read"),
			CacheWrite: per.Draw(t, label+" write"), Output: per.Draw(t, label+" output")}
	}
	p := one("short")
	if rapid.Bool().Draw(t, "stepped") {
		p.Long, p.LongFrom = one("long"), rapid.Int64Range(0, 300_000).Draw(t, "from")
	}
	return p
}

// TestWorstIsWorst: no usage within the bounds costs more.
func TestWorstIsWorst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPrice(t)
		prompt, output := rapid.Int64Range(0, 500_000).Draw(t, "prompt"), rapid.Int64Range(0, 100_000).Draw(t, "output")
		u := conversation.Usage{PromptTokens: rapid.Int64Range(-1, prompt).Draw(t, "used prompt"),
			CompletionTokens: rapid.Int64Range(-1, output).Draw(t, "used output"),
			CacheReadTokens:  rapid.Int64Range(-1, 2*prompt+1).Draw(t, "read"), CacheWriteTokens: rapid.Int64Range(-1, 2*prompt+1).Draw(t, "write")}
		worst, cost := conversation.MoneyCeil(p.Worst(prompt, output)), conversation.MoneyOf(p.Cost(u))
		if cost > worst {
			t.Fatalf("%+v costs %v, the worst case was %v", u, cost, worst)
		}
	})
}

// TestAffordable: the answer fits into the amount, and a longer one does not.
func TestAffordable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPrice(t)
		prompt := rapid.Int64Range(0, 500_000).Draw(t, "prompt")
		usd := rapid.Float64Range(0, 100).Draw(t, "usd")
		n := p.Affordable(prompt, usd)
		const rounding = 1e-12 // relative
		switch cost := p.Worst(prompt, max(n, 0)); {
		case n < 0 && p.Worst(prompt, 0) <= usd:
			t.Fatalf("the prompt costs %v of %v, and nothing is affordable", p.Worst(prompt, 0), usd)
		case n >= 0 && n < 1<<40 && cost > usd*(1+rounding):
			t.Fatalf("%d tokens cost %v, more than %v", n, cost, usd)
		case n >= 0 && n < 1<<40 && p.Long == nil && p.Worst(prompt, n+2) < usd*(1-rounding):
			t.Fatalf("%d tokens were affordable, not only %d", n+2, n)
		}
	})
	free := &llm.Price{}
	if free.Affordable(1000, 0) < 1<<30 || free.Worst(1e6, 1e6) != 0 || free.Cost(conversation.Usage{PromptTokens: 5}) != 0 {
		t.Error("what is free is affordable")
	}
	if n := tiered().Affordable(1000, 0.0029); n >= 0 {
		t.Errorf("the prompt alone costs more, but %d tokens are affordable", n)
	}
}
