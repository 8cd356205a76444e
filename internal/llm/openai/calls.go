package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"parley/internal/llm/wire"
)

// maxCalls bounds the tool calls of one answer.
const maxCalls = 256

var errTooManyCalls = errors.New("more tool calls in one answer than any model makes")

// call is a tool call being put together.
type call struct {
	ID    string // as it goes into the history: unique there
	given string // the endpoint's id
	index int    // -1 = it came without
	name  string
	args  []byte
	extra extras
}

// callDelta is a tool call, or a piece of one, as it came.
type callDelta struct {
	id    string
	index int // -1 = none
	name  string
	args  string
	extra map[string]json.RawMessage
}

// UnmarshalJSON reads a tool call leniently: any member may be missing, null or
// of another type; arguments may be an object.
func (d *callDelta) UnmarshalJSON(b []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		return err
	}
	d.id, d.index = wire.Text(members["id"]), -1
	if n, ok := wire.Number(members["index"]); ok && n >= 0 && n < 1e6 {
		d.index = int(n)
	}
	var function map[string]json.RawMessage
	if json.Unmarshal(members["function"], &function) == nil {
		d.name = strings.TrimSpace(wire.Text(function["name"]))
		d.args = wire.ArgumentText(function["arguments"])
	}
	for key, raw := range members {
		if !isKnownInCall(key) {
			if d.extra == nil {
				d.extra = map[string]json.RawMessage{}
			}
			d.extra[key] = raw
		}
	}
	return nil
}

// assembler puts tool calls together from pieces.
type assembler struct{ calls []*call }

// add takes a piece. Which call it belongs to is said by the index where
// endpoints number calls, by the id where they do not, and otherwise by what
// came before: some send index 0 for all calls, some no index, some no id.
func (a *assembler) add(d callDelta) error {
	c := a.find(d)
	if c == nil {
		if len(a.calls) >= maxCalls {
			return errTooManyCalls
		}
		c = &call{index: d.index}
		a.calls = append(a.calls, c)
	}
	c.take(d)
	return nil
}

// addWhole takes a complete call.
func (a *assembler) addWhole(d callDelta) error {
	if len(a.calls) >= maxCalls {
		return errTooManyCalls
	}
	c := &call{index: d.index}
	a.calls = append(a.calls, c)
	c.take(d)
	return nil
}

// find returns the call that d continues, nil if d begins one.
func (a *assembler) find(d callDelta) *call {
	for i := len(a.calls) - 1; i >= 0; i-- {
		c := a.calls[i]
		switch {
		case d.index >= 0 && c.index >= 0:
			if c.index != d.index {
				continue
			}
		case d.id != "" && c.given != "":
			if c.given != d.id {
				continue
			}
		}
		if c.begins(d) {
			return nil
		}
		return c
	}
	if n := len(a.calls); n > 0 && d.index < 0 && d.name == "" {
		return a.calls[n-1] // an id that changes with every piece
	}
	return nil
}

// begins reports whether d, though numbered like c or not numbered, is another
// call: it has a name, and c is complete or d has another id.
func (c *call) begins(d callDelta) bool {
	if d.name == "" {
		return false
	}
	complete := wire.IsObject(c.args)
	switch {
	case d.id != "" && c.given != "" && d.id != c.given:
		return complete || len(c.args) == 0
	case d.id != "" && c.given != "": // one id for two calls, or the same call once more
		return complete && string(c.args) != "{}" && wire.IsObject([]byte(d.args)) && (d.args != string(c.args) || d.name != c.name)
	}
	if complete {
		return d.index < 0 || d.args != string(c.args) || d.name != c.name // else the whole call once more
	}
	return d.index < 0 && c.name != "" && (len(c.args) == 0 || d.name != c.name)
}

func (c *call) take(d callDelta) {
	if c.given == "" {
		c.given = d.id
	}
	switch {
	case c.name == "":
		c.name = d.name
	case d.name != c.name && len(c.args) == 0:
		c.name += d.name // a name in pieces
	}
	c.takeArgs(d.args)
	for key, raw := range d.extra {
		c.extra.add(key, raw)
	}
}

// takeArgs appends a piece of arguments, except where endpoints repeat the
// whole at the end or begin with an empty object that is replaced.
func (c *call) takeArgs(piece string) {
	switch {
	case piece == "":
	case len(piece) == len(c.args) && piece == string(c.args) && wire.IsObject(c.args):
	case string(c.args) == "{}" && strings.HasPrefix(piece, "{"):
		c.args = []byte(piece)
	default:
		c.args = append(c.args, piece...)
	}
}

// finish drops pieces without a name and arguments, and gives every call an id
// that is unique in the answer and not in taken, the ids of the history.
func (a *assembler) finish(taken map[string]bool) []*call {
	var out []*call
	for _, c := range a.calls {
		if c.name == "" && len(c.args) == 0 {
			continue
		}
		if len(bytes.TrimSpace(c.args)) == 0 {
			c.args = []byte("{}")
		}
		c.ID = wire.FreshID(c.given, taken)
		out = append(out, c)
	}
	return out
}
