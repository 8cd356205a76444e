package gemini

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"parley/internal/content"
)

// form is a way to describe the parameters of a function.
type form int

const (
	// formJSON is a JSON Schema (parametersJsonSchema). The API knows most of it,
	// but no cycles, and not all that was a schema in older drafts.
	formJSON form = iota
	// formProto is Google's own schema (parameters), for endpoints that do not
	// know the other: one type per value, no unions but anyOf, enums of texts.
	formProto
	// formShallow is formProto for endpoints that refuse deep schemas.
	formShallow
)

// depth is how deep schemas may be nested.
func (f form) depth() int {
	switch f {
	case formJSON:
		return 24
	case formProto:
		return 12
	}
	return 4
}

// maxNodes bounds a converted schema: references may make it grow without end.
const maxNodes = 5000

// schema is what a converted schema may hold. Which of the members are used
// depends on the form.
type schema struct {
	Type        any                `json:"type,omitempty"` // a string, or a []string in formJSON
	Format      string             `json:"format,omitempty"`
	Description string             `json:"description,omitempty"`
	Nullable    bool               `json:"nullable,omitempty"`
	Enum        []any              `json:"enum,omitempty"`
	Default     any                `json:"default,omitempty"`
	AnyOf       []*schema          `json:"anyOf,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`
	Additional  any                `json:"additionalProperties,omitempty"` // a bool or a *schema
	Items       *schema            `json:"items,omitempty"`
	PrefixItems []*schema          `json:"prefixItems,omitempty"`
	MinItems    json.Number        `json:"minItems,omitempty"`
	MaxItems    json.Number        `json:"maxItems,omitempty"`
	Minimum     json.Number        `json:"minimum,omitempty"`
	Maximum     json.Number        `json:"maximum,omitempty"`

	types []string // before the form's own writing; empty = any
}

// convertSchema turns a JSON Schema of any draft into one that the API takes in
// the given form; nil stands for "no parameters". What the API has no word for is
// left out: tools check their arguments themselves.
func convertSchema(raw json.RawMessage, f form) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	r := schemaReader{root: v, form: f, left: maxNodes}
	s := asObject(r.read(v, 0))
	if len(s.Properties) == 0 {
		return nil
	}
	if f != formJSON {
		s = toProto(s)
	}
	out, err := content.Marshal(s)
	if err != nil {
		return nil
	}
	return out
}

// asObject makes the root what the API demands: an object. Of alternatives it has
// the properties of all and demands those that all demand.
func asObject(s *schema) *schema {
	out := &schema{Type: "object", types: []string{"object"}, Description: s.Description, Properties: s.Properties,
		Required: s.Required, Additional: s.Additional}
	if len(s.Properties) > 0 || len(s.AnyOf) == 0 {
		return out
	}
	out.Properties = map[string]*schema{}
	for i, branch := range s.AnyOf {
		for name, p := range branch.Properties {
			if _, ok := out.Properties[name]; !ok {
				out.Properties[name] = p
			}
		}
		if i == 0 {
			out.Required = branch.Required
			continue
		}
		out.Required = slices.DeleteFunc(slices.Clone(out.Required),
			func(name string) bool { return !slices.Contains(branch.Required, name) })
	}
	return out
}

// schemaReader reads a JSON Schema that anyone may have written.
type schemaReader struct {
	root   any
	form   form
	left   int      // nodes that may still be made
	active []string // references that are being followed
}

// read returns the schema of v; of one that is too deep, too large or a cycle
// only the outermost.
func (r *schemaReader) read(v any, depth int) *schema {
	mark := len(r.active)
	defer func() { r.active = r.active[:mark] }()
	o, whole := r.flat(v, depth)
	s := &schema{Description: stringOf(o["description"]), types: typesOf(o)}
	s.Enum, s.Default = enumOf(o), scalarOf(o["default"])
	s.Format = formatOf(stringOf(o["format"]), s.types)
	s.Minimum, s.Maximum = limit(o, "minimum", "exclusiveMinimum", 1), limit(o, "maximum", "exclusiveMaximum", -1)
	r.left--
	if whole && depth < r.form.depth() && r.left > 0 {
		r.object(s, o, depth)
		r.array(s, o, depth)
		r.alternatives(s, o, depth)
	}
	s.writeType()
	return s
}

func (r *schemaReader) object(s *schema, o map[string]any, depth int) {
	properties, _ := o["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if properties[name] == false || r.left <= 0 {
			continue // it must not be there, or there is no more room
		}
		if s.Properties == nil {
			s.Properties = map[string]*schema{}
		}
		s.Properties[name] = r.read(properties[name], depth+1)
	}
	required, _ := o["required"].([]any)
	for _, name := range required {
		if n, ok := name.(string); ok && s.Properties[n] != nil && !slices.Contains(s.Required, n) {
			s.Required = append(s.Required, n)
		}
	}
	switch more := o["additionalProperties"].(type) {
	case bool:
		s.Additional = more
	case map[string]any:
		s.Additional = r.read(more, depth+1)
	}
}

func (r *schemaReader) array(s *schema, o map[string]any, depth int) {
	s.MinItems, s.MaxItems = countOf(o["minItems"]), countOf(o["maxItems"])
	items, tuple := o["items"], listOf(o["prefixItems"])
	if list, ok := items.([]any); ok { // the tuples of older drafts
		items, tuple = o["additionalItems"], list
	}
	if m, ok := items.(map[string]any); ok {
		s.Items = r.read(m, depth+1)
	}
	for _, t := range tuple {
		if r.left <= 0 {
			return
		}
		s.PrefixItems = append(s.PrefixItems, r.read(t, depth+1))
	}
}

func (r *schemaReader) alternatives(s *schema, o map[string]any, depth int) {
	for _, branch := range append(listOf(o["anyOf"]), listOf(o["oneOf"])...) {
		if r.left <= 0 {
			return
		}
		b := r.read(branch, depth+1)
		if len(b.types) == 0 && len(b.Enum) == 0 && len(b.AnyOf) == 0 && len(s.types) > 0 {
			continue // it only says which properties belong together
		}
		s.AnyOf = append(s.AnyOf, b)
	}
}

// flat resolves references and allOf of v into one set of members; whole is
// false where that is a cycle or too much. Members beside a reference win.
func (r *schemaReader) flat(v any, depth int) (o map[string]any, whole bool) {
	in, _ := v.(map[string]any)
	ref, isRef := in["$ref"].(string)
	parts := listOf(in["allOf"])
	if !isRef && len(parts) == 0 {
		return in, true
	}
	o, whole = maps.Clone(in), true
	delete(o, "$ref")
	delete(o, "allOf")
	if depth >= r.form.depth() || r.left <= 0 || len(r.active) > maxRefs {
		return o, false
	}
	if isRef {
		if slices.Contains(r.active, ref) {
			whole = false
		} else {
			r.active = append(r.active, ref)
		}
		target, found := pointer(r.root, ref)
		if found && whole {
			parts = append([]any{target}, parts...)
		} else if t, ok := target.(map[string]any); ok {
			mergeMembers(o, outline(t))
		}
	}
	for _, part := range parts {
		r.left--
		members, all := r.flat(part, depth+1)
		mergeMembers(o, members)
		whole = whole && all
	}
	return o, whole
}

// maxRefs bounds a chain of references.
const maxRefs = 64

// outline is what of a schema is known without looking into it.
func outline(o map[string]any) map[string]any {
	out := map[string]any{}
	for _, key := range []string{"type", "description"} {
		if v, ok := o[key]; ok {
			out[key] = v
		}
	}
	return out
}

// mergeMembers adds the members of b to a: properties, demands and alternatives
// are joined, of anything else the first stays.
func mergeMembers(a, b map[string]any) {
	for key, v := range b {
		switch old := a[key].(type) {
		case map[string]any:
			if more, ok := v.(map[string]any); ok && key == "properties" {
				joined := maps.Clone(more)
				maps.Copy(joined, old)
				a[key] = joined
			}
		case []any:
			if more, ok := v.([]any); ok && key == "required" {
				a[key] = append(slices.Clone(old), more...)
			}
		case nil:
			a[key] = v
		}
	}
}

// pointer follows a reference within the document ("#/$defs/x").
func pointer(root any, ref string) (any, bool) {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil, false
	}
	if path == "" {
		return root, true
	}
	v := root
	for _, step := range strings.Split(strings.TrimPrefix(path, "/"), "/") {
		step = strings.NewReplacer("~1", "/", "~0", "~", "%24", "$", "%25", "%").Replace(step)
		switch at := v.(type) {
		case map[string]any:
			if v, ok = at[step]; !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(at) {
				return nil, false
			}
			v = at[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// schemaCache keeps converted schemas: the tools of a conversation are the same
// in each of its calls. The zero value is ready.
type schemaCache struct {
	mu   sync.Mutex
	done map[schemaKey]json.RawMessage
}

type schemaKey struct {
	form form
	raw  string
}

// maxCached bounds the schemas that are kept.
const maxCached = 256

func (c *schemaCache) convert(raw json.RawMessage, f form) json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	if out, ok := c.done[schemaKey{f, string(raw)}]; ok {
		return out
	}
	if c.done == nil || len(c.done) >= maxCached {
		c.done = map[schemaKey]json.RawMessage{}
	}
	out := convertSchema(raw, f)
	c.done[schemaKey{f, string(raw)}] = out
	return out
}
