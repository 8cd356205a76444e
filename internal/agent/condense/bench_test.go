package condense_test

import (
	"fmt"
	"testing"
	"time"

	"parley/internal/agent"
	"parley/internal/agent/condense"
	"parley/internal/conversation"
)

// long is a log of about so many events, condensed every n of them; 0 = never.
func long(events, n int) *path {
	p := (&path{}).prompt("S").user("go")
	s := condense.Settings{{MaxSize: max(n, 1), KeepFirst: 4, MinimumProgress: 0.1, Resets: 5, Scaling: 0.8}}
	view := 2
	for len(p.events) < events {
		p.steps(1, false)
		if view += 2; n > 0 && view > n {
			plan := s.Plan(condense.Input{Path: p.events[max(0, len(p.events)-view):]})
			p.forget(&plan.Offset, "a summary", plan.Forget...)
			view -= len(plan.Forget) - 1
		}
	}
	return p
}

// odd is a log whose condensations each forget one event of a long view.
func odd(events, condensations int) *path {
	p := long(events, 0)
	for i := range condensations {
		p.forget(ptr(i), "s", conversation.HeaderOf(p.events[2*i+2]).ID)
	}
	return p
}

func BenchmarkView(b *testing.B) {
	for _, n := range []int{2_000, 20_000} {
		for name, p := range map[string]*path{"never": long(n, 0), "every80": long(n, 80), "odd20": odd(n, 20)} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				for b.Loop() {
					condense.View(p.events)
				}
			})
		}
	}
}

func BenchmarkWayOut(b *testing.B) {
	for _, n := range []int{2_000, 20_000} {
		p := long(n, 0).request()
		s := settings(b, 80, 4)
		b.Run(fmt.Sprintf("plan/%d", n), func(b *testing.B) {
			for b.Loop() {
				s.Plan(condense.Input{Path: p.events, Window: 8000})
			}
		})
		plan := s.Plan(condense.Input{Path: p.events, Window: 200_000})
		b.Run(fmt.Sprintf("request/%d", n), func(b *testing.B) {
			for b.Loop() {
				plan.Job(0).Start()
			}
		})
		view := condense.View(p.events)
		b.Run(fmt.Sprintf("fallback/%d", n), func(b *testing.B) {
			for b.Loop() {
				condense.Fallback(view, 32<<10)
			}
		})
		b.Run(fmt.Sprintf("render/%d", n), func(b *testing.B) {
			for b.Loop() {
				agent.View(p.events, nil)
			}
		})
	}
}

// Logs that are built to be slow must not be: each of these took minutes if calls
// and results were looked for one by one.
func TestLongLogs(t *testing.T) {
	const n = 8_000
	open := (&path{}).prompt("S").user("go") // calls first, their results in the opposite order
	var calls []*conversation.ActionEvent
	for range n {
		calls = append(calls, open.call("r", open.id("call"), false))
	}
	for i := range calls {
		open.result(calls[n-1-i], "ok")
	}
	same := (&path{}).prompt("S").user("go") // one id for all calls, and results by it
	for range n {
		same.call("r", "c", false)
	}
	for range n {
		same.fail("c")
	}
	unanswered := (&path{}).prompt("S").user("go")
	for range n {
		unanswered.call(unanswered.id("r"), "c", true)
	}
	words := (&path{}).prompt("S")
	for range n {
		words.user("wish")
	}
	for name, p := range map[string]*path{"steps": long(n, 0), "condensed": long(n, 80), "odd": odd(n, 10), "opposite": open,
		"same": same, "unanswered": unanswered, "words": words} {
		began := time.Now()
		agent.View(p.events, nil)
		plan := settings(t, 80, 4).Plan(condense.Input{Path: p.events, Refused: 1000, Tokens: 1000})
		plan.Job(0).Start()
		condense.Fallback(condense.View(p.events), 32<<10)
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%s took %v", name, took)
		} else {
			t.Logf("%s took %v", name, took)
		}
	}
}
