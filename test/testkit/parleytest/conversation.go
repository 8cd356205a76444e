package parleytest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Event is an event as clients see it.
type Event map[string]any

// Kind returns the event's kind.
func (e Event) Kind() string { return e.str("kind") }

// ID returns the event's id.
func (e Event) ID() string { return e.str("id") }

func (e Event) str(key string) string { s, _ := e[key].(string); return s }

// Text returns all text of the event: messages, tool output, errors.
func (e Event) Text() string {
	raw, err := json.Marshal(map[string]any(e))
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// UseModel stores settings that point to a model server.
func (s *Server) UseModel(baseURL string, more map[string]any) {
	s.t.Helper()
	settings := map[string]any{"llm_model": "openai/test-model", "llm_api_key": "sk-secret-of-the-user", "llm_base_url": baseURL}
	for k, v := range more {
		settings[k] = v
	}
	if code := s.Call("POST", "/api/settings", settings, nil); code != http.StatusOK {
		s.t.Fatalf("POST /api/settings: %d", code)
	}
}

// Conversation starts one over V1 with a first message ("" = none) and returns
// its id once it is READY.
func (s *Server) Conversation(message string) string {
	s.t.Helper()
	body := map[string]any{}
	if message != "" {
		body["initial_message"] = map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": message}}}
	}
	id, err := s.StartWith(body)
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

// StartWith starts a conversation with a request of its own.
func (s *Server) StartWith(body map[string]any) (string, error) {
	s.t.Helper()
	var task struct {
		ID     string `json:"id"`
		Status string `json:"status"`
	}
	if code := s.Call("POST", "/api/v1/app-conversations", body, &task); code != http.StatusOK {
		return "", fmt.Errorf("POST app-conversations: %d", code)
	}
	var id string
	var failed error
	s.Eventually("start task "+task.ID, func() bool {
		var tasks []*struct {
			Status string  `json:"status"`
			Detail *string `json:"detail"`
			ID     *string `json:"app_conversation_id"`
		}
		s.Call("GET", "/api/v1/app-conversations/start-tasks?ids="+task.ID, nil, &tasks)
		switch {
		case len(tasks) != 1 || tasks[0] == nil:
			failed = fmt.Errorf("%w: the task is gone", ErrNoConversation)
		case tasks[0].Status == "ERROR":
			failed = fmt.Errorf("%w: %s", ErrNoConversation, *tasks[0].Detail)
		case tasks[0].Status == "READY":
			id = *tasks[0].ID
		default:
			return false
		}
		return true
	})
	return id, failed
}

// Send says something in a conversation.
func (s *Server) Send(id, message string) int {
	s.t.Helper()
	return s.Call("POST", "/api/v1/app-conversations/"+id+"/send-message", map[string]any{"role": "user",
		"content": []any{map[string]any{"type": "text", "text": message}}, "run": true}, nil)
}

// Info returns a conversation's record.
func (s *Server) Info(id string) map[string]any {
	s.t.Helper()
	var list []map[string]any
	if code := s.Call("GET", "/api/v1/app-conversations?ids="+id, nil, &list); code != http.StatusOK || len(list) != 1 {
		s.t.Fatalf("GET app-conversations?ids=%s: %d", id, code)
	}
	return list[0]
}

// WaitStatus polls until the conversation's execution_status is one of those wanted.
func (s *Server) WaitStatus(id string, want ...string) string {
	s.t.Helper()
	var got string
	s.Eventually("status "+strings.Join(want, "|")+" of "+id, func() bool {
		got, _ = s.Info(id)["execution_status"].(string)
		for _, w := range want {
			if got == w {
				return true
			}
		}
		return false
	})
	return got
}

// Events returns the whole log.
func (s *Server) Events(id string) []Event {
	s.t.Helper()
	var all []Event
	for page := ""; ; {
		var out struct {
			Items []Event `json:"items"`
			Next  *string `json:"next_page_id"`
		}
		path := "/api/v1/conversation/" + id + "/events/search?limit=100"
		if page != "" {
			path += "&page_id=" + page
		}
		if code := s.Call("GET", path, nil, &out); code != http.StatusOK {
			s.t.Fatalf("events/search: %d", code)
		}
		all = append(all, out.Items...)
		if out.Next == nil {
			return all
		}
		page = *out.Next
	}
}

// WaitEvent polls until an event satisfies want, and returns it.
func (s *Server) WaitEvent(id, what string, want func(Event) bool) Event {
	s.t.Helper()
	var found Event
	s.Eventually(what, func() bool {
		for _, e := range s.Events(id) {
			if want(e) {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

// AgentURL returns the agent protocol's address of a conversation and its key.
func (s *Server) AgentURL(id string) (url, key string) {
	s.t.Helper()
	info := s.Info(id)
	url, _ = info["conversation_url"].(string)
	key, _ = info["session_api_key"].(string)
	if url == "" || key == "" {
		s.t.Fatalf("conversation %s has no agent address: %v", id, info)
	}
	return url, key
}

// Frame is one frame of the event stream.
type Frame struct {
	Seq   int64 // -1 = live only
	Event string
	Data  string
}

// Stream reads the SSE stream after a seq until stop says so or ctx ends.
func (s *Server) Stream(ctx context.Context, id string, after int64, stop func(Frame) bool) error {
	req, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/api/v1/conversation/"+id+"/events/stream", nil)
	if err != nil {
		return err
	}
	req.Header.Set("X-Session-API-Key", Key)
	req.Header.Set("Last-Event-ID", strconv.FormatInt(after, 10))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("stream: %s", resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 64<<20)
	f := Frame{Seq: -1}
	for lines.Scan() {
		line := lines.Text()
		switch {
		case line == "":
			if f.Data != "" && stop(f) {
				return nil
			}
			f = Frame{Seq: -1}
		case strings.HasPrefix(line, "id:"):
			f.Seq, _ = strconv.ParseInt(strings.TrimSpace(line[3:]), 10, 64)
		case strings.HasPrefix(line, "event:"):
			f.Event = strings.TrimSpace(line[6:])
		case strings.HasPrefix(line, "data:"):
			f.Data += strings.TrimPrefix(line[5:], " ")
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// Within returns a context that ends after d, or with the test.
func (s *Server) Within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	s.t.Cleanup(cancel)
	return ctx
}
