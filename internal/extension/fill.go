package extension

import (
	"encoding/json"
	"maps"
	"slices"

	"parley/internal/account"
	"parley/internal/lazyre"
)

var (
	placeholder = lazyre.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_.-]*?)(?::-[^}]*)?\}`)
	// plainValue has nothing that means something to a shell, within quotes or without.
	plainValue = lazyre.MustCompile(`^[A-Za-z0-9/._@+:=,%-]*$`)
)

// values are the user's parameters as texts.
func (p *plugin) values() map[string]string {
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(p.opt.Parameters)) {
		switch v := p.opt.Parameters[name].(type) {
		case string:
			out[name] = v
		case bool, float64, int, int64, json.Number:
			raw, err := json.Marshal(v)
			if err == nil {
				out[name] = string(raw)
			}
		default:
			p.problem("", 0, "The parameter %q is neither a text nor a number nor true or false. It is ignored.", name)
		}
	}
	return out
}

// fillCommand puts values into a command of a shell. One that a shell would take for
// more than a word is left out: it could run anything.
func (p *plugin) fillCommand(command string, values map[string]string) string {
	return fillText(p.fillRoot(command), values, func(name string) bool {
		ok := plainValue.MatchString(values[name])
		if !ok {
			p.problem("", 0, "The parameter %q is not put into the command of a hook: it has characters other than letters, digits and /._@+:=,%%-.", name)
		}
		return ok
	})
}

// fillText replaces ${name} and ${name:-default} where there is a value that may
// stand there.
func fillText(text string, values map[string]string, may func(name string) bool) string {
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		name := placeholder.FindStringSubmatch(found)[1]
		if value, ok := values[name]; ok && may(name) {
			return value
		}
		return found
	})
}

// fillServers changes every text of servers that may hold placeholders.
func fillServers(c *account.MCPConfig, fill func(string) string) {
	for i := range c.Stdio {
		s := &c.Stdio[i]
		s.Command, s.Cwd = fill(s.Command), fill(s.Cwd)
		for j := range s.Args {
			s.Args[j] = fill(s.Args[j])
		}
	}
	for _, list := range [][]account.MCPHTTPServer{c.SSE, c.SHTTP} {
		for i := range list {
			list[i].URL = fill(list[i].URL)
		}
	}
	c.EachSecret(func(_ string, s *account.Secret) {
		if s.IsSet() {
			*s = account.NewSecret(fill(s.Reveal()))
		}
	})
}
