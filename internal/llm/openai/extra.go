package openai

import (
	"bytes"
	"encoding/json"

	"parley/internal/content"
	"parley/internal/llm/wire"
)

// callExtraKey is the member of Message.Extra that holds the fields of a
// provider's own of single tool calls (such as thought signatures): a JSON
// object from call id to an object of those fields.
const callExtraKey = "tool_calls"

// callExtra reads Extra[callExtraKey]; what cannot be read is dropped.
func callExtra(extra map[string]json.RawMessage) map[string]map[string]json.RawMessage {
	var byID map[string]map[string]json.RawMessage
	if json.Unmarshal(extra[callExtraKey], &byID) != nil {
		return nil
	}
	return byID
}

// isKnown says which members of a message this package reads itself, or must
// not send back.
func isKnown(key string) bool {
	switch key {
	case "role", "content", "tool_calls", "function_call", "refusal", "reasoning", "reasoning_content",
		"annotations", "audio", "obfuscation", "tool_call_id", "name":
		return true
	}
	return false
}

// isKnownInCall is isKnown for a member of a tool call.
func isKnownInCall(key string) bool {
	switch key {
	case "id", "index", "type", "function":
		return true
	}
	return false
}

// extras gathers unknown members over the chunks of a stream.
type extras map[string]any

// add merges one member. null and malformed values say nothing.
func (x *extras) add(key string, raw json.RawMessage) {
	v, ok := decodeAny(raw)
	if !ok || v == nil {
		return
	}
	if *x == nil {
		*x = extras{}
	}
	if old, ok := (*x)[key]; ok {
		v = merge(old, v)
	}
	(*x)[key] = v
}

// raw encodes what was gathered; nil if nothing was.
func (x extras) raw() map[string]json.RawMessage {
	var out map[string]json.RawMessage
	for key, v := range x {
		b, err := json.Marshal(v)
		if err != nil {
			continue
		}
		if out == nil {
			out = map[string]json.RawMessage{}
		}
		out[key] = b
	}
	return out
}

func decodeAny(raw json.RawMessage) (any, bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // numbers go back exactly as they came
	var v any
	return v, dec.Decode(&v) == nil
}

// merge joins a piece of a streamed value to what came before: texts are
// continued, lists appended, objects merged; of other values the last wins. A
// text that equals the whole so far is a constant that each chunk repeats.
func merge(old, piece any) any {
	switch p := piece.(type) {
	case nil:
		return old
	case string:
		if o, ok := old.(string); ok && o != p {
			return o + p
		}
	case []any:
		if o, ok := old.([]any); ok {
			return mergeList(o, p)
		}
	case map[string]any:
		if o, ok := old.(map[string]any); ok {
			for k, v := range p {
				if before, ok := o[k]; ok {
					v = merge(before, v)
				}
				o[k] = v
			}
			return o
		}
	}
	return piece
}

// mergeList appends blocks. A block of text that goes on in the next chunk
// stays one block: a signature covers it as a whole.
func mergeList(old, pieces []any) []any {
	for _, p := range pieces {
		if len(old) > 0 && continues(old[len(old)-1], p) {
			old[len(old)-1] = mergeBlock(old[len(old)-1].(map[string]any), p.(map[string]any))
			continue
		}
		old = append(old, p)
	}
	return old
}

// blockTexts are the members of a block that arrive in pieces.
func blockTexts() []string { return []string{"text", "thinking", "summary"} }

// continues reports whether block b is more of block a: the same kind and
// number, with text, and a is not signed yet.
func continues(a, b any) bool {
	x, ok := a.(map[string]any)
	y, ok2 := b.(map[string]any)
	if !ok || !ok2 || x["type"] != y["type"] || x["index"] != y["index"] {
		return false
	}
	if s, _ := x["signature"].(string); s != "" {
		return false
	}
	for _, key := range blockTexts() {
		_, inX := x[key].(string)
		_, inY := y[key].(string)
		if inX && (inY || y["signature"] != nil) {
			return true
		}
	}
	return false
}

func mergeBlock(old, piece map[string]any) map[string]any {
	for k, v := range piece {
		if v == nil {
			continue
		}
		for _, text := range blockTexts() {
			before, ok := old[k].(string)
			if more, isText := v.(string); k == text && ok && isText {
				v = before + more
			}
		}
		old[k] = v
	}
	return old
}

// withCalls adds the per-call fields to a message's extra fields.
func withCalls(extra map[string]json.RawMessage, calls []*call) map[string]json.RawMessage {
	byID := map[string]map[string]json.RawMessage{}
	for _, c := range calls {
		if raw := c.extra.raw(); raw != nil {
			byID[c.ID] = raw
		}
	}
	if len(byID) == 0 {
		return extra
	}
	b, err := json.Marshal(byID)
	if err != nil {
		return extra
	}
	if extra == nil {
		extra = map[string]json.RawMessage{}
	}
	extra[callExtraKey] = b
	return extra
}

func (c *call) content() content.ToolCall {
	return content.ToolCall{ID: c.ID, Name: c.name, Arguments: string(c.args), Origin: wire.OriginCompletion}
}
