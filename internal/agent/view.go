// Package agent turns a conversation's history into a model's request and a
// model's answer into events. Pure apart from the tools' own parsing: it makes
// no calls and writes nothing; the engine does both.
package agent

import (
	"encoding/json"
	"slices"
	"strings"

	"parley/internal/agent/condense"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/tool"
)

// maxToolText bounds what the model reads of one tool result, in bytes.
const maxToolText = 50_000

const errorHeader = "[An error occurred during execution.]"

// What stands around a summary of forgotten events. It is no message of the user,
// though providers know no other place for it.
const (
	summaryBegin = "<conversation_summary>\nThe events that stood here were taken out of what you can read, to keep it short. " +
		"This summary of them was made for you; the user did not write it.\n\n"
	summaryEnd = "\n</conversation_summary>"
)

// gapNote stands where a forgetting without a summary has left a gap that
// providers do not accept.
const gapNote = "[Some events of the conversation are not shown here.]"

// ProviderFields are the members of the model's answers that their provider wants
// back, by response id.
type ProviderFields = map[string]map[string]json.RawMessage

// Viewer renders the same history again and again, as it grows: it reads each result of
// a tool once. It remembers those that its last view had. One goroutine owns it; the
// zero value is ready for use.
type Viewer struct {
	results map[*conversation.ObservationEvent][]content.Part
}

// View renders a history once.
func View(history []conversation.Payload, fields ProviderFields) []content.Message {
	return new(Viewer).View(history, fields)
}

// View renders the history of a branch as the messages a model reads, with its
// condensations applied (condense.View): every tool call is followed by its answer
// at once, whatever came in between in the log, because providers reject anything
// else. It marks up to where a provider may cache the prompt: behind the system
// prompt, which never changes, and behind the newest message, with which the next
// request begins. The history is not changed, and must not be by others.
func (r *Viewer) View(history []conversation.Payload, fields ProviderFields) []content.Message {
	events := condense.View(history)
	v := &view{events: events, ties: condense.Ties(events), fields: fields, before: r.results,
		results: make(map[*conversation.ObservationEvent][]content.Part, len(events)/2)}
	out := v.messages()
	r.results = v.results
	if slices.ContainsFunc(history, condenses) {
		out = bridge(out)
	}
	markCache(out, content.RoleSystem)
	markCache(out, content.RoleUser, content.RoleTool)
	return out
}

// condenses reports whether an event makes a model's view shorter than the log.
func condenses(p conversation.Payload) bool {
	switch p.(type) {
	case *conversation.Condensation, *conversation.CondensationSummaryEvent:
		return true
	}
	return false
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

// view renders the events of condense.View.
type view struct {
	events []conversation.Payload
	ties   []condense.Tie
	fields ProviderFields

	before, results map[*conversation.ObservationEvent][]content.Part // of the last view, of this one
}

// messages renders all events, the system prompt first, wherever it is in the log.
func (v *view) messages() []content.Message {
	out := make([]content.Message, 0, len(v.events)+1)
	if m, ok := v.system(); ok {
		out = append(out, m)
	}
	calls := v.calls()
	for i, p := range v.events {
		switch e := p.(type) {
		case *conversation.MessageEvent:
			if c, ok := conversation.UserCommandOf(e); ok && c.Hidden {
				continue
			}
			m := messageOf(e)
			if m.Extra = v.fields[e.LLMResponseID]; !empty(m) {
				out = appendMerged(out, m)
			}
		case *conversation.CondensationSummaryEvent:
			out = appendMerged(out, summaryMessage(e))
		case *conversation.ActionEvent:
			if v.ties[i].Batch == i {
				out = v.appendAnswer(out, calls[i])
			}
		}
	}
	return out
}

// empty reports whether an answer of the model says nothing that its provider would
// take back.
func empty(m content.Message) bool {
	return m.Role == content.RoleAssistant && len(m.Extra) == 0 && strings.TrimSpace(m.Text()) == "" &&
		!slices.ContainsFunc(m.Parts, func(p content.Part) bool { return len(p.ImageURLs) > 0 })
}

// system is the newest system prompt.
func (v *view) system() (m content.Message, ok bool) {
	for _, p := range slices.Backward(v.events) {
		if e, ok := p.(*conversation.SystemPromptEvent); ok {
			return content.Message{Role: content.RoleSystem, Parts: []content.Part{e.SystemPrompt}}, true
		}
	}
	return m, false
}

// calls are the calls of each answer, by the first one.
func (v *view) calls() map[int][]int {
	calls := map[int][]int{}
	for i, p := range v.events {
		if _, ok := p.(*conversation.ActionEvent); ok {
			first := v.ties[i].Batch
			calls[first] = append(calls[first], i)
		}
	}
	return calls
}

// appendAnswer adds an answer of the model with calls, and a result for each. A call
// without one is never sent by the engine, but a provider would reject the hole.
func (v *view) appendAnswer(out []content.Message, calls []int) []content.Message {
	first := v.events[calls[0]].(*conversation.ActionEvent)
	answer := len(out)
	out = append(out, content.Message{Role: content.RoleAssistant, Parts: first.Thought, Reasoning: first.Reasoning,
		Extra: v.fields[first.LLMResponseID]})
	for _, i := range calls {
		call := v.events[i].(*conversation.ActionEvent)
		out[answer].ToolCalls = append(out[answer].ToolCalls, call.ToolCall)
		parts := text("No result is known for this call.")
		if peer := v.ties[i].Peer; peer >= 0 {
			parts = v.resultParts(v.events[peer])
		}
		out = append(out, content.Message{Role: content.RoleTool, ToolCallID: call.ToolCallID,
			ToolName: call.ToolCall.Name, Parts: parts})
	}
	return out
}

// resultParts is what the model reads of an answer to a call.
func (v *view) resultParts(p conversation.Payload) []content.Part {
	switch e := p.(type) {
	case *conversation.ObservationEvent:
		parts, ok := v.before[e]
		if !ok {
			parts = observationParts(e)
		}
		v.results[e] = parts
		return slices.Clone(parts) // a message's own: one of them may be marked
	case *conversation.UserRejectObservation:
		if e.RejectionSource == conversation.SourceHook {
			return text("A hook of the user's blocked this action: it did not run. Reason: " + e.RejectionReason)
		}
		return text("The user rejected this action. Reason: " + e.RejectionReason)
	case *conversation.AgentErrorEvent:
		return text(e.Error)
	}
	return nil
}

func text(s string) []content.Part {
	return []content.Part{content.Text(condense.Clip(s, maxToolText))}
}

// messageOf renders a message. What is no role of a message is taken for the user's:
// a result, say, answers a call, or providers refuse it.
func messageOf(e *conversation.MessageEvent) content.Message {
	m := content.Message{Role: content.RoleUser, Parts: slices.Concat(e.LLMMessage.Content, e.ExtendedContent),
		Reasoning: e.LLMMessage.Reasoning}
	if r := e.LLMMessage.Role; r == content.RoleAssistant || r == content.RoleSystem {
		m.Role = r
	}
	return m
}

func summaryMessage(e *conversation.CondensationSummaryEvent) content.Message {
	inner := strings.ReplaceAll(e.Summary, strings.TrimSpace(summaryEnd), "[end]")
	return content.Message{Role: content.RoleUser, Parts: []content.Part{content.Text(summaryBegin + inner + summaryEnd)}}
}

// bridge fills the gaps that a forgetting without a summary leaves: providers want
// a history to begin with the user, and roles to take turns.
func bridge(messages []content.Message) []content.Message {
	note := func() content.Message {
		return content.Message{Role: content.RoleUser, Parts: []content.Part{content.Text(gapNote)}}
	}
	out := make([]content.Message, 0, len(messages)+1)
	before := content.RoleAssistant
	for _, m := range messages {
		if m.Role == content.RoleAssistant && before == content.RoleAssistant {
			out = append(out, note())
		}
		out = append(out, m)
		if m.Role != content.RoleSystem {
			before = m.Role
		}
	}
	if len(out) == 0 || out[len(out)-1].Role == content.RoleSystem {
		out = append(out, note())
	}
	return out
}

// appendMerged merges consecutive user messages: some providers demand that roles alternate.
func appendMerged(out []content.Message, m content.Message) []content.Message {
	if n := len(out); n > 0 && m.Role == content.RoleUser && out[n-1].Role == content.RoleUser {
		out[n-1].Parts = append(out[n-1].Parts, m.Parts...) // ours: no event's
		return out
	}
	return append(out, m)
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
			p.Text = condense.Clip(p.Text, maxToolText)
		}
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		parts = text("(no output)")
	}
	return parts
}
