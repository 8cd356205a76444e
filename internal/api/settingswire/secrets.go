package settingswire

import (
	"slices"
	"strings"

	"parley/internal/account"
)

// SecretName is a custom secret as lists show it.
type SecretName struct {
	Name        string  `json:"name"`
	Description *string `json:"description"`
}

// SecretInput is a request to store a custom secret. The mask leaves the value as it
// is.
type SecretInput struct {
	Name        string         `json:"name"`
	Value       account.Secret `json:"value"`
	Description *string        `json:"description"`
}

// SecretNames lists custom secrets by name.
func SecretNames(all map[string]account.CustomSecret) []SecretName {
	out := []SecretName{}
	for name, s := range all {
		entry := SecretName{Name: name}
		if s.Description != "" {
			entry.Description = &s.Description
		}
		out = append(out, entry)
	}
	slices.SortFunc(out, func(a, b SecretName) int { return strings.Compare(a.Name, b.Name) })
	return out
}
