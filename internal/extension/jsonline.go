package extension

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"parley/internal/fault"
)

// lineOfError returns the line of a JSON file that an error is about, 0 if it is not
// known.
func lineOfError(data []byte, err error) int {
	var wrong *fault.Error
	if errors.As(err, &wrong) && len(wrong.Fields) > 0 && len(wrong.Fields[0].Loc) > 0 {
		return lineOf(data, wrong.Fields[0].Loc)
	}
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch err := json.Unmarshal(data, new(any)); {
	case len(data) == 0:
		return 0
	case errors.As(err, &syntax):
		return lineAt(data, syntax.Offset)
	}
	if errors.As(err, &typ) {
		return lineAt(data, typ.Offset)
	}
	return 0
}

func lineAt(data []byte, offset int64) int {
	return 1 + bytes.Count(data[:max(0, min(offset, int64(len(data))))], []byte("\n"))
}

// lineOf returns the line of the deepest value that a path of members and indexes
// leads to, 0 if it leads nowhere.
func lineOf(data []byte, loc []any) int {
	if len(data) == 0 || len(loc) == 0 {
		return 0
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	line := 0
	for _, step := range loc {
		at, ok := enter(dec, step)
		if !ok {
			break
		}
		line = lineAt(data, at)
	}
	return line
}

// enter goes to a member of the object, or an item of the list, that comes next, and
// returns where that is.
func enter(dec *json.Decoder, step any) (at int64, ok bool) {
	open, err := dec.Token()
	if err != nil || open != json.Delim('{') && open != json.Delim('[') {
		return 0, false
	}
	for i := 0; dec.More(); i++ {
		var here any = i
		if open == json.Delim('{') {
			if here, err = dec.Token(); err != nil {
				return 0, false
			}
		}
		if here == step {
			return dec.InputOffset(), true
		}
		if dec.Decode(new(json.RawMessage)) != nil {
			return 0, false
		}
	}
	return 0, false
}

// place writes what is wrong with a field, with its path but not with its value.
func place(f fault.Field) string {
	steps := make([]string, len(f.Loc))
	for i, step := range f.Loc {
		steps[i] = fmt.Sprint(step)
	}
	if len(steps) == 0 {
		return f.Msg
	}
	return strings.Join(steps, ".") + ": " + f.Msg
}
