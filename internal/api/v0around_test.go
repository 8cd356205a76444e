package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"parley/internal/conversation"
	"parley/internal/feedback"
)

func TestLegacyRuntimeConfigNamesSandboxAndSession(t *testing.T) {
	p := newLegacyPlace(t, nil)
	a := p.call(200, "GET", p.of("config"), nil)
	if a.text("runtime_id") != p.box.ID || a.text("session_id") != p.id {
		t.Errorf("%s", a.body)
	}
}

func TestLegacyWebHostsAndEditor(t *testing.T) {
	p := newLegacyPlace(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer func() { _ = l.Close() }()
	port := l.Addr().(*net.TCPAddr).Port
	want := fmt.Sprintf("%s/agent/%s/ports/%d/", p.server.URL, p.box.ID, port)
	p.eventually("the port", func() bool {
		hosts, _ := p.call(200, "GET", p.of("web-hosts"), nil).at("hosts").(map[string]any)
		return hosts[want] == float64(port)
	})
	if a := p.call(200, "GET", p.of("vscode-url"), nil); string(bytes.TrimSpace(a.body)) != `{"vscode_url":null}` {
		t.Errorf("%s", a.body)
	}
}

func TestLegacySecurityRoutesSayThatThereIsNoAnalyzer(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/api/conversations/c/security/policy", "/api/conversations/c/security", "/api/security/settings", "/api/security/a/b"} {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			if a := w.at(w.server.URL, method, path, nil); a.status != 404 || path != "/api/conversations/c/security" && a.text("detail") != "Security analyzer not initialized" {
				t.Errorf("%s %s: %d %s", method, path, a.status, a.body)
			}
		}
	}
}

func TestLegacyExperimentIsKeptBeforeTheConversation(t *testing.T) {
	w := newWorld(t)
	put := func(key, id, body, want string) {
		t.Helper()
		a := w.as(key, "POST", "/api/conversations/"+id+"/exp-config", body).is(200)
		if got := string(bytes.TrimSpace(a.body)); got != want {
			t.Errorf("%s: %s", body, got)
		}
	}
	id := "0123456789abcdef0123456789abcdef"
	put(userKey, id, `{"config":{"variant":"b"}}`, "false")
	put(userKey, id, `{"config":{"variant":"c"}}`, "false")
	put(otherKey, id, `{"config":null}`, "false")
	put(userKey, "another one", `{}`, "false")
	if got := w.legacyConversation(`{"conversation_id":"` + id + `"}`); got != id {
		t.Errorf("created %s", got)
	}
	for body, status := range map[string]int{`{"config":{"a":1}}`: 422, `{"config":[]}`: 422, `[]`: 422, ``: 422,
		`{"config":{"a":"` + strings.Repeat("x", 65<<10) + `"}}`: 413} {
		w.call(status, "POST", "/api/conversations/x/exp-config", body)
	}
	w.call(400, "POST", "/api/conversations/"+strings.Repeat("x", 101)+"/exp-config", `{}`)
}

func TestLegacyFeedbackIsKeptHere(t *testing.T) {
	p := newLegacyPlace(t, nil)
	a := p.call(200, "POST", p.of("submit-feedback"), `{"email":"a@b.c","version":"1.0","polarity":"negative","token":"t","trajectory":[{"x":1}],"more":1}`)
	if a.at("statusCode") != 200.0 || a.text("body", "message") == "" || a.text("body", "password") != "" {
		t.Errorf("%s", a.body)
	}
	raw, err := os.ReadFile(p.feedback)
	check(t, err)
	var e feedback.Entry
	check(t, json.Unmarshal(raw, &e))
	if e.ID != a.text("body", "feedback_id") || e.Conversation != p.id || e.Email != "a@b.c" || e.Polarity != "negative" || e.Permissions != "private" || e.User == "" {
		t.Errorf("%s", raw)
	}
	for _, body := range []string{`{"email":"a","version":"1","polarity":"so so"}`, `{"email":"a","version":"1","polarity":null}`,
		`{"version":"1","polarity":"positive"}`, `{"email":1,"version":"1","polarity":"positive"}`, `{"email":"a","version":"1","polarity":"positive","permissions":"all"}`,
		`{"email":"` + strings.Repeat("x", 321) + `","version":"1","polarity":"positive"}`, ``, `[]`, `null`} {
		p.call(422, "POST", p.of("submit-feedback"), body)
	}
	p.as(otherKey, "POST", p.of("submit-feedback"), `{"email":"a","version":"1","polarity":"positive"}`).is(404)
	check(t, os.Remove(p.feedback))
	check(t, os.Mkdir(p.feedback, 0o700)) // it cannot be written
	if a := p.call(500, "POST", p.of("submit-feedback"), `{"email":"a","version":"1","polarity":"positive"}`); string(bytes.TrimSpace(a.body)) != `{"error":"Failed to submit feedback"}` {
		t.Errorf("%s", a.body)
	}
}

func TestLegacyRememberPromptReadsTheEventsAround(t *testing.T) {
	p := newLegacyPlace(t, nil, callTool("sh", `{"command":"echo one"}`), callTool("sh", `{"command":"echo two"}`), callTool("sh", `{"command":"echo three"}`), say("done"))
	p.call(200, "POST", p.of("message"), `{"message":"the task"}`)
	p.waitFor(p.id, conversation.Finished)
	list := p.call(200, "GET", p.of("events")+"?limit=100", nil)
	at := slices.IndexFunc(list.list("events"), func(e any) bool { return walk(t, e, "message") == "the task" })
	if at < 0 {
		t.Fatalf("no message in %s", list.body)
	}
	last := len(list.list("events")) - 1
	prompt := p.call(200, "GET", fmt.Sprintf("%s?event_id=%d", p.of("remember-prompt"), at), nil).text("prompt")
	if got := strings.Count(prompt, `"timestamp"`); got != min(at, 4)+1+min(last-at, 4) || !strings.Contains(prompt, "the task") || strings.Contains(prompt, "Anything else") {
		t.Errorf("%d events: %s", got, prompt)
	}
	usage := p.call(200, "GET", "/api/v1/app-conversations/"+p.id, nil)
	if !strings.Contains(string(usage.body), `"remember"`) && usage.at("metrics", "accumulated_cost").(float64) < 0.5 {
		t.Errorf("it was not paid for: %s", usage.body)
	}
	for query, status := range map[string]int{"": 422, "?event_id=x": 422, "?event_id=-1": 404, fmt.Sprintf("?event_id=%d", last+1): 404, "?event_id=9223372036854775807": 404} {
		p.call(status, "GET", p.of("remember-prompt")+query, nil)
	}
	p.as(otherKey, "GET", p.of("remember-prompt")+"?event_id=0", nil).is(404)
	p.call(200, "POST", p.of("stop"), nil)
	p.call(200, "GET", p.of("remember-prompt")+"?event_id=0", nil) // needs no sandbox
}

func TestLegacyRoutesThatNeedARunningConversation(t *testing.T) {
	p := newLegacyPlace(t, nil)
	p.call(200, "POST", p.of("stop"), nil)
	for _, route := range []string{"config", "web-hosts", "vscode-url", "trajectory"} {
		if a := p.call(http.StatusNotFound, "GET", p.of(route), nil); a.text("detail") != "Conversation "+p.id+" not found" {
			t.Errorf("%s: %s", route, a.body)
		}
		p.as(otherKey, "GET", p.of(route), nil).is(404)
		p.as("", "GET", p.of(route), nil).is(401)
	}
	p.call(http.StatusNotFound, "POST", p.of("submit-feedback"), `{"email":"a","version":"1","polarity":"positive"}`)
	p.call(200, "GET", p.of("events"), nil)
}
