package stuck_test

import (
	"encoding/json"
	"fmt"
	"strconv"

	"parley/internal/agent/stuck"
	"parley/internal/content"
	"parley/internal/conversation"
)

// log builds a path as the engine would.
type log struct {
	path    []conversation.Payload
	n       int
	answers int
}

func (l *log) header(kind, source string) conversation.Header {
	l.n++
	return conversation.Header{Kind: kind, ID: "event-" + strconv.Itoa(l.n), Source: source,
		Timestamp: fmt.Sprintf("2026-03-01T12:00:%02d.%06d", l.n/1000, l.n%1000)}
}

func (l *log) add(p conversation.Payload) *log {
	l.path = append(l.path, p)
	return l
}

func (l *log) message(source, text string) *log {
	role := "user"
	if source == conversation.SourceAgent {
		role = "assistant"
	}
	return l.add(&conversation.MessageEvent{Header: l.header(conversation.KindMessage, source),
		LLMMessage: conversation.LLMMessage{Role: role, Content: []content.Part{content.Text(text)}}})
}

func (l *log) user(text string) *log  { return l.message(conversation.SourceUser, text) }
func (l *log) agent(text string) *log { return l.message(conversation.SourceAgent, text) }
func (l *log) nudge() *log            { return l.message(conversation.SourceEnvironment, stuck.NudgeText()) }

func (l *log) stopped(code string) *log {
	return l.add(&conversation.ConversationErrorEvent{Header: l.header(conversation.KindConversationError, conversation.SourceEnvironment), Code: code})
}

func (l *log) condensed() *log {
	return l.add(&conversation.Condensation{Header: l.header(conversation.KindCondensation, conversation.SourceEnvironment), Summary: "s"})
}

// noise adds events that say nothing about repetition.
func (l *log) noise() *log {
	l.add(&conversation.StateUpdateEvent{Header: l.header(conversation.KindStateUpdate, conversation.SourceEnvironment), Key: "stats"})
	l.add(&conversation.CondensationRequest{Header: l.header(conversation.KindCondenseRequest, conversation.SourceEnvironment)})
	l.add(&conversation.Unknown{Header: l.header("HookExecutionEvent", conversation.SourceHook)})
	return l.add(&conversation.PauseEvent{Header: l.header(conversation.KindPause, conversation.SourceUser)})
}

// did is a call with its result.
type did struct {
	tool, thought, action, args string // args is what the model wrote; "" = action
	observation                 string // "" = none
	err, reject                 string
}

func ls(output string) did {
	return did{tool: "terminal", action: `{"command":"ls","kind":"TerminalAction"}`, observation: terminal(output, 0)}
}

func view(file string) did {
	return did{tool: "file_editor", action: fmt.Sprintf(`{"command":"view","path":%q}`, file), observation: text("of " + file)}
}

func broken(args string) did { return did{tool: "nonsense", args: args, err: "There is no such tool."} }

func text(s string) string {
	return fmt.Sprintf(`{"content":[{"type":"text","text":%q}],"is_error":false,"kind":"X"}`, s)
}

func terminal(output string, code int) string {
	return fmt.Sprintf(`{"content":[{"type":"text","text":%q}],"is_error":false,"exit_code":%d,"kind":"TerminalObservation"}`, output, code)
}

// turn adds the calls of one answer, then their results.
func (l *log) turn(calls ...did) *log { return l.mixed(nil, calls...) }

// mixed is turn with the results in the given order.
func (l *log) mixed(order []int, calls ...did) *log {
	l.answers++
	actions := make([]*conversation.ActionEvent, len(calls))
	for i, d := range calls {
		id := fmt.Sprintf("call-%d-%d", l.answers, i)
		args := d.args
		if args == "" {
			args = d.action
		}
		actions[i] = &conversation.ActionEvent{Header: l.header(conversation.KindAction, conversation.SourceAgent),
			ToolName: d.tool, ToolCallID: id, ToolCall: content.ToolCall{ID: id, Name: d.tool, Arguments: args},
			LLMResponseID: fmt.Sprint("response-", l.answers), SecurityRisk: "LOW", Summary: fmt.Sprint("summary ", l.n)}
		if d.thought != "" {
			actions[i].Thought = []content.Part{content.Text(d.thought)}
		}
		if d.action != "" {
			actions[i].Action = json.RawMessage(d.action)
		}
		l.add(actions[i])
		if d.err != "" { // told at once, between the calls
			l.result(actions[i], d)
		}
	}
	for i := range calls {
		if order != nil {
			i = order[i]
		}
		if calls[i].err == "" {
			l.result(actions[i], calls[i])
		}
	}
	return l
}

func (l *log) result(a *conversation.ActionEvent, d did) {
	switch {
	case d.err != "":
		l.add(&conversation.AgentErrorEvent{Header: l.header(conversation.KindAgentError, conversation.SourceAgent),
			ToolName: a.ToolName, ToolCallID: a.ToolCallID, Error: d.err})
	case d.reject != "":
		l.add(&conversation.UserRejectObservation{Header: l.header(conversation.KindUserReject, conversation.SourceEnvironment),
			ToolName: a.ToolName, ToolCallID: a.ToolCallID, ActionID: a.ID, RejectionReason: d.reject})
	case d.observation != "":
		l.add(&conversation.ObservationEvent{Header: l.header(conversation.KindObservation, conversation.SourceEnvironment),
			ToolName: a.ToolName, ToolCallID: a.ToolCallID, ActionID: a.ID, Observation: json.RawMessage(d.observation)})
	}
}

// times repeats what f adds.
func (l *log) times(n int, f func(*log)) *log {
	for range n {
		f(l)
	}
	return l
}
