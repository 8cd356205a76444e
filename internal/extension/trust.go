package extension

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/hook"
	"parley/internal/skill"
)

// Bounds of the question whether something may run.
const (
	maxLine  = 200 // characters
	maxLines = 50
)

// running is all of a bundle that runs or decides what runs, in one order. It is
// what Hash is of.
type running struct {
	Hooks   *hook.Config `json:"hooks,omitempty"`
	Servers string       `json:"servers,omitempty"` // JSON, with their secrets
	Scripts []string     `json:"scripts,omitempty"`
	Pins    []Pin        `json:"pins,omitempty"`
	Agents  []runner     `json:"agents,omitempty"`
	Skills  []runner     `json:"skills,omitempty"`
}

// runner is what runs of an agent or a skill.
type runner struct {
	Name    string       `json:"name"`
	Hooks   *hook.Config `json:"hooks,omitempty"`
	Servers string       `json:"servers,omitempty"`
	Content string       `json:"content,omitempty"` // with commands in it
	Root    string       `json:"root,omitempty"`    // of Content
}

func (r runner) empty() bool { return r.Hooks == nil && r.Servers == "" && r.Content == "" }

// Hash is the SHA-256 of everything in a bundle that runs or decides what runs, with
// the secrets as they stand in it: hooks, servers, scripts, pinned files, what agents
// and skills bring of these, and skills with commands. Texts for a model do not
// count. "" means that nothing runs.
func Hash(b Bundle) string {
	r := running{Hooks: orNil(&b.Hooks), Servers: encodeServers(b.Servers), Scripts: slices.Sorted(slices.Values(b.Scripts))}
	for _, d := range b.Agents {
		if one := (runner{Name: d.Name, Hooks: orNil(d.Hooks), Servers: encodeServers(d.MCP)}); !one.empty() {
			r.Agents = append(r.Agents, one)
		}
	}
	for _, s := range b.Skills {
		one := runner{Name: s.Name, Servers: encodeServers(s.MCP)}
		if s.Trusted && len(commands(s)) > 0 {
			one.Content, one.Root = s.Content, s.Root
		}
		if !one.empty() {
			r.Skills = append(r.Skills, one)
		}
	}
	if r.Hooks == nil && r.Servers == "" && len(r.Scripts)+len(r.Agents)+len(r.Skills) == 0 {
		return ""
	}
	byName := func(a, b runner) int { return strings.Compare(a.Name, b.Name) }
	slices.SortStableFunc(r.Agents, byName)
	slices.SortStableFunc(r.Skills, byName)
	r.Pins = slices.Clone(b.Pins)
	slices.SortFunc(r.Pins, func(a, b Pin) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.SHA256, b.SHA256))
	})
	raw, err := content.Marshal(r)
	raw = b.unplaced(raw)
	if err != nil {
		panic(fmt.Sprintf("extension: texts and numbers always encode: %v", err))
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// unplaced is JSON without the place that the bundle has in this sandbox: the same
// content elsewhere is the same. What stands for the place is a byte that JSON has
// nowhere.
func (b *Bundle) unplaced(raw []byte) []byte {
	root := []byte(b.Root)
	var out []byte
	for len(root) > 0 {
		at := bytes.Index(raw, root)
		if at < 0 {
			break
		}
		end := at + len(root)
		out = append(out, raw[:at]...)
		if end < len(raw) && inName(raw[end]) { // another place, whose name begins alike
			out = append(out, root...)
		} else {
			out = append(out, 0)
		}
		raw = raw[end:]
	}
	return append(out, raw...)
}

// inName reports whether a byte may go on a file's name, as far as names are plain.
func inName(c byte) bool {
	return c == '-' || c == '_' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80
}

// orNil returns hooks if there are any.
func orNil(c *hook.Config) *hook.Config {
	if c == nil || c.Empty() {
		return nil
	}
	return c
}

// encodeServers returns the servers that conversations get, without what has no
// effect; "" if there is none.
func encodeServers(c *account.MCPConfig) string {
	if c = c.Enabled(); c == nil || len(c.SSE)+len(c.Stdio)+len(c.SHTTP) == 0 {
		return ""
	}
	for i := range c.Stdio {
		c.Stdio[i].Rest = nil
	}
	for _, list := range [][]account.MCPHTTPServer{c.SSE, c.SHTTP} {
		for i := range list {
			list[i].Rest = nil
		}
	}
	raw, err := account.EncodePrivate(c)
	if err != nil {
		panic(fmt.Sprintf("extension: servers always encode: %v", err))
	}
	return string(raw)
}

// commands are those that opening a skill runs. They are found by opening it.
func commands(s skill.Skill) []string {
	var found []string
	_ = skill.Open(context.Background(), s, func(_ context.Context, command string) (string, error) {
		found = append(found, command)
		return "", nil
	})
	return found
}

// Runs tells a user what would run, in this order: scripts, hooks, servers, and those
// of agents and skills. A line has at most 200 characters, none of which is hidden,
// and there are at most 50 lines; the last one says how many are not shown.
func (b *Bundle) Runs() []string {
	var lines []string
	for _, name := range b.Scripts {
		lines = append(lines, "script "+name)
	}
	add := func(of string, hooks *hook.Config, servers *account.MCPConfig) {
		if hooks != nil {
			for _, line := range hooks.Commands() {
				lines = append(lines, of+"hook "+line)
			}
		}
		for _, line := range serverLines(servers.Enabled()) {
			lines = append(lines, of+"server "+line)
		}
	}
	add("", &b.Hooks, b.Servers)
	for _, d := range b.Agents {
		add("agent "+d.Name+": ", d.Hooks, d.MCP)
	}
	for _, s := range b.Skills {
		add("skill "+s.Name+": ", nil, s.MCP)
		if s.Trusted {
			for _, command := range commands(s) {
				lines = append(lines, "skill "+s.Name+": command "+command)
			}
		}
	}
	if more := len(lines) - maxLines; more > 0 {
		lines = append(lines[:maxLines-1], fmt.Sprintf("and %d more", more+1))
	}
	for i, line := range lines {
		lines[i] = visible(line, maxLine)
	}
	return lines
}

// serverLines tells what servers start or reach. Values of variables may be keys: only
// their names are shown.
func serverLines(c *account.MCPConfig) []string {
	if c == nil {
		return nil
	}
	var out []string
	for _, s := range c.Stdio {
		line := s.Name + ": "
		for _, name := range sortedNames(s.Env) {
			value := "..." // it may hold a parameter of the user's
			if loadsCode(name) {
				value = s.Env[name].Reveal()
			}
			line += name + "=" + value + " "
		}
		line += strings.Join(append([]string{s.Command}, s.Args...), " ")
		if s.Cwd != "" {
			line += " (in " + s.Cwd + ")"
		}
		out = append(out, line+secretsOf(&account.MCPConfig{Stdio: []account.MCPStdioServer{s}}))
	}
	for _, s := range slices.Concat(c.SSE, c.SHTTP) {
		out = append(out, s.Name+": "+s.URL+secretsOf(&account.MCPConfig{SHTTP: []account.MCPHTTPServer{s}}))
	}
	return out
}

// secretsOf says which secrets of the user's a server wants in what is not shown of it.
func secretsOf(c *account.MCPConfig) string {
	var names []string
	c.EachSecret(func(_ string, v *account.Secret) {
		for _, m := range placeholder.FindAllStringSubmatch(v.Reveal(), -1) {
			if !slices.Contains(names, m[1]) {
				names = append(names, m[1])
			}
		}
	})
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return " (with the secrets " + strings.Join(names, ", ") + ")"
}

// loadsCode reports whether a variable makes programs load what it names.
func loadsCode(name string) bool {
	switch name {
	case "PATH", "BASH_ENV", "ENV", "NODE_OPTIONS", "NODE_PATH", "PERL5OPT", "PERL5LIB", "RUBYOPT", "RUBYLIB", "JAVA_TOOL_OPTIONS":
		return true
	}
	return strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "PYTHON") || strings.HasPrefix(name, "GIT_")
}

func sortedNames(m map[string]account.Secret) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// visible writes characters that are not seen as \u1234, runs of blanks as one, and
// takes the middle out of what is longer than most characters: what comes last is
// what somebody would hide.
func visible(text string, most int) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
	var b strings.Builder
	for _, r := range text {
		if hidden(r) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	runes := []rune(b.String())
	if len(runes) <= most {
		return string(runes)
	}
	gap := []rune(" [...] ")
	tail := most / 3
	return string(runes[:most-tail-len(gap)]) + string(gap) + string(runes[len(runes)-tail:])
}

// Approve reports whether what a bundle runs may run: where nobody has to be asked
// or nothing runs, and else by the latest decision about this subject with this
// content. ask says that there is none, so that the user is to be asked.
func Approve(b Bundle, decisions []Decision) (approved, ask bool) {
	if b.Subject == "" {
		return true, false
	}
	hash := b.Hash
	if hash == "" { // it was not loaded by this package, or nothing runs
		hash = Hash(b)
	}
	if hash == "" {
		return true, false
	}
	found := false
	var latest Decision
	for _, d := range decisions {
		if d.Subject == b.Subject && d.Hash == hash && (!found || !d.At.Before(latest.At)) {
			latest, found = d, true
		}
	}
	return found && latest.Trusted, !found
}

// Strip returns the bundle without everything that runs, for while it is not
// trusted. It leaves b as it is.
func Strip(b Bundle) Bundle {
	b.Hash, b.Hooks, b.Servers, b.Scripts, b.Pins = "", hook.Config{}, nil, nil, nil
	b.Skills = slices.Clone(b.Skills)
	for i := range b.Skills {
		b.Skills[i].MCP, b.Skills[i].Trusted = nil, false
	}
	b.Agents = slices.Clone(b.Agents)
	for i := range b.Agents {
		b.Agents[i].Hooks, b.Agents[i].MCP = nil, nil
	}
	return b
}
