package agentserver

import (
	"encoding/json"
	"fmt"
	"slices"

	"parley/internal/account"
	"parley/internal/api/httpkit"
)

// secretSources are the secrets of a request by name.
type secretSources map[string]secretInput

// secretInput is a secret's value, or an object that says where it is from.
type secretInput struct {
	Kind        string         `json:"kind"`
	Value       account.Secret `json:"value"`
	URL         string         `json:"url"` // of a LookupSecret; "" or null without
	Description *string        `json:"description"`
}

// UnmarshalJSON reads both forms.
func (s *secretInput) UnmarshalJSON(b []byte) error {
	type object secretInput
	*s = secretInput{Kind: staticSecret}
	if len(b) > 0 && b[0] == '{' {
		return json.Unmarshal(b, (*object)(s))
	}
	return json.Unmarshal(b, &s.Value)
}

const staticSecret = "StaticSecret"

// addTo adds the secrets that have a value; those at addresses are looked up before. One that is sent as its mask has none.
func (s secretSources) addTo(all map[string]account.CustomSecret, loc ...any) error {
	for name, source := range s {
		if source.Kind != staticSecret {
			return httpkit.BadField(fmt.Sprintf("secrets of the kind %.100s are not supported yet; the kinds are %s and %s", source.Kind, staticSecret, lookupSecret),
				nil, append(slices.Clone(loc), name, "kind")...)
		}
		if source.Value.IsSet() {
			all[name] = account.CustomSecret{Value: source.Value, Description: orEmpty(source.Description)}
		}
	}
	return nil
}
