package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"parley/internal/content"
)

// Bounds of one check: schemas can ask for work that grows without end.
const (
	maxSteps    = 200_000
	maxCalls    = 500 // nesting of schemas and values
	maxProblems = 10
	maxProblem  = 1000 // bytes of its text
)

// checker compares a value with a schema. When its bounds are reached, the rest
// counts as fitting.
type checker struct {
	schema   *schema
	steps    int
	depth    int
	quiet    int // above 0: nobody reads the problems
	problems []string
}

// problems says what is wrong with arguments, in words for a model.
func (s *schema) problems(args map[string]any) []string {
	c := &checker{schema: s}
	c.value(s.root, args, "")
	return c.problems
}

// fit returns arguments that fit, mended where that is enough, or what is wrong with
// them.
func (s *schema) fit(args map[string]any) (map[string]any, []string) {
	problems := s.problems(args)
	if len(problems) == 0 {
		return args, nil
	}
	if mended := s.mend(args); len(s.problems(mended)) == 0 {
		return mended, nil
	}
	return args, problems
}

// spend counts work. False: there was too much.
func (c *checker) spend(steps int) bool {
	c.steps += steps + 1
	return c.steps <= maxSteps
}

func (c *checker) fail(path, format string, args ...any) {
	switch {
	case len(c.problems) >= maxProblems:
		return
	case c.quiet > 0:
		c.problems = append(c.problems, "")
		return
	case path == "":
		path = "the arguments"
	default:
		path = strconv.Quote(path)
	}
	text := path + " " + fmt.Sprintf(format, args...)
	c.problems = append(c.problems, strings.ToValidUTF8(text[:min(len(text), maxProblem)], ""))
}

// fits tries a schema without saying what is wrong.
func (c *checker) fits(schema, v any) bool {
	before := c.problems
	c.problems = nil
	c.quiet++
	c.value(schema, v, "")
	c.quiet--
	ok := len(c.problems) == 0
	c.problems = before
	return ok
}

func (c *checker) value(schema, v any, path string) {
	if c.depth++; c.depth > maxCalls || !c.spend(0) {
		c.depth--
		return
	}
	defer func() { c.depth-- }()
	if allowed, ok := schema.(bool); ok {
		if !allowed {
			c.fail(path, "is not allowed")
		}
		return
	}
	node, _ := schema.(map[string]any)
	if ref, ok := node["$ref"].(string); ok {
		c.value(c.schema.targets[ref], v, path)
	}
	if !c.plain(node, v, path) {
		return // more would only repeat it
	}
	switch v := v.(type) {
	case map[string]any:
		c.object(node, v, path)
	case []any:
		c.array(node, v, path)
	case string:
		c.text(node, v, path)
	case json.Number:
		c.number(node, v, path)
	}
	c.combined(node, v, path)
}

// plain checks the keywords for values of every type.
func (c *checker) plain(node map[string]any, v any, path string) bool {
	if want, ok := node["type"]; ok && !hasType(want, v) {
		c.fail(path, "must be %s, not %s", typeNames(want), shown{v})
		return false
	}
	if list, ok := node["enum"].([]any); ok {
		if !slices.ContainsFunc(list, func(e any) bool { return c.same(e, v) }) {
			c.fail(path, "must be one of %s, not %s", shown{list}, shown{v})
			return false
		}
	}
	if want, ok := node["const"]; ok && !c.same(want, v) {
		c.fail(path, "must be %s, not %s", shown{want}, shown{v})
		return false
	}
	return true
}

func typeNames(want any) string {
	if list, ok := want.([]any); ok {
		names := make([]string, len(list))
		for i, e := range list {
			names[i] = typeNames(e)
		}
		return strings.Join(names, " or ")
	}
	switch name, _ := want.(string); name {
	case "object", "array", "integer":
		return "an " + name
	case "null":
		return name
	default:
		return "a " + name
	}
}

func hasType(want, v any) bool {
	if list, ok := want.([]any); ok {
		return slices.ContainsFunc(list, func(e any) bool { return hasType(e, v) })
	}
	switch v := v.(type) {
	case map[string]any:
		return want == "object"
	case []any:
		return want == "array"
	case string:
		return want == "string"
	case bool:
		return want == "boolean"
	case json.Number:
		f, _ := number(v)
		return want == "number" || want == "integer" && f == math.Trunc(f)
	}
	return want == "null"
}

// same compares as JSON Schema does: numbers by value, objects without order.
func (c *checker) same(a, b any) bool {
	if !c.spend(0) {
		return true
	}
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, c.same)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, c.same)
	case json.Number:
		b, ok := b.(json.Number)
		x, _ := number(a)
		y, _ := number(b)
		return ok && x == y
	}
	return !isNested(b) && a == b
}

func (c *checker) object(node map[string]any, v map[string]any, path string) {
	if !c.spend(len(v)) {
		return
	}
	c.required(node, v, path)
	c.count(node, "Properties", len(v), path, "members")
	properties, _ := node["properties"].(map[string]any)
	patterns, _ := node["patternProperties"].(map[string]any)
	extra, limited := node["additionalProperties"]
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if !c.spend(len(patterns)) {
			return
		}
		at, known := join(path, name), false
		if inner, ok := properties[name]; ok {
			known = true
			c.value(inner, v[name], at)
		}
		for _, text := range slices.Sorted(maps.Keys(patterns)) {
			match, checked := c.matches(text, name)
			known = known || match || !checked
			if match && checked {
				c.value(patterns[text], v[name], at)
			}
		}
		switch {
		case known || !limited:
		case extra == false:
			c.fail(at, "is not a member; there is %s", shown{slices.Sorted(maps.Keys(properties))})
		default:
			c.value(extra, v[name], at)
		}
		if inner, ok := node["propertyNames"]; ok && !c.fits(inner, name) {
			c.fail(at, "is not a name that is allowed here")
		}
	}
}

// required checks which members must be there, because of others or at all.
func (c *checker) required(node map[string]any, v map[string]any, path string) {
	c.present(node["required"], v, path)
	named, _ := node["dependentRequired"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if _, ok := v[name]; ok {
			c.present(named[name], v, path)
		}
	}
	schemas, _ := node["dependentSchemas"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		if _, ok := v[name]; ok {
			c.value(schemas[name], v, path)
		}
	}
}

func (c *checker) present(names any, v map[string]any, path string) {
	list, _ := names.([]any)
	for _, e := range list {
		name, _ := e.(string)
		if _, ok := v[name]; !ok && c.spend(0) {
			c.fail(join(path, name), "is required")
		}
	}
}

// count checks a keyword pair such as minItems and maxItems.
func (c *checker) count(node map[string]any, suffix string, n int, path, what string) {
	if least, ok := number(node["min"+suffix]); ok && float64(n) < least {
		c.fail(path, "must have at least %v %s, not %d", least, what, n)
	}
	if most, ok := number(node["max"+suffix]); ok && float64(n) > most {
		c.fail(path, "must have at most %v %s, not %d", most, what, n)
	}
}

func (c *checker) array(node map[string]any, v []any, path string) {
	c.count(node, "Items", len(v), path, "items")
	first, rest := node["prefixItems"], node["items"]
	if _, old := rest.([]any); old {
		first, rest = rest, node["additionalItems"]
	}
	prefix, _ := first.([]any)
	for i, e := range v {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case !c.spend(0):
			return
		case i < len(prefix):
			c.value(prefix[i], e, at)
		case rest != nil:
			c.value(rest, e, at)
		}
	}
	if node["uniqueItems"] == true && c.repeats(v) {
		c.fail(path, "must not have the same item twice")
	}
	if inner, ok := node["contains"]; ok {
		c.contains(node, inner, v, path)
	}
}

func (c *checker) repeats(v []any) bool {
	for i := range v {
		for j := range i {
			if !c.spend(0) {
				return false
			}
			if c.same(v[i], v[j]) {
				return c.spend(0)
			}
		}
	}
	return false
}

func (c *checker) contains(node map[string]any, inner any, v []any, path string) {
	n := 0
	for _, e := range v {
		if c.fits(inner, e) {
			n++
		}
	}
	least, ok := number(node["minContains"])
	if !ok {
		least = 1
	}
	if most, ok := number(node["maxContains"]); float64(n) < least || ok && float64(n) > most {
		c.fail(path, "has %d items of the kind that it must contain", n)
	}
}

func (c *checker) text(node map[string]any, v, path string) {
	if !c.spend(len(v) / 64) {
		return
	}
	c.count(node, "Length", utf8.RuneCountInString(v), path, "characters")
	if pattern, ok := node["pattern"].(string); ok {
		if match, checked := c.matches(pattern, v); checked && !match {
			c.fail(path, "must match %s", shown{pattern})
		}
	}
}

// matches tries a pattern. It stays unchecked if it is none, or too much work.
func (c *checker) matches(text, v string) (match, checked bool) {
	p := c.schema.patterns[text]
	if p == nil || !c.spend(len(v)*p.size/256) {
		return false, false
	}
	return p.re.MatchString(v), true
}

func (c *checker) number(node map[string]any, v json.Number, path string) {
	n, ok := number(v)
	if !ok {
		return
	}
	for _, bound := range []struct {
		key, other, text string
		broken           func(limit float64, open bool) bool
	}{
		{"minimum", "exclusiveMinimum", "at least", func(limit float64, open bool) bool { return n < limit || open && n == limit }},
		{"maximum", "exclusiveMaximum", "at most", func(limit float64, open bool) bool { return n > limit || open && n == limit }},
	} {
		limit, ok := number(node[bound.key])
		if ok && bound.broken(limit, node[bound.other] == true) {
			c.fail(path, "must be %s %v, not %s", bound.text, limit, v)
		}
		if limit, ok := number(node[bound.other]); ok && bound.broken(limit, true) {
			c.fail(path, "must be %s %v and not that itself, not %s", bound.text, limit, v)
		}
	}
	if unit, ok := number(node["multipleOf"]); ok {
		if times := n / unit; math.Abs(times-math.Round(times)) > 1e-9*max(1, math.Abs(times)) {
			c.fail(path, "must be a multiple of %v, not %s", unit, v)
		}
	}
}

// combined checks the keywords that put schemas together.
func (c *checker) combined(node map[string]any, v any, path string) {
	if list, ok := node["allOf"].([]any); ok {
		for _, inner := range list {
			c.value(inner, v, path)
		}
	}
	if list, ok := node["anyOf"].([]any); ok && c.branches(list, v) == 0 {
		c.closest(list, v, path)
	}
	if list, ok := node["oneOf"].([]any); ok {
		switch n := c.branches(list, v); {
		case n == 0:
			c.closest(list, v, path)
		case n > 1 && c.spend(0):
			c.fail(path, "fits %d of the forms it may have, but must fit one", n)
		}
	}
	if inner, ok := node["not"]; ok && c.fits(inner, v) && c.spend(0) {
		c.fail(path, "has a form that is not allowed")
	}
	if inner, ok := node["if"]; ok {
		branch := "else"
		if c.fits(inner, v) {
			branch = "then"
		}
		if inner, ok := node[branch]; ok {
			c.value(inner, v, path)
		}
	}
}

// branches counts the schemas that a value fits.
func (c *checker) branches(list []any, v any) int {
	n := 0
	for _, inner := range list {
		if c.fits(inner, v) {
			n++
		}
	}
	return n
}

// closest says what is wrong with the form that is least wrong.
func (c *checker) closest(list []any, v any, path string) {
	if c.quiet > 0 {
		c.fail(path, "")
		return
	}
	outer := c.problems
	var least []string
	for _, inner := range list {
		c.problems = nil
		if c.value(inner, v, path); least == nil || len(c.problems) < len(least) {
			least = c.problems
		}
	}
	c.problems = outer
	if len(least) == 0 {
		return // the bounds were reached
	}
	c.fail(path, "fits none of the %d forms it may have; for the closest one: %s", len(list), strings.Join(least, "; "))
}

// mend does what models get wrong most: members that are null stand for absent ones,
// and what is no text comes as one.
func (s *schema) mend(args map[string]any) map[string]any {
	properties, _ := s.root["properties"].(map[string]any)
	out := make(map[string]any, len(args))
	for name, v := range args {
		node, _ := properties[name].(map[string]any)
		want, typed := node["type"]
		switch text, isText := v.(string); {
		case v == nil && (!typed || !hasType(want, nil)):
			continue
		case isText && typed && !hasType(want, ""):
			out[name] = v
			if parsed, ok := parse(text); ok && hasType(want, parsed) {
				out[name] = parsed
			}
		default:
			out[name] = v
		}
	}
	return out
}

func parse(text string) (v any, ok bool) {
	dec := json.NewDecoder(bytes.NewReader([]byte(strings.ToValidUTF8(text, ""))))
	dec.UseNumber()
	err := dec.Decode(&v)
	return v, err == nil && !dec.More()
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// shown is a value that is rendered shortly, and only if somebody reads it.
type shown struct{ v any }

// String renders the value.
func (s shown) String() string {
	const most = 200
	switch v := s.v.(type) {
	case map[string]any:
		return "an object"
	case string:
		s.v = v[:min(len(v), most)]
	case []any:
		v = v[:min(len(v), most)]
		if slices.ContainsFunc(v, isNested) {
			return "a list"
		}
		s.v = v
	}
	raw, err := content.Marshal(s.v)
	switch {
	case err != nil:
		return "that"
	case len(raw) > most:
		return strings.ToValidUTF8(string(raw[:most]), "") + "..."
	}
	return string(raw)
}

func isNested(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}
