package openai

import (
	"encoding/json"

	"parley/internal/llm/wire"
)

// usage is what an endpoint says a call used.
type usage struct {
	wire.Counts
	known bool
	cost  *float64 // USD, the endpoint's own figure
}

// readUsage reads the dialects of the usage object; wrong numbers count as 0.
func readUsage(raw json.RawMessage) usage {
	o := wire.Object(raw)
	if len(o) == 0 {
		return usage{}
	}
	in, out := wire.Object(o["prompt_tokens_details"]), wire.Object(o["completion_tokens_details"])
	u := usage{known: true, Counts: wire.Counts{
		Prompt:     wire.Count(o["prompt_tokens"], o["input_tokens"]),
		Completion: wire.Count(o["completion_tokens"], o["output_tokens"]),
		Read:       wire.Count(in["cached_tokens"], o["prompt_cache_hit_tokens"], o["cache_read_input_tokens"], o["cached_tokens"]),
		Write:      wire.Count(in["cache_write_tokens"], in["cache_creation_tokens"], o["cache_creation_input_tokens"]),
		Reasoning:  wire.Count(out["reasoning_tokens"], o["reasoning_tokens"]),
	}}
	// Some endpoints leave the reasoning out of the completion tokens; the total tells.
	if u.Reasoning > 0 && wire.Count(o["total_tokens"]) == u.Prompt+u.Completion+u.Reasoning {
		u.Completion += u.Reasoning
	}
	u.cost = wire.Cost(o["cost"])
	return u
}
