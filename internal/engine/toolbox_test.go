package engine_test

import (
	"context"
	"slices"
	"testing"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/tool"
)

// echoTool is a tool that is not in the default set.
func echoTool() tool.Tool {
	return tool.New(tool.Spec{Name: "echo", Description: "echoes"}, func(_ context.Context, _ *tool.Env, in runInput) (tool.Result, error) {
		return tool.TextObservation("EchoObservation", in.Command).Result()
	})
}

func toolNames(req *llm.Request) []string {
	var names []string
	for _, t := range req.Tools {
		names = append(names, t.Name)
	}
	return names
}

// TestToolsOfAConversation: a conversation has the tools it asked for, or the
// default ones, and no others, also after a restart.
func TestToolsOfAConversation(t *testing.T) {
	w := newWorldWith(t, func(o *engine.Options) {
		o.Tools = must(tool.NewSet(shTool(), echoTool(), finishTool()))
		o.DefaultTools = []string{"sh"}
	})
	for _, c := range []struct{ asked, want []string }{
		{nil, []string{"sh", "finish"}},
		{[]string{"echo"}, []string{"echo", "finish"}},
		{[]string{"finish", "echo", "sh", "echo"}, []string{"sh", "echo", "finish"}},
	} {
		w.model.mu.Lock()
		w.model.reqs = nil
		w.model.steps = []step{call("echo", `{"command":"x"}`), say("done"), say("done")}
		w.model.mu.Unlock()
		id := w.beginWith(engine.StartRequest{Owner: owner, Origin: conversation.OriginAgent, Tools: c.asked,
			InitialMessage: []content.Part{content.Text("go")}})
		w.wait(id, conversation.Finished)
		answer := "agent error call_0"
		if slices.Contains(c.want, "echo") {
			answer = "observation call_0"
		}
		if trace := w.trace(id); !slices.Contains(trace, answer) {
			t.Errorf("%v: %v", c.asked, trace)
		}
		w.stop()
		w.start()
		w.send(id, "again")
		w.wait(id, conversation.Finished)
		w.eventually("three calls", func() bool { w.model.mu.Lock(); defer w.model.mu.Unlock(); return len(w.model.reqs) == 3 })
		w.model.mu.Lock()
		for _, req := range w.model.reqs {
			if got := toolNames(req); !slices.Equal(got, c.want) {
				t.Errorf("%v: the model was told of %v", c.asked, got)
			}
		}
		w.model.mu.Unlock()
	}
	_, err := w.engine.Start(t.Context(), engine.StartRequest{Owner: owner, Tools: []string{"sh", "laser"}})
	if !fault.Is(err, fault.Invalid) || fault.CodeOf(err) != engine.CodeUnknownTool {
		t.Errorf("error %v", err)
	}
	if got := w.engine.ToolNames(); !slices.Equal(got, []string{"sh", "echo", "finish"}) {
		t.Errorf("all tools: %v", got)
	}
}
