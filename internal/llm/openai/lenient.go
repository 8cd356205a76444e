package openai

import (
	"encoding/json"

	"parley/internal/llm/wire"
)

// contentText reads a message's content: a string, or a list of parts, of which
// some hold reasoning.
func contentText(raw json.RawMessage) (answer, reasoning string) {
	if wire.IsNull(raw) {
		return "", ""
	}
	if s := wire.Text(raw); s != "" {
		return s, ""
	}
	var parts []map[string]json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		return "", ""
	}
	for _, p := range parts {
		switch wire.Text(p["type"]) {
		case "thinking", "reasoning":
			reasoning += partText(p, "thinking", "text")
		default:
			answer += partText(p, "text", "refusal")
		}
	}
	return answer, reasoning
}

// partText reads the first of the members that is there: a string or a list of
// text parts.
func partText(p map[string]json.RawMessage, keys ...string) string {
	for _, key := range keys {
		if s := wire.Text(p[key]); s != "" {
			return s
		}
		var inner []map[string]json.RawMessage
		if json.Unmarshal(p[key], &inner) == nil {
			var s string
			for _, q := range inner {
				s += wire.Text(q["text"])
			}
			return s
		}
	}
	return ""
}
