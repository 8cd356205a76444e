package golden_test

import (
	"slices"
	"testing"
)

// lawful checks what holds for every conversation, whatever happened in it: log is
// what a search finds, frames are what the event socket showed.
func lawful(t *testing.T, log, frames []event) {
	t.Helper()
	for _, e := range log {
		for _, fault := range misshapen(e) {
			t.Errorf("%s: %s", compact(e), fault)
		}
	}
	shown := stored(frames)
	if len(shown) != len(log) {
		t.Errorf("the socket showed %d events of %d", len(shown), len(log))
	}
	last := ""
	for i, e := range log {
		if i < len(shown) && compact(shown[i]) != compact(e) {
			t.Errorf("event %d: the socket showed %s, a search finds %s", i, compact(shown[i]), compact(e))
		}
		if e.str("timestamp") <= last {
			t.Errorf("%s: not later than the event before", compact(e))
		}
		last = e.str("timestamp")
	}
	answeredOnce(t, branch(log), status(log))
	runsEndVisibly(t, frames)
	showsTheEnd(t, log, frames)
}

// status is the last one that a log tells.
func status(log []event) string {
	last := "idle"
	for _, e := range log {
		if s := e.status(); s != "" {
			last = s
		}
	}
	return last
}

// branch is the path from the start to the leaf (agent protocol 2.4): an event
// without a parent follows the one before it, and state updates are none of it.
func branch(log []event) []event {
	byID, parent := map[string]event{}, map[string]string{}
	leaf := ""
	for _, e := range log {
		id := e.str("id")
		if e.isState() {
			if e.str("key") == "leaf_event_id" {
				leaf = e.str("value")
			}
			continue
		}
		byID[id] = e
		if parent[id] = leaf; e.str("parent_id") != "" {
			parent[id] = e.str("parent_id")
		}
		leaf = id
	}
	var path []event
	for id := leaf; byID[id] != nil; id = parent[id] {
		path = append(path, byID[id])
	}
	slices.Reverse(path)
	return path
}

// answeredOnce: on a branch every tool call has exactly one answer, behind it, which
// names its action if it is a result. None is open in a conversation that does not
// run, unless it waits for the user or is paused.
func answeredOnce(t *testing.T, path []event, status string) {
	t.Helper()
	actions, answers := map[string]event{}, map[string]int{}
	for _, e := range path {
		id := e.str("tool_call_id")
		switch {
		case e.kind() == "ActionEvent":
			if _, ok := actions[id]; ok {
				t.Errorf("a second action of the call %s", id)
			}
			actions[id] = e
		case id != "":
			answers[id]++
			if action, ok := actions[id]; !ok {
				t.Errorf("%s answers no call", compact(e))
			} else if of := e.str("action_id"); of != "" && of != action.str("id") {
				t.Errorf("%s is of another action than its call", compact(e))
			}
		}
	}
	for id := range actions {
		if n := answers[id]; n > 1 || n == 0 && status != "waiting_for_confirmation" && status != "paused" {
			t.Errorf("the call %s has %d answers, in a conversation that is %s", id, n, status)
		}
	}
}

// runsEndVisibly: the first frame is a full_state, and the next frame behind the end
// of a run is one too, with the status that ended it (traps 3 and 4). Who connects
// later has had it as the first frame.
func runsEndVisibly(t *testing.T, frames []event) {
	t.Helper()
	if len(frames) == 0 || !frames[0].isFull() {
		t.Error("the first frame is no full_state")
	}
	running, shown := false, ""
	for i, f := range frames {
		switch {
		case f.isFull():
			shown = f.status()
		case f.status() != "":
			next := i+1 < len(frames) && frames[i+1].isFull() && frames[i+1].status() == f.status()
			if running && f.status() != "running" && shown != f.status() && !next {
				t.Errorf("behind the end of the run (%s) there is no full_state", f.status())
			}
			running = f.status() == "running"
		}
	}
}

// showsTheEnd: a full_state behind the last event tells what the log has come to.
func showsTheEnd(t *testing.T, log, frames []event) {
	t.Helper()
	last, path := frames[len(frames)-1], branch(log)
	if !last.isFull() {
		return
	}
	value, _ := last["value"].(map[string]any)
	var leaf, user any
	for _, e := range path {
		if leaf = e.str("id"); e.kind() == "MessageEvent" && e.str("source") == "user" {
			user = leaf
		}
	}
	if value["execution_status"] != status(log) || value["leaf_event_id"] != leaf || value["last_user_message_id"] != user {
		t.Errorf("the last full_state has %v, leaf %v and message %v; the log %s, %v, %v", value["execution_status"], value["leaf_event_id"],
			value["last_user_message_id"], status(log), leaf, user)
	}
}
