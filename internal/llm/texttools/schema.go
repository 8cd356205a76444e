package texttools

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"parley/internal/content"
	"parley/internal/llm/wire"
)

// schema is what is read of a tool's JSON Schema.
type schema struct {
	root     map[string]json.RawMessage
	names    []string // as the schema has them, the required ones first
	required map[string]bool
	property map[string]map[string]json.RawMessage
}

// readSchema reads leniently: what is not understood is not there.
func readSchema(raw json.RawMessage) *schema {
	s := &schema{root: wire.Object(raw), required: map[string]bool{}, property: map[string]map[string]json.RawMessage{}}
	var required []string
	if json.Unmarshal(s.root["required"], &required) == nil {
		for _, name := range required {
			s.required[name] = true
		}
	}
	for _, m := range members(s.root["properties"]) {
		s.names = append(s.names, m.name)
		s.property[m.name] = s.resolve(m.value, 0)
	}
	slices.SortStableFunc(s.names, func(a, b string) int { return s.rank(a) - s.rank(b) })
	return s
}

func (s *schema) rank(name string) int {
	if s.required[name] {
		return 0
	}
	return 1
}

// maxDepth bounds how deep references and alternatives are followed.
const maxDepth = 8

// resolve reads a property and follows its reference inside the schema.
func (s *schema) resolve(raw json.RawMessage, depth int) map[string]json.RawMessage {
	o := wire.Object(raw)
	path, ok := strings.CutPrefix(wire.Text(o["$ref"]), "#/")
	if !ok || depth > maxDepth {
		return o
	}
	at := s.root
	var target json.RawMessage
	for _, step := range strings.Split(path, "/") {
		target = at[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
		at = wire.Object(target)
	}
	return s.resolve(target, depth+1)
}

// kinds are the JSON types that a property may have; empty = any.
func (s *schema) kinds(o map[string]json.RawMessage, depth int) map[string]bool {
	out := map[string]bool{}
	var list []string
	if t := wire.Text(o["type"]); t != "" {
		out[t] = true
	} else if json.Unmarshal(o["type"], &list) == nil {
		for _, t := range list {
			out[t] = true
		}
	}
	if len(out) > 0 || depth > maxDepth {
		return out
	}
	var values []json.RawMessage
	if json.Unmarshal(o["enum"], &values) == nil {
		for _, v := range values {
			out[kindOf(v)] = true
		}
	}
	if v, ok := o["const"]; ok {
		out[kindOf(v)] = true
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		var alternatives []json.RawMessage
		if json.Unmarshal(o[key], &alternatives) != nil {
			continue
		}
		for _, alt := range alternatives {
			for k := range s.kinds(s.resolve(alt, depth+1), depth+1) {
				out[k] = true
			}
		}
	}
	return out
}

// kindOf is the JSON type of a valid value.
func kindOf(v json.RawMessage) string {
	v = bytes.TrimSpace(v)
	switch {
	case len(v) == 0:
		return ""
	case v[0] == '"':
		return "string"
	case v[0] == '{':
		return "object"
	case v[0] == '[':
		return "array"
	case v[0] == 't' || v[0] == 'f':
		return "boolean"
	case v[0] == 'n':
		return "null"
	case bytes.ContainsAny(v, ".eE"):
		return "number"
	}
	return "integer"
}

// value reads what a model wrote for a parameter. A text stays as it is; of the
// other types, what does not fit becomes a text too, which the tool refuses with
// a reason.
func (s *schema) value(name, written string) json.RawMessage {
	kinds := s.kinds(s.property[name], 0)
	trimmed := strings.TrimSpace(written)
	if kinds["boolean"] && !kinds["string"] {
		if low := strings.ToLower(trimmed); low == "true" || low == "false" {
			return json.RawMessage(low)
		}
	}
	if raw := json.RawMessage(trimmed); json.Valid(raw) && fits(kindOf(raw), kinds) {
		return raw
	}
	text, err := content.Marshal(written)
	if err != nil {
		return json.RawMessage(`""`)
	}
	return text
}

// fits reports whether a JSON value of a kind is meant as such. Where a text is
// allowed, only what can hardly be one is not.
func fits(kind string, kinds map[string]bool) bool {
	switch {
	case kinds["string"]:
		return kinds[kind] && (kind == "null" || kind == "array" || kind == "object")
	case len(kinds) == 0:
		return kind != "string"
	case kind == "integer":
		return kinds["integer"] || kinds["number"]
	}
	return kinds[kind]
}

// word says a property's type.
func (s *schema) word(name string) string {
	o := s.property[name]
	kinds := make([]string, 0, 2)
	for k := range s.kinds(o, 0) {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	word := strings.Join(kinds, " or ")
	if word == "" {
		word = "any"
	}
	var values []json.RawMessage
	if json.Unmarshal(o["enum"], &values) == nil && len(values) > 0 {
		word += ", one of " + joinRaw(values)
	}
	return word
}

func joinRaw(values []json.RawMessage) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = string(v)
		if kindOf(v) == "string" {
			texts[i] = wire.Text(v)
		}
	}
	return strings.Join(texts, ", ")
}

// description tells what a property is for, and how its inside looks.
func (s *schema) description(name string) string {
	o := s.property[name]
	text := strings.TrimSpace(wire.Text(o["description"]))
	inside := map[string]json.RawMessage{}
	for _, key := range []string{"items", "properties", "required", "additionalProperties"} {
		if v := wire.Object(o[key]); v != nil || key == "required" && o[key] != nil {
			inside[key] = o[key]
		}
	}
	if len(inside) == 0 {
		return text
	}
	raw, err := content.Marshal(inside)
	if err != nil {
		return text
	}
	return strings.TrimSpace(text + " JSON Schema of its inside: " + string(raw))
}

// member is one member of an object.
type member struct {
	name  string
	value json.RawMessage
}

// members reads an object in its order; of two with one name the last counts.
func members(raw json.RawMessage) []member {
	d := json.NewDecoder(bytes.NewReader(raw))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return nil
	}
	var out []member
	for d.More() {
		key, err := d.Token()
		name, ok := key.(string)
		var value json.RawMessage
		if err != nil || !ok || d.Decode(&value) != nil {
			return nil
		}
		out = slices.DeleteFunc(out, func(m member) bool { return m.name == name })
		out = append(out, member{name, value})
	}
	return out
}
