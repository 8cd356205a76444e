package gemini

import (
	"bytes"
	"encoding/json"
	"errors"

	"parley/internal/content"
	"parley/internal/llm/wire"
)

// answerCall is a call on the wire: mostly whole, with or without an id. A call in
// pieces begins with a name and goes on in nameless ones until one says that
// nothing follows.
type answerCall struct {
	ID      string          `json:"id"`
	Name    string          `json:"name"`
	Args    json.RawMessage `json:"args"`
	Partial []partialArg    `json:"partialArgs"`
	More    bool            `json:"willContinue"`
}

// call is a call as the answer has it.
type call struct {
	given string // the id the API gave
	name  string
	args  json.RawMessage
	tree  any // of pieces
	place int // in the layout
}

// calls gathers the calls of an answer.
type calls struct {
	all  []*call
	open bool // the last one goes on
}

var errManyCalls = errors.New("the answer has more than 1,000 tool calls")

// maxCalls bounds the calls of an answer.
const maxCalls = 1000

// add takes a call or a piece of one. begins reports that it is a new one.
func (c *calls) add(a *answerCall) (begins bool, err error) {
	if !c.open || a.Name != "" {
		if a.Name == "" && wire.IsNull(a.Args) && len(a.Partial) == 0 {
			return false, nil // the end of a call that was not in pieces
		}
		if len(c.all) == maxCalls {
			return false, errManyCalls
		}
		c.all = append(c.all, &call{given: a.ID, name: a.Name})
		begins = true
	}
	last := c.all[len(c.all)-1]
	if last.given == "" {
		last.given = a.ID
	}
	if !wire.IsNull(a.Args) {
		last.args = a.Args
	}
	for i := range a.Partial {
		if last.tree, err = a.Partial[i].put(last.tree); err != nil {
			return begins, err
		}
	}
	c.open = a.More
	return begins, nil
}

// content returns a call under an id of its own.
func (c *call) content(id string, names *nameMap) content.ToolCall {
	name := names.fromAPI(c.name)
	if name == "" {
		name = "unknown"
	}
	return content.ToolCall{ID: id, Name: name, Arguments: c.arguments(), Origin: wire.OriginCompletion}
}

// arguments are JSON text, whatever came.
func (c *call) arguments() string {
	if c.tree != nil || wire.IsNull(c.args) {
		return argumentsOf(c.tree)
	}
	if s := wire.Text(c.args); s != "" { // some gateways send the text of them
		return s
	}
	var b bytes.Buffer
	if json.Compact(&b, c.args) != nil {
		return string(c.args)
	}
	return b.String()
}
