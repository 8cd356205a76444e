package v1

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/lazyre"
)

// keptSettings is the object behind account.Settings.Kept: the members of
// keptMembers, and in keptAgent and keptConversation what their objects have
// beyond what Parley acts on.
type keptSettings map[string]any

const (
	keptAgent        = "agent_settings"
	keptConversation = "conversation_settings"
	maxKept          = 256 << 10 // bytes, as JSON
)

// keptMembers are the members of a request that are kept as they are.
var keptMembers = []string{"user_version", "git_full_clone", "sandbox_grouping_strategy",
	"active_agent_profile_id", "active_agent_profile_revision", "registered_marketplaces"}

func readKept(s *account.Settings) (keptSettings, error) {
	k := keptSettings{}
	if len(s.Kept) == 0 {
		return k, nil
	}
	d := json.NewDecoder(bytes.NewReader(s.Kept))
	d.UseNumber()
	if err := d.Decode(&k); err != nil {
		return nil, fmt.Errorf("kept settings: %w", err)
	}
	return k, nil
}

// store writes the object back, without members that say nothing.
func (k keptSettings) store(s *account.Settings) error {
	maps.DeleteFunc(k, func(_ string, v any) bool {
		m, ok := v.(map[string]any)
		return v == nil || ok && len(m) == 0
	})
	if s.Kept = nil; len(k) == 0 {
		return nil
	}
	raw, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("kept settings: %w", err)
	}
	if len(raw) > maxKept {
		return fault.New(fault.TooLarge, "settings_too_large", "The settings are larger than %d bytes.", maxKept)
	}
	s.Kept = raw
	return nil
}

func (k keptSettings) object(name string) map[string]any {
	m, _ := k[name].(map[string]any)
	return m
}

// Members that were kept before Parley acted on them.
const (
	oldDisabledSkills = "disabled_skills"
	oldSubAgents      = "enable_sub_agents" // of keptAgent
	oldDefaultSpec    = "default_sandbox_spec_id"
)

// adopted returns the settings with what an earlier version kept where it has an
// effect, and what is kept besides.
func adopted(s *account.Settings) (*account.Settings, keptSettings, error) {
	kept, err := readKept(s)
	if err != nil {
		return nil, nil, err
	}
	next := *s
	kept.adopt(&next)
	return &next, kept, nil
}

func (k keptSettings) disabledSkills() []string {
	list, _ := k[oldDisabledSkills].([]any)
	var names []string
	for _, v := range list {
		if name, ok := v.(string); ok {
			names = append(names, name)
		}
	}
	return names
}

func (k keptSettings) subAgents() *bool {
	if on, ok := k.object(keptAgent)[oldSubAgents].(bool); ok {
		return &on
	}
	return nil
}

// adoptKept moves what an earlier version kept to where it has an effect.
func adoptKept(s *account.Settings) error {
	kept, err := readKept(s)
	if err != nil {
		return err
	}
	kept.adopt(s)
	return kept.store(s)
}

// adopt is adoptKept without the end: k is not stored.
func (k keptSettings) adopt(s *account.Settings) {
	if s.DisabledSkills == nil {
		s.DisabledSkills = k.disabledSkills()
	}
	if s.SubAgents == nil {
		s.SubAgents = k.subAgents()
	}
	if spec, ok := k[oldDefaultSpec].(string); ok && s.DefaultSandboxSpec == "" {
		s.DefaultSandboxSpec = spec
	}
	delete(k, oldDefaultSpec)
	delete(k, oldDisabledSkills)
	delete(k.object(keptAgent), oldSubAgents)
}

// view fills in what is not kept.
func (k keptSettings) view() (keptView, error) {
	v := keptView{SandboxGrouping: "NO_GROUPING", RegisteredMarketplaces: json.RawMessage("[]"), InheritedMarketplaces: []any{}}
	raw, err := json.Marshal(k)
	if err != nil {
		return v, fmt.Errorf("kept settings: %w", err)
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, fmt.Errorf("kept settings: %w", err)
	}
	return v, nil
}

// secretMember matches the names of members that hold secrets.
var secretMember = lazyre.MustCompile(`(?i)(^|[_-])(keys?|tokens?|secrets?|passwords?|credentials?|auth|authorization|cookies?|env|headers?)($|[_-])|apikey`)

// keepable returns what of a value can be kept: secrets are left out, because what
// has no use for them should not have them. Numbers and booleans are none,
// whatever they are called.
func keepable(name string, v any) (any, bool) {
	switch x := v.(type) {
	case map[string]any:
		if secretMember.MatchString(name) {
			return nil, false
		}
		out := map[string]any{}
		for member, value := range x {
			if kept, ok := keepable(member, value); ok {
				out[member] = kept
			}
		}
		return out, true
	case []any:
		if secretMember.MatchString(name) {
			return nil, false
		}
		out := []any{}
		for _, value := range x {
			if kept, ok := keepable("", value); ok {
				out = append(out, kept)
			}
		}
		return out, true
	case string:
		return v, !secretMember.MatchString(name)
	case json.Number:
		_, err := x.Float64()
		return v, err == nil // beyond it no client reads the answer
	}
	return v, true
}
