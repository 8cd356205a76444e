package httpkit

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"parley/internal/fault"
)

// maxFields bounds how many wrong members one answer lists.
const maxFields = 100

// Check validates a decoded JSON value (numbers as json.Number) and returns it
// coerced: undeclared members removed, defaults filled in. loc is where the
// value stands in the request. All errors are collected, up to 100.
func (s *Schema) Check(value any, loc ...any) (any, []fault.Field) {
	c := &checker{}
	out := c.check(s, value, loc)
	for i := range c.fields {
		c.fields[i].Input = redactAt(c.fields[i].Loc, c.fields[i].Input)
	}
	return out, c.fields
}

type checker struct {
	fields  []fault.Field
	coerced bool // a value was changed in type: decides between union branches
}

func (c *checker) fail(loc []any, typ, msg string, input any, ctx map[string]any) {
	if len(c.fields) < maxFields {
		c.fields = append(c.fields, fault.Field{Loc: slices.Clone(loc), Type: typ, Msg: msg, Input: input, Ctx: ctx})
	}
}

func (c *checker) check(s *Schema, v any, loc []any) any {
	if v == nil && s.nullable {
		return nil
	}
	before := len(c.fields)
	out := c.typed(s, v, loc)
	if len(c.fields) == before {
		c.constant(s, out, loc)
	}
	for i := before; i < len(c.fields); i++ {
		c.fields[i].Input = s.hide(c.fields[i].Input)
	}
	return out
}

// hide masks what the schema calls secret in an input that is to be echoed.
func (s *Schema) hide(v any) any {
	if s.secret {
		return masked(v)
	}
	for _, b := range s.branches {
		v = b.hide(v)
	}
	switch x := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, e := range x {
			out[k] = s.member(k).hide(e)
		}
		return out
	case []any:
		if s.items == nil {
			return v
		}
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = s.items.hide(e)
		}
		return out
	}
	return v
}

// member returns the schema of a member; one that says nothing if there is none.
func (s *Schema) member(name string) *Schema {
	switch {
	case s.properties[name] != nil:
		return s.properties[name]
	case s.extra != nil:
		return s.extra
	}
	return &Schema{}
}

func (c *checker) typed(s *Schema, v any, loc []any) any {
	switch {
	case s.tag != "":
		return c.tagged(s, v, loc)
	case len(s.branches) > 0:
		return c.union(s, v, loc)
	case len(s.types) == 0:
		return v
	case len(s.types) > 1:
		return c.anyType(s, v, loc)
	}
	switch s.types[0] {
	case "object":
		return c.object(s, v, loc)
	case "array":
		return c.array(s, v, loc)
	}
	return c.scalar(s, s.types[0], v, loc)
}

// anyType handles "type: [string, integer]" like a union.
func (c *checker) anyType(s *Schema, v any, loc []any) any {
	u := &Schema{}
	for _, t := range s.types {
		b := *s
		b.types, b.name = []string{t}, pythonNames[t]
		u.branches = append(u.branches, &b)
	}
	return c.union(u, v, loc)
}

// union takes the first branch that accepts v as it is, else the first that
// accepts it after coercion, else reports the errors of all.
func (c *checker) union(s *Schema, v any, loc []any) any {
	var lax any
	found := false
	var all []fault.Field
	for _, b := range s.branches {
		sub := &checker{}
		branchLoc := loc
		if len(s.branches) > 1 {
			branchLoc = join(loc, b.name)
		}
		out := sub.check(b, v, branchLoc)
		switch {
		case len(sub.fields) > 0:
			all = append(all, sub.fields...)
		case !sub.coerced:
			return out
		case !found:
			lax, found = out, true
		}
	}
	if found {
		c.coerced = true
		return lax
	}
	for _, f := range all {
		c.fail(f.Loc, f.Type, f.Msg, f.Input, f.Ctx)
	}
	return nil
}

func (c *checker) tagged(s *Schema, v any, loc []any) any {
	m, ok := v.(map[string]any)
	if !ok {
		c.fail(loc, "model_attributes_type",
			"Input should be a valid dictionary or object to extract fields from", v, nil)
		return nil
	}
	tag, ok := m[s.tag].(string)
	if !ok {
		c.fail(loc, "union_tag_not_found", fmt.Sprintf("Unable to extract tag using discriminator '%s'", s.tag),
			v, map[string]any{"discriminator": "'" + s.tag + "'"})
		return nil
	}
	b := s.mapping[tag]
	if b == nil {
		expected := quoted(slices.Sorted(maps.Keys(s.mapping)), ", ")
		c.fail(loc, "union_tag_invalid", fmt.Sprintf(
			"Input tag '%s' found using '%s' does not match any of the expected tags: %s", clip(tag), s.tag, expected),
			v, map[string]any{"discriminator": "'" + s.tag + "'", "tag": clip(tag), "expected_tags": expected})
		return nil
	}
	return c.check(b, v, join(loc, tag))
}

func (c *checker) object(s *Schema, v any, loc []any) any {
	m, ok := v.(map[string]any)
	if !ok {
		if s.properties == nil {
			c.fail(loc, "dict_type", "Input should be a valid dictionary", v, nil)
		} else {
			c.fail(loc, "model_attributes_type",
				"Input should be a valid dictionary or object to extract fields from", v, nil)
		}
		return nil
	}
	out := make(map[string]any, len(m))
	for _, name := range s.order {
		c.property(s, m, name, out, loc)
	}
	for _, name := range sortedKeys(m) {
		if s.properties[name] == nil {
			c.undeclared(s, m, name, out, loc)
		}
	}
	return out
}

func (c *checker) property(s *Schema, m map[string]any, name string, out map[string]any, loc []any) {
	p := s.properties[name]
	v, there := m[name]
	switch {
	case there:
		out[name] = c.check(p, v, join(loc, name))
	case p.hasDefault:
		out[name] = p.fallback
	case slices.Contains(s.required, name):
		c.fail(join(loc, name), "missing", "Field required", m, nil)
	}
}

func (c *checker) undeclared(s *Schema, m map[string]any, name string, out map[string]any, loc []any) {
	switch {
	case s.forbid:
		c.fail(join(loc, name), "extra_forbidden", "Extra inputs are not permitted", m[name], nil)
	case s.extra != nil:
		if s.keyPattern != nil && !s.keyPattern.MatchString(name) {
			c.mismatch(join(loc, name, "[key]"), s.keyPattern.String(), name)
		}
		out[name] = c.check(s.extra, m[name], join(loc, name))
	case s.properties == nil:
		out[name] = m[name]
	}
}

func (c *checker) mismatch(loc []any, pattern, input string) {
	c.fail(loc, "string_pattern_mismatch", fmt.Sprintf("String should match pattern '%s'", pattern),
		input, map[string]any{"pattern": pattern})
}

func (c *checker) array(s *Schema, v any, loc []any) any {
	list, ok := v.([]any)
	if !ok {
		c.fail(loc, "list_type", "Input should be a valid list", v, nil)
		return nil
	}
	out := make([]any, len(list))
	for i, x := range list {
		out[i] = x
		if s.items != nil {
			out[i] = c.check(s.items, x, join(loc, i))
		}
	}
	n := len(list)
	if s.minItems != nil && n < *s.minItems {
		c.fail(loc, "too_short", fmt.Sprintf("List should have at least %s after validation, not %d",
			items(*s.minItems), n), v, map[string]any{"field_type": "List", "min_length": *s.minItems, "actual_length": n})
	}
	if s.maxItems != nil && n > *s.maxItems {
		c.fail(loc, "too_long", fmt.Sprintf("List should have at most %s after validation, not %d",
			items(*s.maxItems), n), v, map[string]any{"field_type": "List", "max_length": *s.maxItems, "actual_length": n})
	}
	return out
}

func items(n int) string {
	if n == 1 {
		return "1 item"
	}
	return fmt.Sprintf("%d items", n)
}

// constant checks const and enum on the coerced value.
func (c *checker) constant(s *Schema, v any, loc []any) {
	switch {
	case s.hasConst && !same(s.constant, v):
		expected := fmt.Sprintf("'%v'", s.constant)
		c.fail(loc, "literal_error", "Input should be "+expected, v, map[string]any{"expected": expected})
	case s.enum != nil && !slices.ContainsFunc(s.enum, func(e any) bool { return same(e, v) }):
		var names []string
		for _, e := range s.enum {
			if e != nil {
				names = append(names, fmt.Sprint(e))
			}
		}
		expected := quoted(names, " or ")
		c.fail(loc, "enum", "Input should be "+expected, v, map[string]any{"expected": expected})
	}
}

func same(want, got any) bool {
	if n, ok := got.(json.Number); ok {
		return fmt.Sprint(want) == n.String()
	}
	return reflect.DeepEqual(want, got)
}

// quoted lists names as 'a', 'b' or 'c' (or with another last separator).
func quoted(names []string, last string) string {
	for i, n := range names {
		names[i] = "'" + n + "'"
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	n := len(names) - 1
	return strings.Join(names[:n], ", ") + last + names[n]
}

func join(loc []any, more ...any) []any {
	return append(slices.Clip(slices.Clone(loc)), more...)
}

// clip shortens a text that is echoed.
func clip(s string) string {
	const limit = 200
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit]) + "..."
}
