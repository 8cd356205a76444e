package mcp

import (
	"parley/internal/fault"
	"parley/internal/lazyre"
)

// codeSecret is the code of the fault for a name that no secret has.
const codeSecret = "mcp_unknown_secret"

// Names of secrets in a configuration (agent protocol 4.8). In arguments the braces may
// be left out.
var (
	braced = lazyre.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)
	bare   = lazyre.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}|\$([A-Za-z_][A-Za-z0-9_]*)`)
)

// lookup returns the value of a secret now.
type lookup func(name string) (string, bool)

// expand puts the values of secrets in the place of ${NAME} and ${NAME:-default}.
func (l lookup) expand(text string) (string, error) { return l.replace(braced, text) }

// expandArg is expand for an argument, which may have $NAME, too.
func (l lookup) expandArg(text string) (string, error) { return l.replace(bare, text) }

func (l lookup) replace(form *lazyre.Regexp, text string) (string, error) {
	missing := ""
	out := form.ReplaceAllStringFunc(text, func(match string) string {
		groups := form.FindStringSubmatch(match)
		name := groups[1]
		if name == "" {
			name = groups[4]
		}
		value, ok := "", false
		if l != nil {
			value, ok = l(name)
		}
		switch {
		case ok:
			return value
		case groups[2] != "":
			return groups[3]
		case groups[1] == "": // a plain $NAME may mean itself
			return match
		}
		if missing == "" {
			missing = name
		}
		return ""
	})
	if missing != "" {
		return "", fault.New(fault.NotFound, codeSecret, "Its configuration names the secret %q, which does not exist.", missing).
			WithHint("Add a secret of that name, or write ${%s:-default}.", missing)
	}
	return out, nil
}
