package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// maxDepth bounds how deep a schema nests.
const maxDepth = 64

// schema is a JSON Schema whose keywords were looked at: those that are known have
// the right types. Unknown ones, and those that only describe, mean nothing.
type schema struct {
	root     map[string]any
	patterns map[string]*pattern // nil for what is no expression here
	targets  map[string]any      // by reference
}

// pattern is an expression that a text must match.
type pattern struct {
	re   *regexp.Regexp
	size int // instructions: matching takes at most their product with the text's bytes
}

// reserved are members that an action has of its own.
var reserved = []string{"kind"}

// types are the names of JSON's types.
var types = []string{"object", "array", "string", "number", "integer", "boolean", "null"}

// compile reads the schema of an object.
func compile(raw []byte) (*schema, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var root map[string]any
	if err := dec.Decode(&root); err != nil || root == nil {
		return nil, errors.New("it is not a JSON object")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is text after it")
	}
	if root["type"] != "object" {
		return nil, errors.New(`its type must be "object"`)
	}
	s := &schema{root: root, patterns: map[string]*pattern{}, targets: map[string]any{}}
	if err := s.lint(root, "the schema", 0); err != nil {
		return nil, err
	}
	return s, nil
}

// takes says which member of an action a property of the schema would hide; "" = none.
func (s *schema) takes() string {
	properties, _ := s.root["properties"].(map[string]any)
	for _, name := range reserved {
		if _, taken := properties[name]; taken {
			return name
		}
	}
	return ""
}

// lint looks at a schema and those in it.
func (s *schema) lint(raw any, where string, depth int) error {
	if _, ok := raw.(bool); ok {
		return nil
	}
	node, ok := raw.(map[string]any)
	if !ok {
		return fmt.Errorf("%s is neither an object nor true or false", where)
	}
	if depth > maxDepth {
		return fmt.Errorf("it nests deeper than %d levels", maxDepth)
	}
	for key, v := range node {
		at := where + " > " + key
		for _, lint := range []func(string, any, string) error{lintValue, s.lintText} {
			if err := lint(key, v, at); err != nil {
				return err
			}
		}
		if err := s.lintInner(key, v, at, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// lintInner looks at the keywords that hold schemas.
func (s *schema) lintInner(key string, v any, at string, depth int) error {
	if list, ok := v.([]any); ok && key == "items" {
		return s.lintAll(list, at, depth)
	}
	switch key {
	case "additionalProperties", "items", "additionalItems", "contains", "propertyNames", "not", "if", "then", "else":
		return s.lint(v, at, depth)
	case "allOf", "anyOf", "oneOf", "prefixItems":
		list, ok := v.([]any)
		if !ok || len(list) == 0 {
			return fmt.Errorf("%s is not a list of schemas", at)
		}
		return s.lintAll(list, at, depth)
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
		named, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is not an object", at)
		}
		for name, inner := range named {
			if key == "patternProperties" {
				s.remember(name)
			}
			if err := s.lint(inner, at+" > "+name, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *schema) lintAll(list []any, at string, depth int) error {
	for i, inner := range list {
		if err := s.lint(inner, fmt.Sprintf("%s[%d]", at, i), depth); err != nil {
			return err
		}
	}
	return nil
}

// lintText looks at references and patterns.
func (s *schema) lintText(key string, v any, at string) error {
	switch key {
	case "$ref", "pattern":
	case "$dynamicRef", "$recursiveRef":
		return fmt.Errorf("%s cannot be followed", at)
	default:
		return nil
	}
	text, ok := v.(string)
	if !ok {
		return fmt.Errorf("%s is not a text", at)
	}
	if key == "pattern" {
		s.remember(text)
		return nil
	}
	target, err := s.follow(text)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	if _, known := s.targets[text]; known {
		return nil
	}
	s.targets[text] = target
	return s.lint(target, at, 0) // it may be where no schema is expected
}

// remember prepares a pattern. Those that need what RE2 cannot do stay unchecked.
func (s *schema) remember(text string) {
	s.patterns[text] = nil
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return
	}
	s.patterns[text] = &pattern{re, len(program.Inst)}
}

// follow finds what a reference of the form #/a/b names.
func (s *schema) follow(ref string) (any, error) {
	rest, ok := strings.CutPrefix(ref, "#")
	if !ok || rest != "" && rest[0] != '/' {
		return nil, fmt.Errorf("only references to the schema itself are allowed (#/...), not %q", ref)
	}
	var at any = s.root
	for i, name := range strings.Split(rest, "/") {
		if i == 0 {
			continue
		}
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		switch node := at.(type) {
		case map[string]any:
			at, ok = node[name]
		case []any:
			n, err := strconv.Atoi(name)
			if ok = err == nil && n >= 0 && n < len(node); ok {
				at = node[n]
			}
		default:
			ok = false
		}
		if !ok {
			return nil, fmt.Errorf("%q refers to nothing", ref)
		}
	}
	switch at.(type) {
	case map[string]any, bool:
		return at, nil
	}
	return nil, fmt.Errorf("%q does not refer to a schema", ref)
}

// lintValue looks at the keywords that hold plain values.
func lintValue(key string, v any, at string) error {
	ok, what := true, ""
	switch key {
	case "type":
		ok, what = isType(v), "one of "+strings.Join(types, ", ")+", or a list of them"
	case "enum":
		list, isList := v.([]any)
		ok, what = isList && len(list) > 0, "a list of values"
	case "required":
		ok, what = isTexts(v), "a list of names"
	case "minimum", "maximum":
		_, ok = number(v)
		what = "a number"
	case "exclusiveMinimum", "exclusiveMaximum":
		_, isNumber := number(v)
		_, isBool := v.(bool) // as in draft 4
		ok, what = isNumber || isBool, "a number"
	case "multipleOf":
		n, isNumber := number(v)
		ok, what = isNumber && n > 0, "a number above 0"
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains":
		n, isNumber := number(v)
		ok, what = isNumber && n >= 0 && n == float64(int64(n)), "a whole number from 0"
	case "uniqueItems":
		_, ok = v.(bool)
		what = "true or false"
	case "dependentRequired":
		named, isObject := v.(map[string]any)
		ok, what = isObject, "an object of lists of names"
		for _, names := range named {
			ok = ok && isTexts(names)
		}
	}
	if !ok {
		return fmt.Errorf("%s must be %s", at, what)
	}
	return nil
}

func isType(v any) bool {
	if list, ok := v.([]any); ok {
		return len(list) > 0 && !slices.ContainsFunc(list, func(e any) bool { _, isList := e.([]any); return isList || !isType(e) })
	}
	name, ok := v.(string)
	return ok && slices.Contains(types, name)
}

func isTexts(v any) bool {
	list, ok := v.([]any)
	return ok && !slices.ContainsFunc(list, func(e any) bool { _, isText := e.(string); return !isText })
}

// number reads a JSON number; one that is out of range is infinite.
func number(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(n.String(), 64)
	return f, err == nil || errors.Is(err, strconv.ErrRange)
}
