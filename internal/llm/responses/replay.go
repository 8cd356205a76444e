package responses

import (
	"encoding/json"
	"slices"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/wire"
)

// keptKey is the member of Message.Extra that holds the items of an answer in
// their order, as far as the message does not have them itself: thoughts whole,
// of messages and calls what is beside text, name and arguments.
const keptKey = "items"

// typeGone stands for an item that cannot be sent back.
const typeGone = "gone"

type members = map[string]json.RawMessage

// kept is an item of an earlier answer that goes back.
type kept struct {
	kind   string
	fields members
	bare   bool // without its id: the thought it is tied to is not there
	drop   bool
	text   string            // of a message
	call   *content.ToolCall // of a call
}

// keptItems reads what an answer of this model left in a message.
func (m *Model) keptItems(msg content.Message) []*kept {
	own, marked := wire.Own(msg.Extra, m.source)
	if !marked || own == nil {
		return nil
	}
	var raw []members
	if json.Unmarshal(own[keptKey], &raw) != nil {
		return nil
	}
	items := make([]*kept, 0, len(raw))
	for _, fields := range raw {
		items = append(items, &kept{kind: wire.Text(fields["type"]), fields: fields})
	}
	return items
}

// identity names a thought.
func (k *kept) identity() string {
	if id := wire.Text(k.fields["id"]); id != "" {
		return id
	}
	return wire.Text(k.fields["encrypted_content"])
}

// replayable reports whether a thought can be read by the provider: nothing is
// stored there, so an id alone is not enough.
func (k *kept) replayable() bool {
	sealed := k.fields["encrypted_content"] // long: whether it is a text shows without decoding it
	if len(sealed) > 2 && sealed[0] == '"' {
		return true
	}
	var open []json.RawMessage
	return json.Unmarshal(k.fields["content"], &open) == nil && len(open) > 0
}

// staleIndex finds the message with the thought; -1 = none.
func (m *Model) staleIndex(msgs []content.Message, identity string) int {
	if identity == "" {
		return -1
	}
	for i := len(msgs) - 1; i >= 0; i-- {
		for _, k := range m.keptItems(msgs[i]) {
			if k.kind == typeReasoning && k.identity() == identity {
				return i
			}
		}
	}
	return -1
}

// newestThought returns the identity of the last thought that a request of shape
// s has; "" = none.
func (m *Model) newestThought(req *llm.Request, s shape) string {
	k := m.newestKept(req, s, func(k *kept) bool {
		return k.kind == typeReasoning && k.replayable() && k.identity() != ""
	})
	if k == nil {
		return ""
	}
	return k.identity()
}

// newestKept returns the last item that goes back in a request of shape s and
// that is wanted; nil = none.
func (m *Model) newestKept(req *llm.Request, s shape, wanted func(*kept) bool) *kept {
	stale := m.staleIndex(req.Messages, s.stale)
	for i := len(req.Messages) - 1; i > stale; i-- {
		for _, k := range slices.Backward(m.keptItems(req.Messages[i])) {
			if wanted(k) {
				return k
			}
		}
	}
	return nil
}

// addAssistant adds an answer: the items it came as where they are ours, and
// what the history has beyond them.
func (in *input) addAssistant(msg content.Message) error {
	items := in.m.keptItems(msg)
	if in.at <= in.stale {
		items = nil
	}
	items = bind(items, msg)
	thin(items)
	for _, k := range items {
		if k.drop {
			continue
		}
		item, err := in.item(k)
		if err != nil {
			return err
		}
		in.items = append(in.items, item)
	}
	return nil
}

// bind gives each item its text or call of the message, in the order of the
// answer. What the engine dropped of an answer is marked as dropped; what has no
// item becomes one without fields of the provider's.
func bind(items []*kept, msg content.Message) []*kept {
	texts := textsOf(msg)
	spoken := 0
	for _, k := range items {
		if k.kind == typeMessage {
			spoken++
		}
	}
	if spoken != len(texts) { // the text was edited: it is not theirs any more
		items = markDropped(items, typeMessage)
		if joined := msg.Text(); joined != "" {
			items = slices.Insert(items, behindMessages(items), &kept{kind: typeMessage, text: joined})
		}
		texts = nil
	}
	left := make([]*content.ToolCall, 0, len(msg.ToolCalls))
	for i := range msg.ToolCalls {
		left = append(left, &msg.ToolCalls[i])
	}
	for _, k := range items {
		switch {
		case k.drop:
		case k.kind == typeMessage && k.text == "":
			k.text, texts = texts[0], texts[1:]
		case k.kind == typeCall:
			id := wire.Text(k.fields["call_id"])
			if at := slices.IndexFunc(left, func(c *content.ToolCall) bool { return c.ID == id }); at >= 0 {
				k.call = left[at]
				left = slices.Delete(left, at, at+1)
			}
			k.drop = k.call == nil
		case k.kind == typeGone || k.kind == "":
			k.drop = true
		}
	}
	for _, c := range left {
		items = append(items, &kept{kind: typeCall, call: c})
	}
	return items
}

func textsOf(msg content.Message) []string {
	var texts []string
	for _, p := range msg.Parts {
		if p.Type == content.TypeText && p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return texts
}

func markDropped(items []*kept, kind string) []*kept {
	for _, k := range items {
		k.drop = k.drop || k.kind == kind
	}
	return items
}

// behindMessages is the place behind the last message, so that nothing comes
// between a thought and its item; 0 if there is none.
func behindMessages(items []*kept) int {
	for i, k := range slices.Backward(items) {
		if k.kind == typeMessage {
			return i + 1
		}
	}
	return 0
}

// thin makes the items consistent: a thought goes with the very item that
// followed it, and the items behind a thought that does not go lose their ids,
// by which the API would miss it.
func thin(items []*kept) {
	follows := false // the next item of the answer goes too
	for _, k := range slices.Backward(items) {
		if k.kind == typeReasoning {
			k.drop = !follows || !k.replayable()
		}
		follows = !k.drop
	}
	bare := false
	for _, k := range items {
		switch {
		case k.kind == typeReasoning:
			bare = k.drop
		case bare && k.kind != typeMessage && k.kind != typeCall:
			k.drop = true // it means nothing without its id
		default:
			k.bare = bare
		}
	}
}

// item renders an item.
func (in *input) item(k *kept) (any, error) {
	fields := members{}
	for name, v := range k.fields {
		if name != "id" || in.keepsID(k, wire.Text(v)) {
			fields[name] = v
		}
	}
	switch {
	case k.kind == typeMessage:
		return k.message(fields, in.text("output_text", k.text))
	case k.kind == typeCall:
		return k.asked(fields, in.addCall(k.call.ID)), nil
	}
	return fields, nil
}

// message renders a message with the provider's fields beside ours.
func (k *kept) message(fields members, said []inputPart) (any, error) {
	if len(fields) == 0 {
		return inputMessage{Type: typeMessage, Role: content.RoleAssistant, Content: said}, nil
	}
	raw, err := content.Marshal(said)
	if err != nil {
		return nil, err
	}
	fields["type"], fields["role"], fields["content"] = encoded(typeMessage), encoded(content.RoleAssistant), raw
	return fields, nil
}

// asked renders a call with the provider's fields beside ours.
func (k *kept) asked(fields members, callID string) any {
	c := inputCall{Type: typeCall, CallID: callID, Name: wire.LegalName(k.call.Name), Arguments: wire.LegalArguments(k.call.Arguments)}
	if len(fields) == 0 {
		return c
	}
	fields["type"], fields["call_id"] = encoded(c.Type), encoded(c.CallID)
	fields["name"], fields["arguments"] = encoded(c.Name), encoded(c.Arguments)
	return fields
}

// keepsID reports whether an item goes with its id, and notes the id.
func (in *input) keepsID(k *kept, id string) bool {
	if id == "" || k.bare || in.ids[id] || in.shape.refused.has(refusedIDs) {
		return false
	}
	in.ids[id] = true
	return true
}
