package shared

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"parley/internal/conversation"
)

// shown are the kinds of events that strangers see. What is not here is left out:
// system prompts carry skills and instructions, states the whole configuration,
// hooks their input.
var shown = []string{conversation.KindMessage, conversation.KindAction, conversation.KindObservation,
	conversation.KindUserReject, conversation.KindAgentError, conversation.KindConversationError,
	conversation.KindPause, conversation.KindInterrupt, conversation.KindCondensation,
	conversation.KindCondenseRequest, conversation.KindCondenseSummary}

func isShown(kind string) bool { return slices.Contains(shown, kind) }

// hidden are members of events that only the agent and its provider need, with what
// takes their place.
var hidden = map[string]any{"extended_content": []any{}, "activated_skills": []any{}, "thinking_blocks": []any{},
	"reasoning_content": nil, "responses_reasoning_item": nil, "critic_result": nil, "full_output_save_dir": nil}

// view is an event as strangers see it: nil if they do not.
func view(e *conversation.Event, redact func(string) string) (json.RawMessage, error) {
	if e == nil || !isShown(e.Kind) {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(e.Raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("shared event: %w", err)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(clean(v, redact)); err != nil {
		return nil, fmt.Errorf("shared event: %w", err)
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

func clean(v any, redact func(string) string) any {
	switch x := v.(type) {
	case string:
		return redact(x)
	case []any:
		for i := range x {
			x[i] = clean(x[i], redact)
		}
	case map[string]any:
		out := make(map[string]any, len(x))
		for name, member := range x {
			if instead, ok := hidden[name]; ok {
				out[name] = instead
				continue
			}
			out[redact(name)] = clean(member, redact)
		}
		return out
	}
	return v
}
