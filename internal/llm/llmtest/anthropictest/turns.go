package anthropictest

import (
	"fmt"
	"strings"
)

// messages checks the order of the messages and of what is in them.
func (c *checker) messages() string {
	last := "assistant"
	for i, m := range c.r.Messages {
		at := fmt.Sprintf("messages.%d", i)
		switch {
		case m.Role != "user" && m.Role != "assistant":
			return at + ".role: Input should be 'user' or 'assistant'"
		case m.Role == last && i == 0:
			return "messages: first message must use the \"user\" role"
		case m.Role == last:
			return "messages: roles must alternate between \"user\" and \"assistant\", but found multiple \"" + last + "\" roles in a row"
		}
		last = m.Role
		blocks, problem := c.blocks(at+".content", m.Content)
		switch {
		case problem != "":
			return problem
		case len(blocks) == 0:
			return at + ": all messages must have non-empty content"
		}
		c.loops = append(c.loops, blocks)
		if problem := c.message(i, m.Role); problem != "" {
			return problem
		}
	}
	switch {
	case last == "assistant":
		return "This model does not support assistant message prefill. The conversation must end with a user message."
	case c.calling && len(c.r.Tools) == 0:
		return "Requests which have `tool_use` or `tool_result` blocks in messages must define tools."
	}
	return c.turnInProgress()
}

// message checks message i against the one before.
func (c *checker) message(i int, role string) string {
	at := fmt.Sprintf("messages.%d", i)
	blocks := c.loops[i]
	for j, b := range blocks {
		ofUser := b.Type == "tool_result" || b.Type == "image"
		ofAssistant := b.Type == "tool_use" || isThought(b)
		if role == "user" && ofAssistant || role == "assistant" && ofUser {
			return fmt.Sprintf("%s.content.%d: `%s` blocks are not allowed in `%s` messages", at, j, b.Type, role)
		}
	}
	if role == "assistant" {
		return checkAnswer(at, c.r.Model, blocks)
	}
	var open []string
	if i > 0 {
		open = callsOf(c.loops[i-1])
	}
	return checkResults(at, fmt.Sprintf("messages.%d", i-1), open, blocks)
}

func isThought(b block) bool { return b.Type == "thinking" || b.Type == "redacted_thinking" }

func callsOf(blocks []block) []string {
	var ids []string
	for _, b := range blocks {
		if b.Type == "tool_use" {
			ids = append(ids, b.ID)
		}
	}
	return ids
}

func checkAnswer(at, model string, blocks []block) string {
	last := blocks[len(blocks)-1]
	if isThought(last) {
		return at + ": The final block in an assistant message cannot be `thinking`."
	}
	if len(callsOf(blocks)) > 0 && last.Type != "tool_use" {
		return at + ": `tool_use` blocks must be the last blocks of an assistant message"
	}
	signatures := map[string]bool{}
	for _, b := range blocks {
		if b.Type == "thinking" {
			signatures[digest(*b.Signature)] = true
		}
	}
	for _, id := range callsOf(blocks) {
		if rest, ok := strings.CutPrefix(id, signedID+digest(model)+"_"); ok {
			if sum, _, _ := strings.Cut(rest, "_"); !signatures[sum] {
				return at + ".content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final `assistant` message must start with a thinking block."
			}
		}
	}
	return ""
}

// checkResults checks that a user's message begins with one result of each call.
func checkResults(at, before string, open []string, blocks []block) string {
	prose := false
	for _, b := range blocks {
		if b.Type != "tool_result" {
			prose = true
			continue
		}
		i := indexOf(open, b.ToolUseID)
		switch {
		case i < 0:
			return at + ": unexpected `tool_use_id` found in `tool_result` blocks: " + b.ToolUseID + ". Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
		case prose:
			return before + ": `tool_use` ids were found without `tool_result` blocks immediately after: " + b.ToolUseID
		}
		open = append(open[:i:i], open[i+1:]...)
	}
	if len(open) > 0 {
		return before + ": `tool_use` ids were found without `tool_result` blocks immediately after: " + strings.Join(open, ", ") +
			". Each `tool_use` block must have a corresponding `tool_result` block in the next message."
	}
	return ""
}

func indexOf(list []string, s string) int {
	for i, v := range list {
		if v == s {
			return i
		}
	}
	return -1
}

// turnInProgress: with a thinking budget, a turn in the middle of its calls must
// have begun with thinking.
func (c *checker) turnInProgress() string {
	if c.r.Thinking == nil || c.r.Thinking.Type != "enabled" {
		return ""
	}
	begin := -1
	for i := len(c.loops) - 1; i > 0; i -= 2 {
		user := c.loops[i]
		if user[len(user)-1].Type != "tool_result" {
			break
		}
		begin = i - 1
	}
	if begin >= 0 && !isThought(c.loops[begin][0]) {
		return fmt.Sprintf("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`. When `thinking` is enabled, a final `assistant` message must start with a thinking block.",
			begin, c.loops[begin][0].Type)
	}
	return ""
}
