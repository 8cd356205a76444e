package api_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"parley/internal/api/httpkit"
	"parley/internal/fault"
)

func TestAuthentication(t *testing.T) {
	w := newWorld(t)
	path := "/api/v1/sandboxes/search"
	for name, c := range map[string]struct {
		want   int
		header http.Header
	}{
		"none":                  {401, nil},
		"session key":           {200, http.Header{"X-Session-Api-Key": {userKey}}},
		"bearer":                {200, http.Header{"Authorization": {"Bearer " + userKey}}},
		"bearer in lower case":  {200, http.Header{"Authorization": {"bearer " + userKey}}},
		"access token alias":    {200, http.Header{"X-Access-Token": {userKey}}},
		"bearer wins":           {401, http.Header{"Authorization": {"Bearer wrong"}, "X-Session-Api-Key": {userKey}}},
		"basic is no bearer":    {200, http.Header{"Authorization": {"Basic eDp5"}, "X-Session-Api-Key": {userKey}}},
		"wrong":                 {401, http.Header{"X-Session-Api-Key": {userKey + "x"}}},
		"empty":                 {401, http.Header{"X-Session-Api-Key": {""}}},
		"key in another case":   {401, http.Header{"X-Session-Api-Key": {strings.ToUpper(userKey)}}},
		"the hash is no key":    {401, http.Header{"X-Session-Api-Key": {"null"}}},
		"informational headers": {200, http.Header{"X-Session-Api-Key": {userKey}, "X-Org-Id": {"x"}, "X-Openhands-Client": {"y"}}},
	} {
		a := w.do("GET", path, c.header, nil)
		if a.status != c.want {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		if c.want == 401 && (strings.TrimSpace(string(a.body)) != `{"detail":"Unauthorized"}` || a.header.Get("WWW-Authenticate") == "") {
			t.Errorf("%s: %s", name, a.body)
		}
	}
	// The key comes before the body: nothing is said about a body to strangers.
	w.as("", "POST", "/api/v1/app-conversations", `{"title": `).is(401)
}

func TestPublicAndPrivateRoutes(t *testing.T) {
	w := newWorld(t)
	for path, want := range map[string]int{"/alive": 200, "/health": 200, "/ready": 200, "/server_info": 200,
		"/openapi.json": 200, "/docs": 200, "/": 200, "/metrics": 401, "/nothing": 404, "/api/v1/app-conversations": 401} {
		if a := w.as("", "GET", path, nil); a.status != want {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

func TestOperations(t *testing.T) {
	w := newWorld(t)
	if a := w.call(200, "GET", "/health", nil); strings.TrimSpace(string(a.body)) != `{"status":"ok"}` {
		t.Errorf("%s", a.body)
	}
	if a := w.call(200, "GET", "/ready", nil); a.text("status") != "ready" {
		t.Errorf("%s", a.body)
	}
	w.ready = fault.New(fault.Unavailable, "draining", "The server is stopping.")
	if a := w.call(503, "GET", "/ready", nil); a.text("status") != "draining" || a.text("message") == "" {
		t.Errorf("%s", a.body)
	}
	w.ready = fault.New(fault.Unavailable, "store_full", "The disk is full.")
	if a := w.call(503, "GET", "/ready", nil); a.text("status") != "unavailable" || !strings.Contains(a.text("message"), "full") {
		t.Errorf("%s", a.body)
	}
	info := w.call(200, "GET", "/server_info", nil)
	if !regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(info.text("version")) || info.text("parley_version") != "0.1.0" {
		t.Errorf("%s", info.body)
	}
	w.call(404, "GET", "/api/v1/secret-thing-"+userKey, nil)
	m := string(w.call(200, "GET", "/metrics", nil).body)
	for _, part := range []string{`parley_http_requests_total{method="GET",route="/health",status="200"} 1`,
		"parley_http_request_seconds_bucket", "parley_live_conversations 0", "go_goroutines", `route="unmatched"`} {
		if !strings.Contains(m, part) {
			t.Errorf("no %s in the metrics", part)
		}
	}
	if strings.Contains(m, "secret-thing") {
		t.Error("clients can make new series")
	}
}

func TestDocumentsAndPages(t *testing.T) {
	w := newWorld(t)
	doc := w.call(200, "GET", "/openapi.json", nil)
	for _, path := range []string{"/api/v1/app-conversations", "/agent/{sandbox_id}/api/conversations/{conversation_id}", "/health"} {
		doc.at("paths", path)
	}
	if doc.text("openapi") != "3.1.0" {
		t.Errorf("%s", doc.text("openapi"))
	}
	page := w.call(200, "GET", "/docs", nil)
	policy := page.header.Get("Content-Security-Policy")
	if strings.Contains(string(page.body), "http://") || strings.Contains(string(page.body), "https://") ||
		!strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "HASH") {
		t.Errorf("the page needs others, or its policy is lax: %s", policy)
	}
	landing := w.call(200, "GET", "/", nil)
	for _, part := range []string{"parley chat", "curl " + w.server.URL + "/api/v1/app-conversations", "/docs", "not part of this build"} {
		if !strings.Contains(string(landing.body), part) {
			t.Errorf("the landing page does not say %q", part)
		}
	}
}

func TestHostIsChecked(t *testing.T) {
	public := mustParse(t, "https://parley.example.org")
	w := newWorldWith(t, func(c *config) {
		c.guard.AllowedHosts = []string{"extra.example.org"}
		c.guard.URLs.Public = public
	})
	for host, want := range map[string]int{"localhost": 200, "127.0.0.1:3000": 200, "[::1]:3000": 200, "app.localhost": 200,
		"parley.example.org": 200, "PARLEY.example.org:443": 200, "extra.example.org": 200, "evil.example.com": 421,
		"localhost.evil.com": 421, "192.168.1.7": 421, "127.0.0.1.evil.com": 421} {
		a := w.do("GET", "/health", http.Header{"Host": {host}}, nil)
		if a.status != want {
			t.Errorf("%s: %d %s", host, a.status, a.body)
		}
	}
	all := newWorldWith(t, func(c *config) { c.guard.Listen = "0.0.0.0:3000" })
	all.do("GET", "/health", http.Header{"Host": {"192.168.1.7:3000"}}, nil).is(200)
	all.do("GET", "/health", http.Header{"Host": {"evil.example.com"}}, nil).is(421)
}

func TestOriginsAndCORS(t *testing.T) {
	w := newWorldWith(t, func(c *config) { c.guard.URLs.Public = mustParse(t, "https://parley.example.org/base") })
	key := http.Header{"X-Session-Api-Key": {userKey}}
	with := func(origin string, more ...string) http.Header {
		h := key.Clone()
		h.Set("Origin", origin)
		for i := 0; i < len(more); i += 2 {
			h.Set(more[i], more[i+1])
		}
		return h
	}
	for origin, ok := range map[string]bool{"http://localhost:5173": true, "http://127.0.0.1:1": true, "https://parley.example.org": true,
		"https://evil.example.com": false, "null": false, "https://localhost.evil.com": false, "garbage": false} {
		post := w.do("POST", "/api/v1/app-conversations", with(origin), "{}")
		get := w.do("GET", "/api/v1/sandboxes/search", with(origin), nil)
		pre := w.do("OPTIONS", "/api/v1/app-conversations", with(origin, "Access-Control-Request-Method", "POST",
			"Access-Control-Request-Headers", "x-session-api-key,x-expose-secrets,content-type"), nil)
		want := map[bool][3]int{true: {200, 200, 200}, false: {403, 200, 400}}[ok]
		if got := [3]int{post.status, get.status, pre.status}; got != want {
			t.Errorf("%s: %v, want %v", origin, got, want)
		}
		for _, a := range []*answer{get, pre} {
			if got := a.header.Get("Access-Control-Allow-Origin"); (got == origin) != ok {
				t.Errorf("%s: allowed %q", origin, got)
			}
		}
		if allowed := strings.ToLower(pre.header.Get("Access-Control-Allow-Headers")); ok && (!strings.Contains(allowed, "x-session-api-key") ||
			!strings.Contains(allowed, "x-expose-secrets") || !strings.Contains(allowed, "x-org-id") || !strings.Contains(allowed, "x-openhands-client-version")) {
			t.Errorf("headers %q", allowed)
		}
	}
	// Sockets are checked like what changes things.
	_, resp, err := w.dialWith("/sockets/events/x", nil)
	if err != nil {
		t.Errorf("without Origin: %v", err)
	}
	_ = resp
	strict := newWorldWith(t, func(c *config) { c.guard.AllowedOrigins = []string{"https://ui.example.org"} })
	strict.do("POST", "/api/v1/app-conversations", with("https://ui.example.org"), "{}").is(200)
	strict.do("POST", "/api/v1/app-conversations", with("http://localhost:5173"), "{}").is(403)
	open := newWorldWith(t, func(c *config) { c.guard.AllowedOrigins = []string{"*"} })
	if a := open.do("GET", "/health", with("https://any.example.org"), nil); a.header.Get("Access-Control-Allow-Origin") == "" ||
		a.header.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("%v", a.header)
	}
}

func TestPublicURLWithAPath(t *testing.T) {
	w := newWorldWith(t, func(c *config) { c.guard.URLs.Public = mustParse(t, "https://example.org/parley/") })
	_, a := w.begin(map[string]any{})
	if got := a.text("conversation_url"); !strings.HasPrefix(got, "https://example.org/parley/agent/"+a.text("sandbox_id")+"/api/conversations/") {
		t.Errorf("url %s", got)
	}
	// Whether or not the proxy strips the path.
	req, err := http.NewRequestWithContext(t.Context(), "GET", w.server.URL+"/parley/agent/"+a.text("sandbox_id")+"/health", nil)
	check(t, err)
	resp, err := w.server.Client().Do(req)
	check(t, err)
	_ = resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("below the path: %d", resp.StatusCode)
	}
}

func TestForwardedHeadersOfALoopbackProxy(t *testing.T) {
	w := newWorld(t)
	id, _ := w.begin(map[string]any{})
	a := w.do("GET", "/api/v1/app-conversations?ids="+id, http.Header{"X-Session-Api-Key": {userKey},
		"X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"p.example.org"}, "X-Forwarded-Prefix": {"/x"}}, nil).is(200)
	if got := a.text(0, "conversation_url"); !strings.HasPrefix(got, "https://p.example.org/x/agent/") {
		t.Errorf("url %s", got)
	}
	a = w.do("GET", "/api/v1/app-conversations?ids="+id, http.Header{"X-Session-Api-Key": {userKey},
		"X-Forwarded-Proto": {"javascript"}, "X-Forwarded-Host": {"a/b@c"}, "X-Forwarded-Prefix": {"//evil"}}, nil).is(200)
	if got := a.text(0, "conversation_url"); !strings.HasPrefix(got, w.server.URL+"/agent/") {
		t.Errorf("url %s", got)
	}
}

func TestHeadersAndRequestIDs(t *testing.T) {
	w := newWorld(t)
	a := w.do("GET", "/health", http.Header{"X-Request-Id": {"abc-1"}}, nil)
	for name, want := range map[string]string{"X-Request-Id": "abc-1", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY"} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := w.do("GET", "/health", http.Header{"X-Request-Id": {"bad id"}}, nil).header.Get("X-Request-Id"); got == "bad id" || got == "" {
		t.Errorf("request id %q", got)
	}
	w.as(userKey, "GET", "/api/v1/sandboxes/search?limit=7&session_api_key=hush-hush", nil).is(200)
	w.eventually("the log", func() bool { return strings.Contains(w.log.String(), "route=/api/v1/sandboxes/search") })
	log := w.log.String()
	if strings.Contains(log, "hush-hush") || strings.Contains(log, userKey) || !strings.Contains(log, "user=user-1") {
		t.Errorf("log: %s", log)
	}
	w.do("HEAD", "/health", nil, nil).is(200)
}

func TestCloseOfTheStoreIsA5xxWithAnID(t *testing.T) {
	w := newWorld(t)
	check(t, w.store.Close())
	a := w.as(userKey, "GET", "/api/v1/app-conversations", nil)
	if a.status < 500 || !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(a.text("error_id")) || strings.Contains(string(a.body), "sql") {
		t.Errorf("%d %s", a.status, a.body)
	}
	w.eventually("the log", func() bool { return strings.Contains(w.log.String(), a.text("error_id")) })
}

func TestMountingTwiceIsRefused(t *testing.T) {
	doc := []byte(`{"openapi":"3.1.0","paths":{"/x":{"get":{"operationId":"x","responses":{}}}}}`)
	none := func(http.ResponseWriter, *httpkit.Request) error { return nil }
	api := func() *httpkit.API {
		a, err := httpkit.NewAPI(httpkit.APIConfig{Name: "a", Document: doc, Handlers: httpkit.Handlers{"x": none}})
		check(t, err)
		return a
	}
	if _, err := httpkit.NewMux(api(), api()); err == nil {
		t.Error("two APIs have one route")
	}
	for name, h := range map[string]httpkit.Handlers{"handler without operation": {"x": none, "y": none}, "operation without handler": {}} {
		if _, err := httpkit.NewAPI(httpkit.APIConfig{Name: "a", Document: doc, Handlers: h}); err == nil {
			t.Error(name)
		}
	}
}
