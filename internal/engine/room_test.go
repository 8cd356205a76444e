package engine_test

import (
	"strings"
	"testing"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
)

// A log has a bound. What is over it can be read, and its run ends with the reason; a
// fork from before goes on.
func TestAConversationThatIsFull(t *testing.T) {
	for name, bound := range map[string]func(*engine.Options){
		"events": func(o *engine.Options) { o.MaxLogEvents = 12 },
		"bytes":  func(o *engine.Options) { o.MaxLogBytes = 12_000 },
	} {
		t.Run(name, func(t *testing.T) {
			steps := make([]step, 40)
			for i := range steps {
				steps[i] = call("sh", `{"command":"head -c 1500 /dev/zero | tr '\\0' x"}`)
			}
			w := newWorldWith(t, bound, steps...)
			id := w.begin("go on for ever")
			w.wait(id, conversation.Error)
			calls := w.model.calls()
			if text := w.text(id); !strings.Contains(text, engine.CodeFull) || calls < 2 || calls > 20 {
				t.Fatalf("%d calls: %s", calls, text)
			}
			trace := strings.Join(w.trace(id), "\n")
			if strings.Count(trace, "action sh") != strings.Count(trace, "observation") {
				t.Errorf("a call is not answered:\n%s", trace)
			}
			n := len(w.trace(id))
			for what, err := range map[string]error{
				"message": w.engine.Send(t.Context(), owner, id, engine.Message{Parts: []content.Part{content.Text("more")}, Run: true}),
				"run":     w.engine.Run(t.Context(), owner, id),
				"goal":    w.engine.Goal(t.Context(), owner, id, "all of it", 1),
				"policy":  w.engine.SetPolicy(t.Context(), owner, id, conversation.ConfirmationPolicy{Kind: conversation.NeverConfirm}),
			} {
				if fault.CodeOf(err) != engine.CodeFull || !fault.Is(err, fault.Conflict) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if now := w.trace(id); len(now) != n || w.model.calls() != calls {
				t.Errorf("it grew to\n%s", strings.Join(now, "\n"))
			}
			if err := w.engine.Delete(t.Context(), owner, id); err != nil {
				t.Error(err)
			}
		})
	}
}

// What waits for the user when the bound is reached is answered before the end.
func TestAFullConversationStillConfirms(t *testing.T) {
	w := newWorldWith(t, func(o *engine.Options) { o.MaxLogEvents = 6 }, call("sh", `{"command":"true"}`), say("never said"))
	id := w.beginWith(engine.StartRequest{Owner: owner, Origin: conversation.OriginV1, InitialMessage: []content.Part{content.Text("go")},
		Confirmation: &conversation.ConfirmationPolicy{Kind: conversation.AlwaysConfirm}})
	w.wait(id, conversation.WaitingConfirmation)
	if err := w.engine.Confirm(t.Context(), owner, id, true, ""); err != nil {
		t.Fatal(err)
	}
	w.wait(id, conversation.Error)
	if trace := strings.Join(w.trace(id), "\n"); !strings.Contains(trace, "observation") || !strings.Contains(trace, engine.CodeFull) || w.model.calls() != 1 {
		t.Errorf("%d calls\n%s", w.model.calls(), trace)
	}
}
