package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/fleet"
	"parley/internal/llm"
	"parley/internal/sandbox"
	"parley/internal/store"
	"parley/internal/store/sqlstore"
	"parley/internal/stream"
	"parley/internal/tool"
	"parley/internal/vault"
	"parley/test/testkit/boxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	owner = account.FirstUserID
	key   = "sk-key-of-the-user"
)

// script answers model calls in order, then with "done".
type script struct {
	mu    sync.Mutex
	steps []func(ctx context.Context, req *llm.Request) (*llm.Response, error)
	reqs  []*llm.Request
	info  llm.Info // Model "" = the default; set before the first call
	title step     // answers calls without tools, which are not counted; nil = an error
	named int      // how many of those there were
}

func (s *script) Info() llm.Info {
	if s.info.Model == "" {
		return llm.Info{Model: "test/model", NativeTools: true}
	}
	return s.info
}

func (s *script) Do(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	s.mu.Lock()
	if len(req.Tools) == 0 {
		step := s.title
		s.named++
		s.mu.Unlock()
		if step == nil {
			return nil, &llm.Error{Class: llm.ClassBadRequest, Status: 400, Message: "no tools"}
		}
		return step(ctx, req)
	}
	s.reqs = append(s.reqs, req)
	n := len(s.reqs)
	step := say("done")
	if n <= len(s.steps) {
		step = s.steps[n-1]
	}
	s.mu.Unlock()
	resp, err := step(ctx, req)
	if resp != nil {
		resp.ID = "resp-" + string(conversation.NewID())[:8]
	}
	return resp, err
}

func (s *script) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.reqs)
}

// lastRequest renders the roles and texts of the latest request.
func (s *script) lastRequest() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, m := range s.reqs[len(s.reqs)-1].Messages[1:] { // without the system prompt
		b.WriteString(m.Role + ": " + m.Text() + "\n")
	}
	return b.String()
}

type step = func(context.Context, *llm.Request) (*llm.Response, error)

func say(text string) step {
	return func(context.Context, *llm.Request) (*llm.Response, error) {
		return &llm.Response{Message: content.Message{Role: content.RoleAssistant, Parts: []content.Part{content.Text(text)}},
			Usage: conversation.Usage{Model: "test/model", PromptTokens: 10, CompletionTokens: 5}, Cost: ptr(0.25), Reported: true}, nil
	}
}

func ptr[T any](v T) *T { return &v }

// call asks for tools; pairs are name, argument JSON.
func call(pairs ...string) step {
	return func(context.Context, *llm.Request) (*llm.Response, error) {
		m := content.Message{Role: content.RoleAssistant}
		for i := 0; i < len(pairs); i += 2 {
			m.ToolCalls = append(m.ToolCalls, content.ToolCall{ID: "call_" + string(rune('0'+i/2)), Name: pairs[i], Arguments: pairs[i+1]})
		}
		return &llm.Response{Message: m, Usage: conversation.Usage{Model: "test/model", PromptTokens: 7}, Cost: ptr(0.5), Reported: true}, nil
	}
}

func fails(class llm.Class) step {
	return func(context.Context, *llm.Request) (*llm.Response, error) {
		return nil, &llm.Error{Class: class, Message: "the provider says no to " + key}
	}
}

// hang answers only when the call is cancelled; started is closed when it came.
func hang(started chan struct{}) step {
	return func(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
		close(started)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
}

type runInput struct {
	Command string `json:"command"`
}

// shTool runs a command without a terminal; enough to use real hands.
func shTool() tool.Tool {
	return tool.New(tool.Spec{Name: "sh", Description: "runs", Kind: "ShTool", ActionKind: "ShAction", ObservationKind: "ShObservation"},
		func(ctx context.Context, env *tool.Env, in runInput) (tool.Result, error) {
			res, err := env.Hands.Exec(ctx, tool.ExecRequest{Argv: []string{"/bin/sh", "-c", in.Command}, Dir: env.WorkingDir, Env: env.Secrets(in.Command)})
			if err != nil {
				return tool.Result{}, err
			}
			return tool.TextObservation("ShObservation", string(res.Stdout)+string(res.Stderr)).Result()
		})
}

func finishTool() tool.Tool {
	type in struct {
		Message string `json:"message"`
	}
	return tool.New(tool.Spec{Name: "finish", Description: "ends", Kind: "FinishTool", ActionKind: "FinishAction",
		ObservationKind: "FinishObservation", NoConfirm: true, ReadOnly: true},
		func(_ context.Context, _ *tool.Env, in in) (tool.Result, error) {
			return tool.TextObservation("FinishObservation", in.Message).Result()
		})
}

// flakyStore refuses appends while full is set, and tells of what the engine does.
type flakyStore struct {
	store.Store
	mu       sync.Mutex
	full     bool
	refused  int
	onUpdate func(ctx context.Context) // before a record is changed; nil = nothing
	onDelete func()                    // after a record was removed
	ledger   error                     // why nothing can be reserved; nil = it can
}

func (s *flakyStore) breakLedger(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger = err
}

func (s *flakyStore) Ledger() store.Ledger { return &flakyLedger{s.Store.Ledger(), s} }

type flakyLedger struct {
	store.Ledger
	s *flakyStore
}

func (l *flakyLedger) Reserve(ctx context.Context, r store.Reservation) error {
	l.s.mu.Lock()
	err := l.s.ledger
	l.s.mu.Unlock()
	if err != nil {
		return fault.Wrap(err, fault.Unavailable, "ledger", "The store cannot answer.")
	}
	return l.Ledger.Reserve(ctx, r)
}

func (s *flakyStore) refusals() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// hook sets what is told.
func (s *flakyStore) hook(onUpdate func(context.Context), onDelete func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onUpdate, s.onDelete = onUpdate, onDelete
}

func (s *flakyStore) Conversations() store.Conversations {
	return &toldConversations{s.Store.Conversations(), s}
}

type toldConversations struct {
	store.Conversations
	s *flakyStore
}

func (c *toldConversations) Update(ctx context.Context, id conversation.ID, now time.Time, change func(*conversation.Conversation) error) (*conversation.Conversation, error) {
	c.s.mu.Lock()
	told := c.s.onUpdate
	c.s.mu.Unlock()
	if told != nil {
		told(ctx)
	}
	return c.Conversations.Update(ctx, id, now, change)
}

func (c *toldConversations) Delete(ctx context.Context, id conversation.ID) error {
	err := c.Conversations.Delete(ctx, id)
	c.s.mu.Lock()
	told := c.s.onDelete
	c.s.mu.Unlock()
	if told != nil {
		told()
	}
	return err
}

func (s *flakyStore) setFull(full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = full
}

func (s *flakyStore) Events() store.Events { return &flakyEvents{s.Store.Events(), s} }

type flakyEvents struct {
	store.Events
	s *flakyStore
}

func (e *flakyEvents) Append(ctx context.Context, a store.Append) error {
	e.s.mu.Lock()
	full := e.s.full
	if full {
		e.s.refused++
	}
	e.s.mu.Unlock()
	if full {
		return fault.New(fault.Unavailable, store.CodeStoreFull, "The disk is full.")
	}
	return e.Events.Append(ctx, a)
}

// world is an engine with everything real around it but the model.
type world struct {
	*testing.T
	store  *flakyStore
	bench  *boxtest.Backend
	fleet  *fleet.Fleet
	engine *engine.Engine
	hub    *stream.Hub
	model  *script
	change func(*engine.Options)
}

func newWorld(t *testing.T, steps ...step) *world {
	t.Helper()
	return newWorldWith(t, nil, steps...)
}

func newWorldWith(t *testing.T, change func(*engine.Options), steps ...step) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "eng-") // short: unix sockets live below it
	if err != nil {
		t.Fatal(err)
	}
	v, err := vault.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: filepath.Join(dir, "parley.db"), Sealer: v})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, store: &flakyStore{Store: s}, bench: boxtest.New(dir),
		model: &script{steps: steps}, change: change}
	t.Cleanup(func() {
		w.stop()
		for _, h := range must(w.bench.List(context.Background())) {
			_ = w.bench.Destroy(context.Background(), h)
		}
		_ = s.Close()
		_ = os.RemoveAll(dir)
	})
	if err := s.Accounts().PutUser(t.Context(), account.User{ID: owner}); err != nil {
		t.Fatal(err)
	}
	w.settings(func(s *account.Settings) {
		s.LLMModel, s.LLMAPIKey = ptr("test/model"), account.NewSecret(key)
	})
	w.start()
	return w
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (w *world) settings(change func(*account.Settings)) {
	w.Helper()
	err := w.store.Accounts().UpdateSettings(w.Context(), owner, func(old *account.Settings) (*account.Settings, error) {
		if old == nil {
			old = &account.Settings{}
		}
		change(old)
		return old, nil
	})
	if err != nil {
		w.Fatal(err)
	}
}

// guard does what whoever makes models must do: put the budget's guard around them.
func guard(o engine.ModelOptions, m llm.Model) llm.Model {
	if o.Guard != nil {
		return o.Guard(m)
	}
	return m
}

// start begins a life of the server.
func (w *world) start() {
	w.Helper()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	w.hub = stream.NewHub()
	var e *engine.Engine
	w.fleet = must(fleet.New(fleet.Options{Store: w.store.Sandboxes(), Backends: []sandbox.Backend{w.bench},
		Specs: []fleet.Spec{{ID: w.bench.Name(), Backend: w.bench.Name()}}, Logger: log,
		Busy: func(id string) bool { return e.Busy(id) }, OnChange: func(id string) { e.SandboxChanged(id) }}))
	opt := engine.Options{Store: w.store, Fleet: w.fleet, Hub: w.hub, Tools: must(tool.NewSet(shTool(), finishTool())),
		Models:    func(_ account.LLM, o engine.ModelOptions) (llm.Model, error) { return guard(o, w.model), nil },
		NewMasker: func(values []string) engine.Masker { return vault.NewMasker(values...) },
		Holder:    "me", DemoModel: "demo/scripted", HostDirs: true, Logger: log}
	if w.change != nil {
		w.change(&opt)
	}
	e = engine.New(opt)
	w.engine = e
	if err := errors.Join(w.fleet.Recover(w.Context()), e.Recover(w.Context())); err != nil {
		w.Fatal(err)
	}
}

// stop ends a life of the server; sandboxes go on.
func (w *world) stop() {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := errors.Join(w.engine.Close(ctx), w.fleet.Close()); err != nil {
		w.Error(err)
	}
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

// begin starts a conversation and waits until it is READY.
func (w *world) begin(message string) conversation.ID {
	w.Helper()
	req := engine.StartRequest{Owner: owner, Origin: conversation.OriginV1}
	if message != "" {
		req.InitialMessage = []content.Part{content.Text(message)}
	}
	return w.beginWith(req)
}

func (w *world) beginWith(req engine.StartRequest) conversation.ID {
	w.Helper()
	task, err := w.engine.Start(w.Context(), req)
	if err != nil {
		w.Fatal(err)
	}
	w.eventually("READY", func() bool {
		task = must(w.engine.Task(w.Context(), owner, []string{task.ID}))[0]
		if task.Status == conversation.TaskError {
			w.Fatalf("start failed: %s", task.Detail)
		}
		return task.Status == conversation.TaskReady
	})
	return task.ConversationID
}

func (w *world) status(id conversation.ID) conversation.Status {
	w.Helper()
	v, err := w.engine.View(w.Context(), owner, id)
	if err != nil {
		w.Fatal(err)
	}
	return v.Summary.Status
}

func (w *world) wait(id conversation.ID, want conversation.Status) {
	w.Helper()
	w.eventually("status "+string(want)+" (is "+string(w.status(id))+")", func() bool { return w.status(id) == want })
}

func (w *world) send(id conversation.ID, text string) {
	w.Helper()
	if err := w.engine.Send(w.Context(), owner, id, engine.Message{Parts: []content.Part{content.Text(text)}, Run: true}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) events(id conversation.ID) []conversation.Event {
	w.Helper()
	events, err := w.engine.Log().Read(w.Context(), id, -1, 1000)
	if err != nil {
		w.Fatal(err)
	}
	return events
}

// trace renders the log in short: kinds, states and tool call ids.
func (w *world) trace(id conversation.ID) []string {
	w.Helper()
	var out []string
	for i, ev := range w.events(id) {
		if ev.Seq != int64(i) {
			w.Errorf("event %d has seq %d", i, ev.Seq)
		}
		switch p := must(conversation.Decode(ev)).(type) {
		case *conversation.SystemPromptEvent:
			out = append(out, "prompt")
		case *conversation.MessageEvent:
			out = append(out, p.Source+": "+content.JoinText(p.LLMMessage.Content))
		case *conversation.ActionEvent:
			out = append(out, "action "+p.ToolName+" "+p.ToolCallID)
		case *conversation.ObservationEvent:
			out = append(out, "observation "+p.ToolCallID)
		case *conversation.AgentErrorEvent:
			out = append(out, "agent error "+p.ToolCallID)
		case *conversation.UserRejectObservation:
			out = append(out, "rejected "+p.ToolCallID)
		case *conversation.ConversationErrorEvent:
			out = append(out, "error "+p.Code)
		case *conversation.StateUpdateEvent:
			if p.Key == conversation.KeyStatus {
				out = append(out, "status "+strings.Trim(string(p.Value), `"`))
			}
		case *conversation.HookExecutionEvent:
			text := "hook " + p.EventType
			if p.Blocked {
				text += " blocked"
			}
			out = append(out, text)
		case *conversation.PauseEvent:
			out = append(out, "pause")
		case *conversation.InterruptEvent:
			out = append(out, "interrupt")
		}
	}
	return out
}

// text returns the raw log as one string.
func (w *world) text(id conversation.ID) string {
	w.Helper()
	var b strings.Builder
	for _, ev := range w.events(id) {
		if !json.Valid(ev.Raw) {
			w.Errorf("event %s is no JSON", ev.ID)
		}
		b.Write(ev.Raw)
		b.WriteByte('\n')
	}
	return b.String()
}
