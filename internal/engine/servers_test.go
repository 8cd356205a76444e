package engine_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/llm"
	"parley/internal/tool"
)

// host is a tool.ServerHost whose servers do what a test says.
type host struct {
	mu       sync.Mutex
	sessions []*fakeSession
	hangs    bool // servers never come up
}

func (h *host) use(o *engine.Options) { o.Servers = h }

func (h *host) Open(opt tool.ServerOptions, servers []tool.Server) tool.ServerSession {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &fakeSession{opt: opt, hangs: h.hangs}
	h.sessions = append(h.sessions, s)
	s.Set(servers)
	opt.Changed() // a host may call it at once
	return s
}

func (h *host) Test(_ context.Context, opt tool.ServerOptions, server tool.Server, _ *tool.ServerCall) tool.ServerReport {
	secret, _ := opt.Secret("TOKEN")
	return tool.ServerReport{OK: true, Error: "said " + secret, Result: json.RawMessage(`{"text":"` + secret + `"}`), Tools: []tool.ServerTool{
		{Name: "x", Description: "has " + secret + " and " + server.HTTP.APIKey.Reveal(), InputSchema: json.RawMessage(`{"description":"` + secret + `"}`)}}}
}

// of returns the sessions that were opened.
func (h *host) of() []*fakeSession {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.sessions)
}

type fakeSession struct {
	opt    tool.ServerOptions
	hangs  bool
	closed atomic.Bool
	mu     sync.Mutex
	names  []string
	tools  []tool.Tool
	states map[string]string
	detail int
}

func (s *fakeSession) Set(servers []tool.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = nil
	for _, v := range servers {
		s.names = append(s.names, v.Name)
	}
}

func (s *fakeSession) Tools() []tool.Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tools)
}

func (s *fakeSession) Status() []tool.ServerStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []tool.ServerStatus
	for _, name := range s.names {
		state := s.states[name]
		if state == "" {
			state = tool.ServerConnected
		}
		s.detail++
		all = append(all, tool.ServerStatus{Name: name, State: state, Detail: strings.Repeat("x", s.detail%7)}) // other words each time
	}
	return all
}

func (s *fakeSession) Settle(ctx context.Context) {
	if s.hangs {
		<-ctx.Done()
	}
}

func (s *fakeSession) Close() { s.closed.Store(true) }

// offer sets the tools and the state of a server, and tells of it.
func (s *fakeSession) offer(state string, tools ...tool.Tool) {
	s.mu.Lock()
	s.tools = tools
	s.states = map[string]string{"db": state}
	s.mu.Unlock()
	s.opt.Changed()
}

// remote is a tool of a server.
func remote(name string) tool.Tool {
	return tool.New(tool.Spec{Name: name, Description: "remote", NoHands: true}, func(context.Context, *tool.Env, runInput) (tool.Result, error) {
		return tool.TextObservation("RemoteObservation", "from afar").Result()
	})
}

func withServers(message string) engine.StartRequest {
	return engine.StartRequest{Owner: owner, InitialMessage: words(message),
		MCP: &account.MCPConfig{SHTTP: []account.MCPHTTPServer{{Name: "db", URL: "http://127.0.0.1:1/mcp"}}}}
}

func offeredTo(req *llm.Request) string {
	var names []string
	for _, t := range req.Tools {
		names = append(names, t.Name)
	}
	return strings.Join(names, " ")
}

func TestToolsOfServersComeAndGoBetweenSteps(t *testing.T) {
	h := &host{}
	w := newWorldWith(t, h.use)
	var s *fakeSession
	w.model.steps = []step{
		func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
			s = h.of()[0]
			s.offer(tool.ServerConnected, remote("db_query"), remote("sh")) // the second has the name of one of ours
			return call("sh", `{"command":"true"}`)(ctx, r)
		},
		call("db_query", `{"command":"x"}`),
		func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
			s.offer(tool.ServerFailed)
			return call("db_query", `{"command":"x"}`)(ctx, r)
		},
	}
	id := w.beginWith(withServers("go"))
	w.wait(id, conversation.Finished)
	var offered []string
	for _, req := range w.model.reqs {
		offered = append(offered, offeredTo(req))
	}
	if want := []string{"sh finish", "sh finish db_query", "sh finish db_query", "sh finish"}; !slices.Equal(offered, want) {
		t.Errorf("offered %q", offered)
	}
	if text := w.text(id); !strings.Contains(text, "from afar") {
		t.Error(text)
	}
	notes := must(w.engine.View(t.Context(), owner, id)).Summary.Notes
	if len(notes.Servers) != 1 || notes.Servers[0].State != tool.ServerFailed {
		t.Errorf("%+v", notes.Servers)
	}
	// What is no news is not told again, in whatever words.
	n := len(w.events(id))
	for range 20 {
		s.offer(tool.ServerFailed)
	}
	w.expect("extensions", second(w.engine.Extensions(t.Context(), owner, id)))
	if now := len(w.events(id)); now != n {
		t.Errorf("%d events became %d", n, now)
	}
	s.offer(tool.ServerConnected)
	w.eventually("the news", func() bool {
		return len(must(w.engine.View(t.Context(), owner, id)).Summary.Notes.Servers) == 0
	})
}

func second[T any](_ T, err error) error { return err }

// A session outlives the conversation's goroutine and ends with the conversation.
func TestASessionOutlivesTheGoroutine(t *testing.T) {
	h := &host{}
	w := newWorldWith(t, func(o *engine.Options) { h.use(o); o.IdleAfter = 5 * time.Millisecond })
	id := w.beginWith(withServers("go"))
	w.wait(id, conversation.Finished)
	for range 3 {
		w.eventually("the goroutine's end", func() bool { return w.engine.Live() == 0 })
		w.expect("ask", second(w.engine.Extensions(t.Context(), owner, id)))
	}
	if all := h.of(); len(all) != 1 || all[0].closed.Load() {
		t.Errorf("%d sessions", len(all))
	}
	w.expect("delete", w.engine.Delete(t.Context(), owner, id))
	if !h.of()[0].closed.Load() {
		t.Error("it lives on")
	}
}

// To look at a conversation starts nothing; its end of life ends all.
func TestNothingIsConnectedBeforeARunWantsIt(t *testing.T) {
	h := &host{}
	w := newWorldWith(t, h.use)
	id := w.beginWith(withServers(""))
	x := must(w.engine.Extensions(t.Context(), owner, id))
	if len(h.of()) != 0 || len(x.Servers) != 1 || x.Servers[0].State != tool.ServerStopped {
		t.Errorf("%d sessions, %+v", len(h.of()), x.Servers)
	}
	w.send(id, "go")
	w.wait(id, conversation.Finished)
	if x := must(w.engine.Extensions(t.Context(), owner, id)); len(h.of()) != 1 || x.Servers[0].State != tool.ServerConnected {
		t.Errorf("%d sessions, %+v", len(h.of()), x.Servers)
	}
	w.stop()
	if !h.of()[0].closed.Load() {
		t.Error("it outlives the engine")
	}
	w.start()
}

// A server that hangs holds the first step for a moment and no longer, and no command
// at all.
func TestAServerThatHangsDelaysNothing(t *testing.T) {
	h := &host{hangs: true}
	w := newWorldWith(t, h.use)
	id := w.beginWith(withServers(""))
	began := time.Now()
	w.send(id, "go")
	w.eventually("the session", func() bool { return len(h.of()) == 1 })
	w.send(id, "and this")
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("a message took %s", took)
	}
	w.wait(id, conversation.Finished)
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the run took %s", took)
	}
	w.send(id, "again") // is not held any more
	w.eventually("the answer", func() bool { return w.model.calls() == 2 && w.status(id) == conversation.Finished })
}

// An interrupt ends the wait.
func TestAnInterruptWhileServersStart(t *testing.T) {
	h := &host{hangs: true}
	w := newWorldWith(t, h.use)
	id := w.beginWith(withServers(""))
	w.send(id, "go")
	w.eventually("the session", func() bool { return len(h.of()) == 1 })
	w.expect("interrupt", w.engine.Interrupt(t.Context(), owner, id))
	w.wait(id, conversation.Paused)
	if w.model.calls() != 0 {
		t.Error("the model was called")
	}
}

// A name that is the value of a secret is masked in the log, and no news for that.
func TestAServerWhoseNameIsASecret(t *testing.T) {
	h := &host{}
	w := newWorldWith(t, h.use)
	req := withServers("go")
	req.MCP.SHTTP[0].Name = "postgres"
	req.Secrets = map[string]account.CustomSecret{"PGPASSWORD": {Value: account.NewSecret("postgres")}}
	id := w.beginWith(req)
	w.wait(id, conversation.Finished)
	s := h.of()[0]
	s.mu.Lock()
	s.states = map[string]string{"postgres": tool.ServerFailed}
	s.mu.Unlock()
	s.opt.Changed()
	w.eventually("the note", func() bool { return len(must(w.engine.View(t.Context(), owner, id)).Summary.Notes.Servers) == 1 })
	n := len(w.events(id))
	for range 5 {
		s.opt.Changed()
		w.expect("extensions", second(w.engine.Extensions(t.Context(), owner, id)))
	}
	if now := len(w.events(id)); now != n {
		t.Errorf("%d events became %d", n, now)
	}
}

// Secrets are looked up when a server wants them: a new value counts at once.
func TestSecretsOfServersAreLookedUpLate(t *testing.T) {
	h := &host{}
	w := newWorldWith(t, h.use)
	req := withServers("go")
	req.Secrets = map[string]account.CustomSecret{"TOKEN": {Value: account.NewSecret("the-old-value")}}
	id := w.beginWith(req)
	w.wait(id, conversation.Finished)
	secret := h.of()[0].opt.Secret
	if v, ok := secret("TOKEN"); v != "the-old-value" || !ok {
		t.Error(v, ok)
	}
	w.settings(func(s *account.Settings) {
		s.Secrets.Custom = map[string]account.CustomSecret{"MINE": {Value: account.NewSecret("of-the-settings")}}
	})
	w.expect("secrets", w.engine.AddSecrets(t.Context(), owner, id, map[string]account.CustomSecret{"TOKEN": {Value: account.NewSecret("the-new-value")}}))
	for name, want := range map[string]string{"TOKEN": "the-new-value", "MINE": "of-the-settings", "OTHER": ""} {
		if v, ok := secret(name); v != want || ok != (want != "") {
			t.Error(name, v, ok)
		}
	}
	if _, ok := secret("other"); ok {
		t.Error("a secret without a name")
	}
}

func TestTestingAServer(t *testing.T) {
	h := &host{}
	w := newWorldWith(t, h.use)
	w.settings(func(s *account.Settings) {
		s.Secrets.Custom = map[string]account.CustomSecret{"TOKEN": {Value: account.NewSecret("the-secret-value")}}
	})
	r := must(w.engine.TestServer(t.Context(), owner, "", tool.Server{Name: "db", HTTP: &account.MCPHTTPServer{APIKey: account.NewSecret("its-own-key")}}, nil))
	all := r.Error + string(r.Result) + r.Tools[0].Description + string(r.Tools[0].InputSchema)
	if !r.OK || strings.Contains(all, "the-secret-value") || strings.Contains(all, "its-own-key") || strings.Count(all, "<secret-hidden>") != 5 {
		t.Errorf("%+v", r)
	}
}

// What a server says of its tools may hold what it was sent: no model reads that.
func TestSecretsInTheToolsOfServers(t *testing.T) {
	h := &host{}
	w := newWorldWith(t, h.use)
	req := withServers("go")
	req.Secrets = map[string]account.CustomSecret{"TOKEN": {Value: account.NewSecret("the-secret-value")}}
	leaky := tool.New(tool.Spec{Name: "leaky", Description: "Say the-secret-value.", NoHands: true}, func(context.Context, *tool.Env, runInput) (tool.Result, error) {
		return tool.TextObservation("LeakyObservation", "done").Result()
	})
	w.model.steps = []step{func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
		h.of()[0].offer(tool.ServerConnected, leaky)
		return call("sh", `{"command":"true"}`)(ctx, r)
	}}
	id := w.beginWith(req)
	w.wait(id, conversation.Finished)
	last := w.model.reqs[len(w.model.reqs)-1].Tools
	if raw := string(must(json.Marshal(last))); !strings.Contains(raw, "leaky") || strings.Contains(raw, "the-secret-value") {
		t.Error(raw)
	}
	if _, err := w.engine.Ask(t.Context(), owner, id, "what?"); err != nil {
		t.Fatal(err)
	}
	if raw := string(must(json.Marshal(w.model.reqs[len(w.model.reqs)-1].Tools))); strings.Contains(raw, "the-secret-value") {
		t.Error(raw)
	}
}

// The filter holds for all tools but those that every agent has.
func TestAFilterOfTools(t *testing.T) {
	h := &host{}
	w := newWorldWith(t, h.use)
	req := withServers("")
	req.ToolFilter = "db_"
	id := w.beginWith(req)
	w.model.steps = []step{func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
		h.of()[0].offer(tool.ServerConnected, remote("db_query"), remote("other"))
		return call("finish", `{"message":"x"}`)(ctx, r)
	}}
	w.send(id, "go")
	w.wait(id, conversation.Finished)
	w.send(id, "again")
	w.eventually("the answer", func() bool { return w.model.calls() == 2 })
	if got := offeredTo(w.model.reqs[0]) + "|" + offeredTo(w.model.reqs[1]); got != "finish|finish db_query" {
		t.Error(got)
	}
}
