package hook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp/syntax"
	"slices"
	"strings"

	"parley/internal/content"
	"parley/internal/fault"
	"parley/internal/near"
)

// CodeBad is the code of a configuration that is not valid.
const CodeBad = "bad_hooks"

// Bounds of a configuration.
const (
	MaxBytes      = 64 << 10
	MaxHooks      = 100      // in all events together
	MaxCommand    = 16 << 10 // bytes
	MaxTimeout    = 600      // seconds
	MaxIterations = 20

	defaultTimeout    = 60
	defaultIterations = 3
	maxMatcher        = 1000   // bytes
	maxProgram        = 10_000 // instructions of all regular expressions
	maxTools          = 100
	maxShown          = 5  // problems in an error's text
	maxProblems       = 50 // in its fields
)

// keys are the events as configurations name them; the names of the events
// themselves are good, too.
var keys = map[string]Event{"pre_tool_use": PreToolUse, "post_tool_use": PostToolUse, "user_prompt_submit": UserPromptSubmit,
	"session_start": SessionStart, "session_end": SessionEnd, "stop": Stop}

var (
	types         = []string{TypeCommand, TypePrompt, TypeAgent}
	matcherKeys   = []string{"matcher", "hooks"}
	definitionKey = []string{"type", "name", "command", "prompt", "system_prompt", "tools", "timeout", "max_iterations", "async"}
	// besideHooks is what files around {"hooks": ...} have for people and editors.
	besideHooks = []string{"hooks", "description", "$schema"}
)

// Parse reads a configuration (agent protocol 2.1) and fills in its defaults.
// Nothing and null yield nil. A member that is null is as if it were not there.
// The error is Invalid with CodeBad; it names everything that is wrong, also as
// fields, below loc, which is where the configuration stands in a request.
func Parse(raw json.RawMessage, loc ...any) (*Config, error) {
	p := &parser{root: loc}
	if len(raw) > MaxBytes {
		p.fail(loc, "too_long", "There are %d bytes of hooks, more than the %d allowed", len(raw), MaxBytes)
		return nil, p.err()
	}
	v, err := decode(raw)
	switch {
	case err != nil:
		p.fail(loc, "json_invalid", "It is not valid JSON (%v)", err)
	case v == nil:
		return nil, nil
	}
	c := &Config{}
	if err == nil {
		p.config(c, v)
		p.checkSize(c)
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// checkSize keeps what clients read, which has all defaults, within what they can
// send back.
func (p *parser) checkSize(c *Config) {
	full, err := json.Marshal(c)
	if err != nil || len(full) > MaxBytes {
		p.fail(p.root, "too_long", "With all defaults there are %d bytes of hooks, more than the %d allowed", len(full), MaxBytes)
	}
}

// decode reads exactly one JSON value with exact numbers, nil for nothing.
func decode(raw []byte) (any, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	v, err := content.Decode(raw)
	if err != nil {
		return nil, err
	}
	again := json.NewDecoder(bytes.NewReader(raw))
	again.UseNumber()
	return v, unique(again)
}

// unique refuses objects that have a member twice: only the last would count, and
// the guards of the first would be lost. dec is at a valid value.
func unique(dec *json.Decoder) error {
	token, err := dec.Token()
	if delim, ok := token.(json.Delim); err != nil || !ok {
		return err
	} else if delim == '[' {
		for dec.More() && err == nil {
			err = unique(dec)
		}
	} else {
		err = uniqueMembers(dec)
	}
	if err == nil {
		_, err = dec.Token() // the end
	}
	return err
}

func uniqueMembers(dec *json.Decoder) error {
	seen := map[json.Token]bool{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		if seen[name] {
			return fmt.Errorf("the member %q is there twice", clip(fmt.Sprint(name)))
		}
		seen[name] = true
		if err := unique(dec); err != nil {
			return err
		}
	}
	return nil
}

// parser collects what is wrong.
type parser struct {
	root   []any // where the configuration stands
	fields []fault.Field
	hooks  int
	// program is the size of all regular expressions.
	program int
}

func (p *parser) fail(loc []any, typ, format string, args ...any) {
	if len(p.fields) < maxProblems {
		p.fields = append(p.fields, fault.Field{Loc: loc, Type: typ, Msg: fmt.Sprintf(format, args...)})
	}
}

// err is one fault with all problems, nil if there is none.
func (p *parser) err() error {
	if len(p.fields) == 0 {
		return nil
	}
	var texts []string
	for i, f := range p.fields {
		if i == maxShown {
			texts = append(texts, fmt.Sprintf("and %d more", len(p.fields)-maxShown))
			break
		}
		text := f.Msg
		if path := pathText(f.Loc[len(p.root):]); path != "" {
			text = path + ": " + text
		}
		texts = append(texts, text)
	}
	e := fault.New(fault.Invalid, CodeBad, "The hooks cannot be used: %s.", strings.Join(texts, "; "))
	e.Fields = p.fields
	return e
}

// pathText writes a path as pre_tool_use[0].hooks[1].timeout.
func pathText(loc []any) string {
	var b strings.Builder
	for _, step := range loc {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", step)
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			fmt.Fprint(&b, step)
		}
	}
	return b.String()
}

func at(loc []any, more ...any) []any { return slices.Concat(loc, more) }

// object is a JSON object at its place.
type object struct {
	*parser
	m   map[string]any
	loc []any
}

func (p *parser) object(v any, loc []any) (object, bool) {
	m, ok := v.(map[string]any)
	if !ok {
		p.fail(loc, "dict_type", "It must be an object")
	}
	return object{p, m, loc}, ok
}

// only refuses members with other names. known may be more than what is suggested.
func (o object) only(known []string) {
	for _, name := range slices.Sorted(maps.Keys(o.m)) {
		if !slices.Contains(known, name) {
			o.fail(at(o.loc, clip(name)), "extra_forbidden", "There is no such member%s", suggest(name, known))
		}
	}
}

func clip(name string) string {
	const most = 64 // bytes
	if len(name) > most {
		return content.Head(name, most) + "..."
	}
	return name
}

// suggest says which of the names may be meant.
func suggest(name string, known []string) string {
	best, bound := "", len(name)/3+2
	if len(name) <= 64 { // beyond it is no misspelling
		for _, k := range known {
			if d := near.Distance(name, k, bound); d < bound {
				best, bound = k, d
			}
		}
	}
	if best == "" {
		return ". Known are " + strings.Join(known, ", ")
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// list returns the items of a list, none if it is not there.
func (o object) list(name string) []any {
	v := o.m[name]
	items, ok := v.([]any)
	if !ok && v != nil {
		o.fail(at(o.loc, name), "list_type", "It must be a list")
	}
	return items
}

func (o object) text(name, otherwise string, most int) string {
	v := o.m[name]
	s, ok := v.(string)
	switch {
	case v == nil:
		return otherwise
	case !ok:
		o.fail(at(o.loc, name), "string_type", "It must be a text")
	case len(s) > most:
		o.fail(at(o.loc, name), "string_too_long", "It has %d bytes, more than the %d allowed", len(s), most)
	case strings.IndexByte(s, 0) >= 0:
		o.fail(at(o.loc, name), "value_error", "It must not contain a NUL character")
	}
	return s
}

// number reads a whole number from 1 to most.
func (o object) number(name string, otherwise, most int) int {
	v := o.m[name]
	if v == nil {
		return otherwise
	}
	n, ok := v.(json.Number)
	f, err := n.Float64()
	switch {
	case !ok || err != nil || f != math.Trunc(f):
		o.fail(at(o.loc, name), "int_type", "It must be a whole number")
	case f < 1 || f > float64(most):
		o.fail(at(o.loc, name), "out_of_range", "It must be 1 to %d, not %s", most, clip(n.String()))
	default:
		return int(f)
	}
	return otherwise
}

func (o object) boolean(name string) bool {
	v := o.m[name]
	b, ok := v.(bool)
	if !ok && v != nil {
		o.fail(at(o.loc, name), "bool_type", "It must be true or false")
	}
	return b
}

func (p *parser) config(c *Config, v any) {
	o, ok := p.object(v, p.root)
	if !ok {
		return
	}
	if inner, wrapped := o.m["hooks"]; wrapped {
		// Events beside it would be lost, so they are refused.
		o.only(besideHooks)
		if inner == nil {
			return
		}
		if o, ok = p.object(inner, at(p.root, "hooks")); !ok {
			return
		}
	}
	known := slices.Sorted(maps.Keys(keys))
	for _, e := range Events {
		known = append(known, string(e))
	}
	o.only(known)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		*c.matchers(keys[key]) = o.event(key)
	}
	if p.hooks > MaxHooks {
		p.fail(p.root, "too_long", "There are %d hooks, more than the %d allowed", p.hooks, MaxHooks)
	}
}

// event reads the matchers of an event in either spelling.
func (o object) event(key string) []Matcher {
	name := string(keys[key])
	if o.m[key] == nil {
		key = name
	} else if o.m[name] != nil {
		o.fail(at(o.loc, name), "duplicate", "It is there twice, also as %s", key)
	}
	var out []Matcher
	for i, item := range o.list(key) {
		if m, ok := o.object(item, at(o.loc, key, i)); ok {
			out = append(out, m.matcher())
		}
	}
	return out
}

func (o object) matcher() Matcher {
	o.only(matcherKeys)
	m := Matcher{Matcher: o.text("matcher", "*", maxMatcher)}
	if pattern, ok := m.pattern(); ok {
		o.pattern(pattern)
	}
	for i, item := range o.list("hooks") {
		if o.hooks++; o.hooks > MaxHooks {
			continue // they are counted only
		}
		if d, ok := o.object(item, at(o.loc, "hooks", i)); ok {
			m.Hooks = append(m.Hooks, d.definition())
		}
	}
	return m
}

// pattern checks a regular expression, and that all together stay small: each event
// compiles them.
func (o object) pattern(text string) {
	if o.program > maxProgram {
		return
	}
	re, err := syntax.Parse(text, syntax.Perl) // as package regexp does
	var prog *syntax.Prog
	if err == nil {
		prog, err = syntax.Compile(re.Simplify())
	}
	if err != nil {
		reason := strings.TrimPrefix(err.Error(), "error parsing regexp: ")
		o.fail(at(o.loc, "matcher"), "value_error", "It is not a regular expression (%s)", reason)
		return
	}
	if o.program += len(prog.Inst); o.program > maxProgram {
		o.fail(at(o.loc, "matcher"), "too_long", "The regular expressions of all matchers together are too large")
	}
}

func (o object) definition() Definition {
	// A Python client that writes its fields' own names says async_.
	if v, there := o.m["async_"]; there && o.m["async"] == nil {
		o.m["async"] = v
		delete(o.m, "async_")
	}
	o.only(definitionKey)
	d := Definition{
		Type: o.text("type", TypeCommand, MaxBytes), Name: o.text("name", "", MaxBytes),
		Command: o.text("command", "", MaxCommand), Prompt: o.text("prompt", "", MaxBytes),
		SystemPrompt: o.text("system_prompt", "", MaxBytes), Tools: o.tools(),
		Timeout:       o.number("timeout", defaultTimeout, MaxTimeout),
		MaxIterations: o.number("max_iterations", defaultIterations, MaxIterations),
		Async:         o.boolean("async"),
	}
	switch _, isText := o.m["type"].(string); {
	case isText && !slices.Contains(types, d.Type):
		o.fail(at(o.loc, "type"), "literal_error", "There is no type %q%s", clip(d.Type), suggest(d.Type, types))
	case d.Type == TypeCommand && strings.TrimSpace(d.Command) == "":
		o.missing("command", "A hook of this type needs a command")
	case slices.Contains([]string{TypePrompt, TypeAgent}, d.Type) && strings.TrimSpace(d.Prompt) == "":
		o.missing("prompt", "A hook of this type needs a prompt")
	}
	return d
}

// missing says that a text is not there, unless there is something else.
func (o object) missing(name, text string) {
	if _, ok := o.m[name].(string); ok || o.m[name] == nil {
		o.fail(at(o.loc, name), "missing", "%s", text)
	}
}

func (o object) tools() []string {
	out := []string{}
	items := o.list("tools")
	if len(items) > maxTools {
		o.fail(at(o.loc, "tools"), "too_long", "There are %d tools, more than the %d allowed", len(items), maxTools)
		return out
	}
	for i, item := range items {
		s, ok := item.(string)
		if !ok {
			o.fail(at(o.loc, "tools", i), "string_type", "It must be a text")
		}
		out = append(out, s)
	}
	return out
}
