package condense_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/internal/agent/condense"
	"parley/internal/conversation"
)

func TestViewAppliesCondensations(t *testing.T) {
	// s1 u2 a3 o4 a5 a6 o7 o8 m9 u10
	history := func() *path {
		p := (&path{}).prompt("S").user("go")
		a := p.call("r1", "c1", false)
		p.result(a, "ok")
		b, c := p.call("r2", "c2", false), p.call("r2", "c3", false)
		return p.result(c, "ok").result(b, "ok").agent("done").user("more")
	}
	tests := []struct {
		name   string
		change func(*path)
		want   string
	}{
		{"nothing", func(*path) {}, "s1 u2 a3 o4 a5 a6 o7 o8 m9 u10"},
		{"what models do not read is left out", func(p *path) {
			p.add(&conversation.PauseEvent{}, conversation.KindPause, conversation.SourceUser, "p")
			p.request()
		}, "s1 u2 a3 o4 a5 a6 o7 o8 m9 u10"},
		{"a range", func(p *path) { p.forget(ptr(2), "S", "a3", "o4", "a5", "a6", "o7", "o8") }, "s1 u2 c11-summary m9 u10"},
		{"without a summary", func(p *path) { p.forget(ptr(2), "", "a3", "o4") }, "s1 u2 a5 a6 o7 o8 m9 u10"},
		{"a blank summary is none", func(p *path) { p.forget(ptr(2), " \n", "a3", "o4") }, "s1 u2 a5 a6 o7 o8 m9 u10"},
		{"a summary without a place", func(p *path) { p.forget(nil, "S", "a3", "o4") }, "s1 u2 c11-summary a5 a6 o7 o8 m9 u10"},
		{"a place before the start", func(p *path) { p.forget(ptr(-3), "S", "a3", "o4") }, "c11-summary s1 u2 a5 a6 o7 o8 m9 u10"},
		{"a place beyond the end", func(p *path) { p.forget(ptr(99), "S", "a3", "o4") }, "s1 u2 a5 a6 o7 o8 m9 u10 c11-summary"},
		{"unknown and repeated ids", func(p *path) { p.forget(ptr(2), "S", "zz", "", "a3", "a3", "o4") }, "s1 u2 c11-summary a5 a6 o7 o8 m9 u10"},
		{"the system prompt stays", func(p *path) { p.forget(ptr(0), "S", "s1", "u2", "a3", "o4", "a5", "a6", "o7", "o8", "m9", "u10") }, "c11-summary s1"},
		{"a result takes its call along", func(p *path) { p.forget(ptr(2), "S", "o4") }, "s1 u2 c11-summary a5 a6 o7 o8 m9 u10"},
		{"a call takes its answer along", func(p *path) { p.forget(ptr(2), "S", "a3", "o4", "a6") }, "s1 u2 c11-summary m9 u10"},
		{"the place counts what was not named", func(p *path) { p.forget(ptr(5), "S", "a6", "o7", "o8") }, "s1 u2 a3 o4 c11-summary m9 u10"},
		{"one after another", func(p *path) {
			p.forget(ptr(2), "S", "a3", "o4").user("x").forget(ptr(2), "T", "c11-summary", "a5", "a6", "o7", "o8")
		}, "s1 u2 c13-summary m9 u10 u12"},
		{"messages that came meanwhile stay", func(p *path) { p.user("meanwhile").forget(ptr(2), "S", "a3", "o4") }, "s1 u2 c12-summary a5 a6 o7 o8 m9 u10 u11"},
		{"the same one twice", func(p *path) { p.forget(ptr(2), "S", "a3", "o4").forget(ptr(2), "S", "a3", "o4") }, "s1 u2 c12-summary c11-summary a5 a6 o7 o8 m9 u10"},
		{"results of nothing and second results are left out", func(p *path) {
			ghost := &conversation.ActionEvent{ToolCallID: "zz"}
			ghost.ID = "zz"
			p.result(ghost, "who?").fail("c1").fail("zz")
		}, "s1 u2 a3 o4 a5 a6 o7 o8 m9 u10"},
		{"a result that comes after its call was forgotten", func(p *path) {
			a := p.call("r9", "c9", false)
			p.forget(ptr(10), "S", a.ID).result(a, "late")
		}, "s1 u2 a3 o4 a5 a6 o7 o8 m9 u10 c12-summary"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := history()
			tt.change(p)
			before := ids(p.events)
			view := condense.View(p.events)
			if diff := cmp.Diff(tt.want, ids(view)); diff != "" {
				t.Error(diff)
			}
			if again := ids(condense.View(view)); again != tt.want {
				t.Errorf("the view of the view is %s", again)
			}
			if ids(p.events) != before {
				t.Error("the path was changed")
			}
		})
	}
}

func TestSummaryEvent(t *testing.T) {
	p := (&path{}).prompt("S").user("go").user("on").forget(ptr(1), "what was", "u2")
	got, ok := condense.View(p.events)[1].(*conversation.CondensationSummaryEvent)
	if !ok || got.Summary != "what was" || got.Kind != conversation.KindCondenseSummary || got.ID != "c4-summary" ||
		got.Source != conversation.SourceEnvironment || got.Timestamp == "" {
		t.Errorf("%+v", got)
	}
}

func TestTies(t *testing.T) {
	type tie = condense.Tie
	nothing := tie{Batch: -1, Peer: -1}
	p := (&path{}).user("go") // 0
	a := p.call("r", "c1", false)
	p.call("r", "c2", false) // 2: cannot be run
	p.fail("c2")             // 3
	b := p.call("r", "c3", false)
	p.user("meanwhile")                // 5
	p.result(b, "x").reject(a)         // 6, 7
	c := p.call("r", "c1", false)      // 8: another answer, though its ids are the same
	p.fail("c1").agent("hm").fail("z") // 9, 10, 11
	d := p.call("", "c5", false)       // 12
	p.result(d, "x").call("", "c6", false)
	_ = c
	want := []tie{nothing, {1, 7}, {1, 3}, {1, 2}, {1, 6}, nothing, {1, 4}, {1, 1}, {8, 9}, {8, 8}, nothing, nothing,
		{12, 13}, {12, 12}, {14, -1}}
	if diff := cmp.Diff(want, condense.Ties(p.events)); diff != "" {
		t.Error(diff)
	}
}

func TestRequestedAndTries(t *testing.T) {
	p := (&path{}).prompt("S").user("go")
	check := func(what string, requested bool, tries int) {
		t.Helper()
		if condense.Requested(p.events) != requested || condense.Tries(p.events) != tries {
			t.Errorf("%s: requested %v, tries %d", what, condense.Requested(p.events), condense.Tries(p.events))
		}
	}
	check("a fresh branch", false, 0)
	p.request().user("more")
	check("a request", true, 0)
	p.forget(ptr(1), "S", "u2")
	check("a condensation", false, 1)
	p.request().forget(nil, "")
	check("two", false, 2)
	p.steps(1, false).request()
	check("an answer", true, 0)
	p.forget(nil, "").agent("hm")
	check("a message of the agent", false, 0)
}
