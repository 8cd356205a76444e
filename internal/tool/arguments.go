package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// MaxArguments is how many bytes of arguments a call may have.
const MaxArguments = 4 << 20

// DecodeArguments reads the arguments of a call as models write them: text that
// is not JSON gets a second chance after its raw control characters are escaped,
// an object may come as a string, and anything but an object is an empty one.
// Numbers are json.Number. More than MaxArguments bytes are an error.
func DecodeArguments(args []byte) (map[string]any, error) {
	if len(args) > MaxArguments {
		return nil, fmt.Errorf("they have %d bytes, more than the %d allowed", len(args), MaxArguments)
	}
	if len(bytes.TrimSpace(args)) == 0 {
		return map[string]any{}, nil
	}
	value, err := decodeJSON(args)
	if err != nil {
		if value, err = decodeJSON(escapeControls(args)); err != nil {
			return nil, fmt.Errorf("they are not valid JSON (%w)", err)
		}
	}
	if text, ok := value.(string); ok {
		if inner, err := decodeJSON([]byte(text)); err == nil {
			value = inner
		}
	}
	if members, ok := value.(map[string]any); ok {
		return members, nil
	}
	return map[string]any{}, nil
}

// decodeJSON reads exactly one JSON value, numbers as json.Number.
func decodeJSON(text []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return nil, errors.New("the text ends too early")
		}
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is text after the value")
	}
	return value, nil
}

// escapeControls escapes raw control characters inside JSON strings.
func escapeControls(text []byte) []byte {
	var out bytes.Buffer
	inString, escaped := false, false
	for _, c := range text {
		if inString && c < 0x20 {
			if escaped { // a backslash before a raw newline: the newline was meant
				out.Truncate(out.Len() - 1)
			}
			fmt.Fprintf(&out, "\\u%04x", c)
			escaped = false
			continue
		}
		out.WriteByte(c)
		switch {
		case escaped:
			escaped = false
		case inString && c == '\\':
			escaped = true
		case c == '"':
			inString = !inString
		}
	}
	return out.Bytes()
}

// problem is one thing wrong with the arguments.
type problem struct {
	path  string
	rule  string // as in fault.Field.Type
	text  string
	input any
}

// coercion turns decoded arguments into what the schema wants and collects what
// is wrong with them.
type coercion struct{ problems []problem }

func (c *coercion) fail(path, rule string, input any, format string, args ...any) {
	c.problems = append(c.problems, problem{path, rule, fmt.Sprintf(format, args...), input})
}

// object coerces the members that n knows. Unknown and null members are dropped;
// absent ones get their default. The result keeps the order of n.
func (c *coercion) object(path string, n *node, in map[string]any) object {
	out := object{}
	for _, f := range n.fields {
		at := join(path, f.name)
		value, ok := in[f.name]
		if ok && !f.required && meansNothing(f.node, value) {
			ok = false
		}
		switch {
		case ok && value != nil:
			if coerced, fine := c.value(at, f.node, value); fine {
				out = append(out, member{f.name, coerced})
			}
		case f.required:
			c.fail(at, "missing", nil, "%q is required (%s)", at, describe(f.node))
		case f.def != nil:
			out = append(out, member{f.name, f.def})
		}
	}
	return out
}

// meansNothing tells that a model wrote an optional non-text member as a text
// that stands for "not given".
func meansNothing(n *node, value any) bool {
	text, ok := value.(string)
	if !ok || n.kind == typeString || n.kind == "" {
		return false
	}
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "", "null", "none":
		return true
	}
	return false
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func (c *coercion) value(path string, n *node, value any) (any, bool) {
	switch n.kind {
	case typeString:
		return c.text(path, n, value)
	case typeBoolean:
		return c.boolean(path, n, value)
	case typeInteger:
		return c.integer(path, n, value)
	case typeNumber:
		return c.number(path, n, value)
	case typeArray:
		return c.array(path, n, value)
	case typeObject:
		return c.nested(path, n, value)
	}
	return value, true
}

func (c *coercion) wrongType(path string, n *node, value any) (any, bool) {
	c.fail(path, n.kind+"_type", value, "%q must be %s, not %s", path, describe(n), show(value))
	return nil, false
}

func (c *coercion) text(path string, n *node, value any) (any, bool) {
	var text string
	switch v := value.(type) {
	case string:
		text = v
	case json.Number:
		text = v.String()
	case []any:
		joined, ok := joinTexts(v)
		if !ok {
			return c.wrongType(path, n, value)
		}
		text = joined
	default:
		return c.wrongType(path, n, value)
	}
	if n.enum != nil && !slices.Contains(n.enum, text) {
		if trimmed := strings.TrimSpace(text); slices.Contains(n.enum, trimmed) {
			return trimmed, true
		}
		c.fail(path, "enum", value, "%q must be one of %s, not %s", path, strings.Join(n.enum, ", "), show(value))
		return nil, false
	}
	return text, true
}

// joinTexts joins a list of texts that was meant as one text: lines, with or
// without their line ends.
func joinTexts(list []any) (string, bool) {
	texts := make([]string, len(list))
	separator := ""
	for i, e := range list {
		text, ok := e.(string)
		if !ok {
			return "", false
		}
		if i < len(list)-1 && !strings.HasSuffix(text, "\n") {
			separator = "\n"
		}
		texts[i] = text
	}
	return strings.Join(texts, separator), true
}

func (c *coercion) boolean(path string, n *node, value any) (any, bool) {
	switch v := value.(type) {
	case bool:
		return v, true
	case string:
		switch strings.ToLower(strings.TrimSpace(v)) {
		case "true":
			return true, true
		case "false":
			return false, true
		}
	}
	return c.wrongType(path, n, value)
}

func (c *coercion) integer(path string, n *node, value any) (any, bool) {
	number, ok := numberOf(value)
	if !ok || number != math.Trunc(number) || math.Abs(number) > 1<<53 {
		return c.wrongType(path, n, value)
	}
	if !c.inBounds(path, n, number) {
		return nil, false
	}
	return int64(number), true
}

func (c *coercion) number(path string, n *node, value any) (any, bool) {
	number, ok := numberOf(value)
	if !ok {
		return c.wrongType(path, n, value)
	}
	if !c.inBounds(path, n, number) {
		return nil, false
	}
	return number, true
}

func (c *coercion) inBounds(path string, n *node, number float64) bool {
	switch {
	case n.min != nil && number < *n.min:
		c.fail(path, "greater_than_equal", number, "%q must be at least %v", path, *n.min)
		return false
	case n.max != nil && number > *n.max:
		c.fail(path, "less_than_equal", number, "%q must be at most %v", path, *n.max)
		return false
	}
	return true
}

func numberOf(value any) (float64, bool) {
	var text string
	switch v := value.(type) {
	case json.Number:
		text = v.String()
	case string:
		text = strings.TrimSpace(v)
	default:
		return 0, false
	}
	number, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(number) || math.IsInf(number, 0) {
		return 0, false
	}
	return number, true
}

func (c *coercion) array(path string, n *node, value any) (any, bool) {
	list, ok := unstring(value).([]any)
	if !ok {
		return c.wrongType(path, n, value)
	}
	out := make([]any, 0, len(list))
	for i, e := range list {
		if coerced, ok := c.value(fmt.Sprintf("%s[%d]", path, i), n.items, e); ok {
			out = append(out, coerced)
		}
	}
	return out, true
}

func (c *coercion) nested(path string, n *node, value any) (any, bool) {
	in, ok := unstring(value).(map[string]any)
	if !ok {
		return c.wrongType(path, n, value)
	}
	if n.values == nil {
		return c.object(path, n, in), true
	}
	out := make(map[string]any, len(in))
	for key, e := range in {
		if e == nil {
			continue
		}
		if coerced, ok := c.value(join(path, key), n.values, e); ok {
			out[key] = coerced
		}
	}
	return out, true
}

// unstring parses a list or object that came as a string.
func unstring(value any) any {
	text, ok := value.(string)
	if !ok {
		return value
	}
	parsed, err := decodeJSON([]byte(text))
	if err != nil {
		return value
	}
	return parsed
}

// describe names what a node wants, with its article.
func describe(n *node) string {
	switch n.kind {
	case typeString:
		if n.enum != nil {
			return "one of " + strings.Join(n.enum, ", ")
		}
		return "a string"
	case typeBoolean:
		return "true or false"
	case typeInteger:
		return "an integer"
	case typeNumber:
		return "a number"
	case typeArray:
		return "a list"
	case typeObject:
		return "an object"
	}
	return "any value"
}

// show renders a wrong value shortly.
func show(value any) string {
	text, err := encodeJSON(value)
	if err != nil {
		return "that"
	}
	const most = 80
	if len(text) > most {
		return strings.ToValidUTF8(string(text[:most]), "") + "..."
	}
	return string(text)
}
