package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/fault"
	"parley/internal/tool/mcp/mcptest"
	"parley/internal/tool/mcp/oauth"
)

func TestAgentTestsServers(t *testing.T) {
	b := newBench(t)
	post := func(server map[string]any, more ...any) *answer {
		t.Helper()
		body := map[string]any{"name": "probe", "server": server, "timeout": 20}
		for i := 0; i < len(more); i += 2 {
			body[more[i].(string)] = more[i+1]
		}
		return b.post(200, "/api/mcp/test", body)
	}
	call := map[string]any{"name": "echo", "arguments": map[string]any{"text": "over there"}}
	a := post(mcpProgram(t, mcptest.Fine), "tool_call", call)
	if a.at("ok") != true || a.text("tools", 0) != "echo" || a.at("tool_result", "is_error") != false || !strings.Contains(a.text("tool_result", "text"), "over there") {
		t.Errorf("%s", a.body)
	}
	remote := httptest.NewServer((&mcptest.Server{}).Handler())
	defer remote.Close()
	a = post(map[string]any{"type": "shttp", "url": remote.URL, "enabled": false}) // as older clients say it
	if a.at("ok") != true || strings.Contains(string(a.body), "tool_result") {
		t.Errorf("%s", a.body)
	}
	for kind, server := range map[string]map[string]any{"timeout": mcpProgram(t, mcptest.Hang), "connection": {"url": "http://127.0.0.1:1/mcp"}} {
		timeout := 20.0
		if kind == "timeout" {
			timeout = 0.3
		}
		if a := post(server, "timeout", timeout); a.at("ok") != false || a.text("error_kind") != kind || a.text("error") == "" {
			t.Errorf("%s", a.body)
		}
	}
	for where, body := range map[string]map[string]any{
		`"server","probe"`: {"name": "probe", "server": map[string]any{"env": map[string]any{"K": "hush"}}},
		`"server"`:         {"name": "probe", "server": "hush"},
		`"timeout"`:        {"server": mcpProgram(t, "fine"), "timeout": 121},
		`one server`:       {"name": "mcpServers", "server": map[string]any{"a": map[string]any{"command": "c"}, "b": map[string]any{"command": "c"}}},
	} {
		if a := b.post(422, "/api/mcp/test", body); !strings.Contains(string(a.body), where) || strings.Contains(string(a.body), "hush") {
			t.Errorf("%s: %s", where, a.body)
		}
	}
}

// A secret that is sent as its mask is that of the settings' server of that name, and
// no answer shows it.
func TestAgentTestTakesStoredSecrets(t *testing.T) {
	var keys []string
	mcpServer := (&mcptest.Server{}).Handler()
	remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Authorization"))
		mcpServer.ServeHTTP(w, r)
	}))
	defer remote.Close()
	b := newBench(t)
	check(t, b.store.Accounts().UpdateSettings(t.Context(), account.FirstUserID, func(s *account.Settings) (*account.Settings, error) {
		s.MCP = &account.MCPConfig{SHTTP: []account.MCPHTTPServer{{Name: "api", URL: remote.URL, APIKey: account.NewSecret("stored-token")}}}
		return s, nil
	}))
	server := map[string]any{"url": remote.URL, "auth": map[string]any{"strategy": "bearer", "value": account.Mask}}
	a := b.post(200, "/api/mcp/test", map[string]any{"name": "api", "server": server})
	if a.at("ok") != true || len(keys) == 0 || keys[0] != "Bearer stored-token" || strings.Contains(string(a.body), "stored-token") {
		t.Errorf("%q %s", keys, a.body)
	}
}

// logins are those of the real flow.
type logins struct{ *oauth.Service }

func (l logins) Start(ctx context.Context, owner string, s *account.MCPHTTPServer) (httpkit.Login, error) {
	j, err := l.Service.Start(ctx, owner, s)
	return httpkit.Login{ID: j.ID, AuthorizationURL: j.AuthorizationURL, ExpiresAt: j.ExpiresAt}, err
}

func (l logins) Status(owner, id string) (httpkit.LoginStatus, error) {
	s, err := l.Service.Status(owner, id)
	return httpkit.LoginStatus{State: s.State, Error: s.Error}, err
}

// tokens keeps what logins bring.
type tokens map[string][]byte

func (s tokens) Load(_ context.Context, owner, name string) ([]byte, error) {
	if v, ok := s[owner+name]; ok {
		return v, nil
	}
	return nil, fault.New(fault.NotFound, "not_found", "There is none.")
}

func (s tokens) Save(_ context.Context, owner, name string, value []byte) error {
	s[owner+name] = value
	return nil
}

// authorizationServer serves an MCP server that needs a login, and the login.
func authorizationServer(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	answer := func(path string, v func() any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(v())
		})
	}
	answer("/.well-known/oauth-protected-resource/", func() any {
		return map[string]any{"resource": s.URL + "/mcp", "authorization_servers": []string{s.URL}}
	})
	answer("/.well-known/oauth-authorization-server", func() any {
		return map[string]any{"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token",
			"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
			"token_endpoint_auth_methods_supported": []string{"none"}}
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.FormValue("code") != "right" {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
			return
		}
		_, _ = w.Write([]byte(`{"access_token":"hush-hush","token_type":"Bearer","expires_in":3600}`))
	})
	return s
}

func TestAgentLogsInAtServers(t *testing.T) {
	store := tokens{}
	service, err := oauth.New(oauth.Config{Store: store, HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		RedirectURL: func(context.Context) string { return "http://127.0.0.1/callback" }})
	check(t, err)
	b := newBenchWith(t, func(c *config) { c.agent.OAuth = logins{service} })
	remote := authorizationServer(t)
	body := map[string]any{"name": "api", "server": map[string]any{"url": remote.URL + "/mcp",
		"auth": map[string]any{"strategy": "oauth2", "authentication": map[string]any{"client_id": "parley"}}}}
	start := func() (job, state string) {
		t.Helper()
		a := b.post(200, "/api/mcp/oauth/start", body)
		if a.at("ok") != true {
			t.Fatalf("%s", a.body)
		}
		u := mustParse(t, a.text("authorization_url"))
		return a.text("job_id"), u.Query().Get("state")
	}
	status := func(job string) *answer { return b.as(b.key, "GET", "/api/mcp/oauth/status/"+job, nil).is(200) }
	back := func(want int, job, state, code string) *answer {
		address := "http://127.0.0.1/callback?" + url.Values{"state": {state}, "code": {code}}.Encode()
		return b.post(want, "/api/mcp/oauth/callback/"+job, map[string]any{"callback_url": address})
	}
	job, state := start()
	if a := status(job); a.text("status") != "authorizing" {
		t.Errorf("%s", a.body)
	}
	back(400, job, "guessed", "right")
	if a := back(200, job, state, "right"); a.text("status") != "succeeded" || a.at("ok") != true || strings.Contains(string(a.body), "hush") {
		t.Errorf("%s", a.body)
	}
	if len(store) == 0 {
		t.Error("nothing was stored")
	}
	back(409, job, state, "right")
	job, state = start()
	if a := back(200, job, state, "wrong"); a.text("status") != "failed" || a.at("ok") != false || a.text("error") == "" {
		t.Errorf("%s", a.body)
	}
	b.post(422, "/api/mcp/oauth/callback/"+job, map[string]any{"callback_url": "nowhere"})
	back(404, "unknown", state, "right")
	b.as(otherKey, "GET", "/agent/"+b.sandbox+"/api/mcp/oauth/status/"+job, nil).is(404)
	body["server"] = map[string]any{"url": remote.URL + "/mcp"}
	b.post(400, "/api/mcp/oauth/start", body)
	body["server"] = map[string]any{"url": "http://127.0.0.1:1/mcp", "auth": map[string]any{"strategy": "oauth2"}}
	if a := b.post(200, "/api/mcp/oauth/start", body); a.at("ok") != false || a.text("error_kind") == "" {
		t.Errorf("%s", a.body)
	}
}

func TestAgentWithoutLogins(t *testing.T) {
	b := newBench(t)
	for _, path := range []string{"start", "callback/x"} {
		b.post(501, "/api/mcp/oauth/"+path, map[string]any{"server": map[string]any{"url": "http://x", "auth": map[string]any{"strategy": "oauth2"}},
			"callback_url": "http://x?code=1"})
	}
	b.as(b.key, "GET", "/api/mcp/oauth/status/x", nil).is(501)
}
