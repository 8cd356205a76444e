package bedrocktest

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
)

func (c *checker) messages(b json.RawMessage) *failure {
	turns, f := list("messages", b)
	if f != nil {
		return f
	}
	c.seen = map[string]bool{}
	role := ""
	for i, raw := range turns {
		o, f := objectOf("messages", raw)
		if f != nil {
			return f
		}
		if f := members("messages", o, "role", "content"); f != nil {
			return f
		}
		before := role
		role, _ = text(o["role"])
		switch {
		case role != "user" && role != "assistant":
			return invalid("Value '%s' at 'messages.%d.member.role' failed to satisfy constraint: Member must satisfy enum value set: [user, assistant]", role, i)
		case i == 0 && role != "user":
			return invalid("A conversation must start with a user message. Try again with a conversation that starts with a user message.")
		case role == before:
			return invalid("A conversation must alternate between user and assistant roles. Make sure the conversation alternates between user and assistant roles and try again.")
		}
		if f := c.turn(i, role, o["content"]); f != nil {
			return f
		}
	}
	if role != "user" {
		return invalid("The model returned the following errors: This model does not support assistant message prefill. The conversation must end with a user message.")
	}
	return nil
}

func (c *checker) turn(i int, role string, b json.RawMessage) *failure {
	var blocks []json.RawMessage
	if json.Unmarshal(b, &blocks) != nil || len(blocks) == 0 {
		return invalid("The content field in the Message object at messages.%d is empty. Add a ContentBlock object to the content field and try again.", i)
	}
	t := &turnChecker{checker: c, at: i, role: role, waits: c.waits, mine: map[string]bool{}}
	for j, raw := range blocks {
		if f := t.block(j, raw); f != nil {
			return f
		}
	}
	if role == "user" {
		if left := t.left(); len(left) > 0 {
			return invalid("Expected toolResult blocks at messages.%d.content for the following Ids: %s", i, strings.Join(left, ", "))
		}
		c.waits = nil
		return nil
	}
	c.waits, c.bare = t.mine, t.bare
	return c.signatures(t)
}

// turnChecker reads one turn.
type turnChecker struct {
	*checker
	at       int
	role     string
	waits    map[string]bool // calls that this turn must answer
	other    bool            // there was a block that is no result
	mine     map[string]bool // calls of this turn
	order    []string        // their ids
	thoughts []signedAnswer
	bare     bool // calls without thinking before them
}

func (t *turnChecker) left() []string {
	var ids []string
	for id := range t.waits {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (t *turnChecker) block(j int, b json.RawMessage) *failure {
	kind, v, f := one("content", b)
	if f != nil {
		return f
	}
	switch {
	case kind == "cachePoint" && j > 0 && t.role == "user":
		return t.point(v)
	case kind == "text":
		t.other = true
		if s, ok := text(v); !ok || strings.TrimSpace(s) == "" {
			return invalid("The text field in the ContentBlock object at messages.%d.content.%d is blank. Add text to the text field, and try again.", t.at, j)
		}
		return nil
	case kind == "image" && t.role == "user":
		t.other = true
		return image(v)
	case kind == "toolUse" && t.role == "assistant":
		return t.toolUse(v)
	case kind == "toolResult" && t.role == "user":
		return t.toolResult(v)
	case kind == "reasoningContent" && t.role == "assistant":
		return t.reasoning(v)
	}
	return invalid("The %s content block at messages.%d.content.%d is not permitted in a %s message.", kind, t.at, j, t.role)
}

func image(b json.RawMessage) *failure {
	var i struct {
		Format string `json:"format"`
		Source struct {
			Bytes string `json:"bytes"`
		} `json:"source"`
	}
	if json.Unmarshal(b, &i) != nil || !contains([]string{"png", "jpeg", "gif", "webp"}, i.Format) {
		return invalid("Value '%s' at 'messages.content.image.format' failed to satisfy constraint: Member must satisfy enum value set: [gif, jpeg, png, webp]", i.Format)
	}
	if data, err := base64.StdEncoding.DecodeString(i.Source.Bytes); err != nil || len(data) == 0 {
		return invalid("The model returned the following errors: Could not process image")
	}
	return nil
}

func (t *turnChecker) toolUse(b json.RawMessage) *failure {
	o, f := objectOf("toolUse", b)
	if f != nil {
		return f
	}
	if f := members("toolUse", o, "toolUseId", "name", "input"); f != nil {
		return f
	}
	id, _ := text(o["toolUseId"])
	name, _ := text(o["name"])
	switch {
	case !idPattern.MatchString(id):
		return invalid("Value '%.80s' at 'messages.%d.content.toolUse.toolUseId' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+", id, t.at)
	case !namePattern.MatchString(name):
		return invalid("Value '%.80s' at 'messages.%d.content.toolUse.name' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+", name, t.at)
	case t.seen[id]:
		return invalid("The model returned the following errors: messages.%d.content: `tool_use` ids must be unique", t.at)
	}
	if _, f := objectOf("toolUse.input", o["input"]); f != nil {
		return invalid("The format of the value at messages.%d.content.toolUse.input is invalid. Provide a json object for the field and try again.", t.at)
	}
	t.calls, t.seen[id], t.mine[id] = true, true, true
	t.order = append(t.order, id)
	t.bare = t.bare || len(t.thoughts) == 0
	return nil
}

func (t *turnChecker) toolResult(b json.RawMessage) *failure {
	o, f := objectOf("toolResult", b)
	if f != nil {
		return f
	}
	if f := members("toolResult", o, "toolUseId", "content", "status"); f != nil {
		return f
	}
	id, _ := text(o["toolUseId"])
	switch {
	case !t.waits[id]:
		return invalid("The number of toolResult blocks at messages.%d.content exceeds the number of toolUse blocks of previous turn.", t.at)
	case t.other:
		return invalid("The model returned the following errors: messages.%d: `tool_result` blocks must come first in the content.", t.at)
	}
	delete(t.waits, id)
	if s, given := o["status"]; given {
		if v, _ := text(s); v != "success" && v != "error" {
			return invalid("Value '%s' at 'toolResult.status' failed to satisfy constraint: Member must satisfy enum value set: [success, error]", v)
		}
	}
	blocks, f := list("content field at toolResult", o["content"])
	if f != nil {
		return f
	}
	for _, raw := range blocks {
		if f := resultBlock(raw); f != nil {
			return f
		}
	}
	return nil
}

func resultBlock(b json.RawMessage) *failure {
	kind, v, f := one("toolResult.content", b)
	switch {
	case f != nil:
		return f
	case kind == "image":
		return image(v)
	case kind == "json":
		_, f := objectOf("toolResult.content.json", v)
		return f
	case kind == "text":
		if s, ok := text(v); !ok || strings.TrimSpace(s) == "" {
			return invalid("The model returned the following errors: messages: text content blocks must contain non-whitespace text")
		}
		return nil
	}
	return invalid("The %s content block is not permitted in toolResult.content.", kind)
}

func (t *turnChecker) reasoning(b json.RawMessage) *failure {
	kind, v, f := one("reasoningContent", b)
	if f != nil {
		return f
	}
	if kind == "redactedContent" {
		s, ok := text(v)
		if _, err := base64.StdEncoding.DecodeString(s); !ok || err != nil {
			return invalid("Malformed input request: redactedContent is not base64.")
		}
		t.thoughts = append(t.thoughts, signedAnswer{})
		return nil
	}
	var r struct{ Text, Signature *string }
	if kind != "reasoningText" || json.Unmarshal(v, &r) != nil || r.Text == nil {
		return invalid("Malformed input request: reasoningContent has no text.")
	}
	if r.Signature == nil {
		return invalid("The model returned the following errors: messages.%d.content.0.thinking.signature: Field required", t.at)
	}
	t.thoughts = append(t.thoughts, signedAnswer{*r.Text, *r.Signature})
	return nil
}

// signatures refuses thinking that nobody signed, and calls that come back
// without the thinking they were made with.
func (c *checker) signatures(t *turnChecker) *failure {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	for _, thought := range t.thoughts {
		if thought.signature != "" && !c.server.given[thought.signature] {
			return invalid("The model returned the following errors: messages.%d.content.0: Invalid `signature` in `thinking` block", t.at)
		}
	}
	for _, id := range t.order {
		want := c.server.signed[id]
		if len(want) > 0 && !slices.ContainsFunc(t.thoughts, func(a signedAnswer) bool { return slices.Contains(want, a) }) {
			return missingThought()
		}
	}
	return nil
}
