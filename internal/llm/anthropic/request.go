package anthropic

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/wire"
)

// The request on the wire. Fields are written in this order, so that equal
// histories have equal bytes: the provider caches by prefix.
type wireRequest struct {
	Model        string        `json:"model"`
	MaxTokens    int64         `json:"max_tokens"`
	System       []*block      `json:"system,omitempty"`
	Tools        []*wireTool   `json:"tools,omitempty"`
	ToolChoice   *toolChoice   `json:"tool_choice,omitempty"`
	Messages     []wireMessage `json:"messages"`
	Thinking     *wireThinking `json:"thinking,omitempty"`
	OutputConfig *outputConfig `json:"output_config,omitempty"`
	Temperature  *float64      `json:"temperature,omitempty"`
	TopP         *float64      `json:"top_p,omitempty"`
	TopK         *int64        `json:"top_k,omitempty"`
	Stream       bool          `json:"stream,omitempty"`
}

type wireMessage struct {
	Role    string `json:"role"`
	Content []any  `json:"content"` // *block or json.RawMessage
}

type wireTool struct {
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"input_schema"`
	CacheControl *cacheControl   `json:"cache_control,omitempty"`
}

type toolChoice struct {
	Type string `json:"type"`
}

type cacheControl struct {
	Type string `json:"type"`
	TTL  string `json:"ttl,omitempty"`
}

// block is a content block: text, image, tool_use or tool_result.
type block struct {
	Type         string          `json:"type"`
	Text         string          `json:"text,omitempty"`
	ID           string          `json:"id,omitempty"`
	Name         string          `json:"name,omitempty"`
	Input        json.RawMessage `json:"input,omitempty"`
	Source       *imageSource    `json:"source,omitempty"`
	ToolUseID    string          `json:"tool_use_id,omitempty"`
	Content      []*block        `json:"content,omitempty"`
	CacheControl *cacheControl   `json:"cache_control,omitempty"`

	keep bool            // the history asks for a cache marker here
	raw  json.RawMessage // the whole block as the provider wrote it: thinking
}

// Block types of ours.
const (
	typeText       = "text"
	typeImage      = "image"
	typeToolUse    = "tool_use"
	typeToolResult = "tool_result"
)

func textBlock(s string) *block { return &block{Type: typeText, Text: s} }

// isBlank: the API refuses text blocks without a visible character.
func isBlank(s string) bool { return strings.TrimSpace(s) == "" }

// sent is what a request holds of the things that an endpoint may refuse.
type sent struct {
	plan     plan
	betas    []string
	markers  bool // cache_control
	ttl      bool
	sampling bool
	max      int64
	layouts  []layoutKey // answers whose thinking was replayed
}

// encode renders a request without what the attempt leaves out.
func (m *Model) encode(req *llm.Request, a attempt) ([]byte, sent, error) {
	h := m.history(req.Messages, a.bare)
	w := wireRequest{Model: m.cfg.Model, MaxTokens: m.maxTokens(req), System: h.system, Stream: req.OnDelta != nil}
	for _, t := range req.Tools {
		w.Tools = append(w.Tools, encodeTool(t))
	}
	if len(w.Tools) == 0 && len(h.used) > 0 {
		w.Tools, w.ToolChoice = h.stubs(), &toolChoice{Type: "none"}
	}
	s := sent{max: w.MaxTokens, layouts: h.layouts, plan: m.think(w.MaxTokens, len(w.Tools) > 0, a.refused)}
	if a.quiet || (s.plan.budgeted() && !h.mayThink()) {
		s.plan = plan{}
	}
	w.Thinking = s.plan.thinking
	if s.plan.effort != "" {
		w.OutputConfig = &outputConfig{Effort: s.plan.effort}
	}
	s.sampling = m.sample(&w, s.plan, a.refused)
	s.markers, s.ttl = m.mark(&w, h.turns, a.refused)
	for _, t := range h.turns {
		w.Messages = append(w.Messages, t.encode())
	}
	s.betas = betasOf(s)
	body, err := content.Marshal(w)
	if err == nil && len(m.cfg.Body) > 0 {
		body, err = wire.Merge(body, m.cfg.Body)
	}
	return body, s, err
}

func betasOf(s sent) []string {
	var betas []string
	if s.plan.beta != "" {
		betas = append(betas, s.plan.beta)
	}
	if s.ttl {
		betas = append(betas, ttlBeta)
	}
	return betas
}

// sample sets the sampling parameters where they are allowed and reports whether
// it set any. Newer models take either temperature or top_p.
func (m *Model) sample(w *wireRequest, p plan, refused refusals) bool {
	if p.on() || !m.family.samples() || refused.has(refusedSampling) {
		return false
	}
	if t := m.cfg.Temperature; t != nil {
		clamped := min(max(*t, 0), 1)
		w.Temperature = &clamped
	}
	if m.cfg.TopP != nil && (w.Temperature == nil || !m.family.claude) {
		w.TopP = m.cfg.TopP
	}
	if k := m.cfg.TopK; k != nil && *k >= 1 {
		n := int64(*k)
		w.TopK = &n
	}
	return w.Temperature != nil || w.TopP != nil || w.TopK != nil
}

func encodeTool(t llm.Tool) *wireTool {
	return &wireTool{Name: wire.LegalName(t.Name), Description: t.Description, InputSchema: wire.ObjectSchema(t.Parameters)}
}

const anyObject = `{"type":"object","properties":{}}`

// legalInput renders a call's arguments as an object that is valid JSON in the
// strict sense too: no broken UTF-8, no halves of surrogate pairs.
func legalInput(args string) json.RawMessage {
	raw := strings.ToValidUTF8(wire.LegalArguments(args), "\uFFFD")
	if !strings.Contains(strings.ToLower(raw), `\ud`) {
		return json.RawMessage(raw)
	}
	var v any
	d := json.NewDecoder(strings.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) == nil {
		if clean, err := content.Marshal(v); err == nil && utf8.Valid(clean) {
			return clean
		}
	}
	return json.RawMessage(raw)
}
