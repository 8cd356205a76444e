package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/internal/account"
	"parley/internal/api/agentserver"
	"parley/internal/api/device"
	"parley/internal/api/httpkit"
	"parley/internal/api/httpkit/httpkittest"
	"parley/internal/api/ops"
	"parley/internal/api/shared"
	v0 "parley/internal/api/v0"
	v1 "parley/internal/api/v1"
	"parley/internal/bash"
	"parley/internal/console"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/extension"
	"parley/internal/feedback"
	"parley/internal/fernet"
	"parley/internal/fleet"
	"parley/internal/forge"
	"parley/internal/llm"
	"parley/internal/sandbox"
	"parley/internal/store"
	"parley/internal/store/sqlstore"
	"parley/internal/stream"
	"parley/internal/tool"
	"parley/internal/tool/basic"
	"parley/internal/tool/client"
	"parley/internal/tool/invokeskill"
	"parley/internal/tool/mcp"
	"parley/internal/tool/mcp/mcptest"
	"parley/internal/tool/task"
	"parley/internal/vault"
	"parley/test/testkit/boxtest"
)

// TestMain is an MCP server, too: the test binary with these arguments is one.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "mcp-server" {
		info := map[string]string{"args": strings.Join(os.Args[2:], " "), "token": os.Getenv("MCPTEST_TOKEN")}
		(&mcptest.Server{Mode: os.Args[2], Info: info, Die: os.Exit}).Serve(os.Stdin, os.Stdout)
		return
	}
	goleak.VerifyTestMain(m)
}

// mcpProgram is the configuration of the test binary as an MCP server.
func mcpProgram(t testing.TB, mode string) map[string]any {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	return map[string]any{"command": self, "args": []any{"mcp-server", mode}}
}

const (
	userKey   = "key-of-the-first-user-0123456789"
	otherKey  = "key-of-the-other-user-0123456789"
	otherUser = "user-2"
)

// script answers model calls in order, then with "done".
type script struct {
	mu    sync.Mutex
	steps []step
	calls int
	bare  []step // answers to tests of a model, then "ready"
	// verdicts are the answers of a goal's judge.
	verdicts []string
}

// judge adds answers of a goal's judge.
func (s *script) judge(verdicts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verdicts = append(s.verdicts, verdicts...)
}

type step func(ctx context.Context, req *llm.Request) (*llm.Response, error)

func (s *script) Info() llm.Info {
	return llm.Info{Model: "test/model", ContextWindow: 100_000, MaxOutput: 1000, Price: &llm.Price{Input: 1e-6, Output: 1e-6}}
}

func (s *script) Do(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	if strings.HasSuffix(req.SessionID, store.UseJudge) {
		return say(s.verdict())(ctx, req)
	}
	if strings.HasSuffix(req.SessionID, store.UseRemember) { // what was asked comes back
		return say("Sure. <update_prompt>"+content.JoinText(req.Messages[1].Parts)+"</update_prompt> Anything else?")(ctx, req)
	}
	if len(req.Tools) == 0 && req.SessionID != "probe" { // a title
		return say("A title")(ctx, req)
	}
	s.mu.Lock()
	if len(req.Tools) == 0 {
		now := say("ready")
		if len(s.bare) > 0 {
			now, s.bare = s.bare[0], s.bare[1:]
		}
		s.mu.Unlock()
		return now(ctx, req)
	}
	now := say("done")
	if s.calls < len(s.steps) {
		now = s.steps[s.calls]
	}
	s.calls++
	s.mu.Unlock()
	return now(ctx, req)
}

func (s *script) verdict() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.verdicts) == 0 {
		return `{"score": 0, "complete": false, "missing": "everything"}`
	}
	next := s.verdicts[0]
	s.verdicts = s.verdicts[1:]
	return next
}

func say(text string) step {
	return func(context.Context, *llm.Request) (*llm.Response, error) {
		cost := 0.25
		return &llm.Response{ID: "r-" + text, Message: content.Message{Role: content.RoleAssistant,
			Parts: []content.Part{content.Text(text)}},
			Usage: conversation.Usage{Model: "test/model", PromptTokens: 10, CompletionTokens: 5}, Cost: &cost, Reported: true}, nil
	}
}

// streams answers in pieces, with proceed awaited before the end.
func streams(proceed <-chan struct{}, pieces ...string) step {
	return func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		for _, p := range pieces {
			if req.OnDelta != nil {
				req.OnDelta(llm.Delta{Text: p})
			}
		}
		select {
		case <-proceed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		return say(strings.Join(pieces, ""))(ctx, req)
	}
}

func callTool(name, arguments string) step {
	return func(context.Context, *llm.Request) (*llm.Response, error) {
		return &llm.Response{ID: "r-call", Message: content.Message{Role: content.RoleAssistant, ToolCalls: []content.ToolCall{
			{ID: "call_1", Name: name, Arguments: arguments}}}, Usage: conversation.Usage{Model: "test/model"}}, nil
	}
}

func shTool() tool.Tool {
	type in struct {
		Command string `json:"command"`
	}
	return tool.New(tool.Spec{Name: "sh", Description: "runs", Kind: "ShTool", ActionKind: "ShAction", ObservationKind: "ShObservation"},
		func(ctx context.Context, env *tool.Env, in in) (tool.Result, error) {
			res, err := env.Hands.Exec(ctx, tool.ExecRequest{Argv: []string{"/bin/sh", "-c", in.Command}, Dir: env.WorkingDir, Env: env.Secrets(in.Command)})
			if err != nil {
				return tool.Result{}, err
			}
			return tool.TextObservation("ShObservation", string(res.Stdout)).Result()
		})
}

// world is a server with everything real but the model, and a client that holds
// every answer against the OpenAPI document.
type world struct {
	testing.TB
	store   store.Store
	fleet   *fleet.Fleet
	engine  *engine.Engine
	hub     *stream.Hub
	model   *script
	streams *httpkit.Streams
	server  *httptest.Server
	checker *httpkittest.Checker
	log     *syncBuffer
	ready   error
	servers *mcp.Host
	boxes   *boxtest.Backend
	bash    *bash.Service
	console *console.Service
	git     *forge.Service
	// feedback is the file that users' feedback is kept in.
	feedback string
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

type option func(*config)

type config struct {
	guard httpkit.GuardConfig
	agent agentserver.Config
	v1    v1.Config
	limit int // of subscribers
	// collections are the server's; read at each use.
	collections []extension.Bundle
	world       *world
	now         func() time.Time // of logins of devices; nil = the clock
}

func newWorld(t testing.TB, steps ...step) *world { return newWorldWith(t, nil, steps...) }

func newWorldWith(t testing.TB, change option, steps ...step) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "api-") // short: unix sockets live below it
	check(t, err)
	v, err := vault.Open(dir)
	check(t, err)
	db, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: filepath.Join(dir, "parley.db"), Sealer: v})
	check(t, err)
	w := &world{TB: t, store: db, hub: stream.NewHub(), model: &script{steps: steps}, log: &syncBuffer{},
		feedback: filepath.Join(dir, "feedback.jsonl")}
	b := boxtest.New(dir)
	w.boxes = b
	w.users()
	w.wire(b, change)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err := w.streams.Drain(ctx)
		w.server.Client().CloseIdleConnections()
		w.server.Close()
		err = errors.Join(err, w.engine.Close(ctx))
		w.servers.Close()
		w.bash.Close()
		w.console.Close()
		err = errors.Join(err, w.fleet.Close())
		handles, _ := b.List(ctx)
		for _, h := range handles {
			err = errors.Join(err, b.Destroy(ctx, h))
		}
		err = errors.Join(err, db.Close(), os.RemoveAll(dir))
		if err != nil {
			t.Error(err)
		}
	})
	return w
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) users() {
	model := "test/model"
	for id, key := range map[string]string{account.FirstUserID: userKey, otherUser: otherKey} {
		a := w.store.Accounts()
		check(w.TB, a.PutUser(w.Context(), account.User{ID: id}))
		check(w.TB, a.SetKeys(w.Context(), id, "test", []account.KeyHash{account.HashKey(key)}))
		check(w.TB, a.UpdateSettings(w.Context(), id, func(*account.Settings) (*account.Settings, error) {
			return &account.Settings{LLMModel: &model, LLMAPIKey: account.NewSecret("sk-llm-key-of-the-user")}, nil
		}))
	}
}

func (w *world) wire(b *boxtest.Backend, change option) {
	log := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	var err error
	w.fleet, err = fleet.New(fleet.Options{Store: w.store.Sandboxes(), Backends: []sandbox.Backend{b},
		Specs: []fleet.Spec{{ID: b.Name(), Backend: b.Name(), CreatedAt: time.Now()}}, Logger: quiet,
		Busy:     func(id string) bool { return w.engine.Busy(id) },
		OnChange: func(id string) { w.engine.SandboxChanged(id); w.console.Changed(id) },
		OnGone:   func(id string) { _ = w.bash.Forget(context.Background(), id) }})
	check(w.TB, err)
	w.console = console.New(console.Options{Reach: w.fleet.Reach, Most: 3, InputWait: 200 * time.Millisecond})
	tools, err := tool.NewSet(shTool(), invokeskill.New(), task.New(), basic.Finish(), basic.Think())
	check(w.TB, err)
	w.servers = mcp.New(mcp.Config{Reserved: tools.Names(), Logger: quiet})
	c := &config{world: w}
	w.git = newForge(w)
	w.engine = engine.New(engine.Options{Forge: w.git, Store: w.store, Fleet: w.fleet, Hub: w.hub, Tools: tools,
		Models: func(_ account.LLM, o engine.ModelOptions) (llm.Model, error) {
			if o.Guard != nil {
				return o.Guard(w.model), nil
			}
			return w.model, nil
		},
		ClientTool: client.New, PlanTools: []string{"think"}, DefaultTools: []string{"sh"},
		ToolSets: map[string][]string{task.SetName: {task.Name}}, SkillTool: invokeskill.Name, TaskTool: task.Name,
		Servers: w.servers, Collections: func() []extension.Bundle { return c.collections },
		NewMasker: func(values []string) engine.Masker { return vault.NewMasker(values...) },
		Holder:    "me", DemoModel: "demo/scripted", HostDirs: true, Logger: quiet})
	metrics := httpkit.NewMetrics(w.engine.Live)
	auth := &httpkit.Authenticator{Users: w.store.Accounts(), Sandbox: w.fleet.BySessionKey}
	urls := &httpkit.URLs{}
	c.guard = httpkit.GuardConfig{Log: log, Metrics: metrics, URLs: urls, Auth: auth, Listen: "127.0.0.1:0"}
	w.bash, err = bash.New(w.Context(), bash.Options{Store: w.store.Commands(), Hands: func(ctx context.Context, owner, id string) (tool.Hands, error) {
		return w.fleet.Ensure(ctx, owner, id, true)
	}})
	check(w.TB, err)
	c.agent = agentserver.Config{Engine: w.engine, Sandboxes: w.fleet, Commands: w.bash, Places: w.store.Places(), Settings: w.store.Accounts(), Auth: auth, Log: log,
		Ready:  func(context.Context) error { return w.ready },
		Cipher: func(owner string) *fernet.Cipher { return fernet.Of("cipher of " + owner) },
		Previews: agentserver.PreviewConfig{Register: httpkit.NewPreviews(), URLs: urls, Reach: w.fleet.Reach,
			Exposed: fleet.NewPortBook(w.fleet).Of}}
	c.v1 = v1.Config{Keys: w.store.Accounts(), Engine: w.engine, Fleet: w.fleet, Settings: w.store.Accounts(), URLs: urls, FullState: agentserver.FullState,
		Previews: c.agent.Previews.Register, Exposed: c.agent.Previews.Exposed, Network: w.store.NetworkLog(), Git: w.git,
		Terminals: w.console, Auth: auth}
	if change != nil {
		change(c)
	}
	w.streams = httpkit.NewStreams(c.limit, metrics, w.store.Accounts())
	c.agent.Streams, c.v1.Streams = w.streams, w.streams
	w.mount(c, metrics, urls)
}

func (w *world) mount(c *config, metrics *httpkit.Metrics, urls *httpkit.URLs) {
	about := ops.NewAbout(ops.AboutConfig{Version: "0.1.0", Tools: []string{"terminal"}})
	c.agent.ServerInfo = about.ServerInfo
	agent, err := agentserver.New(c.agent)
	check(w.TB, err)
	one, err := v1.New(c.v1)
	check(w.TB, err)
	zero := w.legacyAPI(c, urls)
	open, err := shared.New(shared.Config{Engine: w.engine, URLs: urls})
	check(w.TB, err)
	devices, err := device.New(device.Config{Keys: w.store.Accounts(), URLs: urls, Now: c.now})
	check(w.TB, err)
	operations, err := ops.New(ops.Config{Version: "0.1.0", Ready: c.agent.Ready, ServerInfo: about.ServerInfo,
		Metrics: metrics, URLs: urls, Parts: []httpkit.Part{zero.Part(), one.Part(), open.Part(), agent.Part()}})
	check(w.TB, err)
	mux, err := httpkit.NewMux(zero, one, open, devices, operations)
	check(w.TB, err)
	check(w.TB, v0.MountSecurity(mux))
	w.server = httptest.NewServer(httpkit.NewGuard(c.guard).Wrap(agent.Handler(mux)))
	answers.once.Do(func() { // the documents of all worlds are the same
		merged, err := httpkit.Merge("Parley", "0.1.0", zero.Part(), one.Part(), open.Part(), devices.Part(), agent.Part(), operations.Part())
		check(w.TB, err)
		answers.checker, err = httpkittest.New(merged)
		check(w.TB, err)
	})
	w.checker = answers.checker
}

// answers checks answers against the document, and keeps what it has compiled of it.
var answers struct {
	once    sync.Once
	checker *httpkittest.Checker
}

// legacyAPI makes the legacy API.
func (w *world) legacyAPI(c *config, urls *httpkit.URLs) *httpkit.API {
	w.Helper()
	zero, err := v0.New(v0.Config{Engine: w.engine, Fleet: w.fleet, Settings: w.store.Accounts(), Events: w.store.Events(),
		Projections: w.store.Projections(), URLs: urls, Sandboxes: w.fleet, MaxUpload: c.agent.MaxUpload,
		Exposed: c.agent.Previews.Exposed, Previews: c.agent.Previews.Register, Experiments: w.store.Experiments(),
		Feedback: feedback.New(w.feedback)})
	check(w.TB, err)
	return zero
}

// answer is an answer of the server.
type answer struct {
	testing.TB
	status int
	header http.Header
	body   []byte
}

// as calls the server with a key ("" = none); body is nil, a string that is sent
// as it is, or a value that is sent as JSON.
func (w *world) as(key, method, path string, body any) *answer {
	w.Helper()
	header := http.Header{}
	if key != "" {
		header.Set("X-Session-API-Key", key)
	}
	return w.do(method, path, header, body)
}

// at calls another server with the first user's key. Its answers are held against no
// document.
func (w *world) at(base, method, path string, body any) *answer {
	w.Helper()
	return w.request(base, method, path, http.Header{"X-Session-Api-Key": {userKey}}, body)
}

func (w *world) do(method, path string, header http.Header, body any) *answer {
	w.Helper()
	a := w.request(w.server.URL, method, path, header, body)
	if documented := a.status != http.StatusMisdirectedRequest && a.status != http.StatusForbidden &&
		method != http.MethodOptions && method != http.MethodHead; documented {
		u, err := url.Parse(w.server.URL + path)
		check(w.TB, err)
		if err := w.checker.Check(method, documentedPath(u.EscapedPath(), header.Get("X-Session-API-Key")), a.status, a.header, a.body); err != nil {
			w.Errorf("the answer is not as documented: %v", err)
		}
	}
	return a
}

func (w *world) request(base, method, path string, header http.Header, body any) *answer {
	w.Helper()
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		check(w.TB, err)
		reader = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(w.Context(), method, base+path, reader)
	check(w.TB, err)
	if reader != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for k, v := range header {
		req.Header[k] = v
		if k == "Host" {
			req.Host = v[0]
		}
	}
	resp, err := w.server.Client().Do(req)
	check(w.TB, err)
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	check(w.TB, err)
	return &answer{w.TB, resp.StatusCode, resp.Header, raw}
}

// documentedPath finds the documented spelling of the agent protocol's paths at
// the root.
func documentedPath(path, key string) string {
	if !strings.HasPrefix(key, "sk-sandbox-") && (strings.HasPrefix(path, "/api/agent-profiles") || strings.HasPrefix(path, "/api/keys")) {
		return path // for users' keys these are V1's
	}
	if key == userKey || key == otherKey {
		return path // for users' keys the rest is V0's
	}
	if strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/api/") && !strings.HasPrefix(path, "/api/v1/") && !strings.HasPrefix(path, "/api/shared-") {
		return "/agent/x" + path
	}
	if strings.Count(path, "/") == 2 && strings.HasPrefix(path, "/agent/") {
		return path + "/"
	}
	return path
}

// call calls with the first user's key and expects a status.
func (w *world) call(want int, method, path string, body any) *answer {
	w.Helper()
	return w.as(userKey, method, path, body).is(want)
}

func (a *answer) is(want int) *answer {
	a.Helper()
	if a.status != want {
		a.Fatalf("status %d, want %d: %s", a.status, want, a.body)
	}
	return a
}

// value decodes the body.
func (a *answer) value() any {
	a.Helper()
	var v any
	if err := json.Unmarshal(a.body, &v); err != nil {
		a.Fatalf("%v: %s", err, a.body)
	}
	return v
}

// at walks into the body: strings are members, ints are indexes.
func (a *answer) at(path ...any) any {
	a.Helper()
	return walk(a.TB, a.value(), path...)
}

func (a *answer) text(path ...any) string {
	a.Helper()
	s, ok := a.at(path...).(string)
	if !ok {
		a.Fatalf("%v is no text in %s", path, a.body)
	}
	return s
}

func (a *answer) list(path ...any) []any {
	a.Helper()
	l, ok := a.at(path...).([]any)
	if !ok {
		a.Fatalf("%v is no list in %s", path, a.body)
	}
	return l
}

func walk(t testing.TB, v any, path ...any) any {
	t.Helper()
	for i, p := range path {
		switch step := p.(type) {
		case string:
			m, ok := v.(map[string]any)
			if !ok {
				t.Fatalf("%v is no object: %v", path[:i], v)
			}
			if v, ok = m[step]; !ok {
				t.Fatalf("no %v in %v", path[:i+1], m)
			}
		case int:
			l, ok := v.([]any)
			if !ok || step >= len(l) {
				t.Fatalf("no %v in %v", path[:i+1], v)
			}
			v = l[step]
		}
	}
	return v
}

func (w *world) eventually(what string, ok func() bool) {
	w.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			w.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// message is a start request with a first message.
func message(text string) map[string]any {
	return map[string]any{"initial_message": map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}}}
}

// begin starts a conversation over the API, waits until it is READY and returns
// its id and its record.
func (w *world) begin(body any) (string, *answer) {
	w.Helper()
	task := w.call(200, "POST", "/api/v1/app-conversations", body).text("id")
	var id string
	w.eventually("READY", func() bool {
		a := w.call(200, "GET", "/api/v1/app-conversations/start-tasks?ids="+task, nil)
		if a.text(0, "status") == "ERROR" {
			w.Fatalf("start failed: %s", a.body)
		}
		if a.text(0, "status") != "READY" {
			if a.at(0, "app_conversation_id") != nil {
				w.Fatalf("the conversation id shows before READY: %s", a.body)
			}
			return false
		}
		id = a.text(0, "app_conversation_id")
		return true
	})
	return id, w.call(200, "GET", "/api/v1/app-conversations/"+id, nil)
}

// waitFor waits for an execution status.
func (w *world) waitFor(id string, want conversation.Status) {
	w.Helper()
	w.eventually("status "+string(want), func() bool {
		v, err := w.engine.View(w.Context(), account.FirstUserID, conversation.ID(id))
		check(w.TB, err)
		return v.Summary.Status == want
	})
}

// events returns the log.
func (w *world) events(id string) []conversation.Event {
	w.Helper()
	events, err := w.engine.Log().Read(w.Context(), conversation.ID(id), -1, 1000)
	check(w.TB, err)
	return events
}

// mustParse parses a URL.
func mustParse(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	check(t, err)
	return u
}

// inject appends an event to a conversation that nobody holds.
func (w *world) inject(id, raw string) {
	w.Helper()
	ctx, now := w.Context(), time.Now().UTC()
	cid := conversation.ID(id)
	var generation int64
	w.eventually("the lease", func() bool {
		var err error
		generation, err = w.store.Leases().Acquire(ctx, cid, "me", now, time.Minute)
		return err == nil
	})
	conv, err := w.store.Conversations().Get(ctx, "", cid)
	check(w.TB, err)
	var e conversation.Event
	check(w.TB, json.Unmarshal([]byte(raw), &struct {
		ID, Kind, Source, Timestamp *string
	}{&e.ID, &e.Kind, &e.Source, &e.Timestamp}))
	e.Raw = json.RawMessage(raw)
	summary := conv.Summary
	summary.Head++
	check(w.TB, w.store.Events().Append(ctx, store.Append{Conversation: cid, ExpectHead: conv.Summary.Head,
		Generation: generation, Events: []conversation.Event{e}, Summary: summary, Now: now}))
}
