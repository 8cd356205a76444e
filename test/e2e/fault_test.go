package e2e_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"parley/test/testkit/openaitest"
	"parley/test/testkit/parleytest"
)

func TestContextExceededIsToldAndCanBeContinued(t *testing.T) {
	s, model := withModel(t, nil)
	model.Reply(openaitest.Raw(http.StatusBadRequest, "application/json", `{"error":{"message":"This model's maximum context length is 8192 tokens. `+
		`However, your messages resulted in 9000 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}`), openaitest.Text("fits again"))
	id := s.Conversation("hello")
	s.WaitStatus(id, "error")
	e := s.WaitEvent(id, "the error", kind("ConversationErrorEvent"))
	if e["code"] != "LLMContextWindowExceedError" || !strings.Contains(e.Text(), "larger context window") {
		t.Errorf("%s", e.Text())
	}
	s.Send(id, "again")
	s.WaitEvent(id, "an answer", func(e parleytest.Event) bool { return strings.Contains(e.Text(), "fits again") })
}

// A key that is replaced in the settings counts at once in conversations that failed with the old one.
func TestWrongKeyIsMendedInTheSettings(t *testing.T) {
	s, model := withModel(t, nil)
	model.RequireKey("sk-the-right-one")
	id := s.Conversation("hello")
	s.WaitStatus(id, "error")
	if e := s.WaitEvent(id, "the error", kind("ConversationErrorEvent")); !strings.Contains(e.Text(), "llm_api_key") {
		t.Errorf("%s", e.Text())
	}
	s.UseModel(model.URL()+"/v1", map[string]any{"llm_api_key": "sk-the-right-one"})
	model.Reply(openaitest.Text("welcome"))
	s.Send(id, "again")
	s.WaitStatus(id, "finished")
}

// On a full disk nothing is acknowledged that is not kept, the server stays up,
// and it goes on by itself when there is room again.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root can mount the small file system this test fills")
	}
	dir, err := os.MkdirTemp("", "pf-")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=48m,mode=700"); err != nil {
		t.Skipf("SKIPPED: no tmpfs can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0); _ = os.Remove(dir) }) // after the server's own clean-up
	s := parleytest.Start(t, parleytest.Options{Dir: dir, Demo: true, Sandbox: "process"})
	id := s.Conversation("say: before")
	s.WaitStatus(id, "finished")
	before := len(s.Events(id))

	filler := filepath.Join(dir, "filler")
	fill(t, filler)
	var refused struct {
		Detail string `json:"detail"`
		Code   string `json:"code"`
	}
	long := strings.Repeat("a message that does not fit ", 4000)
	s.Eventually("the refusal", func() bool { // the log file may have some room left
		return s.Call("POST", "/api/v1/app-conversations/"+id+"/send-message", map[string]any{"role": "user", "run": false,
			"content": []any{map[string]any{"type": "text", "text": long}}}, &refused) == http.StatusServiceUnavailable
	})
	if refused.Code != "store_full" || !strings.Contains(refused.Detail, "space") {
		t.Errorf("%+v", refused)
	}
	for i, e := range s.Events(id) { // reading goes on
		if i >= before && e.Kind() != "MessageEvent" && e.Kind() != "ConversationStateUpdateEvent" {
			t.Errorf("stored on a full disk: %s", e.Text())
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	s.Eventually("room", func() bool { return s.Send(id, "say: after") == http.StatusOK })
	s.WaitEvent(id, "the answer", func(e parleytest.Event) bool {
		return e["source"] == "agent" && strings.Contains(e.Text(), "after")
	})
	parleytest.CheckLog(t, s.Events(id))
}

// fill writes until the file system is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for size := 1 << 20; size >= 1<<12; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}
