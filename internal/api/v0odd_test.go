package api_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"parley/internal/conversation"
)

// TestLegacyMasksSecretsInLists, too: what other servers leave out (8.5 of the
// contract).
func TestLegacyMasksSecretsInLists(t *testing.T) {
	const secret, token = "custom-secret-1234567890", "provider-token-0987654321"
	p := newLegacyPlace(t, nil)
	p.call(201, "POST", "/api/secrets", map[string]any{"name": "mine", "value": secret})
	p.legacy(`{"llm_model":"test/model","llm_api_key":"sk-llm-key-of-the-user","secrets_store":{"provider_tokens":{"github":{"token":"` + token + `"}}}}`)
	p.model.mu.Lock()
	p.model.steps = []step{callTool("sh", `{"command":"echo `+secret+`","list":["`+secret+`",["`+token+`"],{"deep":["`+secret+`"]}]}`), say("it is " + token)}
	p.model.mu.Unlock()
	id := p.legacyConversation(`{"initial_user_msg":"go"}`)
	p.waitFor(id, conversation.Finished)
	for _, route := range []string{"/events?limit=100", "/trajectory"} {
		a := p.call(200, "GET", "/api/conversations/"+id+route, nil)
		if bytes.Contains(a.body, []byte(secret)) || bytes.Contains(a.body, []byte(token)) {
			t.Errorf("%s shows a secret: %s", route, a.body)
		}
		if got := bytes.Count(a.body, []byte("<secret")); got < 2 {
			t.Errorf("%s hides %d: %s", route, got, a.body)
		}
	}
}

// odd is what old Python clients have been seen to send.
type odd struct {
	method, route, contentType, body string
	status                           int
	answer                           string // a part of it
}

// TestLegacyOddInput: the documented answer, never a 500.
func TestLegacyOddInput(t *testing.T) {
	p := newLegacyPlace(t, nil)
	const dict = "Input should be a valid dictionary or object to extract fields from"
	for _, c := range []odd{
		// Bodies on GET: requests.get(url, json=None) sends none, json={} sends one.
		{"GET", "events", "application/json", `{}`, 200, `"events"`},
		{"GET", "events", "application/json", `null`, 200, `"events"`},
		{"GET", "events", "", ``, 200, `"events"`},
		{"GET", "events", "application/json", `{"query":null,"include_types":null,"exclude_types":[],"unknown":1}`, 200, `"events"`},
		{"GET", "events", "application/json", `{"exclude_hidden":"yes"}`, 200, `"events"`},
		{"GET", "events", "application/json", `{"include_types":["MessageAction"]}`, 422, `"include_types"`},
		{"GET", "events", "application/json", `{"exclude_types":["x"]}`, 422, `"exclude_types"`},
		{"GET", "events", "application/json", `{"source":7}`, 422, "Input should be a valid string"},
		{"GET", "events", "application/json", `[]`, 422, dict},
		{"GET", "events", "application/json", `{`, 422, "JSON decode error"},
		{"GET", "events", "text/plain", `{}`, 422, dict},
		{"GET", "events?start_id=1.0", "", ``, 200, `"events"`},
		{"GET", "events?start_id=", "", ``, 422, "int_parsing"},
		{"GET", "events?start_id=None", "", ``, 422, "int_parsing"},
		{"GET", "events?end_id=null", "", ``, 422, "int_parsing"},
		{"GET", "events?start_id=99999999999999999999999", "", ``, 422, "start_id"},
		{"GET", "events?reverse=True&limit=100", "", ``, 200, `"events"`},
		{"GET", "events?reverse=maybe", "", ``, 422, "bool_parsing"},
		{"GET", "events?limit=-1", "", ``, 400, `{"detail":"Invalid limit"}`},
		// Bodies where none is read.
		{"POST", "stop", "application/json", `{"x":1}`, 200, `"ok"`},
		{"POST", "start", "application/json", `{}`, 200, `"ok"`},
		{"POST", "start", "application/json", `{"providers_set":[],"x":NaN}`, 422, "JSON decode error"},
		{"POST", "start", "application/json", `{"providers_set":["svn"]}`, 422, "enum"},
		{"POST", "start", "application/json", `{"providers_set":"github"}`, 422, "list_type"},
		{"POST", "start", "application/x-www-form-urlencoded", `a=b`, 422, dict},
		{"POST", "exp-config", "application/json", `{"config":{"a":null}}`, 422, "string_type"},
		{"POST", "exp-config", "application/json", `{"config":"x"}`, 422, "dict_type"},
		{"POST", "submit-feedback", "application/json", `{"email":null,"version":null,"polarity":null}`, 422, "string_type"},
		{"POST", "submit-feedback", "application/json", `"x"`, 422, dict},
		{"POST", "upload-files", "multipart/form-data", `x`, 422, `"files"`},
		{"POST", "upload-files", "multipart/form-data; boundary=x", `x`, 422, `"files"`},
		{"POST", "upload-files", "application/octet-stream", `x`, 422, `"files"`},
		{"GET", "list-files?path=%FF", "", ``, 422, "string_unicode"},
		{"GET", "list-files?path=" + strings.Repeat("a", 5000), "", ``, 400, `"error"`},
		{"GET", "list-files?path=a&path=.", "", ``, 200, `[`},
		{"GET", "select-file?file=.", "", ``, 400, `"error"`},
		{"GET", "git/diff?path=", "", ``, 404, `"error"`},
		{"GET", "git/diff?path=../../etc/passwd", "", ``, 404, `"error"`},
		{"GET", "remember-prompt?event_id=1.5", "", ``, 422, "int"},
		{"POST", "config", "", ``, 405, `{"detail":"Method Not Allowed"}`},
		{"GET", "nothing", "", ``, 404, `{"detail":"Not Found"}`},
		{"DELETE", "events", "", ``, 405, `{"detail":"Method Not Allowed"}`},
	} {
		header := http.Header{"X-Session-Api-Key": {userKey}}
		if c.contentType != "" {
			header.Set("Content-Type", c.contentType)
		}
		var body any
		if c.body != "" {
			body = c.body
		}
		a := p.do(c.method, p.of(c.route), header, body)
		if a.status != c.status || !strings.Contains(string(a.body), c.answer) {
			t.Errorf("%s %.60s %s: %d %.300s; want %d with %q", c.method, c.route, c.body, a.status, a.body, c.status, c.answer)
		}
		if c.route == "stop" {
			p.call(200, "POST", p.of("start"), `{}`)
			p.eventually("RUNNING", func() bool { return p.call(200, "GET", "/api/conversations/"+p.id, nil).text("status") == "RUNNING" })
		}
	}
}

// TestLegacyBodiesOnGETNeedNoLength: a filter may come in chunks.
func TestLegacyBodiesOnGETNeedNoLength(t *testing.T) {
	p := newLegacyPlace(t, nil)
	r, err := http.NewRequestWithContext(t.Context(), "GET", p.server.URL+p.of("events"), chunked{strings.NewReader(`{"source":"nobody"}`)})
	check(t, err)
	r.Header.Set("X-Session-API-Key", userKey)
	r.Header.Set("Content-Type", "application/json")
	resp, err := p.server.Client().Do(r)
	check(t, err)
	defer func() { _ = resp.Body.Close() }()
	var v struct {
		Events []any
		More   bool `json:"has_more"`
	}
	check(t, json.NewDecoder(resp.Body).Decode(&v))
	if resp.StatusCode != 200 || len(v.Events) != 0 || v.More {
		t.Errorf("%d %+v", resp.StatusCode, v)
	}
}

// chunked is a body whose length nobody knows.
type chunked struct{ *strings.Reader }

// Len hides the length from net/http, which looks at the type.
func (chunked) Len() {}

// TestLegacyOrderOfChecks: who asks, then the syntax, the members, and the id. The
// reference looks at the syntax first; a server should not read for strangers.
func TestLegacyOrderOfChecks(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		key, id, body string
		status        int
	}{{"", "a..b", `{`, 401}, {"wrong", "a..b", `{`, 401}, {userKey, "a..b", `{`, 422}, {userKey, "a..b", `{"title":7}`, 422},
		{userKey, "a..b", `{"title":"x"}`, 400}, {userKey, "nobody", `{"title":"x"}`, 404}} {
		if a := w.as(c.key, "PATCH", "/api/conversations/"+c.id, c.body); a.status != c.status {
			t.Errorf("%q %s %s: %d, want %d", c.key, c.id, c.body, a.status, c.status)
		}
	}
	if a := w.as("wrong", "GET", "/api/conversations", nil); string(bytes.TrimSpace(a.body)) != `{"detail":"Unauthorized"}` {
		t.Errorf("%s", a.body)
	}
}
