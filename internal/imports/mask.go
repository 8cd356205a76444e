package imports

import (
	"encoding/json"
	"slices"

	"parley/internal/content"
)

// structure are the members of an event that say what it is: a secret that is a common
// word must not take it apart.
var structure = []string{"id", "kind", "type", "role", "timestamp", "source", "cause", "action", "observation", "parent_id",
	"tool_name", "tool_call_id", "action_id", "llm_response_id", "key", "agent_state", "confirmation_state"}

// masked takes secrets out of the texts of an event. What is no JSON is returned as it
// is: nothing of it is kept.
func masked(raw []byte, mask func(string) string) []byte {
	if mask(string(raw)) == string(raw) {
		return raw
	}
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return raw
	}
	out, err := content.Marshal(maskTexts(v, mask))
	if err != nil {
		return nil
	}
	return out
}

func maskTexts(v any, mask func(string) string) any {
	switch x := v.(type) {
	case string:
		return mask(x)
	case []any:
		for i := range x {
			x[i] = maskTexts(x[i], mask)
		}
	case map[string]any:
		for name, member := range x {
			if _, text := member.(string); text && slices.Contains(structure, name) {
				continue
			}
			x[name] = maskTexts(member, mask)
		}
	}
	return v
}
