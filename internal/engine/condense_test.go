package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/llm"
)

// narrow is a model with a window in bytes, which it keeps to, and tells as tokens
// or not at all. It runs commands with long output until it has run enough.
type narrow struct {
	mu        sync.Mutex
	window    int   // bytes of a prompt
	told      int64 // tokens of the window that it claims to have
	steps     int   // commands to run
	ran       int
	refused   int
	summaries int
	summarise step // answers requests for a summary; nil = a short one
	problem   string
}

func (m *narrow) Info() llm.Info {
	return llm.Info{Model: "test/narrow", ContextWindow: m.told, MaxOutput: 64, NativeTools: true}
}

func (m *narrow) Do(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if problem := wellFormed(req.Messages); problem != "" && m.problem == "" {
		m.problem = problem
	}
	if bytesOf(req) > m.window {
		m.refused++
		return nil, &llm.Error{Class: llm.ClassContext, Status: 400, Message: "the prompt is too long"}
	}
	next := say("done")
	switch {
	case len(req.Tools) == 0:
		m.summaries++
		if next = m.summarise; next == nil {
			next = say(fmt.Sprintf("summary %d", m.summaries))
		}
	case m.ran < m.steps:
		m.ran++
		next = call("sh", fmt.Sprintf(`{"command":"echo %d; head -c 900 /dev/zero | tr '\\0' x"}`, m.ran))
	}
	resp, err := next(ctx, req)
	if resp != nil {
		resp.ID = fmt.Sprintf("resp-%d-%d-%d", m.ran, m.summaries, m.refused)
		resp.Usage, resp.Cost = conversation.Usage{}, nil
	}
	return resp, err
}

func bytesOf(req *llm.Request) int {
	n := 0
	for _, m := range req.Messages {
		n += len(m.Text())
		for _, c := range m.ToolCalls {
			n += len(c.Arguments)
		}
	}
	return n
}

// wellFormed says what a provider would refuse about a history, "" if nothing.
func wellFormed(messages []content.Message) string {
	var open []string
	for i, m := range messages {
		if len(open) > 0 && (m.Role != content.RoleTool || m.ToolCallID != open[0]) {
			return fmt.Sprintf("message %d, a %s, where the result of %s should be", i, m.Role, open[0])
		}
		switch m.Role {
		case content.RoleTool:
			if len(open) == 0 {
				return fmt.Sprintf("message %d is a result without a call", i)
			}
			open = open[1:]
		case content.RoleSystem:
			if i > 0 {
				return fmt.Sprintf("message %d is a system prompt", i)
			}
		case content.RoleUser:
			if i > 0 && messages[i-1].Role == content.RoleUser {
				return fmt.Sprintf("messages %d and the one before are both the user's", i)
			}
		case content.RoleAssistant:
			if i == 0 || i == 1 && messages[0].Role == content.RoleSystem {
				return "the history begins with the model"
			}
			for _, c := range m.ToolCalls {
				open = append(open, c.ID)
			}
		}
	}
	if len(open) > 0 {
		return "a call without a result at the end"
	}
	return ""
}

func narrowWorld(t *testing.T, m *narrow) *world {
	w := newWorldWith(t, func(o *engine.Options) {
		o.Models = func(_ account.LLM, mo engine.ModelOptions) (llm.Model, error) { return guard(mo, m), nil }
	})
	w.settings(func(s *account.Settings) { s.EnableDefaultCondenser = true })
	t.Cleanup(func() {
		if m.problem != "" {
			t.Errorf("a malformed history was sent: %s", m.problem)
		}
	})
	return w
}

func (w *world) condensations(id conversation.ID) int {
	w.Helper()
	n := 0
	for _, ev := range w.events(id) {
		if ev.Kind == conversation.KindCondensation {
			n++
		}
	}
	return n
}

// A run that outgrows the model's window many times over ends where it should,
// whether or not anybody knows how large the window is. The log keeps everything.
func TestALongRunOutgrowsTheWindow(t *testing.T) {
	for name, told := range map[string]int64{"known": 3000, "unknown": 0, "told too large": 200_000} {
		t.Run(name, func(t *testing.T) {
			m := &narrow{window: 9000, told: told, steps: 40}
			w := narrowWorld(t, m)
			id := w.begin("count to forty")
			w.wait(id, conversation.Finished)
			trace := w.trace(id)
			if n := len(answers(trace)); n != 40 {
				t.Errorf("%d results in the log", n)
			}
			if n := w.condensations(id); n < 3 || n > 40 {
				t.Errorf("%d condensations", n)
			}
			t.Logf("%d condensations, %d summaries, %d refused prompts", w.condensations(id), m.summaries, m.refused)
			if m.refused > 12 {
				t.Errorf("%d prompts were refused: nothing was learnt from them", m.refused)
			}
		})
	}
}

// Without a model that summarises, a digest keeps the run going.
func TestCondensingWithoutASummary(t *testing.T) {
	for name, summarise := range map[string]step{"refused": fails(llm.ClassBadRequest), "empty": say(" "),
		"a defect": func(context.Context, *llm.Request) (*llm.Response, error) { panic("no") }} {
		t.Run(name, func(t *testing.T) {
			m := &narrow{window: 9000, told: 3000, steps: 15, summarise: summarise}
			w := narrowWorld(t, m)
			id := w.begin("count to fifteen, and keep the word walnut")
			w.wait(id, conversation.Finished)
			if !strings.Contains(w.text(id), "Older events were left out") {
				t.Error("there is no digest")
			}
			var last string
			for _, ev := range w.events(id) {
				if c, ok := must(conversation.Decode(ev)).(*conversation.Condensation); ok {
					last = c.Summary
				}
			}
			if !strings.Contains(last, "walnut") {
				t.Errorf("the user's words are lost: %s", last)
			}
		})
	}
}

// A message that is longer than the window is shortened, not a dead end.
func TestAMessageLongerThanTheWindow(t *testing.T) {
	m := &narrow{window: 6000, steps: 1}
	w := narrowWorld(t, m)
	id := w.begin("remember walnut. " + strings.Repeat("blah ", 10_000))
	w.wait(id, conversation.Finished)
	if m.ran != 1 {
		t.Error("the model was never reached")
	}
}

// A window that does not even hold the system prompt ends the run with words, not
// with a loop.
func TestAWindowThatHoldsNothing(t *testing.T) {
	m := &narrow{window: 10}
	w := narrowWorld(t, m)
	id := w.begin("hi")
	w.wait(id, conversation.Error)
	if text := w.text(id); !strings.Contains(text, llm.ClassContext.Code()) {
		t.Errorf("no reason in the log:\n%s", text)
	}
	if m.refused > 20 {
		t.Errorf("%d attempts", m.refused)
	}
	m.mu.Lock()
	m.window = 100_000 // another model
	m.mu.Unlock()
	w.send(id, "again")
	w.wait(id, conversation.Finished)
}

// Whoever turned condensing off hears what is wrong.
func TestNoCondenser(t *testing.T) {
	m := &narrow{window: 5000, steps: 20}
	w := narrowWorld(t, m)
	id := w.beginWith(engine.StartRequest{Owner: owner, Origin: conversation.OriginV1,
		Condenser: &conversation.Condenser{Kind: conversation.CondenserNone}})
	w.send(id, "go")
	w.wait(id, conversation.Error)
	if !strings.Contains(w.text(id), llm.ClassContext.Code()) || w.condensations(id) != 0 {
		t.Errorf("log:\n%s", w.text(id))
	}
}

// Many events are a reason to condense, but none to stop when it fails.
func TestTooManyEventsIsNoEmergency(t *testing.T) {
	for name, summarise := range map[string]step{"works": nil, "fails": fails(llm.ClassOverloaded)} {
		t.Run(name, func(t *testing.T) {
			m := &narrow{window: 1 << 20, steps: 20, summarise: summarise}
			w := narrowWorld(t, m)
			id := w.beginWith(engine.StartRequest{Owner: owner, Origin: conversation.OriginV1,
				Condenser: &conversation.Condenser{Kind: conversation.CondenserSummarizing, MaxSize: 20}})
			w.send(id, "go")
			w.wait(id, conversation.Finished)
			if n := w.condensations(id); (n == 0) != (summarise != nil) {
				t.Errorf("%d condensations", n)
			}
			if m.summaries > 12 {
				t.Errorf("%d calls for summaries", m.summaries)
			}
		})
	}
}

// The user can ask for a condensation at any time nothing waits for them.
func TestCondenseOnDemand(t *testing.T) {
	m := &narrow{window: 1 << 20, steps: 8}
	w := narrowWorld(t, m)
	id := w.begin("go")
	w.wait(id, conversation.Finished)
	if err := w.engine.Condense(t.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	if w.condensations(id) != 1 || w.status(id) != conversation.Finished {
		t.Fatalf("%d condensations, %s", w.condensations(id), w.status(id))
	}
	w.send(id, "what did you do?")
	w.wait(id, conversation.Finished)

	m.summarise = fails(llm.ClassNetwork)
	if err := w.engine.Condense(t.Context(), owner, id); err == nil {
		t.Error("a failure was not told")
	}
	w.send(id, "go on")
	w.wait(id, conversation.Finished)
}

func TestNoCondensationWhileActionsWait(t *testing.T) {
	confirm := true
	w := newWorld(t, call("sh", `{"command":"true"}`))
	id := w.beginWith(engine.StartRequest{Owner: owner, Origin: conversation.OriginV1, ConfirmationMode: &confirm})
	w.send(id, "go")
	w.wait(id, conversation.WaitingConfirmation)
	if err := w.engine.Condense(t.Context(), owner, id); !fault.Is(err, fault.Conflict) {
		t.Errorf("error %v", err)
	}
}

// An interrupt stops a summary under way, and the next run makes it.
func TestInterruptOfACondensation(t *testing.T) {
	started := make(chan struct{})
	m := &narrow{window: 9000, told: 3000, steps: 15}
	var once sync.Once
	m.summarise = func(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
		first := false
		once.Do(func() { first = true })
		if !first {
			return say("summary")(ctx, nil)
		}
		close(started)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	w := narrowWorld(t, m)
	id := w.begin("go")
	<-started
	if err := w.engine.Interrupt(t.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	w.wait(id, conversation.Paused)
	if trace := w.trace(id); !slices.Contains(trace, "interrupt") {
		t.Errorf("trace %v", trace)
	}
	if err := w.engine.Run(t.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	w.wait(id, conversation.Finished)
}
