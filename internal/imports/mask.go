package imports

import (
	"bytes"
	"encoding/json"
	"slices"

	"parley/internal/content"
)

// structure are the members of an event that say what it is: a secret that is a common
// word must not take it apart.
var structure = []string{"id", "kind", "type", "role", "timestamp", "source", "cause", "action", "observation", "parent_id",
	"tool_name", "tool_call_id", "action_id", "llm_response_id", "key", "agent_state", "confirmation_state"}

// masked takes secrets out of the texts of an event, however JSON writes their
// characters. What is no JSON is returned as it is: nothing of it is kept.
func masked(raw []byte, mask func(string) string) []byte {
	if !bytes.ContainsRune(raw, '\\') && mask(string(raw)) == string(raw) {
		return raw
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return raw
	}
	m := masking{mask: mask}
	if v = m.texts(v); !m.changed {
		return raw
	}
	out, err := content.Marshal(v)
	if err != nil {
		return nil
	}
	return out
}

type masking struct {
	mask    func(string) string
	changed bool
}

func (m *masking) text(s string) string {
	out := m.mask(s)
	m.changed = m.changed || out != s
	return out
}

func (m *masking) texts(v any) any {
	switch x := v.(type) {
	case string:
		return m.text(x)
	case []any:
		for i := range x {
			x[i] = m.texts(x[i])
		}
	case map[string]any:
		return m.members(x)
	}
	return v
}

func (m *masking) members(x map[string]any) map[string]any {
	out := make(map[string]any, len(x))
	for name, member := range x {
		if _, text := member.(string); !text || !slices.Contains(structure, name) {
			member = m.texts(member)
		}
		if !slices.Contains(structure, name) {
			name = m.text(name)
		}
		out[name] = member
	}
	return out
}
