package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
)

func messageOf(text string) engine.Message {
	return engine.Message{Parts: []content.Part{content.Text(text)}}
}

// The routes of the protocol, at both mounts, with the sandbox's key.
func TestAgentProtocol(t *testing.T) {
	for _, mount := range []string{"root", "prefix"} {
		t.Run(mount, func(t *testing.T) {
			w := newWorld(t, say("one"), callTool("sh", `{"command":"echo hi"}`), say("the end"))
			id, a := w.begin(map[string]any{"title": "T"})
			key, base := a.text("session_api_key"), ""
			if mount == "prefix" {
				base = "/agent/" + a.text("sandbox_id")
			}
			as := func(want int, method, path string, body any) *answer {
				t.Helper()
				return w.as(key, method, base+path, body).is(want)
			}
			c := "/api/conversations/" + id
			unknown := "/api/conversations/" + uuid.NewString()

			info := as(200, "GET", c, nil)
			if info.text("id") != conversation.ID(id).Dashed() || info.text("execution_status") != "idle" || info.text("title") != "T" {
				t.Errorf("%s", info.body)
			}
			if got := info.at("agent", "llm", "api_key"); got != account.Mask {
				t.Errorf("the LLM's key is %v", got)
			}
			as(404, "GET", unknown, nil)
			as(422, "GET", "/api/conversations/nothing", nil)
			list := as(200, "GET", "/api/conversations?ids="+id+"&ids="+uuid.NewString(), nil)
			if list.text(0, "id") != info.text("id") || list.at(1) != nil {
				t.Errorf("%s", list.body)
			}
			if b := as(200, "GET", "/api/conversations/count?status=idle", nil); string(b.body) != "1\n" {
				t.Errorf("%s", b.body)
			}
			if b := as(200, "GET", "/api/conversations/search?sort_order=UPDATED_AT_DESC&limit=20", nil); len(b.list("items")) != 1 {
				t.Errorf("%s", b.body)
			}

			// A message does not run by itself here (trap 9).
			as(200, "POST", c+"/events", userSays("hello"))
			if b := as(200, "GET", c, nil); b.text("execution_status") != "idle" {
				t.Errorf("%s", b.body)
			}
			if b := as(200, "GET", c+"/agent_final_response", nil); b.text("response") != "" {
				t.Errorf("%s", b.body)
			}
			as(200, "POST", c+"/run", nil) // without a body, as clients send it
			w.waitFor(id, conversation.Finished)
			if b := as(200, "GET", c+"/agent_final_response", nil); b.text("response") != "one" {
				t.Errorf("%s", b.body)
			}
			m := userSays("tool")
			m["run"] = true
			as(200, "POST", c+"/events", m)
			w.waitFor(id, conversation.Finished)
			if b := as(200, "GET", c+"/agent_final_response", nil); b.text("response") != "the end" {
				t.Errorf("%s", b.body)
			}
			as(422, "POST", c+"/events", map[string]any{"role": "assistant", "content": m["content"]})
			if b := as(404, "POST", unknown+"/events", m); !strings.HasPrefix(b.text("detail"), "Conversation not found: ") {
				t.Errorf("%s", b.body)
			}

			// Events, without nulls in searches and with both spellings of a kind (trap 2).
			log := w.events(id)
			b := as(200, "GET", c+"/events/search?limit=3", nil)
			if b.text("next_page_id") != log[3].ID || strings.Contains(string(b.body), ":null,") {
				t.Errorf("%s", b.body)
			}
			for _, kind := range []string{"MessageEvent", "openhands.sdk.event.llm_convertible.message.MessageEvent"} {
				if b := as(200, "GET", c+"/events/count?source=user&kind="+kind, nil); string(b.body) != "2\n" {
					t.Errorf("%s: %s", kind, b.body)
				}
			}
			if b := as(200, "GET", c+"/events/search?body=HELLO", nil); len(b.list("items")) != 1 {
				t.Errorf("%s", b.body)
			}
			if b := as(200, "GET", c+"/events/search?sort_order=TIMESTAMP_DESC&limit=1&page_id="+log[2].ID, nil); b.text("items", 0, "id") != log[2].ID || b.text("next_page_id") != log[1].ID {
				t.Errorf("%s", b.body)
			}
			as(422, "GET", c+"/events/search?limit=101", nil)
			if b := as(200, "GET", c+"/events/"+log[0].ID, nil); b.text("id") != log[0].ID {
				t.Errorf("%s", b.body)
			}
			as(404, "GET", c+"/events/none", nil)
			as(404, "GET", unknown+"/events/search", nil)

			// Unknown conversations as the protocol has them (§1.3).
			for _, action := range []string{"/pause", "/interrupt"} {
				as(400, "POST", unknown+action, nil)
				as(200, "POST", c+action, nil)
			}
			as(404, "POST", unknown+"/run", nil)
			as(400, "DELETE", unknown, nil)
			if b := as(200, "PATCH", unknown, map[string]any{"title": "x"}); b.at("success") != false {
				t.Errorf("%s", b.body)
			}
			if b := as(200, "PATCH", c, map[string]any{"title": "new", "tags": map[string]any{"a": "b"}}); b.at("success") != true {
				t.Errorf("%s", b.body)
			}
			if b := as(200, "GET", c, nil); b.text("title") != "new" || b.text("tags", "a") != "b" {
				t.Errorf("%s", b.body)
			}
			as(422, "PATCH", c, map[string]any{"title": ""})
			as(422, "PATCH", c, map[string]any{"tags": map[string]any{"No": "b"}})
			as(422, "POST", c+"/events/respond_to_confirmation", map[string]any{})
			as(409, "POST", c+"/events/respond_to_confirmation", map[string]any{"accept": true})
			as(404, "POST", unknown+"/events/respond_to_confirmation", map[string]any{"accept": true})

			// Known but not built, and unknown.
			for _, path := range []string{"/api/conversations/" + id + "/switch_acp_model", "/api/conversations/" + id + "/load_plugin"} {
				if b := as(501, "POST", path, nil); !strings.Contains(b.text("detail"), "not built yet") || !strings.HasPrefix(b.text("exception"), "501: ") {
					t.Errorf("%s", b.body)
				}
			}
			as(404, "GET", "/api/nothing", nil)
			as(200, "DELETE", c, nil)
			w.call(404, "GET", "/api/v1/app-conversations/"+id, nil)
		})
	}
}

func TestAgentRunTwiceIs409(t *testing.T) {
	proceed := make(chan struct{})
	w := newWorld(t, streams(proceed, "x"))
	id, a := w.begin(message("go"))
	key := a.text("session_api_key")
	w.waitFor(id, conversation.Running)
	w.as(key, "POST", "/api/conversations/"+id+"/run", map[string]any{}).is(409)
	w.as(key, "POST", "/api/conversations/"+id+"/interrupt", map[string]any{}).is(200)
	w.waitFor(id, conversation.Paused)
	close(proceed)
}

func TestAgentConfirmation(t *testing.T) {
	w := newWorld(t, callTool("sh", `{"command":"touch x"}`), callTool("sh", `{"command":"touch y"}`), say("done"))
	yes := true
	check(t, w.store.Accounts().UpdateSettings(t.Context(), account.FirstUserID, func(s *account.Settings) (*account.Settings, error) {
		s.ConfirmationMode = &yes
		return s, nil
	}))
	id, a := w.begin(message("go"))
	key := a.text("session_api_key")
	w.waitFor(id, conversation.WaitingConfirmation)
	path := "/api/conversations/" + id
	if b := w.as(key, "GET", path, nil).is(200); b.text("confirmation_policy", "kind") != "AlwaysConfirm" {
		t.Errorf("%s", b.body)
	}
	w.as(key, "POST", path+"/events/respond_to_confirmation", map[string]any{"accept": false}).is(200)
	w.waitFor(id, conversation.Idle) // trap 11: reject does not resume
	b := w.as(key, "GET", path+"/events/search?kind=UserRejectObservation", nil).is(200)
	if b.text("items", 0, "rejection_reason") != "User rejected the action." {
		t.Errorf("%s", b.body)
	}
	w.as(key, "POST", path+"/run", nil).is(200)
	w.waitFor(id, conversation.WaitingConfirmation)
	w.as(key, "POST", path+"/events/respond_to_confirmation", map[string]any{"accept": true, "reason": "fine"}).is(200)
	w.waitFor(id, conversation.Finished)
}

// A sandbox's key opens that sandbox and nothing else; a user's key opens the
// user's own sandboxes, below the prefix.
func TestWhatAKeyOpens(t *testing.T) {
	w := newWorld(t)
	id, a := w.begin(map[string]any{})
	other, b := w.begin(map[string]any{})
	key := a.text("session_api_key")
	own, foreign := "/agent/"+a.text("sandbox_id"), "/agent/"+b.text("sandbox_id")
	c := "/api/conversations/"
	for _, x := range []struct {
		want int
		key  string
		path string
	}{
		{200, key, own + c + id}, {200, key, c + id},
		{404, key, own + c + other}, {404, key, c + other},
		{401, key, foreign + c + other}, {401, key, foreign + c + id},
		{200, userKey, own + c + id}, {404, userKey, own + c + other},
		{404, otherKey, own + c + id}, {404, userKey, "/agent/none" + c + id},
		{401, "", own + c + id}, {401, "wrong", own + c + id},
		{401, "", own + "/api/settings"}, {200, key, own + "/api/settings"}, {401, "wrong", own + "/v1/models"},
		// The sandbox's key does not open the user APIs.
		{401, key, "/api/v1/app-conversations"}, {401, key, "/api/v1/sandboxes/search"}, {401, key, "/metrics"},
		// Public below the prefix.
		{200, "", own + "/alive"}, {200, "", own + "/health"}, {200, "", own + "/ready"}, {200, "", own + "/server_info"},
		{200, "", own + "/"}, {200, "", own},
		{404, key, own + "/nothing"},
	} {
		if got := w.as(x.key, "GET", x.path, nil); got.status != x.want {
			t.Errorf("GET %s with %.4q: %d, want %d: %s", x.path, x.key, got.status, x.want, got.body)
		}
	}
	if b := w.as(key, "GET", c+"count", nil).is(200); string(b.body) != "1\n" {
		t.Errorf("the key counts %s", b.body)
	}
	w.call(200, "DELETE", "/api/v1/sandboxes/"+a.text("sandbox_id"), nil)
	w.as(key, "GET", own+c+id, nil).is(401)
}

func TestAgentReadyFollowsTheServer(t *testing.T) {
	w := newWorld(t)
	w.ready = fault.New(fault.Unavailable, "draining", "The server is stopping.")
	if a := w.as("", "GET", "/agent/x/ready", nil).is(503); a.text("message") == "" {
		t.Errorf("%s", a.body)
	}
}

// Every known event kind survives both APIs (V1 trap 7).
func TestUnknownKindsSurvive(t *testing.T) {
	w := newWorld(t)
	id, a := w.begin(map[string]any{})
	raw := `{"kind":"FutureEvent","id":"f-1","timestamp":"2999-01-01T00:00:00.000001","source":"agent","novel":{"deep":[1,{"x":true}]}}`
	w.inject(id, raw)
	b := w.call(200, "GET", "/api/v1/conversation/"+id+"/events?id=f-1", nil)
	var want, got any
	check(t, json.Unmarshal([]byte(raw), &want))
	got = b.at(0)
	if fmt.Sprint(want) != fmt.Sprint(got) {
		t.Errorf("%v, want %v", got, want)
	}
	c := w.as(a.text("session_api_key"), "GET", "/api/conversations/"+id+"/events/f-1", nil).is(200)
	if strings.TrimSpace(string(c.body)) != raw {
		t.Errorf("%s", c.body)
	}
}
