package parleytest

import (
	"slices"
	"testing"

	"parley/internal/conversation"
)

// CheckLog checks what holds for every log: no event twice, timestamps grow,
// every call is answered exactly once. Those that are open may have no answer: the
// conversation went back to a point before them.
func CheckLog(t testing.TB, events []Event, open ...string) {
	t.Helper()
	answers, ids, last := map[string]int{}, map[string]bool{}, ""
	for _, e := range events {
		if ids[e.ID()] {
			t.Errorf("event %s is there twice", e.ID())
		}
		ids[e.ID()] = true
		if ts, _ := e["timestamp"].(string); ts <= last {
			t.Errorf("timestamp %s after %s", ts, last)
		} else {
			last = ts
		}
		call, _ := e["tool_call_id"].(string)
		switch e.Kind() {
		case "ActionEvent":
			if _, ok := answers[call]; !ok {
				answers[call] = 0
			}
		case "ObservationEvent", "AgentErrorEvent", "UserRejectObservation":
			answers[call]++
		}
	}
	for call, n := range answers {
		if n != 1 && (n != 0 || !slices.Contains(open, call)) {
			t.Errorf("call %s has %d answers", call, n)
		}
	}
}

// CheckStates checks the states of a conversation: each follows from the one
// before by the table, nothing is done outside a run, and every run that ends says
// why.
func CheckStates(t testing.TB, events []Event) {
	t.Helper()
	status := conversation.Idle
	var run []Event // since it began
	for i, e := range events {
		run = append(run, e)
		switch kind := e.Kind(); {
		case kind == "ConversationStateUpdateEvent" && e.str("key") == "execution_status":
			next := conversation.Status(e.str("value"))
			if !leads(status, next) {
				t.Errorf("event %d: %s follows %s", i, next, status)
			}
			if status == conversation.Running && !slices.ContainsFunc(run, func(e Event) bool { return ends(e, next) }) {
				t.Errorf("event %d: the run ends as %s without a cause", i, next)
			}
			status, run = next, nil
		case (kind == "ActionEvent" || kind == "ObservationEvent") && status != conversation.Running:
			t.Errorf("event %d: %s while the conversation is %s", i, kind, status)
		}
	}
}

// leads reports whether one trigger, or a message that runs, leads from one state
// to another.
func leads(from, to conversation.Status) bool {
	for _, trigger := range conversation.Triggers {
		next, ok := from.Next(trigger)
		if !ok {
			continue
		}
		if next == to {
			return true
		}
		if run, ok := next.Next(conversation.TrigRun); ok && trigger == conversation.TrigUserMessage && run == to {
			return true
		}
	}
	return false
}

// ends reports whether an event may be why a run ended with a state.
func ends(e Event, as conversation.Status) bool {
	switch as {
	case conversation.Paused:
		return e.Kind() == "PauseEvent" || e.Kind() == "InterruptEvent"
	case conversation.WaitingConfirmation:
		return e.Kind() == "ActionEvent"
	case conversation.Finished:
		return e.Kind() == "MessageEvent" && e.str("source") == "agent" || e.Kind() == "ObservationEvent" && e.str("tool_name") == "finish"
	}
	return e.Kind() == "ConversationErrorEvent"
}

// OpenCalls are the calls of a log without an answer.
func OpenCalls(events []Event) []string {
	var open []string
	for _, e := range events {
		switch call := e.str("tool_call_id"); e.Kind() {
		case "ActionEvent":
			open = append(open, call)
		case "ObservationEvent", "AgentErrorEvent", "UserRejectObservation":
			open = slices.DeleteFunc(open, func(c string) bool { return c == call })
		}
	}
	return open
}
