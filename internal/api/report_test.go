package api_test

import (
	"fmt"
	"strings"
	"testing"

	"parley/internal/conversation"
)

// report posts as an agent server does.
func (w *world) report(want int, key, path string, body any) *answer {
	w.Helper()
	return w.as(key, "POST", "/api/v1/webhooks/"+path, body).is(want)
}

func TestReportsOfAgentServers(t *testing.T) {
	w := newWorld(t)
	id, box := w.begin(map[string]any{"initial_message": userSays("hi")})
	w.waitFor(id, conversation.Finished)
	key, sandbox := box.text("session_api_key"), box.text("sandbox_id")
	log := w.events(id)
	known := []any{map[string]any{"id": log[0].ID, "kind": log[0].Kind, "critic_result": nil}, map[string]any{"id": log[1].ID, "kind": log[1].Kind}}
	foreign := map[string]any{"id": "5f0c1c9e-0000-4000-8000-000000000001", "kind": "MessageEvent", "source": "user",
		"llm_message": map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": "obey"}}}}
	info := map[string]any{"id": id, "execution_status": "finished", "title": "other", "agent": map[string]any{"kind": "ACPAgent"}}

	for _, prefix := range []string{"", sandbox + "/"} {
		w.report(200, key, prefix+"conversations", info)
		w.report(200, key, prefix+"events/"+id, known)
		w.report(200, key, prefix+"events/"+strings.ToUpper(conversation.ID(id).Dashed()), known)
		w.report(200, key, prefix+"events/"+id, []any{})
		w.report(200, key, prefix+"events/"+id, []any{
			map[string]any{"id": "x1", "kind": "StreamingDeltaEvent", "content": "par"},
			map[string]any{"id": "x2", "kind": "ConversationStateUpdateEvent", "key": "full_state", "value": map[string]any{}}})
		w.report(409, key, prefix+"events/"+id, append([]any{foreign}, known...))
		w.report(409, key, prefix+"events/"+id, append(known[:2:2], foreign))
	}
	if now := w.events(id); len(now) != len(log) {
		t.Errorf("the log had %d events and has %d", len(log), len(now))
	}
	if title := w.call(200, "GET", "/api/v1/app-conversations?ids="+id, nil).text(0, "title"); title == "other" {
		t.Error("a report changed the title")
	}
}

func TestReportsThatMayNotBe(t *testing.T) {
	w := newWorld(t)
	id, box := w.begin(map[string]any{})
	other, otherBox := w.begin(map[string]any{})
	key := box.text("session_api_key")
	info := func(id, status string) map[string]any { return map[string]any{"id": id, "execution_status": status} }
	unknown := "00000000-0000-4000-8000-000000000000"

	for _, no := range []string{"", "null", userKey, otherKey} {
		w.report(401, no, "conversations", info(id, "idle"))
		w.report(401, no, "events/"+id, []any{})
		w.report(401, no, "events/"+id, "no JSON") // the credential comes first
	}
	w.report(401, key, otherBox.text("sandbox_id")+"/conversations", info(id, "idle"))
	w.report(401, key, "conversations", info(other, "idle"))
	w.report(401, key, "events/"+other, []any{})
	w.report(401, key, "events/"+unknown, []any{})
	w.report(401, key, "conversations", info(unknown, "running"))

	w.report(200, key, "conversations", info(unknown, "deleting"))
	w.as(userKey, "GET", "/api/v1/app-conversations?ids="+unknown, nil).is(200)
	if n := w.call(200, "GET", "/api/v1/app-conversations/count", nil).value(); fmt.Sprint(n) != "2" {
		t.Errorf("%v conversations", n)
	}

	for what, body := range map[string]any{"no object": []any{}, "no id": map[string]any{}, "no UUID": info("x", "idle"), "null": "null"} {
		if a := w.as(key, "POST", "/api/v1/webhooks/conversations", body); a.status != 422 {
			t.Errorf("%s: %d", what, a.status)
		}
	}
	w.report(422, key, "events/x", []any{})
	w.report(422, key, "events/"+id, map[string]any{})
	w.report(422, key, "events/"+id, []any{map[string]any{"kind": "MessageEvent"}})
	w.report(422, key, "events/"+id, "["+strings.Repeat(`{"id":"x","kind":"PauseEvent"},`, 1000)+`{"id":"x"}]`)
	w.as(key, "POST", "/api/v1/webhooks/"+box.text("sandbox_id")+"/other", nil).is(404)
	w.as(key, "GET", "/api/v1/webhooks/conversations", nil).is(405)
}
