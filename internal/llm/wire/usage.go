package wire

import (
	"encoding/json"
	"net/http"

	"parley/internal/conversation"
)

// Usage is the domain's.
type Usage = conversation.Usage

// Counts are the tokens of one call: Prompt includes Read and Write (the prompt
// cache), Completion includes Reasoning.
type Counts struct {
	Prompt, Completion, Read, Write, Reasoning int64
}

// Cost reads an endpoint's own figure of what a call cost, in USD; nil = none, or
// none that can be.
func Cost(raw json.RawMessage) *float64 {
	c, ok := Number(raw)
	if !ok || c < 0 {
		return nil
	}
	return &c
}

// HeaderCost reads the cost that a LiteLLM proxy puts into a header; nil = none.
func HeaderCost(h http.Header) *float64 {
	return Cost(json.RawMessage(h.Get("X-Litellm-Response-Cost")))
}
