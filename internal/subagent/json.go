package subagent

import (
	"encoding/json"
	"slices"

	"parley/internal/account"
	"parley/internal/fault"
)

// maxPrompt bounds the system prompt and the description of a request, in bytes.
const maxPrompt = 256 << 10

// FromJSON reads an agent of a request (OpenAPI AgentDefinition). Members that mean
// nothing here are ignored. loc is where it stands in the request. The error is
// fault.Invalid with everything that is wrong as fields.
func FromJSON(raw json.RawMessage, loc ...any) (Definition, error) {
	var m map[string]any
	if len(raw) > 4*maxPrompt {
		return Definition{}, account.Invalid([]fault.Field{{Loc: loc, Type: "too_long", Msg: "The definition is too long"}})
	}
	if err := json.Unmarshal(raw, &m); err != nil || m == nil {
		return Definition{}, account.Invalid([]fault.Field{{Loc: loc, Type: "dict_type", Msg: "Input should be a valid dictionary"}})
	}
	r := &reader{m: m, key: func(name string) string { return name }}
	d := r.definition()
	d.SystemPrompt, d.Source, d.Level = r.str("system_prompt"), r.str("source"), LevelProgrammatic
	for name, text := range map[string]string{"system_prompt": d.SystemPrompt, "description": d.Description, "source": d.Source} {
		if len(text) > maxPrompt {
			r.fail(name, "string_too_long", "It has %d bytes, more than the %d allowed", len(text), maxPrompt)
		}
	}
	if len(r.fields) == 0 {
		return d, nil
	}
	for i := range r.fields {
		r.fields[i].Loc = slices.Concat(loc, r.fields[i].Loc)
	}
	return Definition{}, account.Invalid(r.fields)
}
