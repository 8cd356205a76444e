package httpkit

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Schema is a compiled JSON schema of a document. Its zero value accepts
// anything.
type Schema struct {
	name       string // of the component, or a type name: names union branches
	types      []string
	nullable   bool
	enum       []any
	constant   any
	hasConst   bool
	fallback   any
	hasDefault bool
	format     string
	secret     bool

	properties map[string]*Schema
	order      []string // property names, sorted
	required   []string
	extra      *Schema // additionalProperties as a schema
	forbid     bool    // additionalProperties: false
	keyPattern *regexp.Regexp

	items    *Schema
	minItems *int
	maxItems *int

	branches []*Schema
	tag      string // discriminator
	mapping  map[string]*Schema

	minimum, maximum, above, below *float64
	minLength, maxLength           *int
	pattern                        *regexp.Regexp
}

// annotations are keywords that constrain nothing.
var annotations = []string{"description", "title", "examples", "example", "deprecated", "readOnly",
	"writeOnly", "summary", "x-secret", "externalDocs", "$comment"}

type compiler struct {
	components map[string]any
	done       map[string]*Schema
}

func (c *compiler) compile(raw any, where string) (*Schema, error) {
	m, ok := raw.(map[string]any)
	if !ok {
		if raw == true || raw == nil {
			return &Schema{}, nil
		}
		return nil, fmt.Errorf("%s: schema is no object", where)
	}
	if ref, ok := m["$ref"].(string); ok {
		return c.ref(ref, where)
	}
	s := &Schema{}
	return s, c.fill(s, m, where)
}

func (c *compiler) ref(ref, where string) (*Schema, error) {
	name, ok := strings.CutPrefix(ref, "#/components/schemas/")
	if !ok {
		return nil, fmt.Errorf("%s: unsupported $ref %q", where, ref)
	}
	if s := c.done[name]; s != nil {
		return s, nil
	}
	m, ok := c.components[name].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: no schema %q", where, name)
	}
	s := &Schema{name: name}
	c.done[name] = s // before filling, so that schemas may be recursive
	return s, c.fill(s, m, "components/schemas/"+name)
}

func (c *compiler) fill(s *Schema, m map[string]any, where string) error {
	for _, key := range sortedKeys(m) {
		known, err := c.setStructure(s, key, m[key], where)
		if !known {
			known, err = setScalar(s, key, m[key])
		}
		switch {
		case err != nil:
			return fmt.Errorf("%s: %s: %w", where, key, err)
		case !known && !slices.Contains(annotations, key):
			return fmt.Errorf("%s: unsupported keyword %q", where, key)
		}
	}
	s.secret = s.secret || m["x-secret"] == true
	if s.name == "" && len(s.types) == 1 {
		s.name = pythonNames[s.types[0]]
	}
	return s.tagBranches(where)
}

// setStructure sets a keyword that holds schemas, and reports whether it knew it.
func (c *compiler) setStructure(s *Schema, key string, v any, where string) (bool, error) {
	var err error
	switch key {
	case "properties":
		err = c.setProperties(s, v, where)
	case "additionalProperties":
		err = c.setExtra(s, v, where)
	case "items":
		s.items, err = c.compile(v, where+"/items")
	case "anyOf", "oneOf":
		err = c.setBranches(s, v, where)
	case "discriminator":
		err = c.setDiscriminator(s, v, where)
	default:
		return false, nil
	}
	return true, err
}

// setScalar sets a keyword that holds plain values, and reports whether it knew it.
func setScalar(s *Schema, key string, v any) (known bool, err error) {
	switch key {
	case "type":
		err = setTypes(s, v)
	case "format":
		err = setFormat(s, v)
	case "enum":
		s.enum, known = v.([]any)
		s.nullable = s.nullable || slices.Contains(s.enum, nil)
		err = want(known, "a list")
	case "const":
		s.constant, s.hasConst = v, true
	case "default":
		s.fallback, s.hasDefault = v, true
	case "required":
		s.required, err = stringList(v)
	case "propertyNames":
		m, _ := v.(map[string]any)
		s.keyPattern, err = pattern(m["pattern"])
	case "pattern":
		s.pattern, err = pattern(v)
	default:
		return setBound(s, key, v)
	}
	return true, err
}

func setBound(s *Schema, key string, v any) (known bool, err error) {
	ints := map[string]**int{"minItems": &s.minItems, "maxItems": &s.maxItems,
		"minLength": &s.minLength, "maxLength": &s.maxLength}
	floats := map[string]**float64{"minimum": &s.minimum, "maximum": &s.maximum,
		"exclusiveMinimum": &s.above, "exclusiveMaximum": &s.below}
	if p, ok := ints[key]; ok {
		n, ok := v.(int)
		*p = &n
		return true, want(ok, "an integer")
	}
	p, ok := floats[key]
	if !ok {
		return false, nil
	}
	f, ok := number(v)
	*p = &f
	return true, want(ok, "a number")
}

func want(ok bool, what string) error {
	if ok {
		return nil
	}
	return fmt.Errorf("is not %s", what)
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

func stringList(v any) ([]string, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, want(false, "a list")
	}
	out := make([]string, len(list))
	for i, x := range list {
		out[i] = fmt.Sprint(x)
	}
	return out, nil
}

func pattern(v any) (*regexp.Regexp, error) {
	text, ok := v.(string)
	if !ok {
		return nil, want(false, "a pattern")
	}
	return regexp.Compile(text)
}

var pythonNames = map[string]string{"string": "str", "integer": "int", "number": "float",
	"boolean": "bool", "array": "list", "object": "dict"}

func (c *compiler) setProperties(s *Schema, v any, where string) error {
	m, ok := v.(map[string]any)
	if !ok {
		return want(false, "an object")
	}
	s.properties = map[string]*Schema{}
	for _, name := range sortedKeys(m) {
		p, err := c.compile(m[name], where+"/"+name)
		if err != nil {
			return err
		}
		s.properties[name] = p
		s.order = append(s.order, name)
	}
	return nil
}

func (c *compiler) setBranches(s *Schema, v any, where string) error {
	list, ok := v.([]any)
	if !ok {
		return want(false, "a list")
	}
	for i, raw := range list {
		if m, ok := raw.(map[string]any); ok && m["type"] == "null" {
			s.nullable = true
			continue
		}
		b, err := c.compile(raw, fmt.Sprintf("%s/%d", where, i))
		if err != nil {
			return err
		}
		s.branches = append(s.branches, b)
	}
	return nil
}

func (c *compiler) setExtra(s *Schema, v any, where string) error {
	if b, ok := v.(bool); ok {
		s.forbid = !b
		if b {
			s.extra = &Schema{}
		}
		return nil
	}
	extra, err := c.compile(v, where+"/*")
	s.extra = extra
	return err
}

func (c *compiler) setDiscriminator(s *Schema, v any, where string) error {
	m, ok := v.(map[string]any)
	if !ok {
		return want(false, "an object")
	}
	s.tag, _ = m["propertyName"].(string)
	mapping, _ := m["mapping"].(map[string]any)
	s.mapping = map[string]*Schema{}
	for value, ref := range mapping {
		b, err := c.ref(fmt.Sprint(ref), where)
		if err != nil {
			return err
		}
		s.mapping[value] = b
	}
	return nil
}

// tagBranches derives a missing mapping from the branches' constants.
func (s *Schema) tagBranches(where string) error {
	if s.tag == "" || len(s.mapping) > 0 {
		return nil
	}
	for _, b := range s.branches {
		p := b.properties[s.tag]
		if p == nil || !p.hasConst {
			return fmt.Errorf("%s: branch %q has no constant %q", where, b.name, s.tag)
		}
		s.mapping[fmt.Sprint(p.constant)] = b
	}
	return nil
}

func setTypes(s *Schema, v any) error {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, t := range list {
		name, _ := t.(string)
		switch {
		case name == "null":
			s.nullable = true
		case pythonNames[name] != "":
			s.types = append(s.types, name)
		default:
			return fmt.Errorf("unknown type %v", t)
		}
	}
	return nil
}

func setFormat(s *Schema, v any) error {
	s.format, _ = v.(string)
	s.secret = s.secret || s.format == "password"
	if !slices.Contains([]string{"uuid", "date-time", "password", "uri", "int64", "double", "binary"}, s.format) {
		return fmt.Errorf("unknown format %v", v)
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
