package parleytest

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Agent is a client of the agent protocol of one sandbox.
type Agent struct {
	*Server
	Base    string // the sandbox's address, without a slash at the end
	Key     string // the sandbox's key
	Sandbox string
}

// Agent makes a sandbox, by way of an empty conversation of it, and returns a
// client of its agent protocol.
func (s *Server) Agent() *Agent {
	s.t.Helper()
	return s.AgentOf(s.Conversation(""))
}

// AgentOf is the agent protocol's client for the sandbox of a conversation.
func (s *Server) AgentOf(id string) *Agent {
	s.t.Helper()
	url, key := s.AgentURL(id)
	base, _, _ := strings.Cut(url, "/api/conversations/")
	sandbox, _ := s.Info(id)["sandbox_id"].(string)
	return &Agent{Server: s, Base: base, Key: key, Sandbox: sandbox}
}

// Start starts a conversation and returns its id.
func (a *Agent) Start(body map[string]any) string {
	a.t.Helper()
	code, raw, err := a.Raw(a.t.Context(), a.Key, "POST", a.Base+"/api/conversations", body)
	if err != nil || code != http.StatusCreated {
		a.t.Fatalf("starting a conversation: %d %s %v", code, raw, err)
	}
	var made struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(raw, &made); err != nil {
		a.t.Fatalf("starting a conversation: %s: %v", raw, err)
	}
	return made.ID
}

// Do makes a request about a conversation; path begins behind its id. The answer
// must have the status wanted, and is decoded into out (if not nil).
func (a *Agent) Do(want int, method, id, path string, body, out any) {
	a.t.Helper()
	code, raw, err := a.Raw(a.t.Context(), a.Key, method, a.Base+"/api/conversations/"+id+path, body)
	if err != nil || code != want {
		a.t.Fatalf("%s %s: %d %s %v", method, path, code, raw, err)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(raw, out); err != nil {
		a.t.Fatalf("%s %s: %s: %v", method, path, raw, err)
	}
}

// Say sends a message that runs.
func (a *Agent) Say(id, text string) {
	a.t.Helper()
	a.Do(http.StatusOK, "POST", id, "/events", map[string]any{"role": "user", "run": true,
		"content": []any{map[string]any{"type": "text", "text": text}}}, nil)
}

// Status is a conversation's execution_status.
func (a *Agent) Status(id string) string {
	a.t.Helper()
	var info struct {
		Status string `json:"execution_status"`
	}
	a.Do(http.StatusOK, "GET", id, "", nil, &info)
	return info.Status
}

// Log returns the whole log as the agent protocol shows it.
func (a *Agent) Log(id string) []Event {
	a.t.Helper()
	var all []Event
	for page := ""; ; {
		var out struct {
			Items []Event `json:"items"`
			Next  *string `json:"next_page_id"`
		}
		a.Do(http.StatusOK, "GET", id, "/events/search"+page, nil, &out)
		if all = append(all, out.Items...); out.Next == nil {
			return all
		}
		page = "?page_id=" + *out.Next
	}
}

// File is the path, on this machine, of a file in the sandbox's working directory.
func (a *Agent) File(name string) string {
	return a.FileOf(a.Sandbox, name)
}

// FileOf is the path, on this machine, of a file in the working directory of a
// local sandbox. Where sandboxes have a file system of their own, it leads through
// the sandbox's first process and lives as long as that.
func (s *Server) FileOf(sandboxID, name string) string {
	box := filepath.Join(s.Dir, "sandboxes", sandboxID)
	plain := filepath.Join(box, "workspace")
	if _, err := os.Stat(plain); err == nil {
		return filepath.Join(plain, name)
	}
	var state struct {
		Process struct {
			PID int `json:"pid"`
		} `json:"process"`
	}
	if raw, err := os.ReadFile(filepath.Join(box, "state.json")); err != nil || json.Unmarshal(raw, &state) != nil {
		return filepath.Join(plain, name) // it has not started
	}
	return filepath.Join("/proc", strconv.Itoa(state.Process.PID), "root/workspace/project", name)
}
