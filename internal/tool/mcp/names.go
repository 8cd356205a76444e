package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// maxName is the length of a tool's name.
const maxName = 64

// owned is a tool's name with the server that gave it.
type owned struct{ server, tool string }

// nameTools gives every tool a name that models can write, each another one, by the
// rule of the package. The order of the tools has no influence.
func nameTools(tools []owned, reserved []string) map[owned]string {
	tools = slices.Clone(tools)
	slices.SortFunc(tools, func(a, b owned) int {
		if c := strings.Compare(a.server, b.server); c != 0 {
			return c
		}
		return strings.Compare(a.tool, b.tool)
	})
	servers := map[string]map[string]bool{}
	for _, t := range tools {
		name := repair(t.tool)
		if servers[name] == nil {
			servers[name] = map[string]bool{}
		}
		servers[name][t.server] = true
	}
	names, taken := map[owned]string{}, map[string]bool{}
	give := func(t owned, name string) {
		name = free(name, taken, reserved)
		taken[name] = true
		names[t] = name
	}
	clashes := func(name string) bool { return len(servers[name]) > 1 || isReserved(name, reserved) }
	for _, t := range tools {
		if name := repair(t.tool); !clashes(name) {
			give(t, name)
		}
	}
	for _, t := range tools {
		name := repair(t.tool)
		if !clashes(name) {
			continue
		}
		if name = repair(t.server + "_" + t.tool); isReserved(name, reserved) {
			name = repair("mcp_" + t.server + "_" + t.tool)
		}
		give(t, name)
	}
	return names
}

// free numbers a name that is taken, or reserved as far as there are others.
func free(name string, taken map[string]bool, reserved []string) string {
	try := name
	for n := 2; taken[try] || n < 100 && isReserved(try, reserved); n++ {
		end := fmt.Sprintf("_%d", n)
		try = name[:min(len(name), maxName-len(end))] + end
	}
	return try
}

func isReserved(name string, reserved []string) bool {
	return slices.ContainsFunc(reserved, func(r string) bool {
		prefix, isPrefix := strings.CutSuffix(r, "*")
		return name == r || isPrefix && strings.HasPrefix(name, prefix)
	})
}

// repair makes a name that models can write of any. One that is too long keeps its
// beginning and a hash of the whole.
func repair(name string) string {
	fixed := strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	switch {
	case fixed == "":
		return "tool"
	case len(fixed) > maxName:
		sum := sha256.Sum256([]byte(name))
		return fixed[:maxName-9] + "_" + hex.EncodeToString(sum[:4])
	}
	return fixed
}
