package openai

import "parley/internal/llm"

// The two names of an answer's bound.
const (
	maxTokens           = "max_tokens"
	maxCompletionTokens = "max_completion_tokens"
)

// tuning are the fields of a request that say how to answer.
type tuning struct {
	MaxTokens           int64      `json:"max_tokens,omitempty"`
	MaxCompletionTokens int64      `json:"max_completion_tokens,omitempty"`
	Temperature         *float64   `json:"temperature,omitempty"`
	TopP                *float64   `json:"top_p,omitempty"`
	TopK                *float64   `json:"top_k,omitempty"`
	Seed                *int64     `json:"seed,omitempty"`
	ReasoningEffort     string     `json:"reasoning_effort,omitempty"`
	Reasoning           *reasoning `json:"reasoning,omitempty"`
	Usage               *usageWish `json:"usage,omitempty"`
	PromptCacheKey      string     `json:"prompt_cache_key,omitempty"`
	CacheRetention      string     `json:"prompt_cache_retention,omitempty"`
}

type reasoning struct {
	Effort    string `json:"effort,omitempty"`
	MaxTokens int64  `json:"max_tokens,omitempty"`
}

type usageWish struct {
	Include bool `json:"include"`
}

// bound is the longest answer to a request, in tokens; 0 = none is asked for.
func (m *Model) bound(req *llm.Request) int64 {
	asked, allowed := m.cfg.Output(req), m.maxOutput.Load()
	if asked > 0 && allowed > 0 {
		return min(asked, allowed)
	}
	return asked
}

// maxName is the name of the bound at this endpoint.
func (m *Model) maxName(refused refusals) string {
	if m.cfg.Dialect.MaxCompletionTokens != refused.has(refusedMaxSpelling) {
		return maxCompletionTokens
	}
	return maxTokens
}

// tune fills the fields that say how to answer.
func (m *Model) tune(w *wireRequest, req *llm.Request) {
	if n := m.bound(req); n > 0 {
		w.may(refusedMaxSpelling)
		if m.maxName(w.refused) == maxTokens {
			w.MaxTokens = n
		} else {
			w.MaxCompletionTokens = n
		}
	}
	if !m.reason(w, req) {
		m.sample(w)
	}
	if m.cfg.Seed != nil && w.may(refusedSeed) {
		w.Seed = m.cfg.Seed
	}
	if m.cfg.Dialect.UsageCost && w.may(refusedUsageCost) {
		w.Usage = &usageWish{Include: true}
	}
	m.cache(w, req)
}

// reason asks for reasoning; it reports whether the model will think, which
// excludes the choice of how it samples (agent protocol 4.12).
func (m *Model) reason(w *wireRequest, req *llm.Request) bool {
	if !m.cfg.Reasoning {
		return false
	}
	effort, budget := m.effort(w), m.cfg.ReasoningBudget
	switch {
	case m.cfg.Dialect.ReasoningObject && effort != "" && w.may(refusedReasoning):
		w.Reasoning = &reasoning{Effort: effort}
	case m.cfg.Dialect.ReasoningObject && budget > 0 && w.may(refusedReasoning):
		if n := m.bound(req); n > 1 {
			budget = min(budget, n-1) // the answer needs room behind the thoughts
		}
		w.Reasoning = &reasoning{MaxTokens: budget}
	case !m.cfg.Dialect.ReasoningObject && effort != "" && w.may(refusedReasoning):
		w.ReasoningEffort = effort
	default:
		return false
	}
	return effort != "none"
}

// effort is the configured one, or the nearest that every thinking model knows.
func (m *Model) effort(w *wireRequest) string {
	nearest := map[string]string{"xhigh": "high", "minimal": "low", "none": "low"}[m.cfg.ReasoningEffort]
	if nearest != "" && !w.may(refusedEffort) {
		return nearest
	}
	return m.cfg.ReasoningEffort
}

func (m *Model) sample(w *wireRequest) {
	if m.cfg.Temperature != nil && w.may(refusedTemperature) {
		w.Temperature = m.cfg.Temperature
	}
	if m.cfg.TopP != nil && w.may(refusedTopP) {
		w.TopP = m.cfg.TopP
	}
	if m.cfg.TopK != nil && m.cfg.Dialect.TopK && w.may(refusedTopK) {
		w.TopK = m.cfg.TopK
	}
}

func (m *Model) cache(w *wireRequest, req *llm.Request) {
	if m.cfg.NoCache || !m.cfg.Dialect.PromptCacheKey {
		return
	}
	if req.SessionID != "" && w.may(refusedCacheKey) {
		w.PromptCacheKey = req.SessionID
	}
	if m.cfg.Dialect.CacheRetention && m.cfg.CacheRetention == "24h" && w.may(refusedRetention) {
		w.CacheRetention = m.cfg.CacheRetention
	}
}
