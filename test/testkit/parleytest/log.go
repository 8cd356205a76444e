package parleytest

import "testing"

// CheckLog checks what holds for every log: no event twice, timestamps grow,
// every call is answered exactly once.
func CheckLog(t testing.TB, events []Event) {
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
		if n != 1 {
			t.Errorf("call %s has %d answers", call, n)
		}
	}
}
