package account

import (
	"encoding/json"
	"maps"
	"reflect"

	"parley/internal/fault"
)

// MergeDiff returns an object with the changes of another merged into it: objects
// deeply, null removes a member, everything else replaces. Neither is changed.
func MergeDiff(base, diff map[string]any) map[string]any {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]any{}
	}
	for name, change := range diff {
		switch x := change.(type) {
		case nil:
			delete(out, name)
		case map[string]any:
			old, _ := out[name].(map[string]any)
			out[name] = MergeDiff(old, x)
		default:
			out[name] = x
		}
	}
	return out
}

// ChangeLLM changes single members of the model that the settings choose. diff is
// merged into the protocol's LLM object: null resets a member, except keys, which
// it keeps, as does leaving them out or sending the mask. Errors are Invalid, as
// of ParseLLM, and where a key that is kept would go to another endpoint. Nothing
// is changed then.
func (s *Settings) ChangeLLM(diff json.RawMessage, loc ...any) error {
	v, err := decodeAny(diff)
	change, ok := v.(map[string]any)
	switch {
	case err != nil || v != nil && !ok:
		return Invalid([]fault.Field{notAnObject(loc)})
	case len(change) == 0:
		return nil
	}
	now := s.LLM()
	merged, err := now.merged(change)
	if err != nil {
		return err
	}
	in, err := ParseLLM(merged, loc...)
	if err != nil {
		return err
	}
	next, err := in.Over(&now, false, loc...)
	if err != nil {
		return err
	}
	s.put(next)
	s.reconsider()
	if p, ok := s.Profiles[s.ActiveProfile]; ok && !p.sameBut(*s.Tuning) {
		s.ActiveProfile = ""
	}
	return nil
}

// merged renders the LLM, its secrets as masks, with a change merged into it.
func (l LLM) merged(change map[string]any) (json.RawMessage, error) {
	rendered, err := l.Render(func(Secret) string { return Mask })
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(rendered)
	if err != nil {
		return nil, err
	}
	base, err := decodeAny(raw)
	if err != nil {
		return nil, err
	}
	change = maps.Clone(change)
	l.EachSecret(func(path string, _ *Secret) {
		if v, there := change[path]; there && v == nil {
			delete(change, path) // null keeps
		}
	})
	object, _ := base.(map[string]any)
	return json.Marshal(MergeDiff(object, change))
}

// sameBut compares two configurations but for the API key.
func (l LLM) sameBut(other LLM) bool {
	l.APIKey, other.APIKey = Secret{}, Secret{}
	return reflect.DeepEqual(l, other)
}
