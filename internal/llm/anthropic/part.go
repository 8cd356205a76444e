package anthropic

import (
	"bytes"
	"encoding/json"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/wire"
)

// Block types that only the provider writes.
const (
	typeThinking = "thinking"
	typeRedacted = "redacted_thinking"
)

// maxParts bounds the blocks of one answer.
const maxParts = 4096

// part is a content block being put together.
type part struct {
	index     int
	kind      string // of the types we read; others are ignored
	at        int    // typeText: where it begins in the answer's text
	id, name  string
	buf       []byte // the text, the thinking or the arguments
	signature []byte
	raw       json.RawMessage // typeRedacted, typeThinking: as it began
	began     string          // typeThinking: what it began with, until more came
	closed    bool
	callID    string // typeToolUse: as it goes into the history; "" = dropped
}

func errTooManyParts() *llm.Error {
	return &llm.Error{Class: llm.ClassNetwork, Message: "the answer has more blocks than any model makes"}
}

// part returns the block with this number, nil if none was begun.
func (a *answer) part(index int) *part {
	for i := len(a.parts) - 1; i >= 0; i-- {
		if a.parts[i].index == index {
			return a.parts[i]
		}
	}
	return nil
}

// wireBlock is a content block as it begins, or whole.
type wireBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
}

// start begins a block, with what it holds already.
func (a *answer) start(index int, raw json.RawMessage) error {
	var w wireBlock
	if err := wire.Lenient(raw, &w); err != nil {
		return wire.Broken("the endpoint sent a block that cannot be read", raw, err)
	}
	p, err := a.open(index, w.Type)
	if err != nil {
		return err
	}
	p.id, p.name = w.ID, w.Name
	switch p.kind {
	case typeText:
		a.grow(p, w.Text)
	case typeThinking:
		p.raw = bytes.Clone(raw)
		p.signature = append(p.signature, w.Signature...)
		p.began = w.Thinking
		a.grow(p, w.Thinking)
	case typeRedacted:
		p.raw = bytes.Clone(raw)
	case typeToolUse:
		p.raw = bytes.Clone(w.Input) // mostly {}: the arguments come in pieces
	}
	return nil
}

// open adds a block. Prose on both sides of something else is set apart.
func (a *answer) open(index int, kind string) (*part, error) {
	if len(a.parts) >= maxParts {
		return nil, errTooManyParts()
	}
	p := &part{index: index, kind: kind}
	var before *part
	if n := len(a.parts); n > 0 {
		before = a.parts[n-1]
	}
	a.parts = append(a.parts, p)
	switch {
	case kind == typeText && len(a.Text) > 0 && before.kind != typeText:
		a.Say("\n\n", "")
	case kind == typeThinking && len(a.Reasoning) > 0:
		a.Say("", "\n\n")
	}
	p.at = len(a.Text)
	return p, nil
}

// grow adds a piece of prose.
func (a *answer) grow(p *part, piece string) {
	p.buf = append(p.buf, piece...)
	if p.kind == typeText {
		a.Say(piece, "")
	} else {
		a.Say("", piece)
	}
}

// takeDelta adds a piece to a block, which some gateways do not announce.
func (a *answer) takeDelta(e *event) error {
	a.begun = true
	p := a.part(e.Index)
	if p == nil {
		kind := map[string]string{"text_delta": typeText, "thinking_delta": typeThinking}[e.Delta.Type]
		var err error
		if p, err = a.open(e.Index, kind); err != nil {
			return err
		}
	}
	switch {
	case e.Delta.Type == "text_delta" && p.kind == typeText:
		a.growLast(p, e.Delta.Text)
	case e.Delta.Type == "thinking_delta" && p.kind == typeThinking:
		if p.began == "" || p.began != e.Delta.Thinking { // some gateways send the first piece twice
			a.grow(p, e.Delta.Thinking)
		}
		p.began = ""
	case e.Delta.Type == "signature_delta" && p.kind == typeThinking:
		p.signature = append(p.signature, e.Delta.Signature...)
	case e.Delta.Type == "input_json_delta" && p.kind == typeToolUse:
		p.buf = append(p.buf, e.Delta.PartialJSON...)
	}
	return nil
}

// growLast adds text to the last text; text for an earlier one would lose its
// place, and counts as the last one's.
func (a *answer) growLast(p *part, piece string) {
	for i := len(a.parts) - 1; i >= 0; i-- {
		if a.parts[i].kind == typeText {
			p = a.parts[i]
			break
		}
	}
	a.grow(p, piece)
}

// calls returns the tool calls, under names as they were offered and ids that
// are new in the conversation.
func (a *answer) calls(req *llm.Request) []content.ToolCall {
	var out []content.ToolCall
	var taken map[string]bool
	for _, p := range a.parts {
		if p.kind != typeToolUse || (p.name == "" && len(p.arguments()) == 0) {
			continue
		}
		if taken == nil {
			taken = wire.TakenIDs(req)
		}
		args := string(p.arguments())
		if args == "" {
			args = "{}"
		}
		p.callID = wire.FreshID(p.id, taken)
		out = append(out, content.ToolCall{ID: p.callID, Name: offered(p.name, req.Tools), Arguments: args, Origin: wire.OriginCompletion})
	}
	return out
}

// arguments are the pieces, or else what the block began with.
func (p *part) arguments() []byte {
	if b := bytes.TrimSpace(p.buf); len(b) > 0 {
		return b
	}
	if b := bytes.TrimSpace(p.raw); wire.IsObject(b) && len(wire.Object(b)) > 0 {
		return b
	}
	return nil
}

// offered finds the tool's own name behind one that was made legal.
func offered(name string, tools []llm.Tool) string {
	for _, t := range tools {
		if t.Name == name {
			return name
		}
	}
	for _, t := range tools {
		if wire.LegalName(t.Name) == name {
			return t.Name
		}
	}
	return name
}

// extra is what goes back with the answer: nothing if it has no thinking.
func (a *answer) extra() map[string]json.RawMessage {
	var layout []any
	signed := false
	for _, p := range a.parts {
		switch {
		case p.kind == typeText && len(p.buf) > 0:
			layout = append(layout, place{Type: typeText, At: p.at, Len: len(p.buf)})
		case p.kind == typeToolUse && p.callID != "":
			layout = append(layout, place{Type: typeToolUse, ID: p.callID})
		case p.kind == typeThinking || p.kind == typeRedacted:
			if raw := p.thought(a.keepUnsigned); raw != nil {
				layout, signed = append(layout, raw), true
			}
		}
	}
	if !signed {
		return nil
	}
	raw, err := content.Marshal(layout)
	if err != nil { // what was decoded is encoded again
		return nil
	}
	return map[string]json.RawMessage{layoutField: raw}
}

// thought returns a thinking block as the provider would have written it whole;
// nil if it was cut off before its signature.
func (p *part) thought(keepUnsigned bool) json.RawMessage {
	if p.kind == typeRedacted {
		return p.raw
	}
	if len(p.signature) == 0 && !keepUnsigned {
		return nil
	}
	members := wire.Object(p.raw)
	if members == nil {
		members = map[string]json.RawMessage{}
	}
	for key, text := range map[string]string{"type": typeThinking, "thinking": string(p.buf), "signature": string(p.signature)} {
		raw, err := content.Marshal(text)
		if err != nil { // a string is always encoded
			return nil
		}
		members[key] = raw
	}
	raw, err := content.Marshal(members)
	if err != nil {
		return nil
	}
	return raw
}
