package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/test/testkit/parleytest"
)

// TestAgentServer works in a directory of this machine over the agent protocol at
// the root, through a crash of the server.
func TestAgentServer(t *testing.T) {
	root, err := os.MkdirTemp("", "agent-server-") // below /tmp on purpose: sandboxes have a /tmp of their own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	if err := os.WriteFile(filepath.Join(root, "given.txt"), []byte("from the host\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := parleytest.Start(t, parleytest.Options{Agent: root, Demo: true, Env: []string{"OH_SESSION_API_KEYS_0=another-key-0123456789", "OH_TELEMETRY=1"}})
	var info struct {
		Version string `json:"version"`
	}
	if code := s.CallAs("", "GET", "/", nil, &info); code != 200 || strings.Count(info.Version, ".") != 2 {
		t.Fatalf("/: %d %+v", code, info)
	}
	for key, want := range map[string]int{parleytest.Key: 200, "another-key-0123456789": 200, "": 401, "wrong": 401} {
		if code := s.CallAs(key, "GET", "/api/conversations/search", nil, nil); code != want {
			t.Errorf("with the key %q: %d, want %d", key, code, want)
		}
	}
	for _, path := range []string{"/api/v1/app-conversations/search", "/api/options/models", "/agent/other/api/conversations/search"} {
		if code := s.Call("GET", path, nil, nil); code != 404 && code != 401 {
			t.Errorf("%s answers %d: only the agent protocol is here", path, code)
		}
	}
	for key, want := range map[string]int{parleytest.Key: 200, "": 401} {
		if code, _, err := s.Raw(t.Context(), key, "GET", "/metrics", nil); code != want || err != nil {
			t.Errorf("metrics with the key %q: %d %v", key, code, err)
		}
	}
	if log := s.Log(); !strings.Contains(log, "OH_TELEMETRY") {
		t.Errorf("nothing was said of a variable without effect:\n%s", log)
	}

	var made struct {
		ID        string `json:"id"`
		Workspace struct {
			Dir string `json:"working_dir"`
		} `json:"workspace"`
	}
	if code := s.Call("POST", "/api/conversations", map[string]any{"agent_settings": map[string]any{},
		"workspace":       map[string]any{"working_dir": root},
		"initial_message": map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": "run: cat given.txt > made.txt"}}}}, &made); code != 201 {
		t.Fatalf("start: %d\n%s", code, s.Log())
	}
	if made.Workspace.Dir != root {
		t.Errorf("it works in %s, not in %s", made.Workspace.Dir, root)
	}
	finished := func() bool {
		var c struct {
			Status string `json:"execution_status"`
		}
		s.Call("GET", "/api/conversations/"+made.ID, nil, &c)
		return c.Status == "finished"
	}
	s.Eventually("the run to finish", finished)
	if text, err := os.ReadFile(filepath.Join(root, "made.txt")); err != nil || string(text) != "from the host\n" {
		t.Errorf("what the agent made in the directory: %q, %v\n%s", text, err, s.Log())
	}

	s.Kill()
	s.Again()
	if code := s.Call("POST", "/api/conversations/"+made.ID+"/events", map[string]any{"role": "user", "run": true,
		"content": []any{map[string]any{"type": "text", "text": "again"}}}, nil); code != 200 {
		t.Fatalf("a message after the crash: %d\n%s", code, s.Log())
	}
	s.Eventually("the run after the crash", finished)
	var box struct {
		Response string `json:"response"`
	}
	if code := s.Call("GET", "/api/conversations/"+made.ID+"/agent_final_response", nil, &box); code != 200 || box.Response == "" {
		t.Errorf("the last words: %d %+v", code, box)
	}

	// The sandbox stays without a conversation.
	if code := s.Call("DELETE", "/api/conversations/"+made.ID, nil, nil); code != 200 {
		t.Fatalf("the last conversation is not deleted: %d", code)
	}
	if code := s.Call("GET", "/api/git/changes?path="+root, nil, nil); code != 200 {
		t.Errorf("without a conversation the files are not there: %d", code)
	}
	if code := s.Call("POST", "/api/conversations", map[string]any{"agent_settings": map[string]any{}, "workspace": map[string]any{"working_dir": root},
		"initial_message": map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": "run: cp made.txt again.txt"}}}}, &made); code != 201 {
		t.Fatalf("a conversation after the last one: %d\n%s", code, s.Log())
	}
	s.Eventually("its run to finish", finished)
	if _, err := os.Stat(filepath.Join(root, "again.txt")); err != nil {
		t.Errorf("%v\n%s", err, s.Log())
	}

	s.Kill()
	other := t.TempDir()
	said, err := exec.CommandContext(s.Within(time.Minute), parleytest.Binary(t), "agent-server", "--port", "0", "--workspace", other, "--data", s.Dir).CombinedOutput()
	if err == nil || !strings.Contains(string(said), "belongs to the workspace "+root) {
		t.Errorf("another workspace with the data of this one: %v: %s", err, said)
	}
}
