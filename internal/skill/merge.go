package skill

import (
	"cmp"
	"slices"
)

// Merge returns the skills that count, sorted by name: where several have one
// name, that of the latest level, and of several of one level the last one.
// Disabled names are left out, whatever level they are of. A level that is not
// known is the weakest.
func Merge(disabled []string, layers ...[]Skill) []Skill {
	all := slices.Concat(layers...)
	slices.SortStableFunc(all, func(a, b Skill) int {
		return cmp.Compare(slices.Index(Levels, a.Level), slices.Index(Levels, b.Level))
	})
	last := make(map[string]int, len(all))
	for i := range all {
		last[all[i].Name] = i
	}
	for _, name := range disabled {
		delete(last, name)
	}
	out := make([]Skill, 0, len(last))
	for _, i := range last {
		out = append(out, all[i])
	}
	slices.SortFunc(out, func(a, b Skill) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
