package tool

import (
	"slices"

	"parley/internal/fault"
)

// Set is an ordered collection of tools with distinct names. It does not change.
type Set struct {
	order  []Tool
	byName map[string]Tool
}

// NewSet makes a set. Two tools of one name are fault.Invalid.
func NewSet(tools ...Tool) (*Set, error) {
	s := &Set{order: slices.Clone(tools), byName: make(map[string]Tool, len(tools))}
	for _, t := range tools {
		name := t.Spec().Name
		if _, ok := s.byName[name]; ok {
			return nil, fault.New(fault.Invalid, "duplicate_tool", "There are two tools named %q.", name)
		}
		s.byName[name] = t
	}
	return s, nil
}

// Tools returns the tools in order.
func (s *Set) Tools() []Tool { return slices.Clone(s.order) }

// Len returns how many tools there are.
func (s *Set) Len() int { return len(s.order) }

// Names returns the tools' names in order.
func (s *Set) Names() []string {
	names := make([]string, len(s.order))
	for i, t := range s.order {
		names[i] = t.Spec().Name
	}
	return names
}

// Pick returns the tools with these names, in the order of s, with those that every
// agent has (Spec.NoConfirm). unknown are the names that no tool has.
func (s *Set) Pick(names []string) (picked *Set, unknown []string) {
	picked = &Set{byName: map[string]Tool{}}
	for _, name := range names {
		if _, ok := s.byName[name]; !ok && !slices.Contains(unknown, name) {
			unknown = append(unknown, name)
		}
	}
	for _, t := range s.order {
		if spec := t.Spec(); spec.NoConfirm || slices.Contains(names, spec.Name) {
			picked.order = append(picked.order, t)
			picked.byName[spec.Name] = t
		}
	}
	return picked, unknown
}

// Lookup finds a tool by its exact name.
func (s *Set) Lookup(name string) (Tool, bool) {
	t, ok := s.byName[name]
	return t, ok
}
