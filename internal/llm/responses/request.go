package responses

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/wire"
)

// The request on the wire. Fields are written in this order and maps by sorted
// keys, so that equal histories have equal bytes.
type wireRequest struct {
	Model                string         `json:"model"`
	Instructions         string         `json:"instructions,omitempty"`
	Input                []any          `json:"input"`
	Tools                []wireTool     `json:"tools,omitempty"`
	ParallelToolCalls    bool           `json:"parallel_tool_calls,omitempty"`
	Reasoning            *wireReasoning `json:"reasoning,omitempty"`
	Include              []string       `json:"include,omitempty"`
	MaxOutputTokens      int64          `json:"max_output_tokens,omitempty"`
	Temperature          *float64       `json:"temperature,omitempty"`
	TopP                 *float64       `json:"top_p,omitempty"`
	PromptCacheKey       string         `json:"prompt_cache_key,omitempty"`
	PromptCacheRetention string         `json:"prompt_cache_retention,omitempty"`
	Store                bool           `json:"store"`
	Stream               bool           `json:"stream,omitempty"`
}

type wireReasoning struct {
	Effort  string `json:"effort,omitempty"`
	Summary string `json:"summary,omitempty"`
}

type wireTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict"`
}

const includeEncrypted = "reasoning.encrypted_content"

// encode renders a request.
func (m *Model) encode(req *llm.Request, s shape) ([]byte, error) {
	w := m.settings(req, s)
	for _, t := range req.Tools {
		w.Tools = append(w.Tools, encodeTool(t))
	}
	var err error
	if w.Instructions, w.Input, err = m.encodeInput(req.Messages, s); err != nil {
		return nil, err
	}
	body, err := content.Marshal(w)
	if err != nil {
		return nil, err
	}
	return wire.Merge(body, m.cfg.Body)
}

// settings renders what a request has beside input and tools.
func (m *Model) settings(req *llm.Request, s shape) *wireRequest {
	w := &wireRequest{Model: m.cfg.Model, Stream: req.OnDelta != nil, MaxOutputTokens: m.cfg.Output(req),
		ParallelToolCalls: len(req.Tools) > 0 && !s.refused.has(refusedParallel)}
	thinks := m.cfg.Reasoning && !s.refused.has(refusedReasoning)
	if thinks {
		w.Reasoning = m.reasoning(s)
	}
	if thinks && !s.refused.has(refusedInclude) {
		w.Include = []string{includeEncrypted}
	}
	if (!m.cfg.Reasoning || m.cfg.ReasoningEffort == "none") && !s.refused.has(refusedSampling) {
		w.Temperature, w.TopP = m.cfg.Temperature, m.cfg.TopP // a model that thinks refuses them
	}
	if m.cfg.NoCache {
		return w
	}
	if !s.refused.has(refusedCacheKey) {
		w.PromptCacheKey = cacheKey(req.SessionID)
	}
	if m.cfg.CacheRetention == retention24h && keepsLongCache(m.cfg.Model) && !s.refused.has(refusedRetention) {
		w.PromptCacheRetention = retention24h
	}
	return w
}

func (m *Model) reasoning(s shape) *wireReasoning {
	r := wireReasoning{Effort: m.cfg.ReasoningEffort, Summary: m.cfg.ReasoningSummary}
	if s.refused.has(refusedSummary) {
		r.Summary = ""
	}
	if r == (wireReasoning{}) {
		return nil
	}
	return &r
}

// cacheKey is the session id as a key of at most 64 characters.
func cacheKey(session string) string {
	const longest = 64
	if len(session) <= longest {
		return session
	}
	sum := sha256.Sum256([]byte(session))
	return hex.EncodeToString(sum[:])
}

func encodeTool(t llm.Tool) wireTool {
	return wireTool{Type: "function", Name: t.Name, Description: t.Description, Parameters: wire.ObjectSchema(t.Parameters)}
}
