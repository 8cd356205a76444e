package hookrun

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"unicode/utf8"

	"parley/internal/content"
)

// Bounds of texts, in characters, and of JSON, in bytes.
const (
	maxText   = 50_000  // of each output in an event (agent protocol 4.9)
	maxLabel  = 200     // of a hook's name in a sentence
	maxQuoted = 1_000   // of an output in a sentence
	maxStdin  = 1 << 20 // of the JSON that a command reads
	maxShown  = 50_000  // of the JSON in an event and in a question
	leastClip = 64      // what is left of a text in JSON at least
)

// call is one event, with what its hooks read of it.
type call struct {
	Input
	stdin []byte          // for commands: as it is
	shown json.RawMessage // for the log and models: secrets masked, and shorter
}

func (r *Runner) call(in Input) *call {
	doc := r.document(in)
	return &call{Input: in, stdin: fit(doc, maxStdin), shown: fit(each(doc, r.mask), maxShown)}
}

// document is the event as the protocol has it (4.9). What is not there is null.
func (r *Runner) document(in Input) map[string]any {
	doc := map[string]any{"event_type": string(in.Event), "tool_name": nil, "tool_input": decodeValue(in.ToolInput),
		"tool_response": decodeValue(in.ToolResponse), "message": nil, "session_id": r.SessionID,
		"working_dir": r.WorkingDir, "metadata": map[string]any{}}
	if in.Tool != "" {
		doc["tool_name"] = in.Tool
	}
	if in.Message != "" {
		doc["message"] = in.Message
	}
	if raw, err := content.Marshal(in.Metadata); err == nil && in.Metadata != nil {
		doc["metadata"] = decodeValue(raw)
	}
	return doc
}

// fit renders a document in so many bytes. If it is too long, the longest texts in
// it are clipped in their middle, and metadata.clipped is true, so that a guard
// knows that it has not seen everything.
func fit(doc map[string]any, most int) json.RawMessage {
	raw, err := content.Marshal(doc)
	if err == nil && len(raw) <= most {
		return raw
	}
	doc = maps.Clone(doc)
	meta := map[string]any{"clipped": true}
	if m, ok := doc["metadata"].(map[string]any); ok {
		meta = maps.Clone(m)
		meta["clipped"] = true
	}
	doc["metadata"] = meta
	for longest := most / 2; longest >= leastClip; longest /= 2 {
		raw, err := content.Marshal(each(doc, func(s string) string { return clipMiddle(s, longest) }))
		if err == nil && len(raw) <= most {
			return raw
		}
	}
	return bare(doc)
}

// bare is what is left of a document that has too much in it besides long texts.
func bare(doc map[string]any) json.RawMessage {
	out := map[string]any{}
	for name, v := range doc {
		switch v := v.(type) {
		case string:
			out[name] = clipMiddle(v, leastClip)
		case nil:
			out[name] = nil
		default:
			out[name] = map[string]any{"clipped": true}
		}
	}
	raw, err := content.Marshal(out)
	if err != nil { // texts always encode
		return json.RawMessage("{}")
	}
	return raw
}

// each returns a copy of a document with every text in it changed.
func each(doc map[string]any, change func(string) string) map[string]any {
	out := make(map[string]any, len(doc))
	for name, v := range doc {
		out[change(name)] = eachValue(v, change)
	}
	return out
}

func eachValue(v any, change func(string) string) any {
	switch v := v.(type) {
	case string:
		return change(v)
	case map[string]any:
		return each(v, change)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = eachValue(v[i], change)
		}
		return out
	}
	return v
}

// clipMiddle shortens a text to about so many bytes: its beginning and end stay.
func clipMiddle(s string, most int) string {
	if len(s) <= most {
		return s
	}
	head, tail := content.Head(s, most/2), content.Tail(s, most/2)
	return fmt.Sprintf("%s[... %d bytes clipped ...]%s", head, len(s)-len(head)-len(tail), tail)
}

// clip shortens a text to so many characters: its beginning stays.
func clip(s string, most int) string {
	const note = " [... clipped]"
	if len(s) <= most || utf8.RuneCountInString(s) <= most {
		return s
	}
	if most < len(note) {
		return ""
	}
	count := 0
	for i := range s {
		if count == most-len(note) {
			return s[:i] + note
		}
		count++
	}
	return s
}

// output makes what a program or a model wrote fit for an event. It is masked
// before it is cut: the end, where the sandbox may have cut a secret in half, is
// not shown.
func (r *Runner) output(b []byte) string {
	text := r.mask(string(b))
	if len(b) >= maxOutput {
		text = text[:max(0, len(text)-maskRoom)]
	}
	return clip(strings.ToValidUTF8(text, "\ufffd"), maxText)
}
