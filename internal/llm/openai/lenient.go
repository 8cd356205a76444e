package openai

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// text reads a JSON string; anything else is "".
func text(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// number reads a finite number, also one written as a string.
func number(raw json.RawMessage) (float64, bool) {
	s := strings.Trim(string(bytes.TrimSpace(raw)), `"`)
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, false
	}
	return n, true
}

// object reads a JSON object; anything else is nil.
func object(raw json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}

// isNull reports whether a member is missing or null.
func isNull(raw json.RawMessage) bool {
	b := bytes.TrimSpace(raw)
	return len(b) == 0 || string(b) == "null"
}

// isError reports whether an error member says something.
func isError(raw json.RawMessage) bool {
	s := string(bytes.TrimSpace(raw))
	return !isNull(raw) && s != `""` && s != "{}" && s != "false"
}

// contentText reads a message's content: a string, or a list of parts, of which
// some hold reasoning.
func contentText(raw json.RawMessage) (answer, reasoning string) {
	if isNull(raw) {
		return "", ""
	}
	if s := text(raw); s != "" {
		return s, ""
	}
	var parts []map[string]json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		return "", ""
	}
	for _, p := range parts {
		switch text(p["type"]) {
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
		if s := text(p[key]); s != "" {
			return s
		}
		var inner []map[string]json.RawMessage
		if json.Unmarshal(p[key], &inner) == nil {
			var s string
			for _, q := range inner {
				s += text(q["text"])
			}
			return s
		}
	}
	return ""
}
