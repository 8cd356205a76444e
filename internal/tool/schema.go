package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// JSON Schema types of a node. The empty type is "anything".
const (
	typeString  = "string"
	typeBoolean = "boolean"
	typeInteger = "integer"
	typeNumber  = "number"
	typeArray   = "array"
	typeObject  = "object"
)

// maxNesting bounds how deep an input type may nest; a recursive type has no
// flat schema.
const maxNesting = 8

// node is the schema of one value, derived from a Go type. The same tree writes
// the JSON Schema and coerces arguments, so that they cannot disagree.
type node struct {
	kind     string
	desc     string
	enum     []string
	min, max *float64
	items    *node   // typeArray
	fields   []field // typeObject made from a struct
	values   *node   // typeObject made from a map
}

// field is a member of an object.
type field struct {
	name     string
	node     *node
	required bool
	def      json.RawMessage // default, written into the action when absent
}

var rawMessageType = reflect.TypeFor[json.RawMessage]()

// nodeOf derives the schema of t. It panics on types that have none: that is a
// defect of the tool which its first test finds.
func nodeOf(t reflect.Type, depth int) *node {
	if depth > maxNesting {
		panic(fmt.Sprintf("tool: %v nests too deep or is recursive", t))
	}
	if t == rawMessageType {
		return &node{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return nodeOf(t.Elem(), depth)
	case reflect.Slice:
		return &node{kind: typeArray, items: nodeOf(t.Elem(), depth+1)}
	case reflect.Map:
		return mapNode(t, depth)
	case reflect.Struct:
		return &node{kind: typeObject, fields: fieldsOf(t, depth)}
	case reflect.Interface:
		return &node{}
	}
	return &node{kind: scalarType(t)}
}

func mapNode(t reflect.Type, depth int) *node {
	if t.Key().Kind() != reflect.String {
		panic(fmt.Sprintf("tool: %v: map keys must be strings", t))
	}
	return &node{kind: typeObject, values: nodeOf(t.Elem(), depth+1)}
}

func scalarType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return typeString
	case reflect.Bool:
		return typeBoolean
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return typeInteger
	case reflect.Float32, reflect.Float64:
		return typeNumber
	}
	panic(fmt.Sprintf("tool: %v has no JSON schema", t))
}

func fieldsOf(t reflect.Type, depth int) []field {
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, flags, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			fields = append(fields, fieldsOf(f.Type, depth)...)
		case name == "-" || !f.IsExported():
		case name == "":
			panic(fmt.Sprintf("tool: %v.%s needs a json tag", t, f.Name))
		default:
			fields = append(fields, fieldOf(f, name, flags, depth))
		}
	}
	return fields
}

func fieldOf(f reflect.StructField, name, flags string, depth int) field {
	n := nodeOf(f.Type, depth+1)
	n.desc = f.Tag.Get("desc")
	if enum := f.Tag.Get("enum"); enum != "" {
		n.enum = strings.Split(enum, ",")
	}
	n.min = boundOf(f, "min")
	n.max = boundOf(f, "max")
	def := defaultOf(f, n)
	optional := f.Type.Kind() == reflect.Pointer || def != nil || strings.Contains(flags, "omitempty")
	return field{name: name, node: n, required: !optional, def: def}
}

func boundOf(f reflect.StructField, tag string) *float64 {
	text, ok := f.Tag.Lookup(tag)
	if !ok {
		return nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(fmt.Sprintf("tool: field %s: bad %s tag %q", f.Name, tag, text))
	}
	return &v
}

func defaultOf(f reflect.StructField, n *node) json.RawMessage {
	text, ok := f.Tag.Lookup("default")
	if !ok {
		return nil
	}
	if n.kind == typeString {
		text = strconv.Quote(text)
	}
	if !json.Valid([]byte(text)) {
		panic(fmt.Sprintf("tool: field %s: bad default %q", f.Name, text))
	}
	return json.RawMessage(text)
}

// member is a key of an ordered JSON object.
type member struct {
	key   string
	value any
}

// object is a JSON object that keeps the order of its members: models read
// schemas from top to bottom, and maps would sort them.
type object []member

// MarshalJSON writes the members in order.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		value, err := encodeJSON(m.value)
		if err != nil {
			return nil, err
		}
		b.WriteString(strconv.Quote(m.key))
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// encodeJSON is json.Marshal without the HTML escapes, which cost tokens and
// make shell commands unreadable.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// schema returns the JSON Schema of n, with everything inlined.
func (n *node) schema() object {
	var o object
	add := func(key string, value any) { o = append(o, member{key, value}) }
	if n.kind != "" {
		add("type", n.kind)
	}
	if n.desc != "" {
		add("description", n.desc)
	}
	if n.enum != nil {
		add("enum", n.enum)
	}
	if n.min != nil {
		add("minimum", *n.min)
	}
	if n.max != nil {
		add("maximum", *n.max)
	}
	if n.items != nil {
		add("items", n.items.schema())
	}
	if n.values != nil {
		add("additionalProperties", n.values.schema())
	}
	if n.kind == typeObject && n.values == nil {
		o = append(o, n.properties()...)
	}
	return o
}

func (n *node) properties() object {
	properties, required := object{}, []string{}
	for _, f := range n.fields {
		s := f.node.schema()
		if f.def != nil {
			s = append(s, member{"default", f.def})
		}
		properties = append(properties, member{f.name, s})
		if f.required {
			required = append(required, f.name)
		}
	}
	o := object{{"properties", properties}}
	if len(required) > 0 {
		o = append(o, member{"required", required})
	}
	return o
}
