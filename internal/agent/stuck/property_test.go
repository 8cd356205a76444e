package stuck_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"parley/internal/agent/stuck"
	"parley/internal/conversation"
)

// anyLog draws a log of few different things, so that they repeat often.
func anyLog(t *rapid.T) *log {
	l := &log{}
	things := []func(){
		func() { l.turn(ls("a")) },
		func() { l.turn(ls("b")) },
		func() { l.turn(view("a")) },
		func() { l.turn(broken("{}")) },
		func() { l.turn(ls("a"), broken("{}"), view("b")) },
		func() { l.mixed([]int{1, 0}, ls("a"), view("b")) },
		func() { l.agent("thinking") },
		func() { l.condensed() },
		func() { l.noise() },
		func() { l.nudge() },
		func() { l.user("more") },
		func() { l.stopped(stuck.CodeStuck) },
	}
	for range rapid.IntRange(0, 12).Draw(t, "phases") {
		some := rapid.SliceOfN(rapid.IntRange(0, len(things)-1), 1, 3).Draw(t, "things")
		for range rapid.IntRange(1, 6).Draw(t, "times") {
			for _, i := range some {
				things[i]()
			}
		}
	}
	return l
}

func settings(t *rapid.T) conversation.StuckDetection {
	n := rapid.IntRange(-1, 12)
	return conversation.StuckDetection{ActionObservation: n.Draw(t, "action_observation"), ActionError: n.Draw(t, "action_error"),
		Monologue: n.Draw(t, "monologue"), Alternating: n.Draw(t, "alternating")}
}

// TestIDsAndTimesDoNotMatter renames everything that names or dates an event.
func TestIDsAndTimesDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, s := anyLog(t), settings(t)
		before := stuck.Detect(l.path, s)
		used := map[string]string{}
		salt := rapid.Uint64().Draw(t, "salt")
		rename := func(id *string) {
			if *id == "" {
				return
			}
			if used[*id] == "" {
				used[*id] = fmt.Sprintf("%x-%d", salt, len(used))
			}
			*id = used[*id]
		}
		for _, p := range l.path {
			h := conversation.HeaderOf(p)
			rename(&h.ID)
			h.Timestamp = rapid.StringN(0, 5, -1).Draw(t, "timestamp")
			switch e := p.(type) {
			case *conversation.ActionEvent:
				rename(&e.ToolCallID)
				rename(&e.LLMResponseID)
				e.ToolCall.ID = e.ToolCallID
				e.Summary, e.SecurityRisk = h.ID, "HIGH"
			case *conversation.ObservationEvent:
				rename(&e.ToolCallID)
				rename(&e.ActionID)
			case *conversation.AgentErrorEvent:
				rename(&e.ToolCallID)
			}
		}
		if after := stuck.Detect(l.path, s); after != before {
			t.Fatalf("%+v, before %+v", after, before)
		}
	})
}

// TestDistinctActionsAreNeverStuck: whatever the thresholds, an agent that does
// something else each time goes on.
func TestDistinctActionsAreNeverStuck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, s := (&log{}).user("x"), settings(t)
		s.ActionError = max(s.ActionError, 2) // one failure is enough for a threshold of 1
		for i := range rapid.IntRange(0, 60).Draw(t, "length") {
			d := did{tool: "t", action: fmt.Sprintf(`{"n":%d}`, i), observation: text("the same result")}
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				d = did{tool: "t", args: fmt.Sprintf(`{"n":%d}`, i), err: "the same error"}
			case 1:
				l.noise()
			case 2:
				l.condensed()
			case 3:
				l.agent("the same message")
			}
			l.turn(d)
			if v := stuck.Detect(l.path, s); v != (stuck.Verdict{}) {
				t.Fatalf("after %d: %+v", i, v)
			}
		}
	})
}

// TestEventsThatSayNothingChangeNothing puts noise anywhere.
func TestEventsThatSayNothingChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, s := anyLog(t), settings(t)
		before := stuck.Detect(l.path, s)
		noise := (&log{}).noise().path
		for range rapid.IntRange(1, 5).Draw(t, "pieces") {
			at := rapid.IntRange(0, len(l.path)).Draw(t, "at")
			l.path = slices.Insert(l.path, at, rapid.SampledFrom(noise).Draw(t, "noise"))
		}
		if after := stuck.Detect(l.path, s); after != before {
			t.Fatalf("%+v, before %+v", after, before)
		}
	})
}

// TestVerdictsMakeSense holds for any log: at most one of stuck and nudge, words
// for the user, the path is left as it is, and what the user says starts anew.
func TestVerdictsMakeSense(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, s := anyLog(t), settings(t)
		path := slices.Clone(l.path)
		v := stuck.Detect(l.path, s)
		if v.Stuck && v.Nudge || (v.Pattern != "") != (v.Stuck || v.Nudge) || (v.Pattern != "") != (v.Detail != "") {
			t.Fatalf("%+v", v)
		}
		if !slices.Equal(path, l.path) {
			t.Fatal("the path was changed")
		}
		if v := stuck.Detect(l.user("new").path, s); v != (stuck.Verdict{}) {
			t.Fatalf("after a new message: %+v", v)
		}
	})
}

// BenchmarkDetect measures what every step pays in a long run.
func BenchmarkDetect(b *testing.B) {
	l := (&log{}).user("x")
	for i := range 20_000 {
		l.turn(view(fmt.Sprint(i)))
	}
	for b.Loop() {
		stuck.Detect(l.path, conversation.StuckDetection{})
	}
}

// FuzzDetect: whatever a call and its result hold, four times the same is a
// repetition, and one difference in the text is none.
func FuzzDetect(f *testing.F) {
	f.Add(`{"command":"ls"}`, text("a"), "")
	f.Add(`{"n":1e999,"m":-0.0,"o":[1.50,null]}`, `{"metadata":{"pid":7,"exit_code":null},"x":null}`, `{"a":`)
	f.Add(`[{"a":"output-0123456789abcdef.txt"}]`, `"metadata"`, `{} {}`)
	f.Add("\xff\x00", `{"metadata":[]}`, "")
	f.Fuzz(func(t *testing.T, action, observation, args string) {
		if observation == "" {
			return
		}
		d := did{tool: "t", action: action, args: args, observation: observation}
		l := (&log{}).user("x").times(4, func(l *log) { l.turn(d) })
		if v := stuck.Detect(l.path, conversation.StuckDetection{}); v.Pattern != stuck.PatternActionObservation || !v.Stuck {
			t.Fatalf("%+v", v)
		}
		d.thought = "something else"
		if v := stuck.Detect(l.turn(d).path, conversation.StuckDetection{}); v != (stuck.Verdict{}) {
			t.Fatalf("after something else: %+v", v)
		}
	})
}
