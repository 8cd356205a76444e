package engine

import (
	"slices"

	"parley/internal/conversation"
	"parley/internal/llm"
)

// hide takes secrets out of what an endpoint chose and the log keeps as it is:
// the ids, the names of tools, and the fields that the provider wants back. Those
// are signed: with a mask in them they would be refused, and so they are dropped.
// Texts and arguments are masked with their events.
func hide(resp *llm.Response, m Masker) {
	if m.Mask(resp.ID) != resp.ID {
		resp.ID = conversation.NewEventID()
	}
	msg := &resp.Message
	for _, raw := range msg.Extra {
		if m.Mask(string(raw)) != string(raw) {
			msg.Extra = nil
			break
		}
	}
	msg.ToolCalls = slices.Clone(msg.ToolCalls)
	for i := range msg.ToolCalls {
		c := &msg.ToolCalls[i]
		c.Name = m.Mask(c.Name)
		if m.Mask(c.ID) != c.ID {
			c.ID = conversation.NewEventID()
		}
	}
}

// veil hands on what a model streams, with secrets masked also where they arrive
// in pieces: what may be the beginning of one waits for what follows.
type veil struct {
	masker        Masker
	send          func(text, reasoning string)
	text, thought string // what waits
}

func (v *veil) take(d llm.Delta) {
	v.hand(v.next(&v.text, d.Text), v.next(&v.thought, d.Reasoning))
}

// end hands on what waits: nothing follows.
func (v *veil) end() {
	v.hand(v.masker.Mask(v.text), v.masker.Mask(v.thought))
	v.text, v.thought = "", ""
}

// next returns what of waiting and piece can be shown now.
func (v *veil) next(waiting *string, piece string) string {
	if piece == "" {
		return ""
	}
	all := *waiting + piece
	cut := len(all) - v.masker.Hold(all)
	*waiting = all[cut:]
	return v.masker.Mask(all[:cut])
}

func (v *veil) hand(text, reasoning string) {
	if text != "" || reasoning != "" {
		v.send(text, reasoning)
	}
}
