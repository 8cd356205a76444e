package wire

import (
	"bytes"
	"encoding/json"
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
