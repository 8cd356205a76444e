package gemini

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// toProto rewrites a schema, children included, for Google's own schema: every
// value has exactly one type or is an anyOf and nothing else, null is a flag,
// only texts are enumerated, lists say what is in them.
func toProto(s *schema) *schema {
	types := slices.DeleteFunc(slices.Clone(s.types), func(t string) bool { return t == "null" })
	nullable := len(types) < len(s.types)
	branches := slices.DeleteFunc(slices.Clone(s.AnyOf), isNull)
	nullable = nullable || len(branches) < len(s.AnyOf)
	switch {
	case len(types) > 1:
		return union(s, split(s, types), nullable)
	case len(branches) > 1 && len(s.Properties) == 0:
		return union(s, branches, nullable)
	case len(branches) == 1 && len(s.Properties) == 0:
		return alone(s, branches[0], nullable)
	case len(types) == 0:
		return anything(s, nullable)
	}
	return typed(s, types[0], nullable)
}

func isNull(s *schema) bool { return len(s.types) == 1 && s.types[0] == "null" }

// split makes one schema per type of s.
func split(s *schema, types []string) []*schema {
	var out []*schema
	for _, t := range types {
		one := *s
		one.types, one.AnyOf = []string{t}, nil
		one.Enum = slices.DeleteFunc(slices.Clone(s.Enum), func(v any) bool { return !isOf(v, t) })
		out = append(out, &one)
	}
	return out
}

func isOf(value any, kind string) bool {
	switch value.(type) {
	case string:
		return kind == "string"
	case bool:
		return kind == "boolean"
	case json.Number:
		return kind == "number" || kind == "integer"
	}
	return false
}

// union writes alternatives. Beside anyOf nothing may stand.
func union(s *schema, branches []*schema, nullable bool) *schema {
	out := &schema{}
	for _, b := range branches {
		p := toProto(b)
		if p.AnyOf != nil { // they are alternatives of the same value
			out.AnyOf = append(out.AnyOf, describe(p.AnyOf, s.Description, nullable)...)
			continue
		}
		out.AnyOf = append(out.AnyOf, describe([]*schema{p}, s.Description, nullable)...)
	}
	return out
}

// describe gives alternatives what would stand beside them.
func describe(branches []*schema, description string, nullable bool) []*schema {
	for _, b := range branches {
		if b.Description == "" {
			b.Description = description
		}
		b.Nullable = b.Nullable || nullable
	}
	return branches
}

// alone writes the only alternative in place of the whole.
func alone(s, branch *schema, nullable bool) *schema {
	p := toProto(branch)
	if p.AnyOf != nil {
		describe(p.AnyOf, s.Description, nullable)
		return p
	}
	if s.Description != "" {
		p.Description = s.Description
	}
	p.Nullable = p.Nullable || nullable
	return p
}

// anything writes a value of any type, for which there is no word.
func anything(s *schema, nullable bool) *schema {
	return &schema{Type: "STRING", Nullable: nullable, Description: remark(s.Description, "Any JSON value.")}
}

func typed(s *schema, kind string, nullable bool) *schema {
	out := &schema{Type: strings.ToUpper(kind), Description: s.Description, Nullable: nullable}
	switch kind {
	case "object":
		out.Required = s.Required
		for name, p := range s.Properties {
			if out.Properties == nil {
				out.Properties = map[string]*schema{}
			}
			out.Properties[name] = toProto(p)
		}
	case "array":
		out.MinItems, out.MaxItems, out.Items = s.MinItems, s.MaxItems, itemsOf(s)
	case "number", "integer":
		out.Minimum, out.Maximum = s.Minimum, s.Maximum
	case "string":
		if s.Format == "date-time" {
			out.Format = s.Format
		}
	}
	return enumerate(out, s.Enum)
}

func itemsOf(s *schema) *schema {
	switch {
	case s.Items != nil:
		return toProto(s.Items)
	case len(s.PrefixItems) == 1:
		return toProto(s.PrefixItems[0])
	case len(s.PrefixItems) > 1:
		return union(&schema{}, s.PrefixItems, false)
	}
	return anything(&schema{}, false)
}

// enumerate adds the values: to a text as such, to anything else in words.
func enumerate(s *schema, values []any) *schema {
	var words []string
	for _, v := range values {
		if text, ok := v.(string); ok && s.Type == "STRING" {
			if text != "" { // the API refuses an empty one
				s.Enum = append(s.Enum, text)
			}
		} else if v != nil {
			words = append(words, fmt.Sprint(v))
		}
	}
	if len(words) > 0 {
		s.Description = remark(s.Description, "One of: "+strings.Join(words, ", ")+".")
	}
	return s
}

// remark adds a sentence to a description.
func remark(description, more string) string {
	return strings.TrimSpace(description + " " + more)
}
