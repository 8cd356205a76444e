package bedrock

import (
	"encoding/json"

	"parley/internal/content"
	"parley/internal/llm/wire"
)

// extraKey is the member of Message.Extra that holds the thinking of an answer
// and its place: a list of placed.
const extraKey = "content"

// placed is one block of an answer: a block of thinking as it came, the text
// part of that number, or the call of that id.
type placed struct {
	Reasoning json.RawMessage `json:"reasoningContent,omitempty"`
	Part      *int            `json:"part,omitempty"`
	Call      string          `json:"call,omitempty"`
}

// arrange puts the thinking of an answer back where it was among its texts and
// calls. Thinking of another model is refused, and left out; where texts or calls
// are not those of the answer any more, the thinking comes first.
func (h *history) arrange(msg *content.Message, texts, uses []block) []block {
	own, marked := wire.Own(msg.Extra, h.m.source)
	var layout []placed
	plain := append(texts[:len(texts):len(texts)], uses...)
	if !marked || h.refused.has(refusedReasoning) || json.Unmarshal(own[extraKey], &layout) != nil {
		return plain
	}
	var thoughts []block
	for _, p := range layout {
		if wire.IsObject(p.Reasoning) {
			thoughts = append(thoughts, block{Reasoning: p.Reasoning})
		}
	}
	if ordered, ok := h.inOrder(layout, texts, uses); ok {
		return ordered
	}
	return append(thoughts, plain...)
}

// inOrder follows the layout; ok is false if it does not name every text and call
// exactly once.
func (h *history) inOrder(layout []placed, texts, uses []block) (out []block, ok bool) {
	byID := map[string]block{}
	for _, u := range uses {
		byID[u.ToolUse.ID] = u
	}
	text := 0
	for _, p := range layout {
		switch {
		case wire.IsObject(p.Reasoning):
			out = append(out, block{Reasoning: p.Reasoning})
		case p.Part != nil:
			if text >= len(texts) || *p.Part != text {
				return nil, false
			}
			out = append(out, texts[text])
			text++
		default:
			u, found := byID[h.current[p.Call]]
			if !found {
				return nil, false
			}
			out = append(out, u)
			delete(byID, u.ToolUse.ID)
		}
	}
	return out, text == len(texts) && len(byID) == 0
}

// hasReasoning reports whether something would be sent back.
func hasReasoning(msgs []content.Message, source string) bool {
	for _, msg := range msgs {
		if own, marked := wire.Own(msg.Extra, source); marked && len(own[extraKey]) > 0 {
			return true
		}
	}
	return false
}
