package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/tool/mcp/oauth"
)

func TestLogin(t *testing.T) {
	w := newWorld(t)
	h := w.handler(w.server())
	w.needsLogin(h)
	w.login(w.server())
	w.works(h)
	w.works(w.handler(w.server()))
	if strings.Contains(strings.SplitN(w.store.all(), "=", 2)[0], "hush") {
		t.Error("a name is not fit to be shown")
	}
	// A login is that of its owner and its server.
	other, err := w.svc.Handler("user-2", w.server())
	if err != nil {
		t.Fatal(err)
	}
	w.needsLogin(other)
	if err := w.svc.Forget(t.Context(), owner, w.server()); err != nil || w.store.all() != "" {
		t.Errorf("%v: %s", err, w.store.all())
	}
	w.needsLogin(h)
}

func TestLoginByState(t *testing.T) {
	w := newWorld(t)
	j := w.start(w.server())
	back := w.consent(j.AuthorizationURL)
	if got := w.svc.Owner(back.Get("state")); got != owner {
		t.Errorf("the login of %q", got)
	}
	if err := w.svc.CallbackByState(t.Context(), url.Values{"state": {"x"}, "code": {"y"}}); fault.CodeOf(err) != oauth.CodeJob || w.svc.Owner("x") != "" {
		t.Errorf("an unknown state: %v", err)
	}
	if err := w.svc.CallbackByState(t.Context(), back); err != nil {
		t.Fatal(err)
	}
	w.works(w.handler(w.server()))
	if err := w.svc.CallbackByState(t.Context(), back); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second time: %v", err)
	}
}

func TestJobsBelongToTheirOwner(t *testing.T) {
	w := newWorld(t)
	j := w.start(w.server())
	back := w.consent(j.AuthorizationURL)
	if _, err := w.svc.Status("user-2", j.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("status: %v", err)
	}
	if err := w.svc.Callback(t.Context(), "user-2", j.ID, back); !fault.Is(err, fault.NotFound) {
		t.Errorf("callback: %v", err)
	}
	wrong := url.Values{"code": back["code"], "state": {"x"}, "iss": back["iss"]}
	if err := w.svc.Callback(t.Context(), owner, j.ID, wrong); fault.CodeOf(err) != oauth.CodeRefused {
		t.Errorf("a wrong state: %v", err)
	}
	if st, err := w.svc.Status(owner, j.ID); err != nil || st.State != oauth.JobPending {
		t.Errorf("a wrong state ends the job: %v %v", st, err)
	}
	if err := w.svc.Callback(t.Context(), owner, j.ID, back); err != nil {
		t.Error(err)
	}
}

func TestJobsEnd(t *testing.T) {
	w := newWorld(t)
	j := w.start(w.server())
	back := w.consent(j.AuthorizationURL)
	if got := j.ExpiresAt.Sub(w.clock()); got != 15*time.Minute {
		t.Errorf("it lives %v", got)
	}
	w.wait(15 * time.Minute)
	if err := w.svc.Callback(t.Context(), owner, j.ID, back); !fault.Is(err, fault.NotFound) {
		t.Errorf("callback: %v", err)
	}
	if err := w.svc.CallbackByState(t.Context(), back); !fault.Is(err, fault.NotFound) {
		t.Errorf("by state: %v", err)
	}
	w.needsLogin(w.handler(w.server()))
}

func TestJobsAreBounded(t *testing.T) {
	w := newWorld(t)
	var first oauth.Job
	for i := range oauth.MaxJobs {
		if j := w.start(w.server()); i == 0 {
			first = j
		}
	}
	if _, err := w.svc.Start(t.Context(), owner, w.server()); fault.CodeOf(err) != oauth.CodeTooMany {
		t.Fatalf("one too many: %v", err)
	}
	if _, err := w.svc.Start(t.Context(), "user-2", w.server()); err != nil {
		t.Errorf("somebody else: %v", err)
	}
	_ = w.svc.Callback(t.Context(), owner, first.ID, w.consent(first.AuthorizationURL))
	w.start(w.server()) // in place of the one that is over
	if w.registrations != 2 {
		t.Errorf("%d registrations, want one for each owner", w.registrations)
	}
	w.wait(time.Hour)
	w.start(w.server())
}

func TestTokensAreRefreshed(t *testing.T) {
	w := newWorld(t)
	w.login(w.server())
	h := w.handler(w.server())
	for i := range 3 { // each refresh token works once
		w.wait(3599 * time.Second)
		w.works(h)
		if w.refreshes != i+1 {
			t.Fatalf("%d refreshes, want %d", w.refreshes, i+1)
		}
	}
	w.mu.Lock()
	clear(w.access) // revoked, before their time
	w.mu.Unlock()
	w.works(h)
	w.svc = w.service() // a restart
	w.wait(2 * time.Hour)
	w.works(w.handler(w.server()))
	if w.refreshes != 5 || len(w.refusals) != 0 {
		t.Errorf("%d refreshes, refused %v", w.refreshes, w.refusals)
	}
}

func TestOneRefreshAtATime(t *testing.T) {
	w := newWorld(t)
	w.login(w.server())
	w.wait(2 * time.Hour)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			h, err := w.svc.Handler(owner, w.server())
			if err != nil {
				t.Error(err)
				return
			}
			if code, err := w.call(h); code != 200 || err != nil {
				t.Error(code, err)
			}
		})
	}
	all.Wait()
	if w.refreshes != 1 || len(w.refusals) > 0 {
		t.Errorf("%d refreshes, refused %v", w.refreshes, w.refusals)
	}
}

func TestARevokedLoginAsksForAnother(t *testing.T) {
	w := newWorld(t)
	w.login(w.server())
	h := w.handler(w.server())
	w.mu.Lock()
	clear(w.refresh)
	w.mu.Unlock()
	w.wait(2 * time.Hour)
	w.needsLogin(h)
	w.needsLogin(h)
	if w.refreshes != 1 {
		t.Errorf("a refused refresh token was sent %d times", w.refreshes)
	}
	if strings.Contains(w.store.all(), "hush-at") || strings.Contains(w.store.all(), "hush-rt") {
		t.Error("refused tokens are kept")
	}
	w.login(w.server())
	w.works(h)
	if w.registrations != 1 {
		t.Errorf("%d registrations", w.registrations)
	}
}

func TestAnUnknownClientIsRegisteredAnew(t *testing.T) {
	w := newWorld(t)
	w.login(w.server())
	w.mu.Lock()
	clear(w.clients)
	w.mu.Unlock()
	w.wait(2 * time.Hour)
	w.needsLogin(w.handler(w.server()))
	w.login(w.server())
	if w.registrations != 2 {
		t.Errorf("%d registrations", w.registrations)
	}
}

// Trouble on the way is not the end of a login.
func TestTroubleKeepsTheLogin(t *testing.T) {
	w := newWorld(t)
	w.login(w.server())
	h := w.handler(w.server())
	w.wait(2 * time.Hour)
	for name, fail := range map[string]http.HandlerFunc{
		"500": func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(500) },
		"a busy server": func(rw http.ResponseWriter, _ *http.Request) {
			answer(rw, 503, map[string]string{"error": "temporarily_unavailable"})
		},
		"its own mistake": func(rw http.ResponseWriter, _ *http.Request) {
			answer(rw, 400, map[string]string{"error": "server_error"})
		},
		"no JSON":  func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("hush")) },
		"a page":   func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(400); _, _ = rw.Write([]byte("<p>hush")) },
		"too much": func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte(strings.Repeat("h", 1<<20))) },
		"no bearer": func(rw http.ResponseWriter, _ *http.Request) {
			answer(rw, 200, map[string]string{"access_token": "hush", "token_type": "mac"})
		},
		"a header in it": func(rw http.ResponseWriter, _ *http.Request) {
			answer(rw, 200, map[string]string{"access_token": "hush\r\nX: y", "token_type": "bearer"})
		},
		"elsewhere": func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, w.rs.URL+"/steal", http.StatusTemporaryRedirect)
		},
	} {
		w.tokenAnswer = fail
		if _, err := w.call(h); !fault.Is(err, fault.Unavailable) || errors.Is(err, oauth.ErrLogin) || strings.Contains(fmt.Sprint(err), "hush") {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.tokenAnswer = nil
	w.works(h)
}

func TestAFullStoreLosesNoToken(t *testing.T) {
	w := newWorld(t)
	w.login(w.server())
	h := w.handler(w.server())
	w.store.refuse(true)
	w.wait(2 * time.Hour)
	w.works(h)
	w.wait(2 * time.Hour)
	w.works(h)
	w.store.refuse(false)
	w.works(h)
	w.svc = w.service() // what is stored now is what works
	w.wait(2 * time.Hour)
	w.works(w.handler(w.server()))
	if len(w.refusals) > 0 {
		t.Errorf("refused: %v", w.refusals)
	}
}

// The client of the SDK: tokens that end or are revoked during a session do not end
// the session; a login that is gone is told.
func TestASessionOutlivesItsTokens(t *testing.T) {
	w := newWorld(t)
	server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "t"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{}, nil, nil
	})
	w.inner = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	connect := func() (*mcp.ClientSession, error) {
		return mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(t.Context(),
			&mcp.StreamableClientTransport{Endpoint: w.rs.URL + "/mcp", OAuthHandler: w.handler(w.server()), DisableStandaloneSSE: true}, nil)
	}
	if _, err := connect(); !errors.Is(err, oauth.ErrLogin) {
		t.Fatalf("without a login: %v", err)
	}
	w.login(w.server())
	session, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	list := func() error { _, err := session.ListTools(t.Context(), nil); return err }
	for range 3 {
		w.wait(2 * time.Hour)
		if err := list(); err != nil {
			t.Fatal(err)
		}
	}
	w.mu.Lock()
	clear(w.access)
	w.mu.Unlock()
	if err := list(); err != nil || w.refreshes != 4 {
		t.Fatalf("revoked: %v, %d refreshes", err, w.refreshes)
	}
	w.mu.Lock()
	clear(w.access)
	clear(w.refresh)
	w.mu.Unlock()
	if err := list(); !errors.Is(err, oauth.ErrLogin) {
		t.Errorf("a login that is gone: %v", err)
	}
}

// The end of a caller does not break a refresh off: its token would be lost.
func TestARefreshOutlivesItsCaller(t *testing.T) {
	w := newWorld(t)
	w.login(w.server())
	h := w.handler(w.server())
	w.wait(2 * time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	w.tokenAnswer = func(rw http.ResponseWriter, r *http.Request) { cancel(); w.token(rw, r) }
	if source, err := h.TokenSource(ctx); err != nil || source == nil {
		t.Errorf("%v", err)
	}
	w.works(h)
	if w.refreshes != 1 {
		t.Errorf("%d refreshes", w.refreshes)
	}
}

func TestMoreScopes(t *testing.T) {
	w := newWorld(t)
	w.login(w.server())
	h := w.handler(w.server())
	w.mu.Lock()
	w.needScope = "write mcp"
	w.mu.Unlock()
	w.needsLogin(h)
	w.needsLogin(h)
	j := w.start(w.server())
	u, err := url.Parse(j.AuthorizationURL)
	if err != nil || u.Query().Get("scope") != "mcp offline_access write" {
		t.Errorf("asked for %q: %v", u.Query().Get("scope"), err)
	}
	w.mu.Lock()
	w.needScope = ""
	w.mu.Unlock()
	w.works(h) // the old login still is one
}

func TestConfiguredClients(t *testing.T) {
	w := newWorld(t)
	w.serverMeta = func(m map[string]any) {
		delete(m, "registration_endpoint")
		m["client_id_metadata_document_supported"] = true
	}
	for name, c := range map[string]struct {
		config account.MCPOAuth
		is     app
		id     string
	}{
		"a public client": {account.MCPOAuth{ClientID: "pub"}, app{method: "none"}, "pub"},
		"a secret":        {account.MCPOAuth{ClientID: "s:1", ClientSecret: account.NewSecret("hush")}, app{method: "client_secret_post", secret: "hush"}, "s:1"},
		"in a header": {account.MCPOAuth{ClientID: "s 2", ClientSecret: account.NewSecret("hu:sh+"), ClientAuth: "client_secret_basic"},
			app{method: "client_secret_basic", secret: "hu:sh+"}, "s 2"},
		"its own document": {account.MCPOAuth{MetadataURL: "https://parley.example/client.json"}, app{method: "none"}, "https://parley.example/client.json"},
	} {
		c.is.redirects = []string{redirect}
		w.mu.Lock()
		w.clients[c.id] = c.is
		w.mu.Unlock()
		s := w.server()
		s.Auth.OAuth = &c.config
		t.Run(name, func(*testing.T) {
			w.login(s)
			w.works(w.handler(s))
			w.wait(2 * time.Hour)
			w.works(w.handler(s))
		})
		if c.config.ClientID != "" {
			w.needsLogin(w.handler(&account.MCPHTTPServer{URL: s.URL, Auth: &account.MCPAuth{OAuth: &account.MCPOAuth{ClientID: "another"}}}))
		}
	}
	if _, err := w.svc.Start(t.Context(), owner, w.server()); fault.CodeOf(err) != oauth.CodeUnsupported || !strings.Contains(fault.PublicText(err), "client_id") {
		t.Errorf("no client: %v", err)
	}
}

// A configured secret stays with the authorization server that it was used at.
func TestASecretIsNotTakenToAnotherServer(t *testing.T) {
	w, thief := newWorld(t), newWorld(t)
	w.clients["c"] = app{method: "client_secret_post", secret: "hush", redirects: []string{redirect}}
	s := w.server()
	s.Auth.OAuth.ClientID, s.Auth.OAuth.ClientSecret = "c", account.NewSecret("hush")
	w.login(s)
	w.resourceMeta = set("authorization_servers", []string{thief.as.URL})
	if _, err := w.svc.Start(t.Context(), owner, s); fault.CodeOf(err) != oauth.CodeUnsupported {
		t.Errorf("taken along: %v", err)
	}
	w.works(w.handler(s))
	if err := w.svc.Forget(t.Context(), owner, s); err != nil {
		t.Fatal(err)
	}
	if j := w.start(s); !strings.HasPrefix(j.AuthorizationURL, thief.as.URL) {
		t.Errorf("the user wanted another: %s", j.AuthorizationURL)
	}
}

// A secret that the user replaced is what the next refresh shows.
func TestAReplacedSecretIsUsed(t *testing.T) {
	w := newWorld(t)
	w.clients["c"] = app{method: "client_secret_post", secret: "hush-1", redirects: []string{redirect}}
	s := w.server()
	s.Auth.OAuth.ClientID, s.Auth.OAuth.ClientSecret = "c", account.NewSecret("hush-1")
	w.login(s)
	w.clients["c"] = app{method: "client_secret_post", secret: "hush-2", redirects: []string{redirect}}
	s.Auth.OAuth.ClientSecret = account.NewSecret("hush-2")
	w.wait(2 * time.Hour)
	w.works(w.handler(s))
}

// A login that a client brought along counts until it is refused or replaced.
func TestALoginThatWasBroughtAlong(t *testing.T) {
	w := newWorld(t)
	w.clients["app"] = app{method: "client_secret_post", secret: "hush", redirects: []string{redirect}}
	w.access["hush-at-1"] = w.now.Add(time.Hour)
	w.refresh["hush-rt-1"] = &grant{client: "app", resource: w.rs.URL + "/mcp"}
	s := w.server()
	s.Auth.OAuth.State = account.NewSecret(fmt.Sprintf(`{"access_token":"hush-at-1","refresh_token":"hush-rt-1","token_expires_at":%d,"client_id":"app","client_secret":"hush"}`, w.now.Unix()+3600))
	h := w.handler(s)
	w.works(h)
	w.wait(2 * time.Hour)
	w.works(h)
	w.svc = w.service()
	w.works(w.handler(s))
	clear(w.refresh)
	w.wait(2 * time.Hour)
	w.needsLogin(w.handler(s))
	if w.refreshes != 2 {
		t.Errorf("%d refreshes: it was taken twice", w.refreshes)
	}
	w.login(s)
	w.works(w.handler(s))
}

func TestHostileMetadata(t *testing.T) {
	elsewhere := httptest.NewServer(http.NotFoundHandler())
	defer elsewhere.Close()
	for name, c := range map[string]struct {
		resource, server func(map[string]any)
		code             string
	}{
		"another resource":        {resource: set("resource", "https://victim.example/mcp"), code: oauth.CodeUnsupported},
		"another path":            {resource: set("resource", "%rs/other"), code: oauth.CodeUnsupported},
		"a path that looks alike": {resource: set("resource", "%rs/mc"), code: oauth.CodeUnsupported},
		"a path below":            {resource: set("resource", "%rs/mcp/x"), code: oauth.CodeUnsupported},
		"no resource":             {resource: set("resource", ""), code: oauth.CodeUnsupported},
		"no server":               {resource: set("authorization_servers", []string{}), code: oauth.CodeUnsupported},
		"a server without https":  {resource: set("authorization_servers", []string{"http://as.example"}), code: oauth.CodeUnsupported},
		"a script as server":      {resource: set("authorization_servers", []string{"javascript:alert(1)"}), code: oauth.CodeUnsupported},
		"a file as server":        {resource: set("authorization_servers", []string{"file:///etc/passwd"}), code: oauth.CodeUnsupported},
		"a silent server":         {resource: set("authorization_servers", []string{elsewhere.URL}), code: oauth.CodeUnsupported},
		"a private server":        {resource: set("authorization_servers", []string{"https://10.0.0.1"}), code: oauth.CodeServer},
		"a metadata service":      {resource: set("authorization_servers", []string{"https://169.254.169.254"}), code: oauth.CodeServer},
		"another issuer":          {server: set("issuer", "https://victim.example"), code: oauth.CodeServer},
		"no PKCE":                 {server: set("code_challenge_methods_supported", nil), code: oauth.CodeServer},
		"plain PKCE":              {server: set("code_challenge_methods_supported", []string{"plain"}), code: oauth.CodeUnsupported},
		"a script for users":      {server: set("authorization_endpoint", "javascript:alert(1)"), code: oauth.CodeServer},
		"another program":         {server: set("authorization_endpoint", "vscode://localhost/x"), code: oauth.CodeUnsupported},
		"users without https":     {server: set("authorization_endpoint", "http://as.example/a"), code: oauth.CodeServer},
		"tokens without https":    {server: set("token_endpoint", "http://as.example/t"), code: oauth.CodeServer},
		"no endpoint":             {server: set("token_endpoint", ""), code: oauth.CodeUnsupported},
		"a name in the address":   {server: set("authorization_endpoint", "https://bank.example@as.example/"), code: oauth.CodeUnsupported},
		"a private registration":  {server: set("registration_endpoint", "https://192.168.0.1/r"), code: oauth.CodeServer},
		"too much":                {resource: set("resource_name", strings.Repeat("x", 300<<10)), code: oauth.CodeServer},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.resourceMeta, w.serverMeta = w.filled(c.resource), c.server
			_, err := w.svc.Start(t.Context(), owner, w.server())
			if fault.CodeOf(err) != c.code {
				t.Errorf("got %v, want %s", err, c.code)
			}
		})
	}
}

func set(name string, value any) func(map[string]any) {
	return func(m map[string]any) { m[name] = value }
}

// filled puts the address of the MCP server in.
func (w *world) filled(change func(map[string]any)) func(map[string]any) {
	return func(m map[string]any) {
		if change != nil {
			change(m)
		}
		if s, ok := m["resource"].(string); ok {
			m["resource"] = strings.ReplaceAll(s, "%rs", w.rs.URL)
		}
	}
}

func TestHostileAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		change func(url.Values)
		says   string
	}{
		"another issuer":        {func(q url.Values) { q.Set("iss", "https://attacker.example") }, "another authorization server"},
		"no issuer":             {func(q url.Values) { q.Del("iss") }, "another authorization server"},
		"the user said no":      {func(q url.Values) { q.Del("code"); q.Set("error", "access_denied"); q.Set("error_description", "hush") }, "access_denied"},
		"an error of its own":   {func(q url.Values) { q.Set("error", "<script>hush") }, "an error"},
		"no code":               {func(q url.Values) { q.Del("code") }, "no code"},
		"a code of its own":     {func(q url.Values) { q.Set("code", "hush") }, "invalid_grant"},
		"a code without an end": {func(q url.Values) { q.Set("code", strings.Repeat("h", 100<<10)) }, "no code"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			j := w.start(w.server())
			back := w.consent(j.AuthorizationURL)
			c.change(back)
			err := w.svc.Callback(t.Context(), owner, j.ID, back)
			st, statusErr := w.svc.Status(owner, j.ID)
			if statusErr != nil || st.State != oauth.JobFailed || st.Error != fault.PublicText(err) || fault.CodeOf(err) != oauth.CodeRefused {
				t.Errorf("%v %v: %v", st, statusErr, err)
			}
			if !strings.Contains(st.Error, c.says) || strings.Contains(fmt.Sprint(err, st), "hush") {
				t.Errorf("it says %q", st.Error)
			}
			w.needsLogin(w.handler(w.server()))
		})
	}
}

// Two servers that a login could be mixed up between: codes and verifiers go to the
// one that was asked.
func TestACodeOfAnotherLogin(t *testing.T) {
	w := newWorld(t)
	one, two := w.start(w.server()), w.start(w.server())
	first, second := w.consent(one.AuthorizationURL), w.consent(two.AuthorizationURL)
	first.Set("code", second.Get("code")) // injected: the verifier is that of the other
	if err := w.svc.Callback(t.Context(), owner, one.ID, first); fault.CodeOf(err) != oauth.CodeRefused {
		t.Errorf("taken: %v", err)
	}
	if err := w.svc.Callback(t.Context(), owner, two.ID, second); err != nil {
		t.Error(err)
	}
}

func TestARefusedRegistration(t *testing.T) {
	w := newWorld(t)
	for name, fail := range map[string]http.HandlerFunc{
		"refused": func(rw http.ResponseWriter, _ *http.Request) {
			answer(rw, 400, map[string]string{"error": "invalid_redirect_uri", "error_description": "hush"})
		},
		"closed": func(rw http.ResponseWriter, _ *http.Request) {
			answer(rw, 403, map[string]string{"client_secret": "hush"})
		},
		"no JSON": func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(201); _, _ = rw.Write([]byte("hush")) },
		"no id": func(rw http.ResponseWriter, _ *http.Request) {
			answer(rw, 201, map[string]string{"client_secret": "hush"})
		},
		"too long": func(rw http.ResponseWriter, _ *http.Request) {
			answer(rw, 201, map[string]string{"client_id": strings.Repeat("i", 40<<10)})
		},
	} {
		s := httptest.NewServer(fail)
		w.serverMeta = set("registration_endpoint", s.URL)
		_, err := w.svc.Start(t.Context(), owner, w.server())
		if code := fault.CodeOf(err); code != oauth.CodeUnsupported && code != oauth.CodeServer || strings.Contains(fmt.Sprint(err), "hush") {
			t.Errorf("%s: %v", name, err)
		}
		s.Close()
	}
	if w.store.all() != "" {
		t.Errorf("something was stored: %s", w.store.all())
	}
}

// Secrets are sent where they belong, not where a redirect points.
func TestRedirectsGetNoSecrets(t *testing.T) {
	var mu sync.Mutex
	var stolen []string
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		stolen = append(stolen, r.Method+" "+r.URL.Path)
	}))
	defer thief.Close()
	w := newWorld(t)
	for _, status := range []int{301, 302, 303, 307, 308} {
		w.tokenAnswer = func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, thief.URL+"/steal", status) }
		next := w.start(w.server())
		if err := w.svc.Callback(t.Context(), owner, next.ID, w.consent(next.AuthorizationURL)); fault.CodeOf(err) != oauth.CodeServer {
			t.Errorf("%d: %v", status, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(stolen) > 0 {
		t.Errorf("redirects were followed: %v", stolen)
	}
}

func TestAddressesThatNoLoginIsMadeFor(t *testing.T) {
	w := newWorld(t)
	for _, address := range []string{"http://mcp.example/mcp", "ws://mcp.example", "https://user:hush@mcp.example", "${URL}/mcp", "https://a.example/${X}", "https://", "/mcp", "::"} {
		s := &account.MCPHTTPServer{URL: address}
		_, err := w.svc.Handler(owner, s)
		_, startErr := w.svc.Start(t.Context(), owner, s)
		if fault.CodeOf(err) != oauth.CodeUnsupported || fault.CodeOf(startErr) != oauth.CodeUnsupported || strings.Contains(fmt.Sprint(err), "hush") {
			t.Errorf("%s: %v, %v", address, err, startErr)
		}
	}
}

// The specification of 2025-03-26: the MCP server is its own authorization server.
func TestAServerThatDescribesNothing(t *testing.T) {
	w := newWorld(t)
	bare := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(404) }))
	defer bare.Close()
	_, err := w.svc.Start(t.Context(), owner, &account.MCPHTTPServer{URL: bare.URL + "/mcp"})
	if fault.CodeOf(err) != oauth.CodeServer { // there is a place to register at, and nobody does
		t.Error(err)
	}
	s := &account.MCPHTTPServer{URL: bare.URL + "/mcp?key=hush", Auth: &account.MCPAuth{OAuth: &account.MCPOAuth{ClientID: "c"}}}
	j, err := w.svc.Start(t.Context(), owner, s)
	if err != nil || !strings.HasPrefix(j.AuthorizationURL, bare.URL+"/authorize?") {
		t.Errorf("%v %v", j.AuthorizationURL, err)
	}
}

// What the operator can allow, the error says.
func TestTheEgressRuleIsNamed(t *testing.T) {
	w := newWorld(t)
	svc, err := oauth.New(oauth.Config{Store: w.store, RedirectURL: func(context.Context) string { return redirect }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := svc.Start(t.Context(), owner, w.server()); !fault.Is(err, fault.Forbidden) || !strings.Contains(fault.PublicText(err), "mcp_allow") {
		t.Error(err)
	}
}
