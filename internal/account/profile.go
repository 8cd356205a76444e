package account

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"parley/internal/fault"
	"parley/internal/lazyre"
)

// MaxProfiles bounds the profiles of a user.
const MaxProfiles = 50

// Codes of the faults of profiles.
const (
	CodeProfileLimit    = "profile_limit"
	CodeProfileExists   = "profile_exists"
	CodeProfileNotFound = "profile_not_found"
)

var profileName = lazyre.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// CheckProfileName returns Invalid for what cannot be the name of a profile: names
// are parts of addresses, and "." and ".." mean something else there. loc is where
// the name stands in the request.
func CheckProfileName(name string, loc ...any) error {
	switch {
	case name == "." || name == "..":
		return Invalid([]fault.Field{{Loc: loc, Type: "value_error", Input: name, Ctx: map[string]any{"error": map[string]any{}},
			Msg: "Value error, A profile cannot be named " + name + ", which means something else in an address"}})
	case profileName.MatchString(name):
		return nil
	}
	return Invalid([]fault.Field{{Loc: loc, Type: "string_pattern_mismatch", Input: name,
		Msg: "String should match pattern '" + profileName.String() + "'", Ctx: map[string]any{"pattern": profileName.String()}}})
}

// ProfileSave is a request to store a profile.
type ProfileSave struct {
	LLM *LLMInput // nil = a copy of the model that the settings choose now
	// PreserveKeys keeps the stored profile's secrets where LLM leaves them out.
	PreserveKeys bool
	WithSecrets  bool // false stores the profile without any secret
	Loc          []any
}

// Profile returns a profile, or NotFound.
func (s *Settings) Profile(name string) (LLM, error) {
	l, ok := s.Profiles[name]
	if !ok {
		return LLM{}, fault.New(fault.NotFound, CodeProfileNotFound, "LLM profile not found: %.64q", name)
	}
	return l, nil
}

// SaveProfile stores a profile under a name, in place of one that has it. If that
// one is the active profile, the settings follow. Errors are Invalid and Conflict
// (CodeProfileLimit); nothing is changed then.
func (s *Settings) SaveProfile(name string, save ProfileSave) error {
	if err := CheckProfileName(name, "path", "name"); err != nil {
		return err
	}
	old, exists := s.Profiles[name]
	if !exists && len(s.Profiles) >= MaxProfiles {
		return fault.New(fault.Conflict, CodeProfileLimit, "There are %d LLM profiles, the most a user can have.", MaxProfiles).
			WithHint("Delete one first.")
	}
	l, err := s.profileOf(save, &old, exists)
	if err != nil {
		return err
	}
	if !save.WithSecrets {
		l = l.WithoutSecrets()
	}
	s.putProfile(name, l)
	if s.ActiveProfile == name {
		s.choose(name, l)
	}
	return nil
}

func (s *Settings) profileOf(save ProfileSave, old *LLM, exists bool) (LLM, error) {
	if save.LLM == nil {
		l := s.LLM()
		if l.Model == "" {
			return l, fault.New(fault.Invalid, "llm_model_missing", "The settings choose no LLM model to make a profile of.").
				WithHint("Send the profile's llm, or set llm_model in the settings first.")
		}
		return l, nil
	}
	if !exists {
		old = nil
	}
	return save.LLM.Over(old, save.PreserveKeys, save.Loc...)
}

// putProfile writes to a copy: settings share their maps. A profile is no fallback
// of its own.
func (s *Settings) putProfile(name string, l LLM) {
	if slices.Contains(l.Fallbacks, name) {
		l.Fallbacks = renamed(l.Fallbacks, name, "")
	}
	next := maps.Clone(s.Profiles)
	if next == nil {
		next = map[string]LLM{}
	}
	next[name] = l
	s.Profiles = next
}

// DeleteProfile removes a profile. The settings keep the model that it brought.
// It is not an error if there is none. Conflict (CodeProfileInUse) if an agent profile
// needs it.
func (s *Settings) DeleteProfile(name string) error {
	if _, ok := s.Profiles[name]; !ok {
		return nil
	}
	if users := s.usersOfProfile(name); len(users) > 0 {
		return fault.New(fault.Conflict, CodeProfileInUse, "The LLM profile %q is used by the agent profile %s.", name, strings.Join(users, ", ")).
			WithHint("Give the agent profile another LLM profile first, or delete it.")
	}
	s.Profiles = maps.Clone(s.Profiles)
	delete(s.Profiles, name)
	s.rename(name, "")
	return nil
}

// RenameProfile gives a profile another name; what refers to it follows. Errors
// are Invalid, NotFound and Conflict (CodeProfileExists).
func (s *Settings) RenameProfile(from, to string) error {
	if err := CheckProfileName(to, "body", "new_name"); err != nil {
		return err
	}
	l, err := s.Profile(from)
	if err != nil || from == to {
		return err
	}
	if _, taken := s.Profiles[to]; taken {
		return fault.New(fault.Conflict, CodeProfileExists, "There is an LLM profile named %q already.", to)
	}
	s.putProfile(to, l)
	delete(s.Profiles, from)
	s.rename(from, to)
	return nil
}

// rename lets what refers to a profile follow it; to "" means that it is gone.
func (s *Settings) rename(from, to string) {
	if s.ActiveProfile == from {
		s.ActiveProfile = to
	}
	if s.TitleProfile == from {
		s.TitleProfile = to
	}
	s.referToProfile(from, to) // none if it is gone: then none refers to it
	for name, l := range s.Profiles {
		if slices.Contains(l.Fallbacks, from) {
			l.Fallbacks = renamed(l.Fallbacks, from, to)
			s.Profiles[name] = l // the map is a copy of ours by now
		}
	}
	if s.Tuning != nil && slices.Contains(s.Tuning.Fallbacks, from) {
		tuned := *s.Tuning
		tuned.Fallbacks = renamed(tuned.Fallbacks, from, to)
		s.Tuning = &tuned
	}
}

func renamed(names []string, from, to string) []string {
	var out []string
	for _, n := range names {
		if n == from {
			n = to
		}
		if n != "" {
			out = append(out, n)
		}
	}
	return out
}

// ActivateProfile makes the settings choose the profile's model. NotFound if
// there is no such profile.
func (s *Settings) ActivateProfile(name string) error {
	l, err := s.Profile(name)
	if err != nil {
		return err
	}
	s.choose(name, l)
	return nil
}

// choose copies a profile into the settings: model, endpoint and key into the
// three fields of the legacy API, the rest beside them. A profile without a key
// leaves the one of the settings, unless it would go to another endpoint.
func (s *Settings) choose(name string, l LLM) {
	now := s.LLM()
	key := l.APIKey
	if !key.IsSet() && now.Model != "" && l.SameEndpoint(&now) {
		key = now.APIKey
	}
	l.APIKey = key
	s.put(l)
	s.ActiveProfile = name
}

// put makes a model that of the settings.
func (s *Settings) put(l LLM) {
	model, base := l.Model, l.BaseURL
	s.LLMModel, s.LLMBaseURL, s.LLMAPIKey = &model, &base, l.APIKey
	l.APIKey = Secret{}
	s.Tuning = &l
}

// reconsider drops what a profile brought once the settings choose another model
// or endpoint, and the active flag once they are not the profile's any more.
func (s *Settings) reconsider() {
	model, base := deref(s.LLMModel), deref(s.LLMBaseURL)
	if t := s.Tuning; t != nil && (t.Model != model || t.BaseURL != base) {
		s.Tuning = nil
	}
	if p, ok := s.Profiles[s.ActiveProfile]; !ok || p.Model != model || p.BaseURL != base ||
		p.APIKey.IsSet() && p.APIKey != s.LLMAPIKey {
		s.ActiveProfile = ""
	}
}

// ChooseTitleProfile names the profile that titles are made with; "" is the
// conversation's own model. Invalid if there is no such profile; loc is where the
// name stands in the request.
func (s *Settings) ChooseTitleProfile(name string, loc ...any) error {
	if _, ok := s.Profiles[name]; !ok && name != "" {
		return Invalid([]fault.Field{{Loc: loc, Type: "value_error", Input: name, Ctx: map[string]any{"error": map[string]any{}},
			Msg: "Value error, There is no LLM profile of that name"}})
	}
	s.TitleProfile = name
	return nil
}

// FallbackModels returns the profiles that a configuration falls back on, in its
// order and without doubles, and the names of those that the user does not have.
// Their own fallbacks are not followed.
func (s *Settings) FallbackModels(l *LLM) (found []LLM, missing []string) {
	seen := map[string]bool{}
	for _, name := range l.Fallbacks {
		if seen[name] {
			continue
		}
		seen[name] = true
		p, ok := s.Profiles[name]
		if !ok {
			missing = append(missing, name)
			continue
		}
		p.Fallbacks = nil
		found = append(found, s.WithKeys(p))
	}
	return found, missing
}

// WithKeys returns a configuration with the key of the settings, if it has none
// and its calls go where that key was stored for.
func (s *Settings) WithKeys(l LLM) LLM {
	if now := s.LLM(); now.Model != "" && !l.APIKey.IsSet() && l.SameEndpoint(&now) {
		l.APIKey = now.APIKey
	}
	return l
}

// ProfileConfig renders a profile as the protocol's object; see LLM.Render.
func (s *Settings) ProfileConfig(name string, show func(Secret) string) (map[string]json.RawMessage, error) {
	l, err := s.Profile(name)
	if err != nil {
		return nil, err
	}
	return l.Render(show)
}
