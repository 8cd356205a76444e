package subagent

import (
	"cmp"
	"slices"
	"strings"
)

// levels are the levels from the weakest.
var levels = []string{LevelBuiltin, LevelUser, LevelPlugin, LevelProgrammatic, LevelProject}

// Merge puts agents together: of those with one name, in whatever case, the one of
// the later level counts, and within a level the one that comes last. The result is
// sorted by name and shares no list of the layers with them, so that either may grow.
func Merge(layers ...[]Definition) []Definition {
	byName := map[string]Definition{}
	for _, layer := range layers {
		for _, d := range layer {
			name := strings.ToLower(d.Name)
			if old, there := byName[name]; !there || rank(d.Level) >= rank(old.Level) {
				byName[name] = d
			}
		}
	}
	merged := make([]Definition, 0, len(byName))
	for _, d := range byName {
		d.Tools, d.Skills, d.Examples = slices.Clone(d.Tools), slices.Clone(d.Skills), slices.Clone(d.Examples)
		merged = append(merged, d)
	}
	slices.SortFunc(merged, func(a, b Definition) int {
		return cmp.Or(strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), strings.Compare(a.Name, b.Name))
	})
	return merged
}

// rank orders levels. One that is not known is the weakest.
func rank(level string) int { return slices.Index(levels, level) }
