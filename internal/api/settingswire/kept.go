// Package settingswire is what the APIs' settings have in common: the objects
// agent_settings and conversation_settings, how requests change them, and what is
// kept of a request for clients without having an effect. It knows no routes.
package settingswire

import (
	"encoding/json"
	"fmt"
	"maps"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/lazyre"
)

// Kept is the object behind account.Settings.Kept: the members of
// KeptMembers, and in AgentSettings and ConversationSettings what their objects have
// beyond what Parley acts on.
type Kept map[string]any

// Names of the objects in settings.
const (
	AgentSettings        = "agent_settings"
	ConversationSettings = "conversation_settings"
)

const maxKept = 256 << 10 // bytes, as JSON

// KeptMembers are the members of a V1 request that are kept as they are.
var KeptMembers = []string{"user_version", "sandbox_grouping_strategy", "registered_marketplaces"}

// ReadKept returns what of the settings is kept.
func ReadKept(s *account.Settings) (Kept, error) {
	k := Kept{}
	if len(s.Kept) == 0 {
		return k, nil
	}
	if err := decode(s.Kept, &k); err != nil {
		return nil, fmt.Errorf("kept settings: %w", err)
	}
	return k, nil
}

// Store writes the object back, without members that say nothing.
func (k Kept) Store(s *account.Settings) error {
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

// Object returns a member that is an object, nil if there is none.
func (k Kept) Object(name string) map[string]any {
	m, _ := k[name].(map[string]any)
	return m
}

// Members that were kept before Parley acted on them.
const (
	oldDisabledSkills = "disabled_skills"
	oldSubAgents      = "enable_sub_agents" // of AgentSettings
	oldDefaultSpec    = "default_sandbox_spec_id"
	oldFullClone      = "git_full_clone"
	oldAgentProfile   = "active_agent_profile_id" // there were no profiles that it could name
	oldRevision       = "active_agent_profile_revision"
)

// Adopted returns the settings with what an earlier version kept where it has an
// effect, and what is kept besides.
func Adopted(s *account.Settings) (*account.Settings, Kept, error) {
	kept, err := ReadKept(s)
	if err != nil {
		return nil, nil, err
	}
	next := *s
	kept.adopt(&next)
	return &next, kept, nil
}

func (k Kept) disabledSkills() []string {
	list, _ := k[oldDisabledSkills].([]any)
	var names []string
	for _, v := range list {
		if name, ok := v.(string); ok {
			names = append(names, name)
		}
	}
	return names
}

func (k Kept) subAgents() *bool {
	if on, ok := k.Object(AgentSettings)[oldSubAgents].(bool); ok {
		return &on
	}
	return nil
}

// AdoptKept moves what an earlier version kept to where it has an effect.
func AdoptKept(s *account.Settings) error {
	kept, err := ReadKept(s)
	if err != nil {
		return err
	}
	kept.adopt(s)
	return kept.Store(s)
}

// adopt is AdoptKept without the end: k is not stored.
func (k Kept) adopt(s *account.Settings) {
	if s.DisabledSkills == nil {
		s.DisabledSkills = k.disabledSkills()
	}
	if s.SubAgents == nil {
		s.SubAgents = k.subAgents()
	}
	if spec, ok := k[oldDefaultSpec].(string); ok && s.DefaultSandboxSpec == "" {
		s.DefaultSandboxSpec = spec
	}
	delete(k, oldAgentProfile)
	delete(k, oldRevision)
	if full, ok := k[oldFullClone].(bool); ok && s.GitFullClone == nil {
		s.GitFullClone = &full
	}
	delete(k, oldFullClone)
	delete(k, oldDefaultSpec)
	delete(k, oldDisabledSkills)
	delete(k.Object(AgentSettings), oldSubAgents)
}

// secretMember matches the names of members that hold secrets.
var secretMember = lazyre.MustCompile(`(?i)(^|[_-])(keys?|tokens?|secrets?|passwords?|credentials?|auth|authorization|cookies?|env|headers?)($|[_-])|apikey`)

// Keepable returns what of a value can be kept: secrets are left out, because what
// has no use for them should not have them. Numbers and booleans are none,
// whatever they are called.
func Keepable(name string, v any) (any, bool) {
	switch x := v.(type) {
	case map[string]any:
		if secretMember.MatchString(name) {
			return nil, false
		}
		out := map[string]any{}
		for member, value := range x {
			if kept, ok := Keepable(member, value); ok {
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
			if kept, ok := Keepable("", value); ok {
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
