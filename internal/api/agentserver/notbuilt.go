package agentserver

import (
	"maps"
	"slices"
	"strings"

	"parley/internal/fault"
)

// notBuilt refuses members of a request that are not built yet and have something
// in them. where is the object they are members of, "" for the body.
func notBuilt(where string, members map[string]any) error {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if filled(members[name]) {
			names = append(names, where+name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	verb := "is"
	if len(names) > 1 {
		verb = "are"
	}
	return fault.New(fault.Unsupported, "not_built", "%s %s not built yet.", strings.Join(names, ", "), verb).
		WithHint("Leave it out, or send it empty; it is not ignored, because the agent would run otherwise than you asked.")
}

// filled reports whether a value of a request says anything. An object says
// something if one of its members does, a list if it has an entry.
func filled(v any) bool {
	switch x := v.(type) {
	case nil:
		return false
	case bool:
		return x
	case string:
		return x != ""
	case []any:
		return len(x) > 0
	case map[string]any:
		for _, member := range x {
			if filled(member) {
				return true
			}
		}
		return false
	}
	return true
}
