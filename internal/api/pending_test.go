package api_test

import (
	"fmt"
	"strings"
	"testing"

	"parley/internal/conversation"
)

func pendingBody(text string) map[string]any {
	return map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": text}}}
}

func TestPendingMessagesOverHTTP(t *testing.T) {
	w := newWorld(t)
	until := make(chan struct{})
	w.boxes.HoldCreate(until)
	task := w.call(200, "POST", "/api/v1/app-conversations", map[string]any{}).text("id")
	path := "/api/v1/conversations/task-" + task + "/pending-messages"
	for i := range 10 {
		a := w.call(201, "POST", path, pendingBody(fmt.Sprint("m", i)))
		if a.at("queued") != true || a.at("position") != float64(i+1) || a.text("id") == "" {
			t.Fatalf("message %d: %s", i, a.body)
		}
	}
	if a := w.call(429, "POST", path, pendingBody("one too many")); a.text("code") != "pending_messages_full" {
		t.Errorf("too many: %s", a.body)
	}
	for name, body := range map[string]any{"no content": map[string]any{}, "empty content": map[string]any{"content": []any{}},
		"a role that is not the user's": map[string]any{"role": "system", "content": []any{map[string]any{"text": "x"}}},
		"no object":                     []any{}, "no JSON": "{", "nothing": ""} {
		if a := w.as(userKey, "POST", path, body); a.status != 400 || a.text("detail") == "" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	w.as(otherKey, "POST", path, pendingBody("x")).is(404)
	w.as("", "POST", path, pendingBody("x")).is(401)
	w.call(404, "POST", "/api/v1/conversations/"+string(conversation.NewID())+"/pending-messages", pendingBody("x"))
	close(until)
	var id string
	w.eventually("READY", func() bool {
		id, _ = w.call(200, "GET", "/api/v1/app-conversations/start-tasks?ids="+task, nil).at(0, "app_conversation_id").(string)
		return id != ""
	})
	var said []string
	w.eventually("all said", func() bool {
		said = nil
		for _, e := range w.events(id) {
			if e.Kind == conversation.KindMessage && e.Source == conversation.SourceUser {
				said = append(said, string(e.Raw))
			}
		}
		return len(said) == 10
	})
	for i, raw := range said {
		if !strings.Contains(raw, fmt.Sprintf(`"m%d"`, i)) {
			t.Errorf("message %d is %s", i, raw)
		}
	}
}
