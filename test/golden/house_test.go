package golden_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"testing"

	"parley/test/testkit/parleytest"
)

// house is a server with one sandbox, in which the conversations of its scenarios
// live.
type house struct {
	*parleytest.Server
	key string // of the sandbox
	dir string // of the sandbox, on this machine
}

func open(t *testing.T, env []string) *house {
	t.Helper()
	s := parleytest.Start(t, parleytest.Options{Sandbox: "process", Env: env})
	s.UseModel("http://127.0.0.1:9/v1", nil) // scenarios bring their own
	id := s.Conversation("")
	_, key := s.AgentURL(id)
	var info struct {
		Workspace struct {
			Dir string `json:"working_dir"`
		} `json:"workspace"`
	}
	if status := s.CallAs(key, "GET", "/api/conversations/"+id, nil, &info); status != 200 {
		t.Fatalf("GET conversation: %d", status)
	}
	return &house{s, key, path.Dir(info.Workspace.Dir)}
}

// call makes a request with the sandbox's key.
func (h *house) call(method, path string, body any) (int, []byte, error) {
	return h.Raw(context.Background(), h.key, method, path, body)
}

// events reads a log page by page.
func (h *house) events(conversation string) ([]event, error) {
	var all []event
	for page := ""; ; {
		status, raw, err := h.call("GET", conversation+"/events/search?limit=100&page_id="+page, nil)
		if err != nil || status != 200 {
			return nil, fmt.Errorf("events/search: %d %s %w", status, raw, err)
		}
		var out struct {
			Items []event `json:"items"`
			Next  *string `json:"next_page_id"`
		}
		if err := json.Unmarshal(raw, &out); err != nil {
			return nil, err
		}
		all = append(all, out.Items...)
		if out.Next == nil {
			return all, nil
		}
		page = *out.Next
	}
}

// count is how many events a log has.
func (h *house) count(conversation string) (int, error) {
	status, raw, err := h.call("GET", conversation+"/events/count", nil)
	if err != nil || status != 200 {
		return 0, fmt.Errorf("events/count: %d %s %w", status, raw, err)
	}
	var n int
	err = json.Unmarshal(raw, &n)
	return n, err
}
