package gemini

import (
	"encoding/json"
	"strings"

	"parley/internal/content"
	"parley/internal/llm/wire"
)

// layoutKey is the member of Message.Extra that holds the layout of an answer.
const layoutKey = "parts"

// Kinds of places.
const (
	placeText    = "text"
	placeThought = "thought"
	placeCall    = "call"
)

// layout says of which parts an answer was made, in their order, and which of
// them were signed: a signature goes back with exactly its part. It holds
// lengths instead of texts, which the message has already; where the message
// was changed since, what still fits is used.
type layout []place

type place struct {
	Kind      string `json:"kind"`
	Len       int    `json:"len,omitempty"`  // of a text or thought, in bytes
	Call      string `json:"call,omitempty"` // the id of a call
	Signature string `json:"signature,omitempty"`
}

// say notes a piece of a text or a thought. Pieces that nobody signed are one
// part; a signed one stays apart, because its signature covers no other.
func (l *layout) say(kind string, length int, signature string) {
	if n := len(*l); n > 0 && signature == "" && (*l)[n-1].Kind == kind && (*l)[n-1].Signature == "" {
		(*l)[n-1].Len += length
		return
	}
	*l = append(*l, place{Kind: kind, Len: length, Signature: signature})
}

// signed reports whether there is something to be sent back.
func (l layout) signed() bool {
	for _, p := range l {
		if p.Signature != "" {
			return true
		}
	}
	return false
}

// extra is what a message keeps; nil if that is nothing.
func (l layout) extra(source string) map[string]json.RawMessage {
	if !l.signed() {
		return nil
	}
	raw, err := json.Marshal(l)
	if err != nil { // strings and numbers are always encoded
		return nil
	}
	return wire.Mark(map[string]json.RawMessage{layoutKey: raw}, source)
}

// layout reads the layout of a message that this model made; nil if there is none.
func (h *history) layout(msg content.Message) layout {
	own, marked := wire.Own(msg.Extra, h.model.source)
	if !marked || h.refused.has(refusedSignatures) {
		return nil
	}
	var l layout
	if json.Unmarshal(own[layoutKey], &l) != nil {
		return nil
	}
	return l
}

// parts renders a message by its layout. calls are the message's, rendered; those
// that the layout does not know come last.
func (l layout) parts(msg content.Message, calls []wirePart) []wirePart {
	said, thought := l.pieces(placeText, msg.Text()), l.pieces(placeThought, msg.Reasoning)
	var out []wirePart
	if rest := msg.Text(); said == nil && strings.TrimSpace(rest) != "" {
		out = append(out, text(rest))
	}
	visible := len(out) > 0
	used := make([]bool, len(calls))
	for i, p := range l {
		switch p.Kind {
		case placeText:
			// A text of spaces says nothing, but a signature may be on an empty one.
			if s := said[i]; said != nil && (strings.TrimSpace(s) != "" || p.Signature != "") {
				out = append(out, wirePart{Text: &s, Signature: p.Signature})
				visible = visible || strings.TrimSpace(s) != ""
			}
		case placeThought:
			if s := thought[i]; s != "" && p.Signature != "" {
				out = append(out, wirePart{Text: &s, Thought: true, Signature: p.Signature})
			}
		case placeCall:
			if c := callOf(p.Call, msg.ToolCalls, used); c >= 0 {
				used[c] = true
				calls[c].Signature = p.Signature
				out = append(out, calls[c])
			}
		}
	}
	if len(calls) == 0 && !visible {
		return nil // thoughts alone are no turn
	}
	for i, c := range calls {
		if !used[i] {
			out = append(out, c)
		}
	}
	return out
}

// pieces cuts s by the lengths of the places of a kind; nil if they do not fit.
func (l layout) pieces(kind, s string) map[int]string {
	out := map[int]string{}
	for i, p := range l {
		if p.Kind != kind {
			continue
		}
		if p.Len < 0 || p.Len > len(s) {
			return nil
		}
		out[i], s = s[:p.Len], s[p.Len:]
	}
	if s != "" {
		return nil
	}
	return out
}

func callOf(id string, calls []content.ToolCall, used []bool) int {
	for i, c := range calls {
		if c.ID == id && !used[i] {
			return i
		}
	}
	return -1
}
