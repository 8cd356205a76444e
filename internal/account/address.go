package account

import (
	"net/url"
	"slices"
	"strings"

	"parley/internal/lazyre"
)

// secretName are the names of query parameters that hold keys.
var secretName = lazyre.MustCompile(`(?i)key|token|secret|sig|auth|pass|code`)

// AddressSecrets returns what of a base URL must not be shown to others: the
// password of its userinfo, and the values of its query that are keys.
func AddressSecrets(address string) []string {
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil {
		return nil
	}
	var out []string
	if password, ok := u.User.Password(); ok && password != "" {
		out = append(out, password)
	} else if name := u.User.Username(); name != "" { // a token alone
		out = append(out, name)
	}
	for name, values := range u.Query() {
		if secretName.MatchString(name) {
			out = append(out, slices.DeleteFunc(values, func(v string) bool { return v == "" })...)
		}
	}
	slices.Sort(out)
	return out
}

// HeaderSecrets returns what of a header's value must not be shown: headers hold
// keys, but also plain words, which would garble every text they occur in.
func HeaderSecrets(value string) []string {
	const shortest, certain = 8, 24 // bytes
	var out []string
	for _, word := range strings.Fields(value) { // "Bearer sk-..."
		if len(word) >= certain || len(word) >= shortest && strings.ContainsAny(word, "0123456789") {
			out = append(out, word)
		}
	}
	return out
}
