package v1

import (
	"net/http"
	"strings"

	"parley/internal/api/httpkit"
	"parley/internal/llm"
)

// modelDetails are what is known of a model; null is not known.
type modelDetails struct {
	ID            string      `json:"id"`
	Verified      bool        `json:"verified"`
	ContextWindow *int64      `json:"context_window"`
	MaxOutput     *int64      `json:"max_output"`
	Vision        *bool       `json:"vision"`
	Tools         *bool       `json:"tools"`
	Reasoning     *bool       `json:"reasoning"`
	PromptCache   *bool       `json:"prompt_cache"`
	Price         *modelPrice `json:"price"`
}

// modelPrice is in USD per million tokens.
type modelPrice struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cache_read"`
	CacheWrite float64 `json:"cache_write"`
	RisesAbove *int64  `json:"rises_above"`
}

func known(n int64) *int64 {
	if n <= 0 {
		return nil
	}
	return &n
}

func renderDetails(d llm.Details) modelDetails {
	out := modelDetails{ID: d.ID(), Verified: d.Verified, ContextWindow: known(d.ContextWindow), MaxOutput: known(d.MaxOutput),
		Vision: d.Vision, Tools: d.Tools, Reasoning: d.Reasoning, PromptCache: d.PromptCache}
	if p := d.Price; p != nil {
		out.Price = &modelPrice{perMillion(p.Input), perMillion(p.Output), perMillion(p.CacheRead), perMillion(p.CacheWrite), nil}
		if p.Long != nil {
			out.Price.RisesAbove = &p.LongFrom
		}
	}
	return out
}

// perMillion drops what the multiplication adds to a decimal price.
func perMillion(perToken float64) float64 {
	const million, digits = 1e6, 1e6
	return float64(int64(perToken*million*digits+0.5)) / digits
}

func (h *handlers) searchDetails(w http.ResponseWriter, r *httpkit.Request) error {
	var q modelQuery
	if err := r.Params(&q); err != nil {
		return err
	}
	var found []modelDetails
	if h.Details != nil {
		for _, d := range h.Details() {
			if strings.Contains(strings.ToLower(d.ID()), strings.ToLower(orEmpty(q.Query))) {
				found = append(found, renderDetails(d))
			}
		}
	}
	items, next := cutPage(found, q.pageQuery)
	return writePage(w, items, next)
}
