package anthropic

import (
	"crypto/sha256"
	"encoding/json"
	"sync"

	"parley/internal/content"
	"parley/internal/llm/wire"
)

// layoutField is the member of Message.Extra that holds the layout of an answer
// that has thinking: a list of its blocks in order. Thinking blocks are there as
// they came. Of texts and calls, which the message itself holds, there is only
// the place: a text's bytes in the message's text, a call's id.
const layoutField = "content"

// place is one entry of a layout that is not a thinking block.
type place struct {
	Type string `json:"type"` // typeText or typeToolUse
	At   int    `json:"at,omitempty"`
	Len  int    `json:"len,omitempty"`
	ID   string `json:"id,omitempty"`
}

// layoutKey identifies a layout.
type layoutKey [16]byte

func keyOf(raw json.RawMessage) layoutKey {
	sum := sha256.Sum256(raw)
	return layoutKey(sum[:16])
}

// answer renders an assistant's message, with its thinking in place if this
// model made it.
func (h *history) answer(t *turn, msg content.Message) []*block {
	layout := h.layout(msg)
	if layout == nil {
		return h.plain(t, msg)
	}
	r := replay{h: h, turn: t, msg: msg, text: msg.Text(), calls: map[string]content.ToolCall{}}
	for _, c := range msg.ToolCalls {
		r.calls[c.ID] = c
	}
	r.whole = textLen(layout) != len(r.text)
	for _, raw := range layout {
		r.add(raw)
	}
	return r.end()
}

// plain renders text and calls alone.
func (h *history) plain(t *turn, msg content.Message) []*block {
	var out []*block
	if text := msg.Text(); !isBlank(text) {
		out = append(out, textBlock(text))
	}
	for _, c := range msg.ToolCalls {
		out = append(out, h.toolUse(t, c))
	}
	return out
}

// layout returns the layout of an answer, nil if there is none to use.
func (h *history) layout(msg content.Message) []json.RawMessage {
	own, marked := wire.Own(msg.Extra, h.m.source)
	raw := own[layoutField]
	if h.bare || !marked || len(raw) == 0 {
		return nil
	}
	key := keyOf(raw)
	var list []json.RawMessage
	if h.m.graves.has(key) || json.Unmarshal(raw, &list) != nil {
		return nil
	}
	h.layouts = append(h.layouts, key)
	return list
}

// textLen is how long the message's text was when the layout was written.
func textLen(layout []json.RawMessage) int {
	n := 0
	for _, raw := range layout {
		if p, ok := placeOf(raw); ok && p.Type == typeText {
			n = max(n, p.At+p.Len)
		}
	}
	return n
}

// placeOf reads an entry; ok is false for a thinking block.
func placeOf(raw json.RawMessage) (p place, ok bool) {
	if json.Unmarshal(raw, &p) != nil {
		return place{}, false
	}
	return p, p.Type == typeText || p.Type == typeToolUse
}

// replay puts an answer together again.
type replay struct {
	h     *history
	turn  *turn
	msg   content.Message
	text  string
	whole bool // the text was changed since: it goes where the first was
	calls map[string]content.ToolCall
	out   []*block
	cut   bool // a call was dropped: thinking behind it has lost its place
}

func (r *replay) add(raw json.RawMessage) {
	p, ok := placeOf(raw)
	switch {
	case !ok:
		if !r.cut && wire.IsObject(raw) {
			r.out = append(r.out, &block{Type: wire.Text(wire.Object(raw)["type"]), raw: raw})
		}
	case p.Type == typeText:
		r.addText(p)
	default:
		c, there := r.calls[p.ID]
		if !there {
			r.cut = true
			return
		}
		delete(r.calls, p.ID)
		r.out = append(r.out, r.h.toolUse(r.turn, c))
	}
}

func (r *replay) addText(p place) {
	text := r.text
	switch {
	case r.whole:
		r.text = ""
	case p.At < 0 || p.Len < 0 || p.At+p.Len > len(text):
		return
	default:
		text = text[p.At : p.At+p.Len]
	}
	if !isBlank(text) {
		r.out = append(r.out, textBlock(text))
	}
}

// end adds what the layout does not know of.
func (r *replay) end() []*block {
	if r.whole && !isBlank(r.text) {
		r.out = append(r.out, textBlock(r.text))
	}
	for _, c := range r.msg.ToolCalls {
		if _, left := r.calls[c.ID]; left {
			delete(r.calls, c.ID)
			r.out = append(r.out, r.h.toolUse(r.turn, c))
		}
	}
	return r.out
}

// maxGraves bounds how many layouts are remembered; with more, all are forgotten
// and an endpoint that still minds refuses once more.
const maxGraves = 4096

// graves remembers the layouts whose thinking the endpoint refused: a signature
// holds for the history before it, which condensing changes. Thinking that is
// made later holds for the history without them.
type graves struct {
	mu   sync.Mutex
	keys map[layoutKey]bool
}

func (g *graves) has(k layoutKey) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.keys[k]
}

func (g *graves) add(keys []layoutKey) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.keys == nil || len(g.keys) > maxGraves {
		g.keys = map[layoutKey]bool{}
	}
	for _, k := range keys {
		g.keys[k] = true
	}
}
