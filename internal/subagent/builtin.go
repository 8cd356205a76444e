package subagent

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"sync"
)

// General is the agent for tasks that name no other.
const General = "general-purpose"

// aliases are further names of built-in agents (agent protocol 4.8). An agent that
// has such a name itself comes first.
var aliases = map[string]string{
	"default": General, "general": General,
	"explore": "code-explorer", "bash": "bash-runner", "shell": "bash-runner",
}

//go:embed builtin/*.md
var builtinFiles embed.FS

var builtin = sync.OnceValue(func() []Definition {
	var defs []Definition
	err := fs.WalkDir(builtinFiles, "builtin", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := builtinFiles.ReadFile(name)
		if err != nil {
			return err
		}
		def, err := Parse(name, data, LevelBuiltin)
		def.Source = ""
		defs = append(defs, def)
		return err
	})
	if err != nil { // the files are part of the program
		panic(fmt.Sprintf("subagent: %v", err))
	}
	return defs
})

// Builtin returns the agents that every conversation has, sorted by name.
func Builtin() []Definition { return Merge(builtin()) }

// Find returns the agent of a name: exactly, else in other case, else the built-in
// one that has it as an alias. "" is General.
func Find(defs []Definition, name string) (Definition, bool) {
	if name = strings.TrimSpace(name); name == "" {
		name = General
	}
	for _, same := range []func(string) bool{
		func(n string) bool { return n == name },
		func(n string) bool { return strings.EqualFold(n, name) },
		func(n string) bool { return n == aliases[strings.ToLower(name)] },
	} {
		for _, d := range defs {
			if same(d.Name) {
				return d, true
			}
		}
	}
	return Definition{}, false
}
