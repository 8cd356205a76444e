package responses

import (
	"encoding/json"
	"slices"
	"strings"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/wire"
)

// maxItems bounds the items of one answer.
const maxItems = 1024

// item is an item of an answer being put together.
type item struct {
	index  *int // nil = it came without
	id     string
	kind   string
	name   string // of a call
	callID string
	args   []byte
	parts  []part // of a message: its texts; of a thought: its texts as they appeared
	raw    json.RawMessage
	done   bool
}

// part is one text of an item.
type part struct {
	number int // a thought's summary and content are numbered by summaryPart and contentPart
	text   []byte
}

func summaryPart(n int) int { return 2 * n }
func contentPart(n int) int { return 2*n + 1 }

// wireItem is an item as it comes.
type wireItem struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Content   []wireText      `json:"content"`
	Summary   []wireText      `json:"summary"`
}

type wireText struct {
	Text    string `json:"text"`
	Refusal string `json:"refusal"`
}

// readItem reads an item; ok is false for what is none.
func readItem(raw json.RawMessage) (w *wireItem, ok bool) {
	w = &wireItem{}
	return w, !wire.IsNull(raw) && wire.Lenient(raw, w) == nil && w.Type != ""
}

// describe takes over what a raw item says of itself.
func (it *item) describe(w *wireItem) {
	if w.ID != "" {
		it.id = w.ID
	}
	if w.Type != "" {
		it.kind = w.Type
	}
	if w.CallID != "" {
		it.callID = w.CallID
	}
	if name := strings.TrimSpace(w.Name); name != "" {
		it.name = name
	}
	it.setArguments(wire.ArgumentText(w.Arguments))
}

// setArguments replaces the arguments that came in pieces by the whole, which
// some endpoints leave empty.
func (it *item) setArguments(whole string) {
	if whole != "" {
		it.args = []byte(whole)
	}
}

// part returns the text with the number, a new one if there is none.
func (it *item) part(number int) *part {
	for i := range it.parts {
		if it.parts[i].number == number {
			return &it.parts[i]
		}
	}
	it.parts = append(it.parts, part{number: number})
	return &it.parts[len(it.parts)-1]
}

// says reports whether one of the texts is s.
func (it *item) says(s string) bool {
	return slices.ContainsFunc(it.parts, func(p part) bool { return string(p.text) == s })
}

// joined returns the texts that are not empty.
func (it *item) joined(sep string) string {
	var out []string
	for _, p := range it.parts {
		if len(p.text) > 0 {
			out = append(out, string(p.text))
		}
	}
	return strings.Join(out, sep)
}

// find returns the item that an event of a kind belongs to, nil if there is none:
// the last one with its number, as that is what endpoints keep constant, or with
// its id, or one that is not done.
func (a *answer) find(ev *event, id, kind string) *item {
	same := []func(*item) bool{
		func(it *item) bool { return ev.OutputIndex != nil && it.index != nil && *ev.OutputIndex == *it.index },
		func(it *item) bool { return ev.OutputIndex == nil && id != "" && it.id == id && !it.done },
		func(it *item) bool { return ev.OutputIndex == nil && id == "" && !it.done },
		func(it *item) bool { return ev.OutputIndex == nil && id != "" && it.id == id },
	}
	for _, matches := range same {
		for i := len(a.items) - 1; i >= 0; i-- {
			if it := a.items[i]; (it.kind == kind || kind == "") && matches(it) {
				return it
			}
		}
	}
	return nil
}

// add begins an item.
func (a *answer) add(index *int, id, kind string) (*item, error) {
	if len(a.items) >= maxItems {
		return nil, &llm.Error{Class: llm.ClassNetwork, Message: "the endpoint sent more items in one answer than any model makes"}
	}
	it := &item{index: index, id: id, kind: kind}
	a.items = append(a.items, it)
	return it, nil
}

// on does f with the item of an event; one that was not announced begins now.
func (a *answer) on(ev *event, kind string, f func(*item)) error {
	it := a.find(ev, ev.ItemID, kind)
	if it == nil {
		var err error
		if it, err = a.add(ev.OutputIndex, ev.ItemID, kind); err != nil {
			return err
		}
	}
	f(it)
	return nil
}

func (a *answer) begin(ev *event) error {
	w, ok := readItem(ev.Item)
	if !ok {
		return nil
	}
	it, err := a.add(ev.OutputIndex, w.ID, w.Type)
	if err != nil {
		return err
	}
	it.raw = ev.Item
	it.describe(w)
	return nil
}

func (a *answer) finishItem(ev *event) error {
	w, ok := readItem(ev.Item)
	if !ok {
		return nil
	}
	it := a.find(ev, w.ID, w.Type)
	if it == nil {
		var err error
		if it, err = a.add(ev.OutputIndex, w.ID, w.Type); err != nil {
			return err
		}
	}
	a.complete(it, ev.Item, w)
	return nil
}

// complete takes over a whole item. It wins over what came in pieces.
func (a *answer) complete(it *item, raw json.RawMessage, w *wireItem) {
	it.raw, it.done = raw, true
	it.describe(w)
	switch it.kind {
	case typeMessage:
		for i, c := range w.Content {
			a.sayAll(it, i, c.Text+c.Refusal)
		}
	case typeReasoning:
		for i, c := range w.Summary {
			a.thinkAll(it, summaryPart(i), c.Text)
		}
		for i, c := range w.Content {
			if !it.says(c.Text) { // some gateways repeat the summary as content
				a.thinkAll(it, contentPart(i), c.Text)
			}
		}
	}
}

// call returns a call with an id that is not taken.
func (it *item) call(taken map[string]bool) content.ToolCall {
	args := string(it.args)
	if strings.TrimSpace(args) == "" {
		args = "{}"
	}
	given := it.callID
	if given == "" {
		given = it.id
	}
	return content.ToolCall{ID: wire.FreshID(given, taken), Name: it.name, Arguments: args, Origin: origin}
}

// origin marks calls of this API (agent protocol 4.3).
const origin = "responses"

// keep returns what of the item goes back beside what the message has. callID is
// our id of a call.
func (it *item) keep(callID string) members {
	fields := wire.Object(it.raw)
	if fields == nil {
		fields = members{}
	}
	if _, ok := fields["id"]; !ok && it.id != "" {
		fields["id"] = encoded(it.id)
	}
	for name, v := range fields {
		if wire.IsNull(v) || name == "status" && it.ours() { // the API refuses its own status in a thought
			delete(fields, name)
		}
	}
	fields["type"] = encoded(it.kind)
	switch {
	case it.kind == typeMessage:
		return without(fields, "role", "content")
	case it.kind == typeCall:
		fields["call_id"] = encoded(callID)
		return without(fields, "name", "arguments")
	case it.kind == typeReasoning && !it.done:
		return gone()
	case it.kind == typeReasoning:
		return thought(fields)
	}
	if _, answered := fields["call_id"]; answered || !it.done { // a call of a tool that nobody here can answer
		return gone()
	}
	return fields
}

// ours reports whether this package knows the kind.
func (it *item) ours() bool {
	return it.kind == typeMessage || it.kind == typeCall || it.kind == typeReasoning
}

// thought gives a reasoning item the members that the API wants to see.
func thought(fields members) members {
	if _, ok := fields["summary"]; !ok {
		fields["summary"] = json.RawMessage("[]")
	}
	var open []json.RawMessage
	if json.Unmarshal(fields["content"], &open) == nil && len(open) == 0 {
		delete(fields, "content")
	}
	return fields
}

func gone() members { return members{"type": encoded(typeGone)} }

func without(m members, names ...string) members {
	for _, name := range names {
		delete(m, name)
	}
	return m
}

// encoded renders a string, which always works.
func encoded(s string) json.RawMessage {
	raw, err := content.Marshal(s)
	if err != nil {
		return json.RawMessage(`""`)
	}
	return raw
}
