package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley/test/testkit/parleytest"
)

// legacyReplay starts a conversation over the legacy API that repeats events.
func legacyReplay(t *testing.T, s *parleytest.Server, events any) string {
	t.Helper()
	raw, err := json.Marshal(events)
	if err != nil {
		t.Fatal(err)
	}
	var made struct {
		ID string `json:"conversation_id"`
	}
	if code := s.Call("POST", "/api/conversations", map[string]any{"replay_json": string(raw)}, &made); code != 200 {
		t.Fatalf("replay: %d", code)
	}
	return made.ID
}

type legacyEvent struct {
	ID          int            `json:"id"`
	Source      string         `json:"source"`
	Action      string         `json:"action"`
	Observation string         `json:"observation"`
	Args        map[string]any `json:"args"`
	Extras      map[string]any `json:"extras"`
	Content     string         `json:"content"`
}

func trajectory(s *parleytest.Server, id string) []legacyEvent {
	var out struct {
		Trajectory []legacyEvent `json:"trajectory"`
	}
	s.Call("GET", "/api/conversations/"+id+"/trajectory", nil, &out)
	return out.Trajectory
}

// file is what the replay makes.
const file = "/workspace/f"

// done are the actions and their outputs, without what a server adds by itself.
func done(events []legacyEvent) (lines []string) {
	for _, e := range events {
		switch {
		case e.Action == "message" || e.Action == "run" || e.Action == "edit" || e.Action == "finish":
			lines = append(lines, fmt.Sprintf("%s %s %v%v%v", e.Source, e.Action, e.Args["content"], e.Args["command"], e.Args["final_thought"]))
		case e.Observation == "run":
			output, _, _ := strings.Cut(e.Content, ", ")
			lines = append(lines, "output "+output)
		case e.Observation == "mcp" && strings.Contains(e.Content, file):
			lines = append(lines, "found")
		case e.Observation == "agent_state_changed" && e.Extras["agent_state"] == "finished":
			lines = append(lines, "finished")
		}
	}
	return lines
}

// A replay really runs, survives a kill in the middle of a call, and its export can be
// replayed again, with the same result (legacy API 16).
func TestReplayAndItsExport(t *testing.T) {
	s := parleytest.Start(t, parleytest.Options{Demo: true})
	act := func(source, action string, args map[string]any) map[string]any {
		return map[string]any{"source": source, "action": action, "args": args}
	}
	id := legacyReplay(t, s, []any{
		act("environment", "change_agent_state", map[string]any{"agent_state": "running"}),
		act("user", "message", map[string]any{"content": "make a file"}),
		act("agent", "run", map[string]any{"command": "echo $((20+3)) > " + file + "; cat " + file, "thought": "now"}),
		act("agent", "run", map[string]any{"command": "touch begun; sleep 3; echo slept"}),
		act("agent", "message", map[string]any{"content": "There it is.", "wait_for_response": true}),
		act("user", "message", map[string]any{"content": "change it"}),
		act("agent", "run", map[string]any{"command": "echo behind it"}),
		act("agent", "edit", map[string]any{"path": file, "command": "str_replace", "old_str": "23", "new_str": "42"}),
		act("agent", "call_tool_mcp", map[string]any{"name": "grep", "arguments": map[string]any{"pattern": "42", "path": file}}),
		act("agent", "finish", map[string]any{"final_thought": "done", "thought": ""}),
	})
	ends := func(id string) func() bool {
		return func() bool { return slices.Contains(done(trajectory(s, id)), "finished") }
	}
	s.Eventually("the slow command", func() bool {
		lines := done(trajectory(s, id))
		return len(lines) > 0 && lines[len(lines)-1] == "agent run <nil>touch begun; sleep 3; echo slept<nil>"
	})
	s.Kill()
	s.Again()
	var began struct{}
	s.Call("POST", "/api/conversations/"+id+"/start", map[string]any{}, &began)
	s.Eventually("the end of the replay", ends(id))
	first := trajectory(s, id)
	var export json.RawMessage
	s.Call("GET", "/api/conversations/"+id+"/trajectory", nil, &export)
	want := []string{"user message make a file<nil><nil>", "agent run <nil>echo $((20+3)) > " + file + "; cat " + file + "<nil>", "output 23",
		"agent run <nil>touch begun; sleep 3; echo slept<nil>", "agent message There it is.<nil><nil>", "user message change it<nil><nil>",
		"agent run <nil><nil>", "output slept", "agent run <nil>echo behind it<nil>", "output behind it", "agent edit str_replace<nil>", "found", "agent finish <nil><nil>done", "finished"}
	if got := done(first); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}

	again := legacyReplay(t, s, export)
	s.Eventually("the end of the second replay", ends(again))
	want = slices.Insert(want, 4, "output slept") // nobody killed the server this time
	want[8] = "output No command is running"
	if got := done(trajectory(s, again)); !slices.Equal(got, want) {
		t.Errorf("the export: got %q", got)
	}
}
