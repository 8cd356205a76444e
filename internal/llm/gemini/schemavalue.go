package gemini

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
)

// The single members of a schema, read leniently: what is not as it should be
// says nothing.

func stringOf(v any) string {
	s, _ := v.(string)
	return s
}

func listOf(v any) []any {
	l, _ := v.([]any)
	return slices.Clip(l)
}

func scalarOf(v any) any {
	switch v := v.(type) {
	case string, bool:
		return v
	case json.Number:
		if _, ok := finite(v); ok {
			return v
		}
	}
	return nil
}

func finite(n json.Number) (float64, bool) {
	f, err := n.Float64()
	return f, err == nil && !math.IsInf(f, 0)
}

// countOf reads a number of items.
func countOf(v any) json.Number {
	n, _ := v.(json.Number)
	f, err := n.Float64()
	if err != nil || f != math.Trunc(f) || f < 0 || f > math.MaxInt32 {
		return ""
	}
	return json.Number(strconv.FormatInt(int64(f), 10))
}

// limit reads a bound. An exclusive one, which the API has no word for, becomes
// the nearest inclusive one; older drafts have a boolean there.
func limit(o map[string]any, inclusive, exclusive string, step float64) json.Number {
	if n, ok := o[inclusive].(json.Number); ok {
		if _, ok := finite(n); ok {
			return n
		}
		return ""
	}
	n, ok := o[exclusive].(json.Number)
	f, isNumber := finite(n)
	if !ok || !isNumber {
		return ""
	}
	if o["type"] == "integer" && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return json.Number(strconv.FormatFloat(f+step, 'f', -1, 64))
	}
	return n
}

// typesOf reads or guesses the types of a schema; empty = any.
func typesOf(o map[string]any) []string {
	var out []string
	names := listOf(o["type"])
	if s, ok := o["type"].(string); ok {
		names = []any{s}
	}
	for _, n := range names {
		if s, ok := n.(string); ok && isType(s) && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	if o["nullable"] == true && len(out) > 0 && !slices.Contains(out, "null") {
		out = append(out, "null")
	}
	switch {
	case len(out) > 0:
	case isMap(o["properties"]) || isMap(o["additionalProperties"]):
		out = []string{"object"}
	case isMap(o["items"]) || len(listOf(o["items"])) > 0 || len(listOf(o["prefixItems"])) > 0:
		out = []string{"array"}
	default:
		out = typesOfValues(enumOf(o))
	}
	return out
}

func isMap(v any) bool {
	_, ok := v.(map[string]any)
	return ok
}

func isType(s string) bool {
	return slices.Contains([]string{"string", "number", "integer", "boolean", "object", "array", "null"}, s)
}

// typesOfValues are the types of an enum's values.
func typesOfValues(values []any) []string {
	var out []string
	for _, v := range values {
		t := "null"
		switch v.(type) {
		case string:
			t = "string"
		case bool:
			t = "boolean"
		case json.Number:
			t = "number"
		}
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// enumOf reads enum and const; values that are no scalars are not enumerated.
func enumOf(o map[string]any) []any {
	values := listOf(o["enum"])
	if c, ok := o["const"]; ok {
		values = []any{c}
	}
	var out []any
	for _, v := range values {
		if s := scalarOf(v); s != nil || v == nil {
			if !slices.Contains(out, s) {
				out = append(out, s)
			}
			continue
		}
		return nil
	}
	return out
}

// formatOf keeps the formats that the API knows.
func formatOf(format string, types []string) string {
	if slices.Contains(types, "string") && slices.Contains([]string{"date-time", "date", "time"}, format) {
		return format
	}
	return ""
}

// writeType writes the types as JSON Schema does.
func (s *schema) writeType() {
	switch len(s.types) {
	case 0:
	case 1:
		s.Type = s.types[0]
	default:
		s.Type = s.types
	}
}
