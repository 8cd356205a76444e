package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
)

// maxCount bounds a token count; above it the endpoint's number is wrong.
const maxCount = 1e12

// Text reads a JSON string; anything else is "".
func Text(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// Number reads a finite number, also one written as a string.
func Number(raw json.RawMessage) (float64, bool) {
	s := strings.Trim(string(bytes.TrimSpace(raw)), `"`)
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, false
	}
	return n, true
}

// Count returns the first of the values that is a plausible count of tokens, 0
// if none is.
func Count(values ...json.RawMessage) int64 {
	for _, v := range values {
		if n, ok := Number(v); ok && n > 0 && n <= maxCount {
			return int64(n)
		}
	}
	return 0
}

// Object reads a JSON object; anything else is nil.
func Object(raw json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}

// IsObject reports whether b is exactly one JSON object.
func IsObject(b []byte) bool {
	b = bytes.TrimSpace(b)
	return len(b) > 1 && b[0] == '{' && json.Valid(b)
}

// IsNull reports whether a member is missing or null.
func IsNull(raw json.RawMessage) bool {
	b := bytes.TrimSpace(raw)
	return len(b) == 0 || string(b) == "null"
}

// IsError reports whether an error member says something.
func IsError(raw json.RawMessage) bool {
	s := string(bytes.TrimSpace(raw))
	return !IsNull(raw) && s != `""` && s != "{}" && s != "false"
}

// Lenient decodes JSON and leaves members of the wrong type empty. Errors are of
// the syntax only.
func Lenient(raw []byte, v any) error {
	var wrong *json.UnmarshalTypeError
	if err := json.Unmarshal(raw, v); err != nil && !errors.As(err, &wrong) {
		return err
	}
	return nil
}

// ArgumentText reads the arguments of a tool call, or a piece of them: a text, or
// the object itself, which some endpoints send; "" if there are none.
func ArgumentText(raw json.RawMessage) string {
	trimmed := bytes.TrimSpace(raw)
	switch {
	case IsNull(trimmed):
		return ""
	case trimmed[0] == '"':
		return Text(trimmed)
	}
	return string(trimmed)
}
