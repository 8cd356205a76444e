package engine_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/store"
)

// eventOf returns the id of the nth event of a kind, from 0.
func (w *world) eventOf(id conversation.ID, kind string, n int) string {
	w.Helper()
	for _, ev := range w.events(id) {
		if ev.Kind == kind {
			if n == 0 {
				return ev.ID
			}
			n--
		}
	}
	w.Fatalf("there is no such %s", kind)
	return ""
}

func (w *world) navigate(id conversation.ID, event string) {
	w.Helper()
	if err := w.engine.Navigate(w.Context(), owner, id, event); err != nil {
		w.Fatal(err)
	}
}

// The agent knows what is on the branch and nothing else, also after a restart,
// and the log keeps everything.
func TestNavigateGoesBackAndForth(t *testing.T) {
	w := newWorld(t, say("one"), say("two"), say("three"), say("four"))
	id := w.begin("first")
	w.wait(id, conversation.Finished)
	w.send(id, "second")
	w.wait(id, conversation.Finished)
	secondEnd := must(w.engine.View(t.Context(), owner, id)).Summary.Leaf
	w.navigate(id, w.eventOf(id, conversation.KindMessage, 1)) // the answer "one"
	if s := w.status(id); s != conversation.Idle {
		t.Fatalf("status %s", s)
	}
	w.stop()
	w.start()
	w.send(id, "other second")
	w.wait(id, conversation.Finished)
	if got := w.model.lastRequest(); strings.Contains(got, "two") || got != "user: first\nassistant: one\nuser: other second\n" {
		t.Fatalf("the model read\n%s", got)
	}
	w.navigate(id, secondEnd)
	w.send(id, "third")
	w.wait(id, conversation.Finished)
	if got := w.model.lastRequest(); got != "user: first\nassistant: one\nuser: second\nassistant: two\nuser: third\n" {
		t.Fatalf("the model read\n%s", got)
	}
	w.checkTree(id)
}

// From the very start there is a new system prompt and nothing else.
func TestNavigateToTheStart(t *testing.T) {
	w := newWorld(t, say("one"), say("two"))
	id := w.begin("first")
	w.wait(id, conversation.Finished)
	w.navigate(id, "")
	if v := must(w.engine.View(t.Context(), owner, id)); v.Summary.Leaf != "" || v.Summary.UserMessage != "" {
		t.Errorf("leaf %q, last message %q", v.Summary.Leaf, v.Summary.UserMessage)
	}
	w.send(id, "anew")
	w.wait(id, conversation.Finished)
	if got := w.model.lastRequest(); got != "user: anew\n" {
		t.Fatalf("the model read\n%s", got)
	}
	if n := strings.Count(strings.Join(w.trace(id), "\n"), "prompt"); n != 2 {
		t.Errorf("%d system prompts", n)
	}
	w.checkTree(id)
}

// A call is never run because somebody went back to it.
func TestNavigateToACallAnswersIt(t *testing.T) {
	w := newWorld(t, call("sh", `{"command":"echo x >> ran"}`), say("done"), call("sh", `{"command":"cat ran"}`))
	id := w.begin("go")
	w.wait(id, conversation.Finished)
	w.navigate(id, w.eventOf(id, conversation.KindAction, 0))
	w.send(id, "what now?")
	w.wait(id, conversation.Finished)
	if text := w.text(id); strings.Contains(text, `x\nx`) || !strings.Contains(text, "went back to the point before this call's result") {
		t.Errorf("log:\n%s", text)
	}
	w.checkTree(id)
}

func TestNavigateRefusals(t *testing.T) {
	started := make(chan struct{})
	w := newWorld(t, say("one"), hang(started))
	id := w.begin("first")
	w.wait(id, conversation.Finished)
	if err := w.engine.Navigate(t.Context(), owner, id, "nope"); fault.CodeOf(err) != engine.CodeNoEvent {
		t.Errorf("unknown event: %v", err)
	}
	head := must(w.engine.View(t.Context(), owner, id)).Summary
	w.navigate(id, head.Leaf) // where it is
	if now := must(w.engine.View(t.Context(), owner, id)).Summary; now.Head != head.Head || now.Status != conversation.Finished {
		t.Errorf("going nowhere changed something: %+v", now)
	}
	w.send(id, "second")
	<-started
	if err := w.engine.Navigate(t.Context(), owner, id, head.Leaf); fault.CodeOf(err) != engine.CodeRunning {
		t.Errorf("during a run: %v", err)
	}
	if err := w.engine.Interrupt(t.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
}

// Going away from actions that wait answers nothing with a consent.
func TestNavigateAwayFromWhatWaits(t *testing.T) {
	confirm := true
	w := newWorld(t, call("sh", `{"command":"touch ran"}`))
	id := w.beginWith(engine.StartRequest{Owner: owner, Origin: conversation.OriginV1, ConfirmationMode: &confirm})
	w.send(id, "go")
	w.wait(id, conversation.WaitingConfirmation)
	action := w.eventOf(id, conversation.KindAction, 0)
	w.navigate(id, w.eventOf(id, conversation.KindMessage, 0))
	if err := w.engine.Confirm(t.Context(), owner, id, true, ""); !fault.Is(err, fault.Conflict) {
		t.Errorf("confirm: %v", err)
	}
	w.navigate(id, action)
	if s := w.status(id); s != conversation.Idle {
		t.Errorf("status %s", s)
	}
	if err := w.engine.Confirm(t.Context(), owner, id, true, ""); !fault.Is(err, fault.Conflict) {
		t.Errorf("confirm: %v", err)
	}
	w.send(id, "and?")
	w.wait(id, conversation.Finished)
	if slices.Contains(w.trace(id), "observation call_0") {
		t.Error("the action ran without a consent")
	}
}

// checkTree holds the parents in the log against the leaf that it says.
func (w *world) checkTree(id conversation.ID) {
	w.Helper()
	state := conversation.NewState()
	for _, ev := range w.events(id) {
		state.Apply(ev, must(conversation.Decode(ev)))
	}
	if got := must(w.engine.View(w.Context(), owner, id)).Summary.Leaf; got != state.Branch.Leaf() {
		w.Errorf("the record says leaf %q, the log %q", got, state.Branch.Leaf())
	}
	if open := conversation.Unanswered(state.Branch.Path()); len(open) > 0 {
		w.Errorf("%d calls of the branch have no answer", len(open))
	}
}

func (w *world) fork(id conversation.ID, req engine.ForkRequest) *engine.View {
	w.Helper()
	v, err := w.engine.Fork(w.Context(), owner, id, req)
	if err != nil {
		w.Fatal(err)
	}
	return v
}

// A fork knows what its source knew, works in the same sandbox, and goes its own way.
func TestFork(t *testing.T) {
	w := newWorld(t, call("sh", `{"command":"echo hello > f"}`), say("written"), call("sh", `{"command":"cat f"}`), say("read"), say("still here"))
	id := w.begin("write")
	w.wait(id, conversation.Finished)
	before := w.text(id)
	v := w.fork(id, engine.ForkRequest{Title: "copy"})
	if v.ForkedFrom != id || v.ForkedAt != w.eventOf(id, conversation.KindMessage, 1) || v.Title != "copy" || v.Summary.Status != conversation.Idle {
		t.Errorf("fork %+v", v.Conversation)
	}
	if v.Summary.Metrics.Cost() != 0 {
		t.Errorf("it begins with costs of %s", v.Summary.Metrics.Cost())
	}
	w.send(v.ID, "read")
	w.wait(v.ID, conversation.Finished)
	if text := w.text(v.ID); !strings.Contains(text, `hello\n`) {
		t.Errorf("the fork does not see the file:\n%s", text)
	}
	if w.text(id) != before {
		t.Error("the source changed")
	}
	w.checkTree(v.ID)
	w.send(id, "and you?")
	w.wait(id, conversation.Finished)
	if got := w.model.lastRequest(); strings.Contains(got, "read") {
		t.Errorf("the source knows of its fork:\n%s", got)
	}
	if err := w.engine.Delete(t.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	w.send(v.ID, "alone?") // its sandbox is still there
	w.wait(v.ID, conversation.Finished)
}

// A fork can be made from any event, also in the middle of a run: what is open
// there is answered, never run.
func TestForkFromAnyEvent(t *testing.T) {
	started := make(chan struct{})
	w := newWorld(t, call("sh", `{"command":"echo 1 >> n"}`, "sh", `{"command":"echo 2 >> n"}`), say("ok"),
		func(ctx context.Context, req *llm.Request) (*llm.Response, error) { return hang(started)(ctx, req) })
	id := w.begin("go")
	w.wait(id, conversation.Finished)
	w.send(id, "more")
	<-started
	var last string
	for _, ev := range w.events(id) {
		if ev.Kind == conversation.KindStateUpdate {
			if _, err := w.engine.Fork(t.Context(), owner, id, engine.ForkRequest{FromEvent: ev.ID}); fault.CodeOf(err) != engine.CodeNoEvent {
				t.Errorf("from a state update: %v", err)
			}
			continue
		}
		v := w.fork(id, engine.ForkRequest{FromEvent: ev.ID, KeepMetrics: true})
		w.checkTree(v.ID)
		if v.Summary.Metrics.Cost() == 0 {
			t.Error("its metrics are gone")
		}
		last = string(v.ID)
	}
	if err := w.engine.Interrupt(t.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	w.send(conversation.ID(last), "hi")
	w.wait(conversation.ID(last), conversation.Finished)
	if _, err := w.engine.Fork(t.Context(), owner, id, engine.ForkRequest{ID: conversation.ID(last)}); fault.CodeOf(err) != store.CodeExists {
		t.Errorf("an id that is taken: %v", err)
	}
	if _, err := w.engine.Fork(t.Context(), "somebody", id, engine.ForkRequest{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("somebody else's: %v", err)
	}
}
