package openai

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"sync/atomic"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/wire"
)

// The request on the wire. Fields are written in one order and maps by sorted
// keys, so that equal histories have equal bytes: providers cache by prefix.
type wireRequest struct {
	model         string // these three are put in by encode
	messages      []wireMessage
	tools         []llm.Tool
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

// encode adds the provider's own fields behind ours.
func (m *wireMessage) encode() ([]byte, error) { return marshalWith(m, m.extra) }

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
	w := &wireRequest{model: m.cfg.Model, refused: refused}
	if req.OnDelta != nil && w.may(refusedStream) {
		w.Stream = true
		if w.may(refusedStreamOptions) {
			w.StreamOptions = &streamOptions{IncludeUsage: true}
		}
	}
	w.tools = req.Tools
	w.messages = m.encodeMessages(w, req.Messages)
	m.tune(w, req)
	return w
}

// encode renders a request, with the configured members of the body in it. The
// long parts are put together here and not by a Marshaler, whose text encoding/json
// reads once more: that was a tenth of a busy server's time.
func (m *Model) encode(w *wireRequest) ([]byte, error) {
	rest, err := content.Marshal(w)
	if err != nil {
		return nil, err
	}
	model, err := content.Marshal(w.model)
	if err != nil {
		return nil, err
	}
	body := append(append([]byte(`{"model":`), model...), `,"messages":[`...)
	for i := range w.messages {
		if i > 0 {
			body = append(body, ',')
		}
		msg, err := w.messages[i].encode()
		if err != nil {
			return nil, err
		}
		body = append(body, msg...)
	}
	body = append(body, ']')
	if len(w.tools) > 0 {
		tools, err := m.tools.encode(w.tools)
		if err != nil {
			return nil, err
		}
		body = append(append(body, `,"tools":`...), tools...)
	}
	if len(rest) > len("{}") {
		body = append(body, ',')
	}
	body = append(body, rest[1:]...)
	if len(m.cfg.Body) == 0 {
		return body, nil
	}
	return wire.Merge(body, m.cfg.Body)
}

// tools keeps the last list of tools that was encoded: the steps of a conversation,
// and most conversations, have the same. The zero value is usable.
type tools struct{ last atomic.Pointer[encodedTools] }

type encodedTools struct {
	tools []llm.Tool
	raw   []byte
}

func (t *tools) encode(list []llm.Tool) ([]byte, error) {
	if last := t.last.Load(); last != nil && slices.EqualFunc(last.tools, list, sameTool) {
		return last.raw, nil
	}
	on := make([]wireTool, len(list))
	for i, tool := range list {
		on[i] = encodeTool(tool)
	}
	raw, err := content.Marshal(on)
	if err != nil {
		return nil, err
	}
	t.last.Store(&encodedTools{slices.Clone(list), raw})
	return raw, nil
}

func sameTool(a, b llm.Tool) bool {
	return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.Parameters, b.Parameters)
}

func encodeTool(t llm.Tool) wireTool {
	return wireTool{Type: "function", Function: wireFunction{Name: t.Name, Description: t.Description, Parameters: wire.ObjectSchema(t.Parameters)}}
}
