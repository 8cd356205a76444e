package arch_test

import (
	"strings"
)

// module is the import path of the tree's root.
const module = "parley"

// layers are the packages from the bottom up. A package may import what is in a
// lower layer, and its own family (see family). A pattern ending in /... covers
// what is below a directory, not the directory itself.
func layers() [][]string {
	return [][]string{
		{"internal/fault", "internal/content", "internal/fernet", "internal/glob", "internal/near", "internal/textsearch", "internal/ipaddr", "internal/lazyre"},
		{"internal/account", "internal/frontmatter"},
		{"internal/skill", "internal/hook"},
		{"internal/subagent"},
		{"internal/extension"},
		{"internal/conversation"},
		{"internal/legacy"},
		{"internal/store", "internal/llm", "internal/sandbox", "internal/tool", "internal/vault"},
		{"internal/stream", "internal/sandboxd", "internal/netpolicy"},
		{"internal/store/...", "internal/llm/...", "internal/sandbox/...", "internal/tool/...", "internal/sandboxd/..."},
		{"internal/agent", "internal/agent/...", "internal/fleet", "internal/netlog", "internal/workspace", "internal/bash", "internal/console", "internal/outbox", "internal/spend", "internal/forge", "internal/forge/...", "internal/collection", "internal/trajectory", "internal/imports", "internal/feedback"},
		{"internal/engine", "internal/engine/..."},
		{"internal/api/httpkit", "internal/socketio"},
		{"internal/api/eventwire", "internal/api/profiles", "internal/api/settingswire"},
		{"internal/api/...", "internal/webui", "internal/config"},
		{"internal/app", "internal/cli", "internal/doctor"},
		{"cmd/..."},
	}
}

// seams are the packages whose implementations, below them, only app may import.
func seams() []string {
	return []string{"internal/store", "internal/llm", "internal/sandbox", "internal/tool", "internal/forge"}
}

// outside are directories that no layer rules: tests drive everything, and
// testkit packages serve them.
func outside(pkg string) bool {
	return pkg == "internal/arch" || strings.HasPrefix(pkg, "test/") || strings.HasPrefix(pkg, "tools/")
}

// layerOf returns a package's layer, -1 if the plan does not know it. The
// longest pattern counts.
func layerOf(pkg string) int {
	best, length := -1, -1
	for i, layer := range layers() {
		for _, pattern := range layer {
			dir, below := strings.CutSuffix(pattern, "/...")
			matches := pkg == pattern || below && strings.HasPrefix(pkg, dir+"/")
			if matches && len(pattern) > length {
				best, length = i, len(pattern)
			}
		}
	}
	return best
}

// seamOf returns the seam that a package implements, "" if it is none.
func seamOf(pkg string) string {
	for _, seam := range seams() {
		if strings.HasPrefix(pkg, seam+"/") {
			return seam
		}
	}
	return ""
}

// family reports whether two packages belong together: one is below the other,
// or both implement the same seam.
func family(a, b string) bool {
	return strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/") || seamOf(a) != "" && seamOf(a) == seamOf(b)
}

// importFault says what is wrong with pkg importing target, "" if nothing is.
// Both are paths below the module.
func importFault(pkg, target string) string {
	from, to := layerOf(pkg), layerOf(target)
	switch {
	case outside(pkg) || pkg == target:
		return ""
	case outside(target):
		return "imports " + target + ", which only tests may"
	case from < 0:
		return "is in no layer: give it one in internal/arch and in docs/architecture.md"
	case to < 0:
		return "imports " + target + ", which is in no layer"
	case seamOf(target) != "" && !family(pkg, target) && pkg != "internal/app" && (pkg != "cmd/parley-inside" || target != "internal/sandbox/inside"):
		return "imports the implementation " + target + "; only internal/app does, everybody else uses the seam " + seamOf(target)
	case to > from, to == from && !family(pkg, target):
		return "imports " + target + ", which is not below it; imports point downward, so declare the methods it needs where it needs them"
	}
	return ""
}
