package responses

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/failure"
	"parley/internal/llm/wire"
)

// answer gathers what a model says.
type answer struct {
	wire.Listener

	id      string
	items   []*item
	ended   string // completed, incomplete or what the endpoint calls it; "" = not yet
	reason  string // why it is incomplete
	usage   json.RawMessage
	spoke   *item // the last message with a text
	thought bool  // there was a thought
}

func (a *answer) takeID(raw json.RawMessage) {
	var r result
	if a.id == "" && wire.Lenient(raw, &r) == nil {
		a.id = r.ID
	}
}

// takeWhole adds an answer that came as one document. Errors are *llm.Error.
func (a *answer) takeWhole(body []byte) error {
	var r result
	if err := wire.Lenient(body, &r); err != nil {
		return wire.Broken("the endpoint sent something that is not a response", body, err)
	}
	if wire.IsError(r.Error) {
		return failure.Payload([]byte(`{"error":` + string(r.Error) + `}`))
	}
	if r.Output == nil && r.Status == "" {
		return wire.Broken("the endpoint sent something that is not a response", body, nil)
	}
	return a.takeResult(r.Status, body)
}

// takeResult ends the answer. Errors are *llm.Error.
func (a *answer) takeResult(status string, raw json.RawMessage) error {
	var r result
	if !wire.IsNull(raw) {
		if err := wire.Lenient(raw, &r); err != nil {
			return wire.Broken("the endpoint sent something that is not a response", raw, err)
		}
	}
	switch {
	case wire.IsError(r.Error):
		return failure.Payload([]byte(`{"error":` + string(r.Error) + `}`))
	case status == "failed" || status == "cancelled":
		return &llm.Error{Class: llm.ClassOverloaded, Message: "the provider broke off the answer without a reason: " + status}
	case (status == "queued" || status == "in_progress") && len(r.Output) == 0:
		return &llm.Error{Class: llm.ClassNoResponse, Message: "the endpoint answered before the model did: " + status}
	}
	if r.ID != "" {
		a.id = r.ID
	}
	a.ended, a.reason, a.usage = status, r.Incomplete.Reason, r.Usage
	if a.ended == "" {
		a.ended = "completed"
	}
	return a.settle(r.Output)
}

// settle replaces what was gathered by the final items, which some endpoints
// leave out. Of what was gathered, an item is the same if it has the same id, or
// is the first of its kind.
func (a *answer) settle(output []json.RawMessage) error {
	if len(output) == 0 {
		return nil
	}
	left := slices.Clone(a.items)
	var final []*item
	for _, raw := range output {
		w, ok := readItem(raw)
		if !ok {
			continue
		}
		it := take(&left, w.Type, w.ID)
		if it == nil {
			if len(final) >= maxItems {
				break
			}
			it = &item{}
		}
		final = append(final, it)
		a.complete(it, raw, w)
	}
	a.items = final
	return nil
}

// take removes the first item of a kind, if possible one with the id.
func take(items *[]*item, kind, id string) *item {
	at := slices.IndexFunc(*items, func(it *item) bool { return it.kind == kind && it.id == id })
	if at < 0 {
		at = slices.IndexFunc(*items, func(it *item) bool { return it.kind == kind })
	}
	if at < 0 {
		return nil
	}
	it := (*items)[at]
	*items = slices.Delete(*items, at, at+1)
	return it
}

// say adds a piece of a text, on a line of its own if another message spoke.
func (a *answer) say(it *item, number int, piece string) {
	if piece == "" {
		return
	}
	p := it.part(number)
	p.text = append(p.text, piece...)
	if a.spoke != nil && a.spoke != it {
		piece = "\n" + piece // as content.JoinText joins them
	}
	a.spoke = it
	a.Tell(llm.Delta{Text: piece})
}

// sayAll takes over a whole text: what is not shown of it yet is said. A whole
// that is another text than the pieces wins, though they were shown.
func (a *answer) sayAll(it *item, number int, whole string) {
	p := it.part(number)
	switch {
	case whole == "":
	case bytes.HasPrefix([]byte(whole), p.text):
		a.say(it, number, whole[len(p.text):])
	default:
		p.text = []byte(whole)
	}
}

// paragraph is between two texts of thinking.
const paragraph = "\n\n"

func (a *answer) think(it *item, number int, piece string) {
	if piece == "" {
		return
	}
	p := it.part(number)
	begins := len(p.text) == 0
	p.text = append(p.text, piece...)
	if begins && a.thought {
		piece = paragraph + piece
	}
	a.thought = true
	a.Tell(llm.Delta{Reasoning: piece})
}

func (a *answer) thinkAll(it *item, number int, whole string) {
	p := it.part(number)
	switch {
	case whole == "":
	case bytes.HasPrefix([]byte(whole), p.text):
		a.think(it, number, whole[len(p.text):])
	default:
		p.text = []byte(whole)
	}
}

// response finishes the answer. Errors are *llm.Error.
func (m *Model) response(a *answer, req *llm.Request, h http.Header) (*llm.Response, error) {
	if len(a.items) == 0 {
		return nil, a.nothing()
	}
	msg, err := m.message(a.items, wire.TakenIDs(req))
	if err != nil {
		return nil, err
	}
	resp := &llm.Response{ID: wire.ResponseID(a.id), FinishReason: a.finish(len(msg.ToolCalls) > 0), Message: msg}
	if resp.FinishReason == "content_filter" && len(msg.Parts) == 0 && len(msg.ToolCalls) == 0 {
		return nil, a.nothing()
	}
	resp.Usage, resp.Cost, resp.Reported = m.account(a.usage, resp.ID, h)
	return resp, nil
}

// nothing is the error of an answer without content.
func (a *answer) nothing() *llm.Error {
	if a.finish(false) == "content_filter" {
		return &llm.Error{Class: llm.ClassContentPolicy, Message: "the provider's content filter stopped the answer"}
	}
	return &llm.Error{Class: llm.ClassNoResponse, Message: "the endpoint answered without an output (" + a.finish(false) + ")"}
}

// finish maps the status to the names of llm.Response.
func (a *answer) finish(hasCalls bool) string {
	if a.ended == "incomplete" {
		switch a.reason {
		case "max_output_tokens", "max_tokens":
			return "length"
		case "":
			return a.ended
		}
		return a.reason
	}
	if hasCalls {
		return "tool_calls"
	}
	return "stop"
}

// message makes the answer's message. Errors are *llm.Error.
func (m *Model) message(items []*item, taken map[string]bool) (content.Message, error) {
	msg := content.Message{Role: content.RoleAssistant}
	var thoughts []string
	var back []members
	for _, it := range items {
		callID := ""
		switch it.kind {
		case typeMessage:
			text := it.joined("")
			if text == "" {
				back = append(back, gone())
				continue
			}
			msg.Parts = append(msg.Parts, content.Text(text))
		case typeReasoning:
			if t := it.joined(paragraph); t != "" {
				thoughts = append(thoughts, t)
			}
		case typeCall:
			if it.name == "" && len(it.args) == 0 {
				back = append(back, gone())
				continue
			}
			call := it.call(taken)
			callID = call.ID
			msg.ToolCalls = append(msg.ToolCalls, call)
		}
		back = append(back, it.keep(callID))
	}
	msg.Reasoning = strings.Join(thoughts, paragraph)
	raw, err := content.Marshal(back)
	if err != nil {
		return msg, wire.Broken("the endpoint sent items that cannot be kept", nil, err)
	}
	msg.Extra = wire.Mark(map[string]json.RawMessage{keptKey: raw}, m.source)
	return msg, nil
}
