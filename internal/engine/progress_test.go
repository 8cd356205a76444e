package engine_test

import (
	"context"
	"strings"
	"testing"

	"parley/internal/conversation"
	"parley/internal/llm"
	"parley/internal/tool"
)

// How far a call is shows in the notes while it runs, once for many reports at a time,
// masked, and not any more when it is answered.
func TestProgressOfACall(t *testing.T) {
	h, shown := &host{}, make(chan struct{})
	w := newWorldWith(t, h.use)
	slow := tool.New(tool.Spec{Name: "slow", Description: "remote", NoHands: true}, func(ctx context.Context, env *tool.Env, _ runInput) (tool.Result, error) {
		for range 100 {
			env.Progress("half done, " + strings.Repeat("long ", 100))
		}
		select {
		case <-shown:
		case <-ctx.Done():
		}
		return tool.TextObservation("SlowObservation", "done").Result()
	})
	w.model.steps = []step{func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
		h.of()[0].offer(tool.ServerConnected, slow)
		return call("sh", `{"command":"true"}`)(ctx, r)
	}, call("slow", `{"command":"x"}`)}
	id := w.beginWith(withServers("go"))
	notes := func() conversation.AgentNotes { return must(w.engine.View(t.Context(), owner, id)).Summary.Notes }
	w.eventually("the progress", func() bool { return len(notes().Progress) == 1 })
	if p := notes().Progress[0]; !strings.HasPrefix(p.Text, "half done") || len(p.Text) > 300 || p.ToolCallID == "" {
		t.Errorf("%+v", p)
	}
	close(shown)
	w.wait(id, conversation.Finished)
	if n := notes().Progress; len(n) != 0 {
		t.Errorf("%+v is left", n)
	}
	told := 0
	for _, e := range w.events(id) {
		if strings.Contains(string(e.Raw), "half done") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
}
