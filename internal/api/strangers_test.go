package api_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"parley/internal/conversation"
)

// Nothing of one user is visible to another through any route, or to be changed.
func TestUsersDoNotSeeEachOther(t *testing.T) {
	w := newWorld(t, callTool("sh", `{"command":"echo hush-hush"}`), say("done"))
	id, a := w.begin(map[string]any{"title": "hush-hush", "initial_message": userSays("hush-hush")})
	w.waitFor(id, conversation.Finished)
	box, key := a.text("sandbox_id"), a.text("session_api_key")
	task := w.call(200, "GET", "/api/v1/app-conversations/start-tasks/search", nil).text("items", 0, "id")
	event := w.events(id)[0].ID
	v1, agent := "/api/v1/app-conversations", "/agent/"+box
	events := "/api/v1/conversation/" + id + "/events"
	say := map[string]any{"content": []any{map[string]any{"type": "text", "text": "x"}}}
	for _, x := range []struct {
		method, path string
		body         any
		want         int
		answer       string // "" = any that says nothing
	}{
		{"GET", v1 + "/" + id, nil, 404, ""},
		{"GET", v1 + "?ids=" + id, nil, 200, "[null]"},
		{"GET", v1, nil, 200, `{"items":[],"next_page_id":null}`},
		{"GET", v1 + "/search?title__contains=hush&include_sub_conversations=true", nil, 200, `{"items":[],"next_page_id":null}`},
		{"GET", v1 + "/search?sandbox_id__eq=" + box, nil, 200, `{"items":[],"next_page_id":null}`},
		{"GET", v1 + "/search?page_id=" + id, nil, 200, `{"items":[],"next_page_id":null}`},
		{"GET", v1 + "/count", nil, 200, "0"},
		{"GET", v1 + "/count?sandbox_id__eq=" + box, nil, 200, "0"},
		{"PATCH", v1 + "/" + id, map[string]any{"title": "taken"}, 404, ""},
		{"DELETE", v1 + "/" + id, nil, 404, ""},
		{"POST", v1 + "/" + id + "/send-message", say, 404, ""},
		{"GET", v1 + "/start-tasks?ids=" + task, nil, 200, "[null]"},
		{"GET", v1 + "/start-tasks/search?conversation_id__eq=" + id, nil, 200, `{"items":[],"next_page_id":null}`},
		{"GET", v1 + "/start-tasks/count", nil, 200, "0"},
		{"POST", v1, map[string]any{"sandbox_id": box}, 404, ""},
		{"POST", v1, map[string]any{"parent_conversation_id": id}, 404, ""},
		{"POST", v1, map[string]any{"conversation_id": id}, 409, ""},
		{"GET", events + "/search", nil, 200, `{"items":[],"next_page_id":null}`},
		{"GET", events + "/count", nil, 200, "0"},
		{"GET", events + "?id=" + event, nil, 200, "[null]"},
		{"GET", events + "/stream", nil, 404, ""},
		{"GET", "/api/v1/events/search?conversation_id__eq=" + id, nil, 200, `{"items":[],"next_page_id":null}`},
		{"GET", "/api/v1/events/count?conversation_id__eq=" + id, nil, 200, "0"},
		{"GET", "/api/v1/events?id=" + event + "&conversation_id__eq=" + id, nil, 200, "[null]"},
		{"GET", "/api/v1/sandboxes?id=" + box, nil, 200, "[null]"},
		{"GET", "/api/v1/sandboxes/search", nil, 200, `{"items":[],"next_page_id":null}`},
		{"POST", "/api/v1/sandboxes/" + box + "/pause", nil, 404, ""},
		{"POST", "/api/v1/sandboxes/" + box + "/resume", nil, 404, ""},
		{"DELETE", "/api/v1/sandboxes/" + box, nil, 404, ""},
		{"DELETE", "/api/v1/sandboxes/none?sandbox_id=" + box, nil, 404, ""},
		{"GET", agent + "/api/conversations/" + id, nil, 404, ""},
		{"GET", agent + "/api/conversations?ids=" + id, nil, 404, ""},
		{"GET", agent + "/api/conversations/search", nil, 404, ""},
		{"GET", agent + "/api/conversations/count", nil, 404, ""},
		{"GET", agent + "/api/conversations/" + id + "/events/search", nil, 404, ""},
		{"GET", agent + "/api/conversations/" + id + "/events/" + event, nil, 404, ""},
		{"GET", agent + "/api/conversations/" + id + "/agent_final_response", nil, 404, ""},
		{"POST", agent + "/api/conversations/" + id + "/events", say, 404, ""},
		{"POST", agent + "/api/conversations/" + id + "/run", nil, 404, ""},
		{"DELETE", agent + "/api/conversations/" + id, nil, 404, ""},
		{"GET", "/agent/%73" + box[1:] + "/api/conversations/" + id, nil, 404, ""},
	} {
		got := w.as(otherKey, x.method, x.path, x.body)
		body := strings.TrimSpace(string(got.body))
		if got.status != x.want || x.answer != "" && body != x.answer {
			t.Errorf("%s %s: %d %s, want %d %s", x.method, x.path, got.status, body, x.want, x.answer)
		}
		for _, secret := range []string{"hush-hush", key, "user-1"} {
			if strings.Contains(body, secret) {
				t.Errorf("%s %s shows %q: %s", x.method, x.path, secret, body)
			}
		}
	}
	for _, path := range []string{"/sockets/events/" + id, agent + "/sockets/events/" + id} {
		conn, resp, err := w.dialWith(path+"?session_api_key="+otherKey, nil)
		if err != nil {
			if resp == nil || resp.StatusCode != 404 && resp.StatusCode != 403 {
				t.Errorf("%s: %v", path, err)
			}
			continue
		}
		if code := (&socket{w.TB, conn}).closed(); code != 4004 {
			t.Errorf("%s: closed with %d", path, code)
		}
	}
	if got := w.call(200, "GET", v1+"/"+id, nil); got.text("title") != "hush-hush" || got.text("sandbox_status") != "RUNNING" {
		t.Errorf("it was changed: %s", got.body)
	}
}

// The id of a sandbox may be written in any way, and what it names is asked for
// with the same key.
func TestAgentProtocolOfLegacyIDs(t *testing.T) {
	w := newWorld(t, say("ok"))
	_, a := w.begin(map[string]any{})
	key, box := a.text("session_api_key"), a.text("sandbox_id")
	conv, err := w.store.Conversations().Get(t.Context(), "", conversation.ID(a.text("id")))
	check(t, err)
	for _, id := range []conversation.ID{"my conv", `a%2Fb?x=1#y"'<`, ".", "日本語"} {
		odd := *conv
		odd.ID, odd.Origin, odd.Summary = id, conversation.OriginV0, conversation.Summary{Status: conversation.Idle}
		check(t, w.store.Conversations().Create(t.Context(), &odd))
		record := w.call(200, "GET", "/api/v1/app-conversations?ids="+url.QueryEscape(string(id)), nil)
		address, err := url.Parse(record.text(0, "conversation_url"))
		check(t, err)
		if got := w.as(key, "GET", address.EscapedPath(), nil).is(200); got.text("id") != string(id) {
			t.Errorf("%q: %s leads to %s", id, address, got.body)
		}
		w.as(key, "GET", address.EscapedPath()+"/events/search", nil).is(200)
	}
	for path, want := range map[string]int{"/api/conversations/nothing": 422, "/api/conversations/" + uuid.NewString(): 404,
		"/api/conversations/..%2F": 422, "/api/conversations/" + strings.Repeat("x", 200): 422} {
		w.as(key, "GET", "/agent/"+box+path, nil).is(want)
	}
	w.as(key, "POST", "/agent/"+box+"/api/conversations/nothing/pause", nil).is(422)
	w.as(key, "DELETE", "/agent/"+box+"/api/conversations/nothing", nil).is(422)
}

// An address that is below a prefix is never redirected to one that is not.
func TestNothingIsRedirected(t *testing.T) {
	w := newWorldWith(t, func(c *config) { c.guard.URLs.Public = mustParse(t, "https://example.org/par%20ley/") })
	id, a := w.begin(map[string]any{})
	agent := "/agent/" + a.text("sandbox_id")
	w.server.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for path, want := range map[string]int{
		agent + "//api/conversations/" + id:         200,
		agent + "/api/bash":                         404,
		agent + "/api/tools":                        200,
		agent + "/api/conversations/" + id + "/":    404,
		"/par%20ley//api/v1/app-conversations":      200,
		"/par%20ley/api/v1/app-conversations/" + id: 200,
		"//par%20ley" + agent + "/api/tools/":       200,
		"/par ley/api/v1/app-conversations":         200,
		"/par%20leyx/alive":                         404,
		"/par%20ley":                                200,
		"/p%61r%20ley/alive":                        404,
	} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", w.server.URL, nil)
		check(t, err)
		u, err := url.Parse(w.server.URL + strings.ReplaceAll(path, " ", "%20"))
		check(t, err)
		req.URL = u
		req.Header.Set("X-Session-API-Key", userKey)
		resp, err := w.server.Client().Do(req)
		check(t, err)
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
		}
	}
}
