package openai

import (
	"encoding/json"
	"net/http"

	"parley/internal/conversation"
)

// maxCount bounds a token count; above it the endpoint's number is wrong.
const maxCount = 1e12

// usage is what an endpoint says a call used.
type usage struct {
	known                                  bool
	prompt, completion, read, write, think int64
	cost                                   *float64 // USD, the endpoint's own figure
}

// readUsage reads the dialects of the usage object; wrong numbers count as 0.
func readUsage(raw json.RawMessage) usage {
	o := object(raw)
	if len(o) == 0 {
		return usage{}
	}
	in, out := object(o["prompt_tokens_details"]), object(o["completion_tokens_details"])
	u := usage{known: true,
		prompt:     count(o["prompt_tokens"], o["input_tokens"]),
		completion: count(o["completion_tokens"], o["output_tokens"]),
		read:       count(in["cached_tokens"], o["prompt_cache_hit_tokens"], o["cache_read_input_tokens"], o["cached_tokens"]),
		write:      count(in["cache_write_tokens"], in["cache_creation_tokens"], o["cache_creation_input_tokens"]),
		think:      count(out["reasoning_tokens"], o["reasoning_tokens"]),
	}
	// Some endpoints leave the reasoning out of the completion tokens; the total tells.
	if u.think > 0 && count(o["total_tokens"]) == u.prompt+u.completion+u.think {
		u.completion += u.think
	}
	if c, ok := number(o["cost"]); ok && c >= 0 {
		u.cost = &c
	}
	return u
}

// count returns the first of the values that is a plausible count.
func count(values ...json.RawMessage) int64 {
	for _, v := range values {
		if n, ok := number(v); ok && n > 0 && n <= maxCount {
			return int64(n)
		}
	}
	return 0
}

// headerCost reads the cost that a LiteLLM proxy puts into a header.
func headerCost(h http.Header) *float64 {
	c, ok := number(json.RawMessage(h.Get("X-Litellm-Response-Cost")))
	if !ok || c < 0 {
		return nil
	}
	return &c
}

// account turns the endpoint's numbers into ours.
func (m *Model) account(u usage, responseID string) (conversation.Usage, *float64) {
	out := conversation.Usage{Model: m.cfg.DisplayModel, PromptTokens: u.prompt, CompletionTokens: u.completion,
		CacheReadTokens: u.read, CacheWriteTokens: u.write, ReasoningTokens: u.think,
		ContextWindow: m.cfg.ContextWindow, PerTurnToken: u.prompt + u.completion, ResponseID: responseID}
	if u.cost == nil && m.cfg.Price != nil && u.known {
		cost := m.cfg.Price.Cost(out)
		u.cost = &cost
	}
	return out, u.cost
}
