package tool

import (
	"path"
	"strings"
)

// Claim is something that a run uses, in a tree of names: "files/a/b" lies in
// "files/a", and everything lies in "".
type Claim struct {
	Name  string
	Write bool // changes it; else it is only read
}

// ClaimFile claims a file or directory with all below it, by its path inside the
// sandbox. A path that is not absolute stands for all files, because it is not
// known here what it is relative to.
func ClaimFile(name string, write bool) Claim {
	if !path.IsAbs(name) {
		return Claim{"files", write}
	}
	return Claim{strings.TrimSuffix("files"+path.Clean(name), "/"), write}
}

// Conflict reports whether two runs with these claims must not overlap: one of
// them changes what the other one uses.
func Conflict(a, b []Claim) bool {
	for _, x := range a {
		for _, y := range b {
			if (x.Write || y.Write) && (within(x.Name, y.Name) || within(y.Name, x.Name)) {
				return true
			}
		}
	}
	return false
}

// within reports whether name lies in tree, or is it.
func within(name, tree string) bool {
	rest, ok := strings.CutPrefix(name, tree)
	return ok && (tree == "" || rest == "" || rest[0] == '/')
}
