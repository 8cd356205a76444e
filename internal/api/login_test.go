package api_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"parley/internal/tool/mcp/oauth"
)

func newLoginWorld(t *testing.T) *world {
	t.Helper()
	l := &logins{}
	w := newWorldWith(t, func(c *config) { c.v1.OAuth = l })
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	var err error
	l.Service, err = oauth.New(oauth.Config{Store: tokens{}, HTTPClient: &http.Client{Transport: transport},
		RedirectURL: func(context.Context) string { return w.server.URL + "/api/v1/mcp/oauth/callback" }})
	check(t, err)
	return w
}

func TestLoginAtAServer(t *testing.T) {
	w := newLoginWorld(t)
	there := authorizationServer(t)
	w.change(`{"agent_settings_diff":{"mcp_config":{"remote":{"url":"` + there.URL + `/mcp","auth":{"strategy":"oauth2","authentication":{"type":"oauth","client_id":"parley"}}},"local":{"command":"uvx"}}}}`)
	start := func(want int, body map[string]any) *answer {
		t.Helper()
		return w.call(want, "POST", "/api/v1/mcp/oauth/start", body)
	}
	a := start(200, map[string]any{"name": "remote"})
	job := "/api/v1/mcp/oauth/status/" + a.text("job_id")
	u, err := url.Parse(a.text("authorization_url"))
	check(t, err)
	if b := w.call(200, "GET", job, nil); b.text("status") != "pending" || b.at("error") != nil {
		t.Errorf("%s", b.body)
	}
	w.as(otherKey, "GET", job, nil).is(404)

	const callback = "/api/v1/mcp/oauth/callback"
	back := url.Values{"state": {u.Query().Get("state")}, "code": {"right"}, "iss": {there.URL}}.Encode()
	w.as("", "GET", callback, nil).is(404)
	w.as("", "GET", callback+"?state=guessed&code=x", nil).is(404)
	head := w.as("", "HEAD", callback+"?"+back, nil) // somebody only looks at the address
	if head.status != 200 || w.call(200, "GET", job, nil).text("status") != "pending" {
		t.Errorf("HEAD: %d", head.status)
	}
	page := w.as("", "GET", callback+"?"+back, nil).is(200)
	text := string(page.body)
	if !strings.Contains(text, "You can close this window.") || strings.Contains(text, "<script") || strings.Contains(text, "hush") {
		t.Errorf("%s", text)
	}
	for name, want := range map[string]string{"Content-Type": "text/html; charset=utf-8", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
		"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"} {
		if got := page.header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if b := w.call(200, "GET", job, nil); b.text("status") != "done" {
		t.Errorf("%s", b.body)
	}
	w.as("", "GET", callback+"?"+back, nil).is(409) // a code works once
	if strings.Contains(w.log.String(), "code=right") || strings.Contains(w.log.String(), "hush") {
		t.Error("a code or a token is in the log")
	}
	start(404, map[string]any{"name": "unknown"})
	start(400, map[string]any{"name": "local"})
	start(422, map[string]any{})
	declined := start(200, map[string]any{"name": "x", "server": map[string]any{"url": there.URL + "/mcp", "auth": map[string]any{"strategy": "oauth2", "authentication": map[string]any{"client_id": "parley"}}}})
	u, err = url.Parse(declined.text("authorization_url"))
	check(t, err)
	page = w.as("", "GET", callback+"?"+url.Values{"state": {u.Query().Get("state")}, "error": {"<script>x"}, "iss": {there.URL}}.Encode(), nil).is(400)
	if strings.Contains(string(page.body), "<script>") || !strings.Contains(string(page.body), "The login failed") {
		t.Errorf("%s", page.body)
	}
	if b := w.call(200, "GET", "/api/v1/mcp/oauth/status/"+declined.text("job_id"), nil); b.text("status") != "failed" || b.text("error") == "" {
		t.Errorf("%s", b.body)
	}
}

func TestLoginIsNotBuilt(t *testing.T) {
	w := newWorld(t)
	w.call(501, "POST", "/api/v1/mcp/oauth/start", map[string]any{"name": "x"})
	w.call(501, "GET", "/api/v1/mcp/oauth/status/x", nil)
	w.as("", "GET", "/api/v1/mcp/oauth/callback?state=x", nil).is(501)
}
