package bedrock

import (
	"encoding/json"
	"strconv"
	"strings"

	"parley/internal/content"
	"parley/internal/llm/wire"
)

// What stands in a history for something that the API demands and that is not
// there.
const (
	noOutput  = "(no output)"
	noResult  = "No result of this call is known."
	goOn      = "Continue."
	continued = "(continued)"
)

// history renders messages as the API takes them: user and assistant turns in
// alternation, beginning and ending with the user's, every tool call answered
// exactly once, in the next turn, before anything else in it.
type history struct {
	m       *Model
	names   *legal // of tools
	ids     *legal // of calls
	refused refusals

	current map[string]string // our id of the latest call with an id of the history
	used    map[string]bool   // ids of the history, made different from each other

	turns   []turn
	pending []string // calls of the last assistant turn that have no result yet
	results []block  // of the user turn being built
	said    []block  // what follows them
	images  []block  // of results, for models that take them outside only
}

func newHistory(m *Model, names *legal, refused refusals) *history {
	return &history{m: m, names: names, ids: newLegal(), refused: refused, current: map[string]string{}, used: map[string]bool{}}
}

func (h *history) encode(msgs []content.Message) []turn {
	for i := range msgs {
		msg := &msgs[i]
		switch msg.Role {
		case content.RoleAssistant:
			h.assistant(msg)
		case content.RoleTool:
			h.result(msg)
		default:
			h.said = append(h.said, h.parts(msg.Parts)...)
		}
	}
	h.closeUser()
	if n := len(h.turns); n == 0 || h.turns[n-1].Role != content.RoleUser {
		h.add(content.RoleUser, block{Text: goOn})
	}
	if h.refused.has(refusedMixed) {
		h.turns = separate(h.turns)
	}
	return h.turns
}

// text adds to the user turn being built.
func (h *history) text(s string, blocks ...block) {
	if strings.TrimSpace(s) != "" {
		blocks = append(blocks, block{Text: s})
	}
	h.said = append(h.said, blocks...)
}

// closeUser ends the user turn being built; calls without a result get one.
func (h *history) closeUser() {
	for _, id := range h.pending {
		r := &toolResult{ID: id, Content: []block{{Text: noResult}}}
		if h.m.family.richResults() {
			r.Status = "error"
		}
		h.results = append(h.results, block{ToolResult: r})
	}
	if len(h.images) > 0 {
		h.said = append(append([]block{{Text: "Images from the tool results above:"}}, h.images...), h.said...)
	}
	h.add(content.RoleUser, append(h.results, h.said...)...)
	h.pending, h.results, h.said, h.images = nil, nil, nil, nil
}

// add appends blocks to the turn of a role. No blocks are no turn.
func (h *history) add(role string, blocks ...block) {
	if len(blocks) == 0 {
		return
	}
	if len(h.turns) == 0 && role == content.RoleAssistant {
		h.turns = append(h.turns, turn{Role: content.RoleUser, Content: []block{{Text: goOn}}})
	}
	if n := len(h.turns); n > 0 && h.turns[n-1].Role == role {
		h.turns[n-1].Content = append(h.turns[n-1].Content, blocks...)
		return
	}
	h.turns = append(h.turns, turn{Role: role, Content: blocks})
}

// assistant adds an answer. One that says nothing and calls nothing is left out.
func (h *history) assistant(msg *content.Message) {
	var texts, uses []block
	for _, p := range msg.Parts {
		if p.Type != content.TypeImage && strings.TrimSpace(p.Text) != "" {
			texts = append(texts, block{Text: p.Text})
		}
	}
	if len(texts) == 0 && len(msg.ToolCalls) == 0 {
		return
	}
	h.closeUser()
	for _, c := range msg.ToolCalls {
		id := h.callID(c.ID)
		h.pending = append(h.pending, id)
		uses = append(uses, block{ToolUse: &toolUse{ID: id, Name: h.names.of(c.Name),
			Input: json.RawMessage(wire.LegalArguments(c.Arguments))}})
	}
	h.add(content.RoleAssistant, h.arrange(msg, texts, uses)...)
}

// callID gives a call an id that no other call of the request has.
func (h *history) callID(given string) string {
	spelling := given
	for n := 2; h.used[spelling]; n++ {
		spelling = given + "_" + strconv.Itoa(n)
	}
	h.used[spelling] = true
	h.current[given] = h.ids.of(spelling)
	return h.current[given]
}

// result adds a tool's result, or its text if no call waits for it.
func (h *history) result(msg *content.Message) {
	blocks := h.parts(msg.Parts)
	for i, waiting := range h.pending {
		if waiting != h.current[msg.ToolCallID] {
			continue
		}
		id := waiting
		h.pending = append(h.pending[:i:i], h.pending[i+1:]...)
		h.answer(id, blocks)
		return
	}
	h.text("Result of an earlier call of the tool "+wire.LegalName(msg.ToolName)+":", blocks...)
}

func (h *history) answer(id string, blocks []block) {
	r := &toolResult{ID: id}
	for _, b := range blocks {
		if b.Image != nil && !h.m.family.richResults() {
			h.images = append(h.images, b)
			continue
		}
		r.Content = append(r.Content, b)
	}
	if len(r.Content) == 0 {
		r.Content = []block{{Text: noOutput}}
	}
	h.results = append(h.results, block{ToolResult: r})
}

// parts renders texts and images; blank texts are refused and say nothing.
func (h *history) parts(parts []content.Part) []block {
	var out []block
	for _, p := range parts {
		switch {
		case p.Type != content.TypeImage:
			if strings.TrimSpace(p.Text) != "" {
				out = append(out, block{Text: p.Text})
			}
		case h.m.cfg.NoVision:
			out = append(out, block{Text: wire.NoImage})
		default:
			for _, u := range p.ImageURLs {
				out = append(out, imageBlock(u))
			}
		}
	}
	return out
}

// openLoop reports whether the last answer called tools and has no thinking with
// it: a model that is told to think refuses to go on from there.
func (h *history) openLoop() bool {
	for i := len(h.turns) - 1; i >= 0; i-- {
		if h.turns[i].Role != content.RoleAssistant {
			continue
		}
		for _, b := range h.turns[i].Content {
			if b.ToolUse != nil {
				return h.turns[i].Content[0].Reasoning == nil
			}
		}
		return false
	}
	return false
}

// separate parts turns that hold tool blocks and others, for models that refuse
// that: the results come before what the user says, the text before the calls.
func separate(turns []turn) []turn {
	var out []turn
	for _, t := range turns {
		var tools, rest []block
		for _, b := range t.Content {
			if b.ToolUse != nil || b.ToolResult != nil {
				tools = append(tools, b)
			} else {
				rest = append(rest, b)
			}
		}
		switch {
		case len(tools) == 0 || len(rest) == 0:
			out = append(out, t)
		case t.Role == content.RoleUser:
			out = append(out, turn{t.Role, tools}, turn{content.RoleAssistant, []block{{Text: continued}}}, turn{t.Role, rest})
		default:
			out = append(out, turn{t.Role, rest}, turn{content.RoleUser, []block{{Text: goOn}}}, turn{t.Role, tools})
		}
	}
	return out
}
