package anthropic

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"

	"parley/internal/content"
	"parley/internal/lazyre"
	"parley/internal/llm/wire"
)

const (
	roleUser      = "user"
	roleAssistant = "assistant"
)

// What the model reads where the API demands something and the history has
// nothing.
const (
	noteBegin    = "(The beginning of the conversation is not shown.)"
	noteContinue = "Continue."
	noteNoResult = "No result is known for this call."
	noteNoOutput = "(no output)"
	noteOrphan   = "Result of an earlier tool call:"
)

// turn is a message of the request: roles alternate.
type turn struct {
	role   string
	blocks []*block
	calls  []*call // of an assistant's turn, in order
}

// call is a tool call of the history and its result.
type call struct {
	id     string // as in the history
	wireID string
	result *block
}

// history is the conversation as the API wants it.
type history struct {
	m       *Model
	bare    bool
	system  []*block
	turns   []*turn
	ids     map[string]bool // on the wire
	used    []string        // names of the tools called
	layouts []layoutKey
}

// history arranges the messages: system first, roles in alternation beginning
// and ending with the user, every call with exactly one result, all results of a
// turn at the head of the next.
func (m *Model) history(msgs []content.Message, bare bool) *history {
	h := &history{m: m, bare: bare, ids: map[string]bool{}}
	for _, msg := range msgs {
		switch {
		case msg.Role == content.RoleAssistant:
			h.addAssistant(msg)
		case msg.Role == content.RoleTool:
			h.addResult(msg)
		case msg.Role == content.RoleSystem && len(h.turns) == 0:
			h.addSystem(msg.Parts)
		default:
			h.addUser(h.m.parts(msg.Parts))
		}
	}
	h.finish()
	return h
}

func (h *history) addSystem(parts []content.Part) {
	for _, p := range parts {
		if p.Type == content.TypeImage || isBlank(p.Text) {
			continue
		}
		b := textBlock(p.Text)
		b.keep = p.CachePrompt
		h.system = append(h.system, b)
	}
}

// turn returns the last turn, of this role.
func (h *history) turn(role string) *turn {
	if n := len(h.turns); n > 0 && h.turns[n-1].role == role {
		return h.turns[n-1]
	}
	t := &turn{role: role}
	h.turns = append(h.turns, t)
	return t
}

func (h *history) addUser(blocks []*block) {
	if len(blocks) > 0 {
		t := h.turn(roleUser)
		t.blocks = append(t.blocks, blocks...)
	}
}

func (h *history) addAssistant(msg content.Message) {
	if len(msg.ToolCalls) == 0 && isBlank(msg.Text()) {
		return
	}
	t := h.turn(roleAssistant)
	t.blocks = append(t.blocks, h.answer(t, msg)...)
}

// toolUse renders a call and opens it.
func (h *history) toolUse(t *turn, c content.ToolCall) *block {
	open := &call{id: c.ID, wireID: h.freshID(c.ID)}
	t.calls = append(t.calls, open)
	name := wire.LegalName(c.Name)
	h.use(name)
	return &block{Type: typeToolUse, ID: open.wireID, Name: name, Input: legalInput(c.Arguments)}
}

func (h *history) use(name string) {
	if !slices.Contains(h.used, name) {
		h.used = append(h.used, name)
	}
}

var illegalInID = lazyre.MustCompile(`[^a-zA-Z0-9_-]`)

// maxID bounds an id; the API's own have about 30 characters.
const maxID = 64

// freshID makes an id that is legal and new in this request; the same history
// gives the same ids.
func (h *history) freshID(given string) string {
	id := illegalInID.ReplaceAllString(given, "_")
	if id != given || id == "" || len(id) > maxID {
		sum := sha256.Sum256([]byte(given))
		id = id[:min(len(id), maxID-17)] + "_" + hex.EncodeToString(sum[:8])
	}
	for base, n := id, 2; h.ids[id]; n++ {
		id = base[:min(len(base), maxID-8)] + "_" + strconv.Itoa(n)
	}
	h.ids[id] = true
	return id
}

// addResult ties a result to the latest open call with its id.
func (h *history) addResult(msg content.Message) {
	blocks := h.m.parts(msg.Parts)
	c, last := h.open(msg.ToolCallID)
	if c == nil {
		h.addUser(append([]*block{textBlock(noteOrphan)}, blocks...))
		return
	}
	if len(blocks) == 0 {
		blocks = []*block{textBlock(noteNoOutput)}
	}
	c.result = &block{Type: typeToolResult, ToolUseID: c.wireID, Content: blocks}
	if last {
		h.turn(roleUser)
	}
}

// open finds the latest call with this id that has no result; last says that
// nothing follows its turn yet.
func (h *history) open(id string) (c *call, last bool) {
	for i := len(h.turns) - 1; i >= 0; i-- {
		for _, c := range h.turns[i].calls {
			if c.id == id && c.result == nil {
				return c, i == len(h.turns)-1
			}
		}
	}
	return nil, false
}

func (h *history) finish() {
	if len(h.turns) == 0 || h.turns[0].role == roleAssistant {
		first := &turn{role: roleUser, blocks: []*block{textBlock(noteBegin)}}
		h.turns = append([]*turn{first}, h.turns...)
	}
	if last := h.turns[len(h.turns)-1]; last.role == roleAssistant {
		user := h.turn(roleUser)
		if len(last.calls) == 0 {
			user.blocks = []*block{textBlock(noteContinue)}
		}
	}
	for i, t := range h.turns {
		if t.role == roleAssistant {
			t.settle()
			h.turns[i+1].blocks = append(t.results(), h.turns[i+1].blocks...)
		}
	}
}

// results are the results of all calls, in their order.
func (t *turn) results() []*block {
	var out []*block
	for _, c := range t.calls {
		if c.result == nil {
			c.result = &block{Type: typeToolResult, ToolUseID: c.wireID, Content: []*block{textBlock(noteNoResult)}}
		}
		out = append(out, c.result)
	}
	return out
}

// settle ends the turn on something the API lets it end on: not on thinking, and
// with calls only on a call.
func (t *turn) settle() {
	n := len(t.blocks)
	for n > 0 && t.blocks[n-1].raw != nil {
		n--
	}
	t.blocks = t.blocks[:n]
	last := n - 1
	for last >= 0 && t.blocks[last].Type != typeToolUse {
		last--
	}
	if last < 0 || last == n-1 {
		return
	}
	moved := append([]*block{}, t.blocks[:last]...)
	for _, b := range t.blocks[last+1:] {
		if b.raw == nil {
			moved = append(moved, b)
		}
	}
	t.blocks = append(moved, t.blocks[last])
}

func (t *turn) encode() wireMessage {
	w := wireMessage{Role: t.role, Content: make([]any, 0, len(t.blocks))}
	for _, b := range t.blocks {
		if b.raw != nil {
			w.Content = append(w.Content, b.raw)
		} else {
			w.Content = append(w.Content, b)
		}
	}
	return w
}

// mayThink reports whether a thinking budget is allowed: a turn that is in the
// middle of its tool calls must have begun with thinking, which one of another
// model, or one that was made without thinking, has not.
func (h *history) mayThink() bool {
	begin := -1
	for i := len(h.turns) - 1; i > 0; i -= 2 { // user, assistant, user, ...
		if h.turns[i].blocks[len(h.turns[i].blocks)-1].Type != typeToolResult {
			break
		}
		begin = i - 1
	}
	return begin < 0 || h.turns[begin].blocks[0].raw != nil
}

// stubs describe the tools of the history to a request that offers none: the API
// refuses calls of tools it was not told of.
func (h *history) stubs() []*wireTool {
	var out []*wireTool
	for _, name := range h.used {
		out = append(out, &wireTool{Name: name, InputSchema: json.RawMessage(anyObject)})
	}
	return out
}
