package projection_test

import (
	"encoding/json"
	"strings"
	"testing"

	"parley/internal/api/v0/projection"
	"parley/internal/conversation"
)

func (l *log) condenses(summary string, forgotten ...string) {
	offset := 2
	l.add(&conversation.Condensation{ForgottenIDs: forgotten, Summary: summary, SummaryOffset: &offset, LLMResponseID: "r"},
		conversation.KindCondensation, "environment")
}

func (l *log) updates(key, value string) {
	l.add(&conversation.StateUpdateEvent{Key: key, Value: json.RawMessage(value)}, conversation.KindStateUpdate, "environment")
}

// TestGoldenCondensation: what was forgotten is told in the numbers that legacy
// clients know, a second time without what was forgotten before.
func TestGoldenCondensation(t *testing.T) {
	l := running()
	a := l.runs("ls", "")
	l.ran(a, "ls", "x", 0)
	obs := l.events[len(l.events)-1]
	l.add(&conversation.CondensationRequest{}, conversation.KindCondenseRequest, "environment")
	l.condenses("so far", a, conversation.HeaderOf(obs).ID)
	b := l.runs("pwd", "")
	l.condenses("all of it", a, b, "unknown")
	l.condenses("")
	events := l.project()
	n := len(events)
	first := n - 7 // the call
	for i, want := range []string{
		`"action":"condensation_request","args":{}`,
		`"message":"Summary: so far","action":"condensation","args":{"forgotten_event_ids":null,"forgotten_events_start_id":7,"forgotten_events_end_id":8,"summary":"so far","summary_offset":2}`,
		`"action":"run"`,
		`"args":{"forgotten_event_ids":null,"forgotten_events_start_id":11,"forgotten_events_end_id":11,"summary":"all of it","summary_offset":2}`,
		`"message":"Condenser is dropping the events: [].","action":"condensation","args":{"forgotten_event_ids":[],"forgotten_events_start_id":null,"forgotten_events_end_id":null,"summary":null,"summary_offset":null}`,
	} {
		if got := plain(t, events[first+2+i]); !strings.Contains(got, want) || !strings.Contains(got, `"source":"agent"`) {
			t.Errorf("%s\nhas not %s", got, want)
		}
	}
}

func TestCondensationWithoutSummaryListsWhatIsDropped(t *testing.T) {
	l := running()
	a := l.runs("ls", "")
	l.ran(a, "ls", "x", 0)
	l.condenses("", a, conversation.HeaderOf(l.events[len(l.events)-1]).ID)
	events := l.project()
	if got := events[len(events)-1].Message; got != "Condenser is dropping the events: [7, 8]." {
		t.Error(got)
	}
}

// TestCondensationAfterRestart: numbers are the same when the state was restored
// from what was recorded.
func TestCondensationAfterRestart(t *testing.T) {
	l := running()
	a := l.runs("ls", "")
	l.ran(a, "ls", "x", 0)
	l.condenses("one", a)
	b := l.runs("pwd", "")
	l.condenses("two", a, b)
	rows := l.number()
	var restored projection.State
	for i := 0; i < len(rows)-1; {
		seq, derived := rows[i].seq, []projection.Derived{}
		for ; i < len(rows)-1 && rows[i].seq == seq; i++ {
			derived = append(derived, rows[i].derived)
		}
		var p conversation.Payload
		if seq >= 0 {
			p = l.events[seq]
		}
		restored.Replay(seq, p, derived)
	}
	last := rows[len(rows)-1]
	got := restored.Step(last.seq, l.events[last.seq], projection.Nothing)
	if len(got) != 1 || got[0] != last.derived {
		t.Errorf("%+v, was %+v", got, last.derived)
	}
}

// TestStateOfTheLoopIsNotShown: goals, policies, branches and notes have no
// legacy form and disturb none.
func TestStateOfTheLoopIsNotShown(t *testing.T) {
	l := running()
	before := len(l.project())
	l.updates(conversation.KeyGoal, `{"active":true,"status":"running","iteration":1,"max_iterations":3,"objective":"x"}`)
	l.updates(conversation.KeyPolicy, `{"kind":"AlwaysConfirm"}`)
	l.updates(conversation.KeyAnalyzer, `null`)
	l.updates(conversation.KeyLeaf, `null`)
	l.updates(conversation.KeyAgentState, `{"refinements":1}`)
	l.updates("novel", `{}`)
	if got := l.project(); len(got) != before {
		t.Errorf("%d events more", len(got)-before)
	}
}

// TestCallsOfAnotherBranchAreNotConfirmed: a call that was left waiting when the
// conversation went on elsewhere does not come again.
func TestCallsOfAnotherBranchAreNotConfirmed(t *testing.T) {
	l := running()
	l.runs("rm a", "")
	l.status(conversation.WaitingConfirmation)
	l.updates(conversation.KeyLeaf, `null`)
	l.status(conversation.Idle)
	l.says("user", "other")
	l.status(conversation.Running)
	l.runs("rm b", "")
	l.status(conversation.WaitingConfirmation)
	l.status(conversation.Running)
	if got := strings.Count(brief(l.project()), "rm a"); got != 1 {
		t.Errorf("shown %d times:\n%s", got, brief(l.project()))
	}
}
