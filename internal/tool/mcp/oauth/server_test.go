package oauth_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/tool/mcp/egress"
	"parley/internal/tool/mcp/oauth"
)

const (
	owner    = "user-1"
	redirect = "https://parley.example/api/mcp/oauth/callback"
)

// memory is a store in memory that can refuse to save.
type memory struct {
	mu     sync.Mutex
	values map[string][]byte
	full   bool
}

func (m *memory) Load(_ context.Context, owner, name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.values[owner+"\x00"+name]
	if !ok {
		return nil, fault.New(fault.NotFound, "none", "Nothing.")
	}
	return v, nil
}

func (m *memory) Save(_ context.Context, owner, name string, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.full {
		return errors.New("disk full")
	}
	if len(value) == 0 {
		delete(m.values, owner+"\x00"+name)
		return nil
	}
	m.values[owner+"\x00"+name] = slices.Clone(value)
	return nil
}

func (m *memory) refuse(full bool) { m.mu.Lock(); m.full = full; m.mu.Unlock() }

func (m *memory) all() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for k, v := range m.values {
		out = append(out, k+"="+string(v))
	}
	return strings.Join(out, "\n")
}

type grant struct {
	client, redirect, challenge, resource, scope string
	used                                         bool
}

type app struct {
	secret, method string
	redirects      []string
}

// world is an MCP server with its authorization server, which refuses whatever is not
// as the standards say, and a service that logs in there.
type world struct {
	t             *testing.T
	as, rs        *httptest.Server
	store         *memory
	svc           *oauth.Service
	mu            sync.Mutex
	now           time.Time
	clients       map[string]app
	codes         map[string]*grant
	refresh       map[string]*grant
	access        map[string]time.Time
	ttl           int
	refreshes     int
	registrations int
	refusals      []string // of the authorization server
	needScope     string   // that the MCP server asks for beyond
	resourceMeta  func(map[string]any)
	serverMeta    func(map[string]any)
	tokenAnswer   http.HandlerFunc // instead of the real one
	issuer        bool             // iss in answers
	inner         http.Handler     // the MCP server behind the check of tokens; nil = one that says hello
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, store: &memory{values: map[string][]byte{}}, now: time.Unix(1_800_000_000, 0), clients: map[string]app{},
		codes: map[string]*grant{}, refresh: map[string]*grant{}, access: map[string]time.Time{}, ttl: 3600, issuer: true}
	w.as, w.rs = httptest.NewServer(w.authorization()), httptest.NewServer(w.resource())
	t.Cleanup(w.as.Close)
	t.Cleanup(w.rs.Close)
	w.svc = w.service()
	return w
}

func (w *world) service() *oauth.Service {
	dial, err := egress.Dialer(egress.Config{Allow: []string{"127.0.0.1"}})
	if err != nil {
		w.t.Fatal(err)
	}
	transport := &http.Transport{DialContext: dial}
	w.t.Cleanup(transport.CloseIdleConnections)
	svc, err := oauth.New(oauth.Config{Store: w.store, HTTPClient: &http.Client{Transport: transport}, Now: w.clock,
		RedirectURL: func(context.Context) string { return redirect }})
	if err != nil {
		w.t.Fatal(err)
	}
	return svc
}

func (w *world) clock() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.now }

func (w *world) wait(d time.Duration) { w.mu.Lock(); w.now = w.now.Add(d); w.mu.Unlock() }

func (w *world) server() *account.MCPHTTPServer {
	return &account.MCPHTTPServer{URL: w.rs.URL + "/mcp", Auth: &account.MCPAuth{Strategy: account.MCPAuthOAuth, OAuth: &account.MCPOAuth{}}}
}

func answer(rw http.ResponseWriter, status int, v any) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(v)
}

func (w *world) resource() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/oauth-protected-resource/mcp", func(rw http.ResponseWriter, _ *http.Request) {
		m := map[string]any{"resource": w.rs.URL + "/mcp", "authorization_servers": []string{w.as.URL}, "scopes_supported": []string{"mcp"}}
		if w.resourceMeta != nil {
			w.resourceMeta(m)
		}
		answer(rw, 200, m)
	})
	mux.HandleFunc("/mcp", func(rw http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		w.mu.Lock()
		until, known := w.access[token]
		fine, need := known && until.After(w.now), w.needScope
		w.mu.Unlock()
		switch {
		case !fine:
			rw.Header().Set("WWW-Authenticate", `Bearer error="invalid_token", resource_metadata="`+w.rs.URL+`/.well-known/oauth-protected-resource/mcp"`)
			rw.WriteHeader(401)
		case need != "":
			rw.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+need+`"`)
			rw.WriteHeader(403)
		case w.inner != nil:
			w.inner.ServeHTTP(rw, r)
		default:
			answer(rw, 200, "hello")
		}
	})
	return mux
}

func (w *world) authorization() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", func(rw http.ResponseWriter, _ *http.Request) {
		m := map[string]any{"issuer": w.as.URL, "authorization_endpoint": w.as.URL + "/authorize?tenant=1", "token_endpoint": w.as.URL + "/token",
			"registration_endpoint": w.as.URL + "/register", "response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
			"token_endpoint_auth_methods_supported": []string{"client_secret_basic", "client_secret_post", "none"}, "scopes_supported": []string{"mcp", "offline_access"},
			"authorization_response_iss_parameter_supported": w.issuer}
		if w.serverMeta != nil {
			w.serverMeta(m)
		}
		answer(rw, 200, m)
	})
	mux.HandleFunc("POST /register", w.register)
	mux.HandleFunc("GET /authorize", w.authorize)
	mux.HandleFunc("POST /token", func(rw http.ResponseWriter, r *http.Request) {
		if w.tokenAnswer != nil {
			w.tokenAnswer(rw, r)
			return
		}
		w.token(rw, r)
	})
	return mux
}

func (w *world) register(rw http.ResponseWriter, r *http.Request) {
	var m struct {
		Redirects []string `json:"redirect_uris"`
		Method    string   `json:"token_endpoint_auth_method"`
		Grants    []string `json:"grant_types"`
	}
	if json.NewDecoder(r.Body).Decode(&m) != nil || len(m.Redirects) != 1 || !slices.Contains(m.Grants, "refresh_token") {
		answer(rw, 400, map[string]string{"error": "invalid_client_metadata"})
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.registrations++
	id, a := "c-"+rand.Text(), app{method: m.Method, redirects: m.Redirects}
	out := map[string]any{"client_id": id, "token_endpoint_auth_method": m.Method, "redirect_uris": m.Redirects}
	if m.Method != "none" {
		a.secret = "hush+/=" + rand.Text()
		out["client_secret"], out["client_secret_expires_at"] = a.secret, 0
	}
	w.clients[id] = a
	answer(rw, 201, out)
}

func (w *world) refuse(rw http.ResponseWriter, code, why string) {
	w.refusals = append(w.refusals, code+": "+why)
	answer(rw, 400, map[string]string{"error": code, "error_description": "hush " + why})
}

func (w *world) authorize(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := r.URL.Query()
	a, known := w.clients[q.Get("client_id")]
	switch {
	case !known, !slices.Contains(a.redirects, q.Get("redirect_uri")):
		w.refuse(rw, "invalid_client", "client or redirect")
		return
	case q.Get("response_type") != "code", q.Get("code_challenge_method") != "S256", len(q.Get("code_challenge")) != 43, q.Get("tenant") != "1",
		q.Get("state") == "", q.Get("resource") != w.rs.URL+"/mcp":
		w.refuse(rw, "invalid_request", r.URL.RawQuery)
		return
	}
	code := "hush-code-" + rand.Text()
	w.codes[code] = &grant{client: q.Get("client_id"), redirect: q.Get("redirect_uri"), challenge: q.Get("code_challenge"), resource: q.Get("resource"), scope: q.Get("scope")}
	back := url.Values{"code": {code}, "state": {q.Get("state")}}
	if w.issuer {
		back.Set("iss", w.as.URL)
	}
	http.Redirect(rw, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

// client authenticates whoever asks for a token.
func (w *world) client(r *http.Request) string {
	id, secret := r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	method := "none"
	if secret != "" {
		method = "client_secret_post"
	}
	if u, p, ok := r.BasicAuth(); ok {
		id, _ = url.QueryUnescape(u)
		secret, _ = url.QueryUnescape(p)
		method = "client_secret_basic"
	}
	a, known := w.clients[id]
	if !known || a.secret != secret || a.method != method {
		return ""
	}
	return id
}

func (w *world) token(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := w.client(r)
	if id == "" {
		w.refuse(rw, "invalid_client", "authentication")
		return
	}
	var g *grant
	switch r.PostFormValue("grant_type") {
	case "authorization_code":
		g = w.codes[r.PostFormValue("code")]
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		switch {
		case g == nil || g.used || g.client != id:
			w.refuse(rw, "invalid_grant", "code")
			return
		case g.redirect != r.PostFormValue("redirect_uri"), base64.RawURLEncoding.EncodeToString(sum[:]) != g.challenge:
			w.refuse(rw, "invalid_grant", "redirect or verifier")
			return
		}
	case "refresh_token":
		w.refreshes++
		g = w.refresh[r.PostFormValue("refresh_token")]
		if g == nil || g.used || g.client != id {
			w.refuse(rw, "invalid_grant", "refresh token")
			return
		}
	default:
		w.refuse(rw, "unsupported_grant_type", "")
		return
	}
	if r.PostFormValue("resource") != g.resource {
		w.refuse(rw, "invalid_target", r.PostFormValue("resource"))
		return
	}
	g.used = true
	next := &grant{client: id, resource: g.resource, scope: g.scope}
	access, refresh := "hush-at-"+rand.Text(), "hush-rt-"+rand.Text()
	w.access[access], w.refresh[refresh] = w.now.Add(time.Duration(w.ttl)*time.Second), next
	answer(rw, 200, map[string]any{"access_token": access, "token_type": "bearer", "expires_in": w.ttl, "refresh_token": refresh, "scope": g.scope})
}

// consent is the user at the authorization server; it returns what the browser brings
// back.
func (w *world) consent(address string) url.Values {
	w.t.Helper()
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Get(address)
	if err != nil {
		w.t.Fatal(err)
	}
	_ = resp.Body.Close()
	back, err := resp.Location()
	if err != nil {
		w.t.Fatalf("%s: %d %v", address, resp.StatusCode, w.refusals)
	}
	if got := back.Scheme + "://" + back.Host + back.Path; got != redirect {
		w.t.Fatalf("sent back to %s", got)
	}
	return back.Query()
}

func (w *world) start(server *account.MCPHTTPServer) oauth.Job {
	w.t.Helper()
	j, err := w.svc.Start(w.t.Context(), owner, server)
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

func (w *world) login(server *account.MCPHTTPServer) {
	w.t.Helper()
	j := w.start(server)
	if err := w.svc.Callback(w.t.Context(), owner, j.ID, w.consent(j.AuthorizationURL)); err != nil {
		w.t.Fatal(err, w.refusals)
	}
	if st, err := w.svc.Status(owner, j.ID); err != nil || st != (oauth.JobStatus{State: oauth.JobDone}) {
		w.t.Fatal(st, err)
	}
}

// call makes a request as the transport does: once more after Authorize.
func (w *world) call(h auth.OAuthHandler) (int, error) {
	for try := 0; ; try++ {
		req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.rs.URL+"/mcp", nil)
		if err != nil {
			return 0, err
		}
		source, err := h.TokenSource(w.t.Context())
		if err != nil {
			return 0, err
		}
		if source != nil {
			token, err := source.Token()
			if err != nil {
				return 0, err
			}
			token.SetAuthHeader(req)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		if resp.StatusCode != 401 && resp.StatusCode != 403 || try > 0 {
			_ = resp.Body.Close()
			return resp.StatusCode, nil
		}
		if err := h.Authorize(w.t.Context(), req, resp); err != nil {
			return resp.StatusCode, err
		}
	}
}

func (w *world) handler(server *account.MCPHTTPServer) auth.OAuthHandler {
	w.t.Helper()
	h, err := w.svc.Handler(owner, server)
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

func (w *world) works(h auth.OAuthHandler) {
	w.t.Helper()
	if code, err := w.call(h); code != 200 || err != nil {
		w.t.Fatal(code, err, w.refusals)
	}
}

func (w *world) needsLogin(h auth.OAuthHandler) {
	w.t.Helper()
	_, err := w.call(h)
	if !errors.Is(err, oauth.ErrLogin) || fault.CodeOf(err) != oauth.CodeLogin {
		w.t.Fatalf("no login is asked for: %v", err)
	}
	if strings.Contains(fmt.Sprint(err), "hush") {
		w.t.Fatalf("a secret is in %v", err)
	}
}
