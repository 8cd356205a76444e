package gemini

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"parley/internal/content"
	"parley/internal/llm/wire"
)

// partialArg is a piece of a call's arguments. Vertex AI sends them where a
// request asks for it; we do not, but a user's own request fields may.
type partialArg struct {
	Path   string          `json:"jsonPath"`
	String *string         `json:"stringValue"`
	Number json.RawMessage `json:"numberValue"`
	Bool   *bool           `json:"boolValue"`
	Null   json.RawMessage `json:"nullValue"`
}

var errPath = errors.New("a piece of the arguments has a place that cannot be read")

// Bounds of a place within arguments.
const (
	maxPath = 64
	maxGap  = 32 // items of a list that are still to come
)

// put adds a piece to the arguments in root, and returns them. A text continues
// what is at its place.
func (p *partialArg) put(root any) (any, error) {
	steps, err := pathOf(p.Path)
	if err != nil {
		return nil, err
	}
	return putAt(root, steps, p.value())
}

func (p *partialArg) value() any {
	n, isNumber := wire.Number(p.Number)
	switch {
	case p.String != nil:
		return *p.String
	case p.Bool != nil:
		return *p.Bool
	case isNumber && json.Valid(bytes.Trim(p.Number, `"`)):
		return json.Number(strconv.FormatFloat(n, 'g', -1, 64))
	}
	return nil
}

// putAt returns at with value in it; each step is a string or an int.
func putAt(at any, steps []any, value any) (any, error) {
	if len(steps) == 0 {
		before, _ := at.(string)
		if more, ok := value.(string); ok {
			return before + more, nil
		}
		return value, nil
	}
	switch step := steps[0].(type) {
	case string:
		o, ok := at.(map[string]any)
		if !ok {
			o = map[string]any{}
		}
		v, err := putAt(o[step], steps[1:], value)
		o[step] = v
		return o, err
	case int:
		l, _ := at.([]any)
		if step > len(l)+maxGap {
			return nil, errPath
		}
		for len(l) <= step {
			l = append(l, nil)
		}
		v, err := putAt(l[step], steps[1:], value)
		l[step] = v
		return l, err
	}
	return nil, errPath
}

// pathOf reads the part of JSONPath that names one place: $.a['b c'][0].
func pathOf(path string) ([]any, error) {
	rest, ok := strings.CutPrefix(path, "$")
	if !ok {
		return nil, errPath
	}
	var steps []any
	for rest != "" {
		var step any
		var err error
		if step, rest, err = stepOf(rest); err != nil || len(steps) >= maxPath {
			return nil, errPath
		}
		steps = append(steps, step)
	}
	return steps, nil
}

func stepOf(path string) (step any, rest string, err error) {
	if name, ok := strings.CutPrefix(path, "."); ok {
		end := strings.IndexAny(name, ".[")
		if end < 0 {
			end = len(name)
		}
		if end == 0 {
			return nil, "", errPath
		}
		return name[:end], name[end:], nil
	}
	inner, ok := strings.CutPrefix(path, "[")
	if !ok || inner == "" {
		return nil, "", errPath
	}
	if quote := inner[:1]; quote == "'" || quote == `"` {
		name, after, found := strings.Cut(inner[1:], quote+"]")
		if !found {
			return nil, "", errPath
		}
		return name, after, nil
	}
	number, after, found := strings.Cut(inner, "]")
	i, err := strconv.Atoi(number)
	if !found || err != nil || i < 0 {
		return nil, "", errPath
	}
	return i, after, nil
}

// argumentsOf writes what the pieces became.
func argumentsOf(root any) string {
	if root == nil {
		return "{}"
	}
	raw, err := content.Marshal(root)
	if err != nil {
		return "{}"
	}
	return string(raw)
}
