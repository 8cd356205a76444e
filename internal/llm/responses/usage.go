package responses

import (
	"cmp"
	"encoding/json"
	"net/http"

	"parley/internal/llm/wire"
)

// account reads the usage object and, where an endpoint has them, its own
// figures of the cost: in the usage, or in the header of a LiteLLM proxy; then
// reported is set. Wrong numbers count as 0.
func (m *Model) account(raw json.RawMessage, id string, h http.Header) (u wire.Usage, cost *float64, reported bool) {
	o := wire.Object(raw)
	in, out := wire.Object(o["input_tokens_details"]), wire.Object(o["output_tokens_details"])
	counts := wire.Counts{
		Prompt:     wire.Count(o["input_tokens"], o["prompt_tokens"]),
		Completion: wire.Count(o["output_tokens"], o["completion_tokens"]),
		Read:       wire.Count(in["cached_tokens"]),
		Write:      wire.Count(in["cache_write_tokens"], in["cache_creation_tokens"]),
		Reasoning:  wire.Count(out["reasoning_tokens"]),
	}
	own := cmp.Or(wire.Cost(o["cost"]), wire.HeaderCost(h))
	u, cost = m.cfg.Account(counts, id, len(o) > 0, own)
	return u, cost, own != nil
}
