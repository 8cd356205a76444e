package account

import (
	"maps"

	"parley/internal/fault"
)

// Bounds of the custom secrets of a user.
const (
	MaxCustomSecrets     = 500
	maxCustomSecretValue = 64 << 10 // bytes
	maxCustomSecretBytes = 1 << 20  // of all values
)

// Codes of the faults of custom secrets.
const (
	CodeSecretNotFound = "secret_not_found"
	CodeSecretExists   = "secret_exists"
	CodeSecretLimit    = "secret_limit"
)

// PutSecret stores a custom secret in place of one of that name. An unset value is
// that of the stored one, and a nil description, too. Errors are Invalid, also where
// there is no value to keep, and Conflict (CodeSecretLimit). loc is where the value
// stands in the request.
func (s *Settings) PutSecret(name string, value Secret, description *string, loc ...any) error {
	old := s.Secrets.Custom[name]
	next := CustomSecret{Value: value, Description: or(description, old.Description)}
	if !value.IsSet() {
		next.Value = old.Value
	}
	if !next.Value.IsSet() {
		return Invalid([]fault.Field{{Loc: loc, Type: "value_error", Msg: "Value error, A secret needs a value",
			Ctx: map[string]any{"error": map[string]any{}}}})
	}
	return s.storeSecret(name, next, loc)
}

// AddSecret stores a new custom secret, whose value may be empty (legacy API 5.2).
// Errors are Invalid and Conflict (CodeSecretExists, CodeSecretLimit). loc is where the
// value stands in the request.
func (s *Settings) AddSecret(name string, c CustomSecret, loc ...any) error {
	if _, taken := s.Secrets.Custom[name]; taken {
		return secretExists(name)
	}
	return s.storeSecret(name, c, loc)
}

// storeSecret stores a custom secret unless a bound is reached.
func (s *Settings) storeSecret(name string, next CustomSecret, loc []any) error {
	old, exists := s.Secrets.Custom[name]
	switch {
	case len(next.Value.value) > maxCustomSecretValue:
		return Invalid([]fault.Field{{Loc: loc, Type: "string_too_long", Msg: "String should have at most 65536 bytes"}})
	case !exists && len(s.Secrets.Custom) >= MaxCustomSecrets:
		return fault.New(fault.Conflict, CodeSecretLimit, "There are %d secrets, the most a user can have.", MaxCustomSecrets).
			WithHint("Delete one first.")
	}
	total := len(next.Value.value) - len(old.Value.value)
	for _, c := range s.Secrets.Custom {
		total += len(c.Value.value)
	}
	if total > maxCustomSecretBytes {
		return fault.New(fault.Conflict, CodeSecretLimit, "All secrets together have at most 1 MiB.").WithHint("Delete one first.")
	}
	s.putSecret(name, next)
	return nil
}

func secretExists(name string) error {
	return fault.New(fault.Conflict, CodeSecretExists, "There is a secret named %.100q already.", name)
}

// putSecret writes to a copy: settings share their maps.
func (s *Settings) putSecret(name string, c CustomSecret) {
	next := maps.Clone(s.Secrets.Custom)
	if next == nil {
		next = map[string]CustomSecret{}
	}
	next[name] = c
	s.Secrets.Custom = next
}

// DeleteSecret removes a custom secret. NotFound if there is none.
func (s *Settings) DeleteSecret(name string) error {
	if _, ok := s.Secrets.Custom[name]; !ok {
		return noSecret(name)
	}
	s.Secrets.Custom = maps.Clone(s.Secrets.Custom)
	delete(s.Secrets.Custom, name)
	return nil
}

func noSecret(name string) error {
	return fault.New(fault.NotFound, CodeSecretNotFound, "Secret not found: %.100s", name)
}

// RenameSecret gives a custom secret another name and, unless it is nil, another
// description. Errors are NotFound and Conflict (CodeSecretExists).
func (s *Settings) RenameSecret(from, to string, description *string) error {
	c, ok := s.Secrets.Custom[from]
	if !ok {
		return noSecret(from)
	}
	if _, taken := s.Secrets.Custom[to]; taken && from != to {
		return secretExists(to)
	}
	c.Description = or(description, c.Description)
	s.putSecret(to, c)
	if from != to {
		delete(s.Secrets.Custom, from)
	}
	return nil
}
