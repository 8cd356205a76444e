package account

import "maps"

// TokenChange is what a request says about the token of one git provider. A token
// that is left out, null, empty or the mask keeps the stored one.
type TokenChange struct {
	Token  SecretChange `json:"token"`
	Host   *string      `json:"host"`
	UserID *string      `json:"user_id"`
}

// ReplaceTokens returns the tokens that a request makes of those that are stored: its
// providers are the whole set (V1 9.3). The host is the request's, whether or not
// there is one; a provider without a token is none. check names the tokens whose
// value or host is new: somebody has to ask their providers.
func ReplaceTokens(old map[string]ProviderToken, changes map[string]TokenChange) (next, check map[string]ProviderToken) {
	next, check = map[string]ProviderToken{}, map[string]ProviderToken{}
	for name, c := range changes {
		before := old[name]
		t := ProviderToken{Token: before.Token, Host: c.Host, UserID: keep(c.UserID, before.UserID)}
		if c.Token.value.IsSet() {
			t.Token = c.Token.value
		}
		if !t.Token.IsSet() {
			continue
		}
		next[name] = t
		if c.Token.value.IsSet() || or(before.Host, "") != or(t.Host, "") {
			check[name] = t
		}
	}
	return next, check
}

// SetTokens replaces the tokens of all git providers.
func (s *Settings) SetTokens(tokens map[string]ProviderToken) {
	s.Secrets.ProviderTokens = maps.Clone(tokens)
}
