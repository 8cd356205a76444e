package condense_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"parley/internal/agent"
	"parley/internal/agent/condense"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/llm"
)

// illFormed says what providers would refuse about a history, "" if nothing.
func illFormed(messages []content.Message) string {
	var open []string // calls that must be answered next
	before := ""
	for i, m := range messages {
		switch {
		case m.Role == content.RoleTool && (len(open) == 0 || open[0] != m.ToolCallID):
			return fmt.Sprintf("message %d answers %q, open are %q", i, m.ToolCallID, open)
		case m.Role != content.RoleTool && len(open) > 0:
			return fmt.Sprintf("message %d is of the %s, open are %q", i, m.Role, open)
		case m.Role == content.RoleSystem && i > 0:
			return fmt.Sprintf("message %d is of the system", i)
		case m.Role == content.RoleAssistant && before != content.RoleUser && before != content.RoleTool:
			return fmt.Sprintf("message %d is of the assistant after %q", i, before)
		case m.Role == content.RoleUser && before == content.RoleUser:
			return fmt.Sprintf("message %d is of the user after the user", i)
		case (m.Role == content.RoleUser || m.Role == content.RoleTool) && len(m.Parts) == 0:
			return fmt.Sprintf("message %d is empty", i)
		}
		if m.Role == content.RoleTool {
			open = open[1:]
		}
		for _, c := range m.ToolCalls {
			open = append(open, c.ID)
		}
		before = m.Role
	}
	if len(open) > 0 {
		return fmt.Sprintf("open at the end: %q", open)
	}
	if before == "" || before == content.RoleSystem {
		return "nobody says anything"
	}
	return ""
}

// checkView holds for every branch that a user has begun.
func checkView(t rapid.TB, p *path) {
	view := condense.View(p.events)
	if again := condense.View(view); ids(again) != ids(view) {
		t.Fatalf("the view of the view of\n%s is\n%s", ids(view), ids(again))
	}
	if why := illFormed(agent.View(p.events, nil)); why != "" {
		t.Fatalf("%s\npath %s\nview %s", why, describe(p.events), ids(view))
	}
	prompts := func(events []conversation.Payload) (n int) {
		for _, e := range events {
			if _, ok := e.(*conversation.SystemPromptEvent); ok {
				n++
			}
		}
		return n
	}
	if prompts(view) != prompts(p.events) {
		t.Fatalf("a system prompt is lost: %s", ids(view))
	}
}

func describe(events []conversation.Payload) string {
	var b strings.Builder
	for _, e := range events {
		b.WriteString(conversation.HeaderOf(e).ID)
		if c, ok := e.(*conversation.Condensation); ok {
			fmt.Fprintf(&b, "(%q at %v)", c.ForgottenIDs, c.SummaryOffset)
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// world draws a log as the engine may write it, or an import may bring it.
type world struct {
	*path
	t       *rapid.T
	sameIDs bool // endpoints that count their calls from 0 in every answer
	open    bool // an answer of the agent awaits a user's word
}

func begin(t *rapid.T) *world {
	w := &world{path: &path{}, t: t, sameIDs: rapid.Bool().Draw(t, "same ids")}
	if rapid.Bool().Draw(t, "prompt first") {
		w.prompt("S").user("the task")
	} else {
		w.user("the task").prompt("S")
	}
	return w
}

func (w *world) text() string {
	return strings.Repeat("text\n", rapid.SampledFrom([]int{1, 1, 1, 50, 3000}).Draw(w.t, "length"))
}

func (w *world) userTurn() {
	parts := []content.Part{content.Text(w.text())}
	if rapid.IntRange(0, 5).Draw(w.t, "image") == 0 {
		parts = append(parts, content.Image("data:image/png;base64,AAAA"))
	}
	source := rapid.SampledFrom([]string{conversation.SourceUser, conversation.SourceUser, conversation.SourceEnvironment}).Draw(w.t, "source")
	w.say(source, content.RoleUser, parts...)
	w.open = false
}

// batch adds an answer with calls, their results in any order, and what comes between.
func (w *world) batch() {
	if w.open {
		w.userTurn()
	}
	response, thinking := w.id("resp"), rapid.Bool().Draw(w.t, "thinking")
	var calls []*conversation.ActionEvent
	for i := range rapid.IntRange(1, 4).Draw(w.t, "calls") {
		callID := fmt.Sprintf("call_%d", i)
		if !w.sameIDs {
			callID = w.id("call")
		}
		a := w.call(response, callID, thinking && i == 0)
		if rapid.IntRange(0, 4).Draw(w.t, "bad call") == 0 {
			w.fail(callID)
		} else {
			calls = append(calls, a)
		}
	}
	for _, a := range rapid.Permutation(calls).Draw(w.t, "order") {
		switch rapid.IntRange(0, 9).Draw(w.t, "answer") {
		case 0:
			w.reject(a)
		case 1:
			w.user("meanwhile")
			w.result(a, "ok")
		case 2:
			if !w.sameIDs {
				w.fail(a.ToolCallID)
				continue
			}
			fallthrough
		case 3: // never answered, or not yet
			if rapid.IntRange(0, 3).Draw(w.t, "open") == 0 {
				continue
			}
			fallthrough
		default:
			w.result(a, w.text())
		}
	}
}

func (w *world) speech() {
	if w.open {
		w.userTurn()
	}
	w.agent(w.text())
	w.open = true
}

func (w *world) noise() {
	switch rapid.IntRange(0, 5).Draw(w.t, "noise") {
	case 0:
		w.add(&conversation.StateUpdateEvent{Key: "x", Value: json.RawMessage("1")}, conversation.KindStateUpdate, conversation.SourceEnvironment, w.id("n"))
	case 1:
		ghost := &conversation.ActionEvent{ToolCallID: "call_0"}
		ghost.ID = "ghost"
		w.result(ghost, "from nowhere")
	case 2:
		w.fail("nobody")
	case 3:
		w.request()
	}
}

// malformed forgets anything.
func (w *world) malformed() {
	var all []string
	for _, p := range w.events {
		all = append(all, conversation.HeaderOf(p).ID)
	}
	all = append(all, "unknown", "", "c1-summary")
	named := rapid.SliceOf(rapid.SampledFrom(all)).Draw(w.t, "named")
	if rapid.IntRange(0, 9).Draw(w.t, "all") == 0 {
		named = all
	}
	offset := rapid.Ptr(rapid.IntRange(-2, len(w.events)+2), true).Draw(w.t, "offset")
	w.forget(offset, rapid.SampledFrom([]string{"", "a summary", "</conversation_summary>"}).Draw(w.t, "summary"), named...)
}

// planned forgets what a plan says.
func (w *world) planned() {
	p := w.plan(condense.Input{Path: w.events, Refused: 1})
	if p.Err == nil {
		w.forget(&p.Offset, "planned", p.Forget...)
	}
}

func (w *world) plan(in condense.Input) condense.Plan {
	return settings(w.t, 20, rapid.IntRange(0, 6).Draw(w.t, "keep_first")).Plan(in)
}

func (w *world) grow(most int) {
	steps := []func(){w.userTurn, w.batch, w.batch, w.batch, w.speech, w.noise, w.malformed, w.planned}
	for range rapid.IntRange(0, most).Draw(w.t, "steps") {
		rapid.SampledFrom(steps).Draw(w.t, "step")()
	}
}

func TestViewIsAlwaysWellFormed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := begin(t)
		w.grow(25)
		checkView(t, w.path)
	})
}

// What a plan forgets is whole answers, and forgetting it does exactly that.
func TestPlansForgetWholeAnswers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := begin(t)
		w.grow(25)
		view := condense.View(w.events)
		keep := rapid.IntRange(0, 6).Draw(t, "keep")
		in := condense.Input{Path: w.events, Window: int64(rapid.SampledFrom([]int{0, 200, 5000}).Draw(t, "window")),
			Refused: int64(rapid.SampledFrom([]int{0, 1000}).Draw(t, "refused"))}
		p := settings(t, 20, keep).Plan(in)
		if p.Reason == 0 || p.Err != nil {
			if len(p.Forget) > 0 || p.Reason == 0 && p.Err != nil {
				t.Fatalf("%+v", p)
			}
			return
		}
		gone := map[string]bool{}
		for _, id := range p.Forget {
			gone[id] = true
		}
		head := false // an event that stays was forgotten
		for i, tie := range condense.Ties(view) {
			id := conversation.HeaderOf(view[i]).ID
			if tie.Batch >= 0 && gone[id] != gone[conversation.HeaderOf(view[tie.Batch]).ID] {
				t.Fatalf("%s splits an answer of %s", p.Forget, ids(view))
			}
			if _, summary := view[i].(*conversation.CondensationSummaryEvent); summary {
				head = true
			}
			if i < keep && gone[id] && !head {
				t.Fatalf("%s of %s is among the first %d", id, ids(view), keep)
			}
		}
		if len(p.Forget) < 2 || float64(len(p.Forget)) < 0.1*float64(len(view)) {
			t.Fatalf("%s is no progress", p)
		}
		w.forget(&p.Offset, "the summary", p.Forget...)
		want := slices.DeleteFunc(slices.Clone(view), func(e conversation.Payload) bool { return gone[conversation.HeaderOf(e).ID] })
		after := condense.View(w.events)
		if len(after) != len(want)+1 || ids(slices.Delete(slices.Clone(after), p.Offset, p.Offset+1)) != ids(want) {
			t.Fatalf("forgetting %v of\n%s leaves\n%s", p.Forget, ids(view), ids(after))
		}
		checkView(t, w.path)
	})
}

// size is how long a provider finds a request, images included.
func size(messages []content.Message) int {
	n := 0
	for _, m := range messages {
		n += 20 + len(m.Text())
		for _, p := range m.Parts {
			n += 4000 * len(p.ImageURLs)
		}
		for _, c := range m.ToolCalls {
			n += 20 + len(c.Arguments)
		}
	}
	return n
}

// outcome draws what a call of the summarising model comes to.
func outcome(t *rapid.T) (*llm.Response, error) {
	switch rapid.IntRange(0, 6).Draw(t, "outcome") {
	case 0:
		return answer(strings.Repeat("much ", rapid.IntRange(0, 50_000).Draw(t, "words"))), nil
	case 1:
		return answer("short"), nil
	case 2:
		return answer(" "), nil
	case 3:
		return nil, nil
	case 4:
		return nil, errors.New("a defect")
	}
	return nil, failure(rapid.SampledFrom([]llm.Class{llm.ClassContext, llm.ClassTimeout, llm.ClassMalformed, llm.ClassBadRequest,
		llm.ClassContentPolicy, llm.ClassNoResponse}).Draw(t, "class"))
}

// carryOut is the engine's part.
func carryOut(t *rapid.T, p condense.Plan) condense.Step {
	job := p.Job(0)
	step := job.Start()
	for calls := 0; step.Request != nil; calls++ {
		if calls == p.Config.Resets+2 {
			t.Fatalf("%d calls, and no end", calls)
		}
		step = job.Take(outcome(t))
	}
	return step
}

// A provider whose window is not known refuses prompts until they fit. Whatever
// the model does, they fit in the end, or nothing but the system prompt and a few
// words is left.
func TestOverflowAlwaysEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := begin(t)
		w.grow(20)
		w.user(strings.Repeat("x", rapid.IntRange(1, 200_000).Draw(t, "the last message")))
		fits := rapid.IntRange(600, 20_000).Draw(t, "window")
		window := int64(rapid.SampledFrom([]int{0, 100_000, fits}).Draw(t, "known window"))
		wrong := rapid.IntRange(1, 40).Draw(t, "bytes for a token") // so far off is the estimate
		s := settings(t, 40, 4)
		for round := 0; size(agent.View(w.events, nil)) > fits; round++ {
			if round > 30 {
				t.Fatalf("%d bytes do not fit into %d after %d rounds", size(agent.View(w.events, nil)), fits, round)
			}
			w.request()
			estimate := int64(size(agent.View(w.events, nil))/wrong + 1)
			p := s.Plan(condense.Input{Path: w.events, Window: window, Tokens: estimate, Refused: estimate})
			if !p.Reason.Hard() {
				t.Fatalf("%s", p)
			}
			step := carryOut(t, p)
			if step.Err != nil {
				if left := size(agent.View(w.events, nil)); fault.CodeOf(step.Err) != condense.CodeTooLong || left > 2000 {
					t.Fatalf("%v with %d bytes left", step.Err, left)
				}
				return
			}
			w.put(step.Condensation)
			checkView(t, w.path)
			if condense.Requested(w.events) {
				t.Fatal("the request is still open")
			}
		}
	})
}

// Condensing without end makes a view shorter until nothing can be forgotten.
func TestCondensingConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := begin(t)
		w.grow(30)
		s := settings(t, 40, rapid.IntRange(0, 6).Draw(t, "keep"))
		for {
			w.request()
			before := len(condense.View(w.events))
			p := s.Plan(condense.Input{Path: w.events})
			if p.Err != nil {
				return
			}
			w.forget(&p.Offset, "a summary", p.Forget...)
			if after := len(condense.View(w.events)); after >= before {
				t.Fatalf("%d events, then %d", before, after)
			}
		}
	})
}

func TestFallbackIsBoundedAndWellFormed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := begin(t)
		w.grow(20)
		budget := rapid.IntRange(-1, 20_000).Draw(t, "budget")
		c := condense.Fallback(condense.View(w.events), budget)
		if len(c.Summary) > max(budget, 256) || strings.TrimSpace(c.Summary) == "" {
			t.Fatalf("%d bytes for %d", len(c.Summary), budget)
		}
		w.put(c)
		if got := agent.View(w.events, nil); len(got) != 2 || got[1].Role != content.RoleUser {
			t.Fatalf("%+v", got)
		}
		w.open = false
		w.grow(5)
		checkView(t, w.path)
	})
}

// The bounds of a request hold whatever the events are.
func TestRequestsStayInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := begin(t)
		w.grow(20)
		w.user(strings.Repeat("x", rapid.IntRange(1, 500_000).Draw(t, "the last message"))).request()
		window := int64(rapid.IntRange(2000, 300_000).Draw(t, "window"))
		step := settings(t, 40, 4).Plan(condense.Input{Path: w.events, Window: window}).Job(0).Start()
		if step.Request == nil {
			return
		}
		n := len(step.Request.Messages[0].Text()) + len(step.Request.Messages[1].Text())
		if least := 12_000; n > max(int(window-step.Request.MaxOutput)*3+2000, least) {
			t.Fatalf("%d bytes for a window of %d", n, window)
		}
	})
}

// FuzzView reads logs that nobody has checked.
func FuzzView(f *testing.F) {
	f.Add(`{"kind":"MessageEvent","id":"u","source":"user","llm_message":{"role":"user","content":[{"text":"hi"}]}}
{"kind":"ActionEvent","id":"a","source":"agent","tool_call_id":"c","tool_call":{"id":"c"},"llm_response_id":"r"}
{"kind":"ObservationEvent","id":"o","source":"environment","tool_call_id":"c","action_id":"a","observation":{"content":[{"image_urls":["data:image/png;base64,AA"]}],"is_error":true}}
{"kind":"Condensation","id":"k","forgotten_event_ids":["o"],"summary":"s","summary_offset":-1}`)
	f.Add(`{"kind":"AgentErrorEvent","id":"a"}
{"kind":"CondensationRequest","id":"q"}
{"kind":"ObservationEvent","id":"o","observation":3}
{"kind":"SystemPromptEvent","id":"s"}
{"kind":"MessageEvent","id":"m","source":"agent","llm_message":{"role":"tool"}}`)
	f.Fuzz(func(t *testing.T, log string) {
		p := (&path{}).user("begin")
		for line := range strings.Lines(log) {
			var h conversation.Header
			if json.Unmarshal([]byte(line), &h) != nil {
				continue
			}
			if e, err := conversation.Decode(conversation.Event{ID: h.ID, Kind: h.Kind, Raw: json.RawMessage(line)}); err == nil {
				p.events = append(p.events, e)
			}
		}
		view := condense.View(p.events)
		if again := condense.View(view); ids(again) != ids(view) {
			t.Errorf("%s, again %s", ids(view), ids(again))
		}
		agent.View(p.events, nil)
		plan := settings(t, 4, 0).Plan(condense.Input{Path: p.events, Refused: 1})
		job := plan.Job(0)
		step := job.Start()
		for step.Request != nil {
			step = job.Take(nil, failure(llm.ClassContext))
		}
		if step.Condensation == nil && step.Err == nil {
			t.Errorf("no way out: %+v", step)
		}
		if s := condense.Fallback(view, 1000).Summary; len(s) > 1000 {
			t.Errorf("%d bytes", len(s))
		}
	})
}

// FuzzSettings reads condensers that clients sent.
func FuzzSettings(f *testing.F) {
	f.Add(`{"kind":"LLMSummarizingCondenser","max_size":20,"keep_first":3,"minimum_progress":0.5}`)
	f.Add(`{"kind":"PipelineCondenser","condensers":[{"kind":"NoOpCondenser"},{"kind":"LLMSummarizingCondenser","max_size":-9223372036854775808}]}`)
	f.Fuzz(func(t *testing.T, raw string) {
		var c conversation.Condenser
		if json.Unmarshal([]byte(raw), &c) != nil {
			return
		}
		s, err := condense.FromOptions(&c, condense.Defaults{})
		if err != nil {
			if fault.KindOf(err) != fault.Invalid {
				t.Error(err)
			}
			return
		}
		p := (&path{}).prompt("S").user("go").steps(30, true).request()
		if plan := s.Plan(condense.Input{Path: p.events}); plan.Reason != 0 {
			plan.Job(0).Start()
		}
	})
}
