package httpkit

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"parley/internal/fault"
)

func (c *checker) scalar(s *Schema, typ string, v any, loc []any) any {
	switch typ {
	case "string":
		return c.text(s, v, loc)
	case "integer":
		return c.integer(s, v, loc)
	case "number":
		return c.float(s, v, loc)
	}
	return c.boolean(v, loc)
}

func (c *checker) text(s *Schema, v any, loc []any) any {
	text, ok := v.(string)
	switch {
	case !ok && s.format == "uuid":
		c.fail(loc, "uuid_type", "UUID input should be a string, bytes or UUID object", v, nil)
		return nil
	case !ok:
		c.fail(loc, "string_type", "Input should be a valid string", v, nil)
		return nil
	}
	c.textFormat(s, text, loc)
	n := utf8.RuneCountInString(text)
	if s.minLength != nil && n < *s.minLength {
		c.fail(loc, "string_too_short", fmt.Sprintf("String should have at least %s", characters(*s.minLength)),
			v, map[string]any{"min_length": *s.minLength})
	}
	if s.maxLength != nil && n > *s.maxLength {
		c.fail(loc, "string_too_long", fmt.Sprintf("String should have at most %s", characters(*s.maxLength)),
			v, map[string]any{"max_length": *s.maxLength})
	}
	if s.pattern != nil && !s.pattern.MatchString(text) {
		c.mismatch(loc, s.pattern.String(), text)
	}
	return text
}

const (
	whyNoUUID = "expected 32 hexadecimal digits, with or without dashes"
	badUUID   = "Input should be a valid UUID, " + whyNoUUID
)

// BadUUID makes the fault of a text that is no UUID where one is due: a 422.
func BadUUID(text string, loc ...any) error {
	return InvalidFields(fault.Field{Loc: loc, Type: "uuid_parsing", Msg: badUUID,
		Input: redactAt(loc, text), Ctx: map[string]any{"error": whyNoUUID}})
}

func characters(n int) string {
	if n == 1 {
		return "1 character"
	}
	return fmt.Sprintf("%d characters", n)
}

func (c *checker) textFormat(s *Schema, text string, loc []any) {
	switch s.format {
	case "uuid":
		if _, err := uuid.Parse(text); err != nil || (len(text) != 32 && len(text) != 36) {
			c.fail(loc, "uuid_parsing", badUUID, text, map[string]any{"error": whyNoUUID})
		}
	case "date-time":
		if _, _, err := ParseTime(text); err != nil {
			const why = "expected ISO 8601"
			c.fail(loc, "datetime_from_date_parsing", "Input should be a valid datetime or date, "+why,
				text, map[string]any{"error": why})
		}
	}
}

func (c *checker) integer(s *Schema, v any, loc []any) any {
	var n int64
	var typ, msg string
	switch x := v.(type) {
	case bool:
		c.coerced = true
		if x {
			n = 1
		}
	case json.Number:
		n, typ, msg = wholeNumber(x.String())
	case string:
		c.coerced = true
		n, typ, msg = wholeText(x)
	default:
		typ, msg = "int_type", "Input should be a valid integer"
	}
	if typ != "" {
		c.fail(loc, typ, msg, v, nil)
		return nil
	}
	c.bounds(s, float64(n), v, loc)
	return n
}

const intSize = "Unable to parse input string as an integer, exceeded maximum size"

func wholeNumber(text string) (int64, string, string) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, "", ""
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.Abs(f) >= 1<<63:
		return 0, "int_parsing_size", intSize
	case f != math.Trunc(f):
		return 0, "int_from_float", "Input should be a valid integer, got a number with a fractional part"
	}
	return int64(f), "", ""
}

func wholeText(text string) (int64, string, string) {
	text = strings.TrimSpace(text)
	if whole, zeros, ok := strings.Cut(text, "."); ok && strings.Trim(zeros, "0") == "" {
		text = whole
	}
	n, err := strconv.ParseInt(strings.TrimPrefix(text, "+"), 10, 64)
	switch {
	case err == nil:
		return n, "", ""
	case strings.Contains(err.Error(), "out of range"):
		return 0, "int_parsing_size", intSize
	}
	return 0, "int_parsing", "Input should be a valid integer, unable to parse string as an integer"
}

func (c *checker) float(s *Schema, v any, loc []any) any {
	var f float64
	var err error
	switch x := v.(type) {
	case bool:
		c.coerced = true
		if x {
			f = 1
		}
	case json.Number:
		f, err = x.Float64()
	case string:
		c.coerced = true
		f, err = strconv.ParseFloat(strings.TrimSpace(x), 64)
	default:
		c.fail(loc, "float_type", "Input should be a valid number", v, nil)
		return nil
	}
	switch {
	case math.IsInf(f, 0) || math.IsNaN(f):
		c.fail(loc, "finite_number", "Input should be a finite number", v, nil)
		return nil
	case err != nil:
		c.fail(loc, "float_parsing", "Input should be a valid number, unable to parse string as a number", v, nil)
		return nil
	}
	c.bounds(s, f, v, loc)
	return f
}

func (c *checker) bounds(s *Schema, f float64, input any, loc []any) {
	rules := []struct {
		bound          *float64
		ok             func(float64) bool
		typ, msg, name string
	}{
		{s.above, func(b float64) bool { return f > b }, "greater_than", "greater than", "gt"},
		{s.minimum, func(b float64) bool { return f >= b }, "greater_than_equal", "greater than or equal to", "ge"},
		{s.below, func(b float64) bool { return f < b }, "less_than", "less than", "lt"},
		{s.maximum, func(b float64) bool { return f <= b }, "less_than_equal", "less than or equal to", "le"},
	}
	for _, r := range rules {
		if r.bound != nil && !r.ok(*r.bound) {
			c.fail(loc, r.typ, fmt.Sprintf("Input should be %s %v", r.msg, *r.bound), input,
				map[string]any{r.name: *r.bound})
		}
	}
}

var booleans = map[string]bool{"true": true, "1": true, "yes": true, "on": true, "t": true, "y": true,
	"false": false, "0": false, "no": false, "off": false, "f": false, "n": false}

func (c *checker) boolean(v any, loc []any) any {
	var text string
	switch x := v.(type) {
	case bool:
		return x
	case string:
		text = strings.ToLower(x)
	case json.Number:
		if f, err := x.Float64(); err == nil {
			text = strconv.FormatFloat(f, 'f', -1, 64)
		}
	default:
		c.fail(loc, "bool_type", "Input should be a valid boolean", v, nil)
		return nil
	}
	c.coerced = true
	b, ok := booleans[text]
	if !ok {
		c.fail(loc, "bool_parsing", "Input should be a valid boolean, unable to interpret input", v, nil)
		return nil
	}
	return b
}

// ParseTime reads a time of a request: RFC 3339, or ISO 8601 without an offset
// (naive, taken as UTC), with T or a space, down to a bare date. A "+" of an
// offset that was not escaped in a query arrives as a space and is understood.
func ParseTime(text string) (t time.Time, naive bool, err error) {
	if n := len(text); n > 19 && text[n-6] == ' ' && text[n-3] == ':' {
		text = text[:n-6] + "+" + text[n-5:]
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04Z07:00",
		"2006-01-02T15:04:05.999999999Z0700"} {
		if t, err = time.Parse(layout, text); err == nil {
			return t.UTC(), false, nil
		}
	}
	for _, layout := range []string{"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999",
		"2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err = time.Parse(layout, text); err == nil {
			return t, true, nil
		}
	}
	return time.Time{}, false, fmt.Errorf("%q is no ISO 8601 time", clip(text))
}

// FormatTime renders a time of the application: RFC 3339 in UTC with Z, with
// microseconds when they are not zero.
func FormatTime(t time.Time) string {
	t = t.UTC().Truncate(time.Microsecond)
	if t.Nanosecond() == 0 {
		return t.Format("2006-01-02T15:04:05Z")
	}
	return t.Format("2006-01-02T15:04:05.000000Z")
}
