// Package agent turns a conversation's history into a model's request and a
// model's answer into events. Pure apart from the tools' own parsing: it makes
// no calls and writes nothing; the engine does both.
package agent

import (
	"encoding/json"
	"slices"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/tool"
)

// maxToolText bounds what the model reads of one tool result, in bytes.
const maxToolText = 50_000

const errorHeader = "[An error occurred during execution.]"

// call is one tool call of an assistant message and its answer.
type call struct {
	action *conversation.ActionEvent
	answer *content.Message
}

// group is the tool calls of one response of the model.
type group struct {
	responseID string
	calls      []*call
}

// ProviderFields are the members of the model's answers that their provider wants
// back, by response id.
type ProviderFields = map[string]map[string]json.RawMessage

// View renders the history as the messages a model reads: every tool call is
// followed by its answer at once, whatever came in between in the log, because
// providers reject anything else. It marks up to where a provider may cache the
// prompt: behind the system prompt, which never changes, and behind the newest
// message, with which the next request begins. The history is not changed.
func View(history []conversation.Payload, fields ProviderFields) []content.Message {
	v := &view{groups: map[string]*group{}, fields: fields}
	for _, p := range history {
		v.add(p)
	}
	out := v.messages()
	markCache(out, content.RoleSystem)
	markCache(out, content.RoleUser, content.RoleTool)
	return out
}

// markCache marks the last part of the last message with one of the roles.
func markCache(messages []content.Message, roles ...string) {
	for i := len(messages) - 1; i >= 0; i-- {
		if m := messages[i]; slices.Contains(roles, m.Role) && len(m.Parts) > 0 {
			m.Parts[len(m.Parts)-1].CachePrompt = true
			return
		}
	}
}

type view struct {
	system  *content.Message // first for the model, wherever it is in the log
	items   []any            // content.Message or *group
	groups  map[string]*group
	fields  ProviderFields
	pending []*call
}

func (v *view) add(p conversation.Payload) {
	switch e := p.(type) {
	case *conversation.SystemPromptEvent:
		v.system = &content.Message{Role: content.RoleSystem, Parts: []content.Part{e.SystemPrompt}}
	case *conversation.MessageEvent:
		m := messageOf(e)
		m.Extra = v.fields[e.LLMResponseID]
		v.items = append(v.items, m)
	case *conversation.ActionEvent:
		v.addAction(e)
	case *conversation.ObservationEvent:
		v.answer(e.ActionID, e.ToolCallID, observationParts(e))
	case *conversation.UserRejectObservation:
		v.answer(e.ActionID, e.ToolCallID, text("The user rejected this action. Reason: "+e.RejectionReason))
	case *conversation.AgentErrorEvent:
		v.answer("", e.ToolCallID, text(e.Error))
	}
}

func text(s string) []content.Part { return []content.Part{content.Text(clip(s))} }

func messageOf(e *conversation.MessageEvent) content.Message {
	parts := append([]content.Part(nil), e.LLMMessage.Content...)
	return content.Message{Role: e.LLMMessage.Role, Parts: append(parts, e.ExtendedContent...),
		Reasoning: e.LLMMessage.Reasoning}
}

func (v *view) addAction(e *conversation.ActionEvent) {
	g := v.groups[e.LLMResponseID]
	if g == nil {
		g = &group{responseID: e.LLMResponseID}
		v.groups[e.LLMResponseID] = g
		v.items = append(v.items, g)
	}
	c := &call{action: e}
	g.calls = append(g.calls, c)
	v.pending = append(v.pending, c)
}

// answer ties a result to its call: by the action's id where there is one, else
// to the first open call with that tool call id.
func (v *view) answer(actionID, callID string, parts []content.Part) {
	for i, c := range v.pending {
		if c.action.ID == actionID || actionID == "" && c.action.ToolCallID == callID {
			c.answer = &content.Message{Role: content.RoleTool, ToolCallID: c.action.ToolCallID,
				ToolName: c.action.ToolCall.Name, Parts: parts}
			v.pending = append(v.pending[:i:i], v.pending[i+1:]...)
			return
		}
	}
}

func (v *view) messages() []content.Message {
	var out []content.Message
	if v.system != nil {
		out = append(out, *v.system)
	}
	for _, item := range v.items {
		switch it := item.(type) {
		case content.Message:
			out = appendMerged(out, it)
		case *group:
			out = append(out, it.messages(v.fields[it.responseID])...)
		}
	}
	return out
}

// appendMerged merges consecutive user messages: some providers demand that roles alternate.
func appendMerged(out []content.Message, m content.Message) []content.Message {
	if n := len(out); n > 0 && m.Role == content.RoleUser && out[n-1].Role == content.RoleUser {
		out[n-1].Parts = append(out[n-1].Parts[:len(out[n-1].Parts):len(out[n-1].Parts)], m.Parts...)
		return out
	}
	return append(out, m)
}

func (g *group) messages(extra map[string]json.RawMessage) []content.Message {
	first := g.calls[0].action
	assistant := content.Message{Role: content.RoleAssistant, Parts: first.Thought, Reasoning: first.Reasoning, Extra: extra}
	answers := make([]content.Message, 0, len(g.calls))
	for _, c := range g.calls {
		assistant.ToolCalls = append(assistant.ToolCalls, c.action.ToolCall)
		if c.answer == nil { // never sent by the engine, but a provider would reject the hole
			c.answer = &content.Message{Role: content.RoleTool, ToolCallID: c.action.ToolCallID,
				ToolName: c.action.ToolCall.Name, Parts: text("No result is known for this call.")}
		}
		answers = append(answers, *c.answer)
	}
	return append([]content.Message{assistant}, answers...)
}

// observationParts is what the model reads of a tool result.
func observationParts(e *conversation.ObservationEvent) []content.Part {
	var o struct {
		IsError bool `json:"is_error"`
	}
	if err := json.Unmarshal(e.Observation, &o); err != nil {
		return text("The result of this call cannot be read.")
	}
	var parts []content.Part
	if o.IsError {
		parts = append(parts, content.Text(errorHeader))
	}
	for _, p := range append(tool.ModelParts(e.Observation), e.ExtendedContent...) {
		if p.Type == content.TypeText {
			p.Text = clip(p.Text)
		}
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		parts = text("(no output)")
	}
	return parts
}

// clip keeps the head and the tail of a long text, cutting between characters.
func clip(s string) string {
	if len(s) <= maxToolText {
		return s
	}
	head, tail := maxToolText/2, len(s)-maxToolText/2
	for head > 0 && s[head]&0xC0 == 0x80 {
		head--
	}
	for tail < len(s) && s[tail]&0xC0 == 0x80 {
		tail++
	}
	return s[:head] + "\n[... clipped ...]\n" + s[tail:]
}
