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
	Model         string         `json:"model"`
	Messages      []wireMessage  `json:"messages"`
	Tools         []wireTool     `json:"tools,omitempty"`
	Stream        bool           `json:"stream,omitempty"`
	StreamOptions *streamOptions `json:"stream_options,omitempty"`
	tuning

	refused  refusals // what the endpoint refused before
	optional refusals // what is in the request and could be left out
}

// may reports whether the endpoint did not refuse f, and notes that the request
// has it.
func (w *wireRequest) may(f refusals) bool {
	if w.refused.has(f) {
		return false
	}
	w.optional |= f
	return true
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
	Role         string        `json:"role"`
	Content      any           `json:"content"` // string, []wirePart or nil
	Reasoning    string        `json:"reasoning_content,omitempty"`
	ToolCalls    []wireCall    `json:"tool_calls,omitempty"`
	ToolCallID   string        `json:"tool_call_id,omitempty"`
	CacheControl *cacheControl `json:"cache_control,omitempty"` // of tool messages

	parts []wirePart // what becomes Content
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
	TTL  string `json:"ttl,omitempty"`
}

// build makes the request without what was refused before.
func (m *Model) build(req *llm.Request, refused refusals) *wireRequest {
	w := &wireRequest{Model: m.cfg.Model, refused: refused}
	if req.OnDelta != nil && w.may(refusedStream) {
		w.Stream = true
		if w.may(refusedStreamOptions) {
			w.StreamOptions = &streamOptions{IncludeUsage: true}
		}
	}
	for _, t := range req.Tools {
		w.Tools = append(w.Tools, encodeTool(t))
	}
	w.Messages = m.encodeMessages(w, req.Messages)
	m.tune(w, req)
	return w
}

// encode renders a request, with the configured members of the body in it.
func (m *Model) encode(w *wireRequest) ([]byte, error) {
	body, err := content.Marshal(w)
	if err != nil || len(m.cfg.Body) == 0 {
		return body, err
	}
	return wire.Merge(body, m.cfg.Body)
}

func encodeTool(t llm.Tool) wireTool {
	return wireTool{Type: "function", Function: wireFunction{Name: t.Name, Description: t.Description, Parameters: wire.ObjectSchema(t.Parameters)}}
}
