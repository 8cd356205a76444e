package v0_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/api/httpkit/httpkittest"
	v0 "parley/internal/api/v0"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/store"
	"parley/internal/store/sqlstore"
	"parley/internal/stream"
	"parley/internal/vault"
)

// rig is the API over a real store, with an engine that only remembers what it
// was asked.
type rig struct {
	testing.TB
	store  *sqlstore.Store
	engine *fakeEngine
	server http.Handler
	rooms  *v0.Rooms // of the server made last
	// answers checks every answer against the document.
	answers *httpkittest.Checker
	git     v0.Git // before restart
	log     strings.Builder
	change  func(*v0.Config) // what restart makes otherwise
	enter   func(context.Context, httpkit.Principal, conversation.ID) (context.Context, func(), error)
}

// TestMain bounds the property tests, which write to a real disk. The flag
// -rapid.checks on the command line wins.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

const (
	key      = "key-of-user-1"
	otherKey = "key-of-user-2"
)

func newRig(t testing.TB) *rig {
	dir := t.TempDir()
	v, err := vault.Open(dir)
	check(t, err)
	s, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: filepath.Join(dir, "parley.db"), Sealer: v})
	check(t, err)
	t.Cleanup(func() { check(t, s.Close()) })
	for id, k := range map[string]string{"user-1": key, "user-2": otherKey} {
		check(t, s.Accounts().PutUser(t.Context(), account.User{ID: id, CreatedAt: time.Now()}))
		check(t, s.Accounts().SetKeys(t.Context(), id, "test", []account.KeyHash{account.HashKey(k)}))
	}
	r := &rig{TB: t, store: s, engine: &fakeEngine{store: s, boxes: map[string]*store.Sandbox{}, hub: stream.NewHub()}}
	r.restart()
	return r
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// restart makes the API anew, with nothing in memory.
func (r *rig) restart() { r.server = r.newServer() }

func (r *rig) newServer() http.Handler {
	r.Helper()
	cfg := v0.Config{Engine: r.engine, Fleet: fakeFleet{r.engine}, Settings: r.store.Accounts(), Events: r.store.Events(),
		Projections: r.store.Projections(), URLs: &httpkit.URLs{}, Git: r.git, Log: slog.New(slog.NewTextHandler(&r.log, nil)), Models: func() []llm.Offer {
			return []llm.Offer{{Provider: "b", Name: "m"}, {Provider: "a", Name: "m"}, {Provider: "b", Name: "m"}}
		}}
	if r.change != nil {
		r.change(&cfg)
	}
	auth := &httpkit.Authenticator{Users: r.store.Accounts(), Sandbox: func(context.Context, string) (*store.Sandbox, error) {
		return nil, fault.New(fault.NotFound, "", "no sandbox")
	}}
	cfg.Rooms = v0.NewRooms(cfg, v0.RoomsConfig{Keys: auth, Enter: r.enter})
	r.rooms = cfg.Rooms
	api, err := v0.New(cfg)
	check(r.TB, err)
	if r.answers == nil {
		doc, err := httpkit.Merge("Parley", "test", api.Part())
		check(r.TB, err)
		r.answers, err = httpkittest.New(doc)
		check(r.TB, err)
	}
	mux, err := httpkit.NewMux(api)
	check(r.TB, err)
	return auth.Wrap(mux)
}

// call sends a request as user-1; body "" sends none.
func (r *rig) call(method, path, body string) (int, string) {
	return r.callAs(key, method, path, body)
}

func (r *rig) callAs(key, method, path, body string) (int, string) {
	req := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
	if key != "" {
		req.Header.Set("X-Session-API-Key", key)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	r.server.ServeHTTP(w, req)
	if err := r.answers.Check(method, req.URL.EscapedPath(), w.Code, w.Header(), w.Body.Bytes()); err != nil {
		r.Error(err)
	}
	return w.Code, strings.TrimSpace(w.Body.String())
}

// want sends a request and compares status and body.
func (r *rig) want(method, path, body string, status int, answer string) {
	r.Helper()
	code, got := r.call(method, path, body)
	if code != status || got != answer {
		r.Errorf("%s %s %s:\n got %d %s\nwant %d %s", method, path, body, code, got, status, answer)
	}
}

// decode sends a request that must succeed and decodes its answer.
func (r *rig) decode(method, path, body string, v any) {
	r.Helper()
	code, got := r.call(method, path, body)
	if code != http.StatusOK {
		r.Fatalf("%s %s: %d %s", method, path, code, got)
	}
	if err := json.Unmarshal([]byte(got), v); err != nil {
		r.Fatalf("%s %s: %v in %s", method, path, err, got)
	}
}

// wrongs sends a request that must be a 422 and returns "loc type msg" of each field.
func (r *rig) wrongs(method, path, body string) []string {
	r.Helper()
	code, got := r.call(method, path, body)
	var v struct {
		Detail []struct {
			Loc  json.RawMessage
			Type string
			Msg  string
		}
	}
	if err := json.Unmarshal([]byte(got), &v); err != nil || code != http.StatusUnprocessableEntity {
		r.Errorf("%s %s %s: %d %s", method, path, body, code, got)
	}
	var out []string
	for _, d := range v.Detail {
		out = append(out, fmt.Sprintf("%s %s %s", d.Loc, d.Type, d.Msg))
	}
	return out
}

// fakeEngine keeps records in the real store and remembers its commands.
type fakeEngine struct {
	store *sqlstore.Store
	mu    sync.Mutex
	boxes map[string]*store.Sandbox
	calls []string
	start []engine.StartRequest
	sent  []engine.Message
	fail  error         // returned by the next command
	asked chan struct{} // if set, closed when the start task is asked for
	// extensions are those of all conversations.
	extensions engine.Extensions
	hub        *stream.Hub
	sight      engine.Sight // "" = Sees
	resuming   func()       // nil, or what a resume waits for
}

func (e *fakeEngine) Follow(ctx context.Context, owner string, id conversation.ID, after int64) (*stream.Follower, error) {
	if _, err := e.store.Conversations().Get(ctx, owner, id); err != nil {
		return nil, err
	}
	return e.hub.Follow(e.store.Events(), id, after), nil
}

func (e *fakeEngine) note(format string, args ...any) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls = append(e.calls, fmt.Sprintf(format, args...))
	err := e.fail
	e.fail = nil
	return err
}

// took returns the commands since the last call.
func (e *fakeEngine) took() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	calls := e.calls
	e.calls = nil
	return calls
}

func (e *fakeEngine) Start(ctx context.Context, req engine.StartRequest) (*conversation.StartTask, error) {
	if err := e.note("start"); err != nil {
		return nil, err
	}
	e.start = append(e.start, req)
	now := time.Now().UTC().Truncate(time.Microsecond)
	c := &conversation.Conversation{ID: req.ConversationID, Owner: req.Owner, Origin: req.Origin, Title: req.Title,
		SandboxID: "box-" + string(req.ConversationID), Repository: req.Repository, Branch: req.Branch, GitProvider: req.GitProvider,
		Trigger: req.Trigger, InitialMessage: req.InitialMessage, ParentID: req.ParentID, CreatedAt: now, UpdatedAt: now,
		Summary: conversation.Summary{Status: conversation.Idle},
		Options: conversation.Options{SystemSuffix: req.Instructions, MCP: req.MCP, WorkingDir: "/workspace"}}
	if err := e.store.Conversations().Create(ctx, c); err != nil {
		return nil, err
	}
	task := &conversation.StartTask{ID: string(conversation.NewID()), Owner: req.Owner, ConversationID: c.ID,
		Status: conversation.TaskWorking, Request: req.Echo, CreatedAt: now, UpdatedAt: now}
	return task, e.store.StartTasks().Save(ctx, task)
}

// ready ends a start.
func (e *fakeEngine) ready(t testing.TB, id conversation.ID, s store.SandboxStatus) {
	t.Helper()
	task, err := e.store.StartTasks().Latest(t.Context(), id)
	check(t, err)
	task.Status = conversation.TaskReady
	check(t, e.store.StartTasks().Save(t.Context(), task))
	e.setBox(id, s)
}

func (e *fakeEngine) setBox(id conversation.ID, s store.SandboxStatus) {
	e.mu.Lock()
	defer e.mu.Unlock()
	name := "box-" + string(id)
	e.boxes[name] = &store.Sandbox{ID: name, Status: s, SessionKey: account.NewSecret("session-" + name)}
}

func (e *fakeEngine) Resume(_ context.Context, _ string, id conversation.ID) error {
	if err := e.note("resume %s", id); err != nil {
		return err
	}
	if e.resuming != nil {
		e.resuming()
	}
	e.setBox(id, store.SandboxRunning)
	return nil
}

func (e *fakeEngine) Send(_ context.Context, _ string, id conversation.ID, m engine.Message) error {
	e.sent = append(e.sent, m)
	return e.note("send %s %q run=%v", id, content.JoinText(m.Parts), m.Run)
}

func (e *fakeEngine) RunForUser(_ context.Context, _ string, _ conversation.ID, command string, hidden bool) error {
	return e.note("run for user %q hidden=%v", command, hidden)
}

func (e *fakeEngine) LeaveLoop(_ context.Context, _ string, _ conversation.ID, again bool) error {
	return e.note("leave loop again=%v", again)
}

func (e *fakeEngine) Sight(context.Context, string, conversation.ID) (engine.Sight, error) {
	if e.sight == "" {
		return engine.Sees, nil
	}
	return e.sight, nil
}

func (e *fakeEngine) Run(context.Context, string, conversation.ID) error { return e.note("run") }
func (e *fakeEngine) Interrupt(context.Context, string, conversation.ID) error {
	return e.note("interrupt")
}

func (e *fakeEngine) Pause(_ context.Context, _ string, id conversation.ID) error {
	return e.note("pause %s", id)
}

func (e *fakeEngine) Confirm(_ context.Context, _ string, _ conversation.ID, accept bool, _ string) error {
	return e.note("confirm %v", accept)
}

func (e *fakeEngine) Delete(ctx context.Context, owner string, id conversation.ID) error {
	if _, err := e.store.Conversations().Get(ctx, owner, id); err != nil {
		return err
	}
	if err := e.store.Conversations().Delete(ctx, id); err != nil {
		return err
	}
	e.hub.Deleted(id)
	return nil
}

func (e *fakeEngine) Patch(ctx context.Context, owner string, id conversation.ID, change func(*conversation.Conversation) error) (*engine.View, error) {
	if _, err := e.store.Conversations().Get(ctx, owner, id); err != nil {
		return nil, err
	}
	c, err := e.store.Conversations().Update(ctx, id, time.Now(), change)
	return e.view(c), err
}

func (e *fakeEngine) view(c *conversation.Conversation) *engine.View {
	if c == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	v := &engine.View{Conversation: c, SandboxStatus: store.SandboxMissing}
	if box := e.boxes[c.SandboxID]; box != nil {
		v.Sandbox, v.SandboxStatus = box, box.Status
	}
	return v
}

func (e *fakeEngine) View(ctx context.Context, owner string, id conversation.ID) (*engine.View, error) {
	c, err := e.store.Conversations().Get(ctx, owner, id)
	if err != nil {
		return nil, err
	}
	return e.view(c), nil
}

func (e *fakeEngine) Search(ctx context.Context, q store.ConversationQuery) (store.Page[*engine.View], error) {
	awake := q.Awake
	q.Awake = false // the store does not know these sandboxes
	page, err := e.store.Conversations().Search(ctx, q)
	out := store.Page[*engine.View]{Next: page.Next}
	for _, c := range page.Items {
		if v := e.view(c); !awake || v.SandboxStatus == store.SandboxRunning || v.SandboxStatus == store.SandboxStarting {
			out.Items = append(out.Items, v)
		}
	}
	return out, err
}

func (e *fakeEngine) Extensions(context.Context, string, conversation.ID) (engine.Extensions, error) {
	return e.extensions, nil
}

func (e *fakeEngine) Remember(context.Context, string, conversation.ID, string) (string, error) {
	return "remember", e.note("remember")
}

func (e *fakeEngine) LatestTask(ctx context.Context, id conversation.ID) (*conversation.StartTask, error) {
	task, err := e.store.StartTasks().Latest(ctx, id)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.asked != nil {
		close(e.asked)
		e.asked = nil
	}
	return task, err
}

// fakeFleet freezes the fake sandboxes.
type fakeFleet struct{ *fakeEngine }

func (f fakeFleet) Pause(_ context.Context, _, id string) error {
	if err := f.note("freeze %s", id); err != nil {
		return err
	}
	f.setBox(conversation.ID(strings.TrimPrefix(id, "box-")), store.SandboxPaused)
	return nil
}

// writer appends to a conversation's log as the engine does.
type writer struct {
	*rig
	id    conversation.ID
	gen   int64
	state *conversation.State
}

func (r *rig) writer(id conversation.ID) *writer {
	r.Helper()
	gen, err := r.store.Leases().Acquire(r.Context(), id, "test", time.Now(), time.Hour)
	check(r.TB, err)
	return &writer{rig: r, id: id, gen: gen, state: conversation.NewState()}
}

var clock = time.Date(2025, 11, 20, 10, 0, 0, 0, time.UTC)

func (w *writer) append(payloads ...conversation.Payload) {
	w.Helper()
	var events []conversation.Event
	for _, p := range payloads {
		h := conversation.HeaderOf(p)
		if h.ID == "" {
			h.ID = conversation.NewEventID()
		}
		h.Timestamp = conversation.FormatTime(clock.Add(time.Duration(w.state.Head) * time.Second))
		e, err := conversation.Encode(p)
		check(w.TB, err)
		e.Seq = w.state.Head
		w.state.Apply(e, p)
		events = append(events, e)
	}
	check(w.TB, w.store.Events().Append(w.Context(), store.Append{Conversation: w.id, ExpectHead: w.state.Head - int64(len(events)),
		Generation: w.gen, Events: events, Summary: w.state.Summary(), Now: time.Now()}))
	w.engine.hub.Wake(w.id, w.state.Head, events...)
}

func prompt() conversation.Payload {
	return &conversation.SystemPromptEvent{Header: conversation.Header{Kind: conversation.KindSystemPrompt, Source: "agent"},
		SystemPrompt: content.Text("sys")}
}

func says(source, text string) conversation.Payload {
	return &conversation.MessageEvent{Header: conversation.Header{Kind: conversation.KindMessage, Source: source},
		LLMMessage: conversation.LLMMessage{Role: "user", Content: []content.Part{content.Text(text)}}}
}

func status(s conversation.Status) conversation.Payload { return update(conversation.KeyStatus, s) }

func update(key string, value any) conversation.Payload {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return &conversation.StateUpdateEvent{Header: conversation.Header{Kind: conversation.KindStateUpdate, Source: "environment"},
		Key: key, Value: raw}
}

func stats(cost float64) conversation.Payload {
	return update(conversation.KeyStats, map[string]any{"usage_to_metrics": map[string]any{"agent": conversation.Metrics{AccumulatedCost: cost}}})
}

func runs(id, command string) *conversation.ActionEvent {
	raw, err := json.Marshal(map[string]any{"kind": "TerminalAction", "command": command})
	if err != nil {
		panic(err)
	}
	return &conversation.ActionEvent{Header: conversation.Header{Kind: conversation.KindAction, Source: "agent", ID: id},
		ToolName: "terminal", ToolCallID: "call-" + id, Action: raw}
}

func ran(a *conversation.ActionEvent, output string) conversation.Payload {
	raw, err := json.Marshal(map[string]any{"kind": "TerminalObservation", "content": []content.Part{content.Text(output)}, "exit_code": 0})
	if err != nil {
		panic(err)
	}
	return &conversation.ObservationEvent{Header: conversation.Header{Kind: conversation.KindObservation, Source: "environment"},
		ToolName: a.ToolName, ToolCallID: a.ToolCallID, ActionID: a.ID, Observation: raw}
}

// conversation makes one that runs, with a first message unless said is "".
func (r *rig) conversation(said string) conversation.ID {
	r.Helper()
	id := conversation.NewID()
	body := fmt.Sprintf(`{"conversation_id":%q,"initial_user_msg":%q}`, id, said)
	if code, answer := r.call("POST", "/api/conversations", body); code != http.StatusOK {
		r.Fatalf("create: %d %s", code, answer)
	}
	r.engine.ready(r.TB, id, store.SandboxRunning)
	r.engine.took()
	return id
}

func sortedKeys(m map[string]json.RawMessage) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
