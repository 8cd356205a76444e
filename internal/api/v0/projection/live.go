package projection

import (
	"fmt"

	"parley/internal/conversation"
)

const (
	kindNull         = "null"
	kindRecall       = "recall"
	kindStateChanged = "agent_state_changed"
)

// Live returns the form in which an event is sent to clients that are there when it
// comes, false if it is not sent: what comes from the environment is shown as the
// agent's, if at all.
func (e *Event) Live() (*Event, bool) {
	switch {
	case e.Action == kindNull || e.Observation == kindNull:
		return nil, false
	case e.Source != sourceEnvironment:
		return e, true
	}
	switch e.Observation {
	case "run", kindStateChanged, kindRecall, "error":
		shown := *e
		shown.Source = sourceAgent
		return &shown, true
	}
	return nil, false
}

// Replayed reports whether an event is sent to clients that come after it. Of those
// which change the agent's state only the last is, behind all others.
func (e *Event) Replayed() bool {
	return e.Action != kindNull && e.Observation != kindNull && e.Action != kindRecall
}

// StateChange returns the state that the agent came to and why, false if the event says
// nothing of it.
func (e *Event) StateChange() (state AgentState, reason string, ok bool) {
	x, ok := e.Extras.(stateExtras)
	return x.AgentState, x.Reason, ok
}

// RetryOf returns what clients are told of a model that is asked again, false if the
// event says nothing of that.
func RetryOf(p conversation.Payload) (text string, ok bool) {
	retry := retryOf(p)
	if retry == nil || retry.Attempt == 0 {
		return "", false
	}
	return fmt.Sprintf("Retrying LLM request, %d / %d", retry.Attempt, retry.MaxAttempts), true
}

// retryOf returns what a run waits for, as an event tells it.
func retryOf(p conversation.Payload) *conversation.LLMRetry {
	u, ok := p.(*conversation.StateUpdateEvent)
	if !ok || u.Key != conversation.KeyAgentState {
		return nil
	}
	var notes conversation.AgentNotes
	decode(u.Value, &notes)
	return notes.LLMRetry
}
