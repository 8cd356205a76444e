package stuck_test

import (
	"fmt"
	"strings"
	"testing"

	"parley/internal/agent/stuck"
	"parley/internal/conversation"
)

// what is a verdict in a word.
func what(v stuck.Verdict) string {
	switch {
	case v.Stuck && v.Nudge:
		return "both"
	case v.Stuck:
		return v.Pattern
	case v.Nudge:
		return "nudge " + v.Pattern
	case v != (stuck.Verdict{}):
		return "odd"
	}
	return "go on"
}

func check(t *testing.T, l *log, want string, settings ...conversation.StuckDetection) {
	t.Helper()
	var s conversation.StuckDetection
	if len(settings) > 0 {
		s = settings[0]
	}
	v := stuck.Detect(l.path, s)
	if what(v) != want {
		t.Errorf("%s (%s), want %s", what(v), v.Detail, want)
	}
	if (v.Detail == "") != (want == "go on") {
		t.Errorf("detail %q of %s", v.Detail, want)
	}
}

// patterns repeats something n times, and has the threshold of the default.
var patterns = []struct {
	name      string
	threshold int
	atLimit   string
	beyond    string
	build     func(l *log, n int, between func(*log))
	set       func(*conversation.StuckDetection, int)
}{
	{"same result", 4, "action_observation", "action_observation",
		func(l *log, n int, between func(*log)) {
			l.times(n, func(l *log) { l.turn(ls("a")); between(l) })
		},
		func(s *conversation.StuckDetection, n int) { s.ActionObservation = n }},
	{"same rejection", 4, "action_observation", "action_observation",
		func(l *log, n int, between func(*log)) {
			l.times(n, func(l *log) { l.turn(did{tool: "t", action: `{"a":1}`, reject: "no"}); between(l) })
		},
		func(s *conversation.StuckDetection, n int) { s.ActionObservation = n }},
	{"same batch", 4, "action_observation", "action_observation",
		func(l *log, n int, between func(*log)) {
			l.times(n, func(l *log) { l.turn(ls("a"), view("b"), broken("{}"), view("c")); between(l) })
		},
		func(s *conversation.StuckDetection, n int) { s.ActionObservation = n }},
	{"same error", 3, "nudge action_error", "action_error",
		func(l *log, n int, between func(*log)) {
			l.times(n, func(l *log) { l.turn(broken(`{"x":1}`)); between(l) })
		},
		func(s *conversation.StuckDetection, n int) { s.ActionError = n }},
	{"same batch of errors", 3, "nudge action_error", "action_error",
		func(l *log, n int, between func(*log)) {
			l.times(n, func(l *log) { l.turn(broken(`{"x":1}`), broken(`{"x":2}`)); between(l) })
		},
		func(s *conversation.StuckDetection, n int) { s.ActionError = n }},
	{"monologue", 3, "monologue", "monologue",
		func(l *log, n int, between func(*log)) {
			i := 0
			l.times(n, func(l *log) {
				i++
				l.agent(fmt.Sprint("thinking ", i))
				between(l)
				l.message(conversation.SourceEnvironment, "You said nothing.")
			})
		},
		func(s *conversation.StuckDetection, n int) { s.Monologue = n }},
	{"alternating", 6, "alternating_pattern", "alternating_pattern",
		func(l *log, n int, between func(*log)) {
			for i := range n {
				l.turn([]did{view("a"), broken("{}")}[i%2])
				between(l)
			}
		},
		func(s *conversation.StuckDetection, n int) { s.Alternating = n }},
}

func TestThresholds(t *testing.T) {
	for _, p := range patterns {
		for name, between := range map[string]func(*log){
			"alone":                       func(*log) {},
			"with state updates, between": func(l *log) { l.noise() },
			"with condensations, between": func(l *log) { l.condensed() },
		} {
			t.Run(p.name+" "+name, func(t *testing.T) {
				for n, want := range map[int]string{0: "go on", p.threshold - 1: "go on", p.threshold: p.atLimit, p.threshold + 1: p.beyond} {
					l := (&log{}).user("do it").turn(view("start"))
					p.build(l, n, between)
					check(t, l, want)
				}
			})
		}
	}
}

func TestThresholdsCanBeSet(t *testing.T) {
	for _, p := range patterns {
		for _, n := range []int{5, 9, 30} { // also more than the window holds
			var s conversation.StuckDetection
			p.set(&s, n)
			none := func(*log) {}
			l := (&log{}).user("do it")
			p.build(l, n-1, none)
			check(t, l, "go on", s)
			p.build(l.user("again"), n, none)
			check(t, l, p.atLimit, s)
			s.Off = true
			check(t, l, "go on", s)
		}
	}
}

func TestSenselessThresholdsDoNotStopHonestWork(t *testing.T) {
	s := conversation.StuckDetection{ActionObservation: 1, Monologue: 1, Alternating: 1, ActionError: -1}
	check(t, (&log{}).user("x").turn(ls("a")).turn(view("b")).agent("done"), "go on", s)
	check(t, (&log{}).user("x").turn(ls("a")).turn(ls("a")), "action_observation", s)
}

func TestContextWindowLoop(t *testing.T) {
	start := func() *log { return (&log{}).user("x").turn(ls("a")) }
	for n, want := range map[int]string{3: "go on", 4: "context_window_loop", 5: "context_window_loop"} {
		check(t, start().times(n, func(l *log) { l.noise().condensed() }), want)
	}
	check(t, start().times(3, func(l *log) { l.condensed() }).turn(view("b")).condensed(), "go on")
	check(t, start().times(3, func(l *log) { l.condensed() }).agent("hm").condensed(), "go on")
	check(t, start().times(3, func(l *log) { l.condensed() }).user("go on").condensed(), "go on")
}

func TestNewChance(t *testing.T) {
	stuckLog := func() *log { return (&log{}).user("x").times(4, func(l *log) { l.turn(ls("a")) }) }
	check(t, stuckLog(), "action_observation")
	check(t, stuckLog().user("try something else"), "go on")
	check(t, stuckLog().stopped(stuck.CodeStuck), "go on")
	check(t, stuckLog().stopped(stuck.CodeStuck).times(3, func(l *log) { l.turn(ls("a")) }), "go on")
	check(t, stuckLog().stopped(stuck.CodeStuck).times(4, func(l *log) { l.turn(ls("a")) }), "action_observation")
	check(t, stuckLog().stopped("MaxIterationsReached"), "action_observation")
	check(t, stuckLog().message(conversation.SourceEnvironment, "hook feedback"), "action_observation")
	check(t, (&log{}).times(4, func(l *log) { l.turn(ls("a")) }), "action_observation") // the message was condensed or imported away
}

func TestNudgeOnce(t *testing.T) {
	failing := func(l *log) { l.turn(broken(`{"x":1}`)) }
	l := (&log{}).user("x").times(3, failing)
	check(t, l, "nudge action_error")
	check(t, l.nudge(), "go on")
	check(t, l.turn(broken(`{"x":1}`)), "action_error")

	l = (&log{}).user("x").times(3, failing).nudge().turn(view("a")).times(3, failing)
	check(t, l, "go on") // told already
	check(t, l.turn(broken(`{"x":1}`)), "action_error")

	l = (&log{}).user("x").times(3, failing).nudge()
	for i := range 10 { // the nudge leaves the window
		l.turn(view(fmt.Sprint(i)))
	}
	check(t, l.times(3, failing), "nudge action_error")

	check(t, (&log{}).user("x").times(3, failing).nudge().stopped(stuck.CodeStuck).times(3, failing), "nudge action_error")
	check(t, (&log{}).user("x").times(2, failing).agent(stuck.NudgeText()).turn(broken(`{"x":1}`)), "nudge action_error")
}

func TestErrorsMayReadDifferently(t *testing.T) {
	l := (&log{}).user("x")
	for i := range 3 {
		d := broken("{}")
		d.err = fmt.Sprint("failed at line ", i)
		l.turn(d)
	}
	check(t, l, "nudge action_error")
}

func TestEqual(t *testing.T) {
	base := did{tool: "t", thought: "Let me see.", action: `{"a":1,"b":{"c":[1,2],"d":"x"},"kind":"K"}`, observation: terminal("out", 0)}
	cases := []struct {
		name  string
		same  bool
		other func(*did)
	}{
		{"nothing", true, func(*did) {}},
		{"order and spaces", true, func(d *did) { d.action = ` {"kind":"K", "b":{"d":"x","c":[1,2]},"a":1}` }},
		{"spelling of a number", true, func(d *did) { d.action = `{"a":1.0,"b":{"c":[1,2e0],"d":"x"},"kind":"K"}` }},
		{"null member", true, func(d *did) { d.action = `{"a":1,"e":null,"b":{"c":[1,2],"d":"x"},"kind":"K"}` }},
		{"escapes", true, func(d *did) { d.action = `{"a":1,"b":{"c":[1,2],"d":"\u0078"},"kind":"K"}` }},
		{"labels", true, func(d *did) {
			d.action = `{"a":1,"b":{"c":[1,2],"d":"x"},"kind":"K","security_risk":"LOW","summary":"again"}`
		}},
		{"what the model wrote", true, func(d *did) { d.args = `{"a":1,"summary":"other"}` }},
		{"a nested label is no label", false, func(d *did) { d.action = `{"a":1,"b":{"c":[1,2],"d":"x","summary":"s"},"kind":"K"}` }},
		{"a value", false, func(d *did) { d.action = `{"a":2,"b":{"c":[1,2],"d":"x"},"kind":"K"}` }},
		{"number and text", false, func(d *did) { d.action = `{"a":"1","b":{"c":[1,2],"d":"x"},"kind":"K"}` }},
		{"order of a list", false, func(d *did) { d.action = `{"a":1,"b":{"c":[2,1],"d":"x"},"kind":"K"}` }},
		{"tool", false, func(d *did) { d.tool = "u" }},
		{"thought", false, func(d *did) { d.thought = "Let me see again." }},
		{"exit code", false, func(d *did) { d.observation = terminal("out", 1) }},
		{"output", false, func(d *did) { d.observation = terminal("out ", 0) }},
		{"rejected", false, func(d *did) { d.observation, d.reject = "", "no" }},
		{"failed", false, func(d *did) { d.observation, d.err = "", "no" }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			other := base
			c.other(&other)
			want := "go on"
			if c.same {
				want = "action_observation"
			}
			check(t, (&log{}).user("x").turn(base, view("a")).turn(base).turn(other).turn(base).turn(other), want)
			check(t, (&log{}).user("x").turn(other).turn(other).turn(base).turn(other), want)
		})
	}
}

func TestLargeNumbersDiffer(t *testing.T) {
	l := (&log{}).user("x")
	for _, n := range []string{"9007199254740993", "9007199254740992", "9007199254740993", "1e400", "2e400"} {
		l.turn(did{tool: "t", action: `{"n":` + n + `}`, observation: text("ok")})
	}
	check(t, l, "go on")
}

func TestUnreadableArguments(t *testing.T) {
	check(t, (&log{}).user("x").times(3, func(l *log) { l.turn(broken(`{"cut`)) }), "nudge action_error")
	check(t, (&log{}).user("x").turn(broken(`{"cut`)).turn(broken(`{"cut "`)).turn(broken(`{} {}`)).turn(broken(`{}`)), "go on")
	check(t, (&log{}).user("x").times(4, func(l *log) { l.turn(did{tool: "t", action: `{}`, observation: `no JSON`}) }), "action_observation")
}

func terminalWith(pid int, metadata string) string {
	return fmt.Sprintf(`{"content":[{"type":"text","text":"x [... The full output is in /s/output-%016x.txt. ...] y"}],"exit_code":0,
		"full_output_save_dir":"/s","metadata":{"exit_code":0,"pid":%d%s}}`, pid, pid, metadata)
}

func TestWhatChangesByItself(t *testing.T) {
	pid, next := 0, 0
	build := func(metadata func() string) *log {
		return (&log{}).user("x").times(4, func(l *log) {
			pid++
			l.turn(did{tool: "terminal", action: `{"command":"cat big"}`, observation: terminalWith(pid, metadata())})
		})
	}
	check(t, build(func() string { return `,"prefix":"","hostname":"h"` }), "action_observation")
	check(t, build(func() string { next++; return fmt.Sprintf(`,"prefix":"background job printed line %d"`, next) }), "go on")
	check(t, build(func() string { next++; return fmt.Sprintf(`,"working_dir":"/w/%d"`, next) }), "go on")
}

// TestPolling: to read on what a command prints is no repetition.
func TestPolling(t *testing.T) {
	pollFor := func(n int, action string, output func(i int) string) *log {
		l := (&log{}).user("x").turn(did{tool: "terminal", action: `{"command":"make"}`, observation: terminal("cc a.c", -1)})
		for i := range n {
			l.turn(did{tool: "terminal", action: action, observation: terminal(output(i), -1)})
		}
		return l
	}
	poll := func(action string, output func(i int) string) *log { return pollFor(9, action, output) }
	const more, key = `{"command":"","is_input":false}`, `{"command":"y","is_input":true}`
	for _, action := range []string{more, key} {
		check(t, poll(action, func(i int) string { return fmt.Sprintf("cc %d.c", i) }), "go on")
		check(t, poll(action, func(i int) string { return []string{"tick", "tock", "tick tick"}[i%3] }), "go on")
	}
	silent := func(int) string { return "" }
	check(t, poll(key, silent), "action_observation") // typing the same into it is no waiting
	check(t, pollFor(19, more, silent), "go on")
	check(t, pollFor(20, more, silent), "action_observation")
}

func TestDistinctScreensAreProgress(t *testing.T) {
	l := (&log{}).user("x")
	for i := range 8 {
		l.turn(did{tool: "browser_scroll", action: `{"direction":"down"}`,
			observation: fmt.Sprintf(`{"content":[{"type":"text","text":"Scrolled."}],"screenshot_data":"%d"}`, i)})
	}
	check(t, l, "go on")
}

func TestParallelCalls(t *testing.T) {
	// The same work several times at once is odd, but nothing was repeated yet.
	check(t, (&log{}).user("x").turn(ls("a"), ls("a"), ls("a"), ls("a"), ls("a"), ls("a")), "go on")
	check(t, (&log{}).user("x").turn(broken("{}"), broken("{}"), broken("{}"), broken("{}")), "go on")

	// Results belong to their calls, in whatever order they come.
	l := (&log{}).user("x")
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {1, 0, 2}} {
		l.mixed(order, ls("a"), view("b"), view("c"))
	}
	check(t, l, "action_observation")

	// Swapped results are other results.
	l = (&log{}).user("x")
	for i := range 4 {
		l.turn(ls([]string{"a", "b"}[i%2]), ls([]string{"b", "a"}[i%2]))
	}
	check(t, l, "go on")
	check(t, l.turn(ls("a"), ls("b")).turn(ls("b"), ls("a")), "alternating_pattern")
}

// TestManyCallsPerAnswer: big batches do not push each other out of the window.
func TestManyCallsPerAnswer(t *testing.T) {
	var batch []did
	for i := range 30 {
		batch = append(batch, view(fmt.Sprint(i)))
	}
	l := (&log{}).user("x").times(3, func(l *log) { l.turn(batch...) })
	check(t, l, "go on")
	check(t, l.turn(batch...), "action_observation")
}

// TestEndpointWithOneID: answers that all have the same id are still told apart.
func TestEndpointWithOneID(t *testing.T) {
	for _, id := range []string{"", "chatcmpl-1"} {
		for want, d := range map[string]did{"action_observation": ls("a"), "action_error": broken("{}")} {
			l := (&log{}).user("x").times(4, func(l *log) { l.turn(d) })
			for _, p := range l.path {
				if a, ok := p.(*conversation.ActionEvent); ok {
					a.LLMResponseID = id
					if d.err != "" {
						a.ToolCallID = "call"
					}
				}
				if e, ok := p.(*conversation.AgentErrorEvent); ok {
					e.ToolCallID = "call"
				}
			}
			check(t, l, want)
		}
	}
}

func TestOpenCallsComeFirst(t *testing.T) {
	l := (&log{}).user("x").times(4, func(l *log) { l.turn(ls("a")) })
	check(t, l.turn(did{tool: "terminal", action: `{"command":"ls"}`}), "go on")
	check(t, (&log{}).user("x").turn(ls("a"), did{tool: "t", action: `{}`}), "go on")
}

func TestAlternatingIsNoRepetition(t *testing.T) {
	high := conversation.StuckDetection{ActionObservation: 50}
	check(t, (&log{}).user("x").times(9, func(l *log) { l.turn(ls("a")) }), "go on", high)
	l := (&log{}).user("x")
	for i := range 12 {
		l.turn(view(fmt.Sprint(i % 3)))
	}
	check(t, l, "go on") // three take turns: not among the patterns
	check(t, (&log{}).user("x").turn(view("a")).turn(view("b")).times(4, func(l *log) { l.turn(view("a")) }), "action_observation")
}

func TestDetailIsForTheUser(t *testing.T) {
	long := did{tool: "file_editor", action: `{"text":"` + strings.Repeat("ä", 5000) + `\nline"}`, observation: text("no")}
	v := stuck.Detect((&log{}).user("x").times(4, func(l *log) { l.turn(long, view("b")) }).path, conversation.StuckDetection{})
	if len(v.Detail) > 1000 || strings.ContainsAny(v.Detail, "\n\r") || !strings.Contains(v.Detail, "4 times") ||
		!strings.Contains(v.Detail, "file_editor") || !strings.Contains(v.Detail, "1 more call") {
		t.Errorf("detail %q", v.Detail)
	}
	for _, l := range []*log{
		(&log{}).user("x").times(3, func(l *log) { l.turn(broken(`{"x":1}`)) }),
		(&log{}).user("x").times(5, func(l *log) { l.turn(ls("a")) }),
		(&log{}).user("x").times(3, func(l *log) { l.turn(ls("a")).turn(view("b")) }),
	} {
		t.Log(stuck.Detect(l.path, conversation.StuckDetection{}).Detail)
	}
}

func TestOddLogs(t *testing.T) {
	check(t, &log{}, "go on")
	l := &log{}
	l.result(&conversation.ActionEvent{ToolCallID: "x"}, did{observation: text("a")}) // of no known call
	l.result(&conversation.ActionEvent{ToolCallID: "x"}, did{err: "a"})
	check(t, l, "go on")
}
