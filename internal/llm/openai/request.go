package openai

import (
	"encoding/json"
	"maps"
	"slices"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/wire"
)

// The request on the wire. Fields are written in this order and maps by sorted
// keys, so that equal histories have equal bytes: providers cache by prefix.
type wireRequest struct {
	Model          string         `json:"model"`
	Messages       []wireMessage  `json:"messages"`
	Tools          []wireTool     `json:"tools,omitempty"`
	Stream         bool           `json:"stream,omitempty"`
	StreamOptions  *streamOptions `json:"stream_options,omitempty"`
	PromptCacheKey string         `json:"prompt_cache_key,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type wireTool struct {
	Type     string       `json:"type"`
	Function wireFunction `json:"function"`
}

type wireFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

type wireMessage struct {
	Role       string     `json:"role"`
	Content    any        `json:"content"` // string, []wirePart or nil
	Reasoning  string     `json:"reasoning_content,omitempty"`
	ToolCalls  []wireCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`

	extra map[string]json.RawMessage
}

// MarshalJSON adds the provider's own fields behind ours.
func (m wireMessage) MarshalJSON() ([]byte, error) {
	type plain wireMessage
	return marshalWith(plain(m), m.extra)
}

type wireCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function wireCallBody `json:"function"`

	extra map[string]json.RawMessage
}

type wireCallBody struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// MarshalJSON adds the provider's own fields behind ours.
func (c wireCall) MarshalJSON() ([]byte, error) {
	type plain wireCall
	return marshalWith(plain(c), c.extra)
}

// marshalWith encodes v, a struct with at least one field, and appends the
// members of extra that are JSON and no fields of v.
func marshalWith(v any, extra map[string]json.RawMessage) ([]byte, error) {
	out, err := content.Marshal(v)
	if err != nil || len(extra) == 0 {
		return out, err
	}
	var taken map[string]json.RawMessage
	if err := json.Unmarshal(out, &taken); err != nil {
		return nil, err
	}
	out = out[:len(out)-1]
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		if _, ok := taken[key]; ok || !json.Valid(extra[key]) {
			continue
		}
		name, err := json.Marshal(key)
		if err != nil {
			return nil, err
		}
		out = append(append(append(append(out, ','), name...), ':'), extra[key]...)
	}
	return append(out, '}'), nil
}

type wirePart struct {
	Type         string        `json:"type"`
	Text         *string       `json:"text,omitempty"`
	ImageURL     *wireImage    `json:"image_url,omitempty"`
	CacheControl *cacheControl `json:"cache_control,omitempty"`
}

type wireImage struct {
	URL string `json:"url"`
}

type cacheControl struct {
	Type string `json:"type"`
}

// encode renders a request without the optional fields in refused.
func (m *Model) encode(req *llm.Request, refused refusals) ([]byte, error) {
	w := wireRequest{Model: m.cfg.Model, Stream: req.OnDelta != nil}
	if w.Stream && !refused.has(refusedStreamOptions) {
		w.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	if m.cfg.Dialect.PromptCacheKey && !refused.has(refusedCacheKey) {
		w.PromptCacheKey = req.SessionID
	}
	for _, t := range req.Tools {
		w.Tools = append(w.Tools, encodeTool(t))
	}
	w.Messages = m.encodeMessages(req.Messages, refused)
	return content.Marshal(w)
}

func encodeTool(t llm.Tool) wireTool {
	params := t.Parameters
	if len(params) == 0 {
		params = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return wireTool{Type: "function", Function: wireFunction{Name: t.Name, Description: t.Description, Parameters: params}}
}

// encodeMessages renders the history. Images of tool results follow the
// results in a user message: the API takes text only in a tool message.
func (m *Model) encodeMessages(msgs []content.Message, refused refusals) []wireMessage {
	out := make([]wireMessage, 0, len(msgs))
	var images []content.Part
	for i, msg := range msgs {
		switch msg.Role {
		case content.RoleAssistant:
			if w, ok := m.encodeAssistant(msg, refused); ok {
				out = append(out, w)
			}
		case content.RoleTool:
			text, pics := wire.SplitImages(msg.Parts)
			out = append(out, wireMessage{Role: msg.Role, Content: m.encodeParts(text), ToolCallID: msg.ToolCallID})
			images = append(images, pics...)
			if last := i+1 == len(msgs) || msgs[i+1].Role != content.RoleTool; last && len(images) > 0 {
				note := content.Text("Images from the tool results above:")
				out = append(out, wireMessage{Role: content.RoleUser, Content: m.encodeParts(append([]content.Part{note}, images...))})
				images = nil
			}
		default:
			out = append(out, wireMessage{Role: msg.Role, Content: m.encodeParts(msg.Parts)})
		}
	}
	return out
}

// encodeAssistant reports false for an answer without text and calls: endpoints
// refuse it, and it says nothing.
func (m *Model) encodeAssistant(msg content.Message, refused refusals) (wireMessage, bool) {
	w := wireMessage{Role: msg.Role}
	if text := msg.Text(); text != "" {
		w.Content = text
	}
	if m.cfg.Dialect.ReplayReasoning {
		w.Reasoning = msg.Reasoning
	}
	perCall := map[string]map[string]json.RawMessage{}
	if !refused.has(refusedExtra) {
		w.extra = maps.Clone(msg.Extra)
		perCall = callExtra(msg.Extra)
	}
	delete(w.extra, CallExtraKey)
	for _, c := range msg.ToolCalls {
		w.ToolCalls = append(w.ToolCalls, wireCall{ID: c.ID, Type: "function", extra: perCall[c.ID],
			Function: wireCallBody{Name: wire.LegalName(c.Name), Arguments: wire.LegalArguments(c.Arguments)}})
	}
	return w, w.Content != nil || len(w.ToolCalls) > 0
}

// encodeParts renders text alone as a string, which every endpoint takes.
func (m *Model) encodeParts(parts []content.Part) any {
	rich := false
	for _, p := range parts {
		rich = rich || p.Type == content.TypeImage || (p.CachePrompt && m.cfg.Dialect.CacheMarkers)
	}
	if !rich {
		return content.JoinText(parts)
	}
	var out []wirePart
	for _, p := range parts {
		out = append(out, m.encodePart(p)...)
	}
	return out
}

func (m *Model) encodePart(p content.Part) []wirePart {
	var out []wirePart
	switch {
	case p.Type != content.TypeImage:
		if p.Text == "" {
			return nil
		}
		out = []wirePart{{Type: "text", Text: &p.Text}}
	case m.cfg.NoVision:
		note := wire.NoImage
		out = []wirePart{{Type: "text", Text: &note}}
	default:
		for _, u := range p.ImageURLs {
			out = append(out, wirePart{Type: "image_url", ImageURL: &wireImage{URL: u}})
		}
	}
	if p.CachePrompt && m.cfg.Dialect.CacheMarkers && len(out) > 0 {
		out[len(out)-1].CacheControl = &cacheControl{Type: "ephemeral"}
	}
	return out
}
