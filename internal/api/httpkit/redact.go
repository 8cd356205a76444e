package httpkit

import (
	"encoding/json"
	"strings"

	"parley/internal/account"
)

const (
	echoDepth = 4  // nesting of an echoed input
	echoItems = 20 // members per level of an echoed input
)

// secretWords are parts of names whose values are not echoed.
var secretWords = []string{"key", "token", "secret", "password", "passwd", "credential", "auth",
	"cookie", "private", "proof", "nonce", "env"}

// LooksSecret reports whether a member of that name may hold a secret.
func LooksSecret(name string) bool {
	name = strings.ToLower(name)
	for _, w := range secretWords {
		if strings.Contains(name, w) {
			return true
		}
	}
	return false
}

// redactAt returns what of an input may be echoed: secrets masked, long texts
// and lists cut.
func redactAt(loc []any, v any) any {
	for _, step := range loc {
		if name, ok := step.(string); ok && LooksSecret(name) {
			return masked(v)
		}
	}
	return redact(v, echoDepth)
}

func redact(v any, depth int) any {
	switch x := v.(type) {
	case string:
		return clip(x)
	case map[string]any:
		return redactMap(x, depth)
	case []any:
		out := []any{}
		for i, e := range x {
			if i == echoItems || depth == 0 {
				break
			}
			out = append(out, redact(e, depth-1))
		}
		return out
	}
	return v
}

func redactMap(m map[string]any, depth int) map[string]any {
	out := map[string]any{}
	for i, k := range sortedKeys(m) {
		switch {
		case i == echoItems || depth == 0:
			return out
		case LooksSecret(k):
			out[clip(k)] = masked(m[k])
		default:
			out[clip(k)] = redact(m[k], depth-1)
		}
	}
	return out
}

// masked hides a value but not whether there is one.
func masked(v any) any {
	switch x := v.(type) {
	case nil, bool:
		return v
	case string:
		if x == "" {
			return ""
		}
	case json.Number:
		return account.Mask
	}
	return account.Mask
}
