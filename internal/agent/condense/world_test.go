package condense_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"parley/internal/agent/condense"
	"parley/internal/content"
	"parley/internal/conversation"
)

// path builds the events of a branch, with short ids: "u1", "a1", "o1", ...
type path struct {
	events []conversation.Payload
	n      int
}

func (p *path) id(letter string) string {
	p.n++
	return fmt.Sprintf("%s%d", letter, p.n)
}

func (p *path) add(e conversation.Payload, kind, source, id string) {
	h := conversation.Head(kind, source, time.Time{})
	h.ID = id
	*conversation.HeaderOf(e) = h
	p.events = append(p.events, e)
}

func (p *path) prompt(text string) *path {
	p.add(&conversation.SystemPromptEvent{SystemPrompt: content.Text(text)}, conversation.KindSystemPrompt, conversation.SourceAgent, p.id("s"))
	return p
}

func (p *path) say(source, role string, parts ...content.Part) *path {
	letter := map[string]string{conversation.SourceUser: "u", conversation.SourceAgent: "m", conversation.SourceEnvironment: "e"}[source]
	p.add(&conversation.MessageEvent{LLMMessage: conversation.LLMMessage{Role: role, Content: parts}},
		conversation.KindMessage, source, p.id(letter))
	return p
}

func (p *path) user(text string) *path {
	return p.say(conversation.SourceUser, content.RoleUser, content.Text(text))
}

func (p *path) agent(text string) *path {
	return p.say(conversation.SourceAgent, content.RoleAssistant, content.Text(text))
}

// call adds a call of an answer and returns it.
func (p *path) call(response, callID string, thinking bool) *conversation.ActionEvent {
	a := &conversation.ActionEvent{ToolName: "terminal", ToolCallID: callID, LLMResponseID: response,
		ToolCall: content.ToolCall{ID: callID, Name: "terminal", Arguments: `{"command":"make"}`}}
	if thinking {
		a.ThinkingBlocks = []json.RawMessage{json.RawMessage(`{"type":"thinking","thinking":"hm"}`)}
	}
	p.add(a, conversation.KindAction, conversation.SourceAgent, p.id("a"))
	return a
}

func observationJSON(text string) json.RawMessage {
	raw, err := json.Marshal(map[string]any{"kind": "X", "content": []content.Part{content.Text(text)}, "is_error": false})
	if err != nil {
		panic(err)
	}
	return raw
}

func (p *path) result(a *conversation.ActionEvent, text string) *path {
	p.add(&conversation.ObservationEvent{ToolName: a.ToolName, ToolCallID: a.ToolCallID, ActionID: a.ID, Observation: observationJSON(text)},
		conversation.KindObservation, conversation.SourceEnvironment, p.id("o"))
	return p
}

func (p *path) reject(a *conversation.ActionEvent) *path {
	p.add(&conversation.UserRejectObservation{ToolName: a.ToolName, ToolCallID: a.ToolCallID, ActionID: a.ID, RejectionReason: "no"},
		conversation.KindUserReject, conversation.SourceEnvironment, p.id("r"))
	return p
}

func (p *path) fail(callID string) *path {
	p.add(&conversation.AgentErrorEvent{ToolName: "terminal", ToolCallID: callID, Error: "broken"},
		conversation.KindAgentError, conversation.SourceAgent, p.id("x"))
	return p
}

// steps adds answers of one call each, with results.
func (p *path) steps(n int, thinking bool) *path {
	for range n {
		a := p.call(p.id("resp"), p.id("call"), thinking)
		p.result(a, "ok")
	}
	return p
}

func (p *path) request() *path {
	p.add(&conversation.CondensationRequest{}, conversation.KindCondenseRequest, conversation.SourceEnvironment, p.id("q"))
	return p
}

func (p *path) forget(offset *int, summary string, ids ...string) *path {
	p.add(&conversation.Condensation{ForgottenIDs: ids, Summary: summary, SummaryOffset: offset},
		conversation.KindCondensation, conversation.SourceEnvironment, p.id("c"))
	return p
}

// put appends a condensation as an engine does.
func (p *path) put(c *conversation.Condensation) { p.events = append(p.events, c) }

func ptr[T any](v T) *T { return &v }

func ids(events []conversation.Payload) string {
	var out []string
	for _, p := range events {
		out = append(out, conversation.HeaderOf(p).ID)
	}
	return strings.Join(out, " ")
}

// settings are one condenser with these sizes.
func settings(t rapid.TB, maxSize, keepFirst int, change ...func(*conversation.Condenser)) condense.Settings {
	t.Helper()
	c := &conversation.Condenser{Kind: conversation.CondenserSummarizing, MaxSize: maxSize, KeepFirst: &keepFirst}
	for _, f := range change {
		f(c)
	}
	s, err := condense.FromOptions(c, condense.Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
