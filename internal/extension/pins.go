package extension

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/hook"
)

// Bounds of pins.
const (
	maxNamed     = 500      // words that may be files
	maxPinned    = 8 << 20  // bytes of a file
	maxPinnedAll = 64 << 20 // bytes of all
	maxNesting   = 3        // of commands in commands
)

// ownDirs are variables of hooks that hold the directory of a repository; those of a
// plugin's directory are replaced before.
var ownDirs = []string{"PARLEY_PROJECT_DIR", "OPENHANDS_PROJECT_DIR", "CLAUDE_PROJECT_DIR", "PWD"}

// pin pins the set-up scripts, and every file of the place that a word of what runs
// names. A word that is no file is no loss; a file that is not named where it is
// loaded is not found.
func (l *loader) pin() {
	names := slices.Clone(l.b.Scripts)
	for _, word := range l.words() {
		for _, name := range l.candidates(word) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if len(names) > maxNamed {
		l.problem("", 0, "Hooks and servers have more than %d words; the files that later ones name are not pinned.", maxNamed)
		names = names[:maxNamed]
	}
	left := int64(maxPinnedAll)
	for _, name := range names {
		if l.err != nil {
			return
		}
		data, err := l.t.Read(l.ctx, path.Join(l.opt.Dir, name), min(maxPinned, left))
		left -= int64(len(data))
		switch {
		case fault.Is(err, fault.NotFound):
		case fault.Is(err, fault.TooLarge):
			l.problem(name, 0, "The file is too large to be checked before it runs, so what runs it will fail.")
			l.b.Pins = append(l.b.Pins, Pin{Path: l.at(name)})
		case err != nil && ofFile(err): // a directory, or what leads out
		case err != nil:
			l.refused(name, err)
		default:
			sum := sha256.Sum256(data)
			l.b.Pins = append(l.b.Pins, Pin{Path: l.at(name), SHA256: hex.EncodeToString(sum[:])})
		}
	}
}

// words are those of all commands of hooks, servers and skills.
func (l *loader) words() []string {
	var out []string
	hooks := func(c *hook.Config) {
		for _, d := range definitions(c) {
			out = append(out, commandWords(d.Command, l.opt.Root)...)
		}
	}
	servers := func(c *account.MCPConfig) {
		for _, s := range c.Enabled().Stdio {
			words := []string{s.Command}
			for _, arg := range s.Args {
				words = append(append(words, arg), commandWords(arg, l.opt.Root)...)
			}
			for _, name := range sortedNames(s.Env) {
				words = append(words, s.Env[name].Reveal())
			}
			out = append(append(out, words...), joined(s.Cwd, words)...)
		}
	}
	hooks(&l.b.Hooks)
	for i := range l.b.Agents {
		if a := &l.b.Agents[i]; a.Hooks != nil {
			hooks(a.Hooks)
		}
	}
	for _, c := range l.b.allServers() {
		servers(c)
	}
	for _, s := range l.b.Skills {
		if !s.Trusted {
			continue
		}
		for _, command := range commands(s) {
			for _, word := range shellWords(command, l.opt.Root, maxNesting) {
				out = append(out, word, path.Join(s.Root, word))
			}
		}
	}
	return out
}

// commandWords are the words of a command, and what they are in the directories that it
// changes to.
func commandWords(command, root string) []string {
	words := shellWords(command, root, maxNesting)
	out := words
	for i, word := range words {
		if word == "cd" && i+1 < len(words) {
			out = append(out, joined(words[i+1], words)...)
		}
	}
	return out
}

// joined are words as paths in a directory.
func joined(dir string, words []string) []string {
	out := make([]string, 0, len(words))
	for _, word := range words {
		if !path.IsAbs(word) {
			out = append(out, path.Join(dir, word))
		}
	}
	return out
}

// allServers are the servers of the bundle, its skills and its agents.
func (b *Bundle) allServers() []*account.MCPConfig {
	all := []*account.MCPConfig{b.Servers}
	for i := range b.Skills {
		all = append(all, b.Skills[i].MCP)
	}
	for i := range b.Agents {
		all = append(all, b.Agents[i].MCP)
	}
	return slices.DeleteFunc(all, func(c *account.MCPConfig) bool { return c == nil })
}

// candidates are the files that a word may mean: itself, and what follows the equals
// sign of an option.
func (l *loader) candidates(word string) []string {
	var out []string
	words := []string{word}
	if _, value, ok := strings.Cut(word, "="); ok {
		words = append(words, value)
	}
	for _, w := range words {
		name := path.Clean(w)
		if path.IsAbs(name) {
			rest, ok := below(name, l.opt.Root)
			if !ok || l.opt.Root == "" {
				continue
			}
			name = rest
		}
		if fs.ValidPath(name) && name != "." && plainName(name) {
			out = append(out, name)
		}
	}
	return out
}

// shellWords returns the words of a command whose value is known without running it,
// also those of commands in them. A command that is no shell is split at its blanks.
func shellWords(command, root string, depth int) []string {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil {
		return strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(" \t\n\"'`;|&()<>", r) })
	}
	var out []string
	syntax.Walk(file, func(n syntax.Node) bool {
		word, ok := n.(*syntax.Word)
		if !ok {
			return true
		}
		text, known := wordText(word.Parts, root)
		if known {
			out = append(out, text)
		}
		if known && depth > 0 && strings.ContainsAny(text, " \t\n;|&") {
			out = append(out, shellWords(text, root, depth-1)...)
		}
		return true
	})
	return out
}

// wordText is what a shell makes of a word, if that is known.
func wordText(parts []syntax.WordPart, root string) (text string, known bool) {
	var b strings.Builder
	for _, part := range parts {
		switch part := part.(type) {
		case *syntax.Lit:
			b.WriteString(strings.ReplaceAll(part.Value, `\`, ""))
		case *syntax.SglQuoted:
			b.WriteString(part.Value)
		case *syntax.DblQuoted:
			inner, ok := wordText(part.Parts, root)
			if !ok {
				return "", false
			}
			b.WriteString(inner)
		case *syntax.ParamExp:
			if part.Param == nil || !slices.Contains(ownDirs, part.Param.Value) {
				return "", false
			}
			b.WriteString(root)
		default:
			return "", false
		}
	}
	return b.String(), true
}
