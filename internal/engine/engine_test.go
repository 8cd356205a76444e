package engine_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/store"
)

func TestRunFromMessageToFinish(t *testing.T) {
	w := newWorld(t, call("sh", `{"command":"echo out > f; cat f"}`), call("finish", `{"message":"bye"}`))
	id := w.begin("do it")
	w.wait(id, conversation.Finished)
	want := []string{"prompt", "user: do it", "status running", "action sh call_0", "observation call_0",
		"action finish call_0", "observation call_0", "status finished"}
	if diff := cmp.Diff(want, w.trace(id)); diff != "" {
		t.Error(diff)
	}
	v := must(w.engine.View(t.Context(), owner, id))
	if v.Summary.Metrics.AccumulatedCost != 1.0 || v.Summary.Metrics.Usage.PromptTokens != 14 {
		t.Errorf("metrics %+v", v.Summary.Metrics)
	}
	if v.Title != "do it" {
		t.Errorf("title %q", v.Title)
	}
	if got, err := os.ReadFile(filepath.Join(w.bench.Workspace(v.SandboxID), "f")); err != nil || string(got) != "out\n" {
		t.Errorf("workspace file: %q, %v", got, err)
	}
}

func TestTextAnswerFinishesAndAMessageRunsAgain(t *testing.T) {
	w := newWorld(t, say("one"), say("two"))
	id := w.begin("first")
	w.wait(id, conversation.Finished)
	w.send(id, "second")
	w.eventually("two answers", func() bool { return strings.Count(strings.Join(w.trace(id), "\n"), "status finished") == 2 })
	want := []string{"prompt", "user: first", "status running", "agent: one", "status finished",
		"user: second", "status running", "agent: two", "status finished"}
	if diff := cmp.Diff(want, w.trace(id)); diff != "" {
		t.Error(diff)
	}
}

func TestRunOfAFinishedConversationOnlyShowsItsState(t *testing.T) {
	w := newWorld(t, say("one"))
	id := w.begin("first")
	w.wait(id, conversation.Finished)
	f := must(w.engine.Follow(t.Context(), owner, id, int64(len(w.events(id)))-1))
	defer f.Close()
	if err := w.engine.Run(t.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	item, err := f.Next(t.Context())
	if err != nil || !item.Snapshot || w.model.calls() != 1 {
		t.Fatalf("got %+v, %v, %d model calls", item, err, w.model.calls())
	}
}

func TestBadCallsAreAnsweredAndTheRunGoesOn(t *testing.T) {
	w := newWorld(t, call("nope", "{}", "sh", `{}`, "sh", `{"command":"true"}`), say("ok"))
	id := w.begin("x")
	w.wait(id, conversation.Finished)
	want := []string{"prompt", "user: x", "status running", "action nope call_0", "agent error call_0", "action sh call_1",
		"agent error call_1", "action sh call_2", "observation call_2", "agent: ok", "status finished"}
	if diff := cmp.Diff(want, w.trace(id)); diff != "" {
		t.Error(diff)
	}
}

func TestMaxIterationsStopsAndAMessageGoesOn(t *testing.T) {
	forever := make([]step, 10)
	for i := range forever {
		forever[i] = call("sh", `{"command":"true"}`)
	}
	w := newWorld(t, forever...)
	w.settings(func(s *account.Settings) { s.MaxIterations = ptr(3) })
	id := w.begin("loop")
	w.wait(id, conversation.Error)
	if w.model.calls() != 3 || !strings.Contains(w.text(id), "MaxIterationsReached") {
		t.Errorf("%d calls, trace %v", w.model.calls(), w.trace(id))
	}
	w.send(id, "go on")
	w.eventually("three more steps", func() bool { return w.model.calls() == 6 })
	w.wait(id, conversation.Error)
}

func TestBudgetStops(t *testing.T) {
	w := newWorld(t, call("sh", `{"command":"true"}`), call("sh", `{"command":"true"}`), call("sh", `{"command":"true"}`))
	w.model.info = llm.Info{Model: "test/model", Price: &llm.Price{Input: 1e-9, Output: 1e-9}}
	w.settings(func(s *account.Settings) { s.MaxBudgetPerTask = ptr(0.9) })
	id := w.begin("spend")
	w.wait(id, conversation.Error)
	if w.model.calls() != 2 || !strings.Contains(w.text(id), "MaxBudgetReached") {
		t.Errorf("%d calls: %v", w.model.calls(), w.trace(id))
	}
}

func TestModelErrorsSayWhatToDoAndCanBeContinued(t *testing.T) {
	w := newWorld(t, fails(llm.ClassAuth), say("better"))
	id := w.begin("x")
	w.wait(id, conversation.Error)
	log := w.text(id)
	if !strings.Contains(log, "LLMAuthenticationError") || !strings.Contains(log, "llm_api_key") || strings.Contains(log, key) {
		t.Errorf("log %s", log)
	}
	w.send(id, "again")
	w.wait(id, conversation.Finished)
}

func TestInterruptInTheMiddleOfAModelCall(t *testing.T) {
	started := make(chan struct{})
	w := newWorld(t, hang(started), say("later"))
	id := w.begin("x")
	<-started
	if err := w.engine.Interrupt(t.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	if s := w.status(id); s != conversation.Paused {
		t.Fatalf("status %s right after Interrupt returned", s)
	}
	w.send(id, "go on")
	w.wait(id, conversation.Finished)
}

func TestInterruptInTheMiddleOfATool(t *testing.T) {
	w := newWorld(t, call("sh", `{"command":"touch started; sleep 60"}`, "sh", `{"command":"echo never > never"}`), say("ok"))
	id := w.begin("x")
	dir := w.workspace(id)
	w.eventually("the command", func() bool { _, err := os.Stat(filepath.Join(dir, "started")); return err == nil })
	if err := w.engine.Interrupt(t.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	want := []string{"prompt", "user: x", "status running", "action sh call_0", "action sh call_1", "agent error call_0",
		"agent error call_1", "interrupt", "status paused"}
	if diff := cmp.Diff(want, w.trace(id)); diff != "" {
		t.Error(diff)
	}
	if err := w.engine.Run(t.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	w.wait(id, conversation.Finished)
	if _, err := os.Stat(filepath.Join(dir, "never")); err == nil {
		t.Error("the second call ran although the user interrupted")
	}
}

func (w *world) workspace(id conversation.ID) string {
	w.Helper()
	return w.bench.Workspace(must(w.engine.View(w.Context(), owner, id)).SandboxID)
}

func TestPauseTakesEffectBetweenSteps(t *testing.T) {
	w := newWorld(t, call("sh", `{"command":"touch started; while [ ! -e go ]; do sleep 0.01; done"}`), say("ok"))
	id := w.begin("x")
	dir := w.workspace(id)
	w.eventually("the command", func() bool { _, err := os.Stat(filepath.Join(dir, "started")); return err == nil })
	if err := w.engine.Pause(t.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	if s := w.status(id); s != conversation.Running {
		t.Fatalf("paused in the middle of a step: %s", s)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.wait(id, conversation.Paused)
	if w.model.calls() != 1 {
		t.Errorf("%d model calls", w.model.calls())
	}
	if err := w.engine.Run(t.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	w.wait(id, conversation.Finished)
}

func TestConfirmation(t *testing.T) {
	w := newWorld(t, call("sh", `{"command":"touch ran"}`), say("first"), call("sh", `{"command":"touch never"}`), say("second"))
	w.settings(func(s *account.Settings) { s.ConfirmationMode = ptr(true) })
	id := w.begin("x")
	w.wait(id, conversation.WaitingConfirmation)
	ran := filepath.Join(w.workspace(id), "ran")
	if _, err := os.Stat(ran); err == nil {
		t.Fatal("the action ran before it was confirmed")
	}
	w.send(id, "a message is no consent")
	if err := w.engine.Pause(t.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	if s := w.status(id); s != conversation.WaitingConfirmation {
		t.Fatalf("status %s", s)
	}
	if err := w.engine.Confirm(t.Context(), owner, id, true, ""); err != nil {
		t.Fatal(err)
	}
	w.wait(id, conversation.Finished)
	if _, err := os.Stat(ran); err != nil {
		t.Fatal("the confirmed action did not run")
	}
	w.send(id, "more")
	w.wait(id, conversation.WaitingConfirmation)
	if err := w.engine.Confirm(t.Context(), owner, id, false, "too dangerous"); err != nil {
		t.Fatal(err)
	}
	if s := w.status(id); s != conversation.Idle || w.model.calls() != 3 {
		t.Fatalf("status %s, %d calls: rejecting must not run", s, w.model.calls())
	}
	w.send(id, "do something else")
	w.wait(id, conversation.Finished)
	if r := w.model.lastRequest(); !strings.Contains(r, "too dangerous") {
		t.Errorf("the model did not read the reason: %s", r)
	}
	if err := w.engine.Confirm(t.Context(), owner, id, true, ""); !fault.Is(err, fault.Conflict) {
		t.Errorf("confirming nothing: %v", err)
	}
}

func TestAMessageDuringTheAnswerIsNotLost(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	w := newWorld(t, func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
		close(started)
		<-release
		return say("early")(ctx, r)
	}, say("late"))
	id := w.begin("x")
	<-started
	w.send(id, "wait, also this")
	close(release)
	w.wait(id, conversation.Finished)
	if w.model.calls() != 2 || !strings.Contains(w.model.lastRequest(), "also this") {
		t.Errorf("%d calls; the last read %s", w.model.calls(), w.model.lastRequest())
	}
}

func TestSecretsAreMaskedAndGivenToCommands(t *testing.T) {
	w := newWorld(t, call("sh", `{"command":"echo value $DEPLOY_KEY; echo \"$DEPLOY_KEY\" | base64; echo ${OTHER:-unset}"}`), say("the key is s3cr3t-value-1"))
	w.settings(func(s *account.Settings) {
		s.Secrets.Custom = map[string]account.CustomSecret{"DEPLOY_KEY": {Value: account.NewSecret("s3cr3t-value-1")}, "OTHER": {Value: account.NewSecret("other-secret")}}
	})
	id := w.begin("my key is s3cr3t-value-1")
	w.wait(id, conversation.Finished)
	log := w.text(id)
	for _, leak := range []string{"s3cr3t-value-1", "czNjcjN0LXZhbHVlLTE", key} {
		if strings.Contains(log, leak) {
			t.Errorf("%q leaked: %s", leak, log)
		}
	}
	if !strings.Contains(log, "value <secret-hidden>") {
		t.Errorf("the command did not get the secret: %s", log)
	}
	if strings.Contains(w.begunTitle(id), "s3cr3t") {
		t.Error("the title shows the secret")
	}
}

func (w *world) begunTitle(id conversation.ID) string {
	return must(w.engine.View(w.Context(), owner, id)).Title
}

func TestFullStoreLosesNothingAndGoesOn(t *testing.T) {
	w := newWorld(t, call("sh", `{"command":"touch started; while [ ! -e go ]; do sleep 0.01; done; echo result"}`), say("ok"))
	id := w.begin("x")
	dir := w.workspace(id)
	w.eventually("the command", func() bool { _, err := os.Stat(filepath.Join(dir, "started")); return err == nil })
	f := must(w.engine.Follow(t.Context(), owner, id, int64(len(w.events(id)))-1))
	defer f.Close()
	w.store.setFull(true)
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	item, err := f.Next(t.Context())
	if err != nil || item.Notice == nil || item.Notice.Code != store.CodeStoreFull {
		t.Fatalf("followers hear %+v, %v", item, err)
	}
	err = w.engine.Send(t.Context(), owner, id, engine.Message{Parts: []content.Part{content.Text("hello")}})
	if fault.CodeOf(err) != store.CodeStoreFull {
		t.Errorf("a message that cannot be kept is acknowledged: %v", err)
	}
	w.store.setFull(false)
	w.wait(id, conversation.Finished)
	want := []string{"prompt", "user: x", "status running", "action sh call_0", "observation call_0", "agent: ok", "status finished"}
	if diff := cmp.Diff(want, w.trace(id)); diff != "" {
		t.Error(diff)
	}
}

func TestRestartInTheMiddleOfATool(t *testing.T) {
	w := newWorld(t, call("sh", `{"command":"echo x >> ran; sleep 60"}`), say("ok"))
	id := w.begin("x")
	ran := filepath.Join(w.workspace(id), "ran")
	w.eventually("the command", func() bool { _, err := os.Stat(ran); return err == nil })
	w.stop()
	if got := w.trace(id); got[len(got)-1] != "action sh call_0" {
		t.Errorf("leaving wrote something: %v", got)
	}
	w.start()
	w.wait(id, conversation.Finished)
	want := []string{"prompt", "user: x", "status running", "action sh call_0", "agent error call_0", "agent: ok", "status finished"}
	if diff := cmp.Diff(want, w.trace(id)); diff != "" {
		t.Error(diff)
	}
	if got, _ := os.ReadFile(ran); string(got) != "x\n" {
		t.Errorf("the call was repeated: %q", got)
	}
}

func TestRestartInTheMiddleOfAModelCallResumes(t *testing.T) {
	started := make(chan struct{})
	w := newWorld(t, hang(started), say("ok"))
	id := w.begin("x")
	<-started
	w.stop()
	w.start()
	w.wait(id, conversation.Finished)
	if diff := cmp.Diff([]string{"prompt", "user: x", "status running", "agent: ok", "status finished"}, w.trace(id)); diff != "" {
		t.Error(diff)
	}
}

func TestARunThatNeverGetsAnywhereIsNotResumedForEver(t *testing.T) {
	w := newWorld(t)
	w.model.steps = make([]step, 10)
	for i := range w.model.steps {
		w.model.steps[i] = func(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
	}
	id := w.begin("x")
	for life := 1; life <= 4; life++ {
		w.eventually("the model call", func() bool { return w.model.calls() == life })
		w.stop()
		w.start()
	}
	w.wait(id, conversation.Error)
	if !strings.Contains(w.text(id), "RunKeptFailing") {
		t.Error(w.trace(id))
	}
}

func TestSandboxKilledFromOutside(t *testing.T) {
	w := newWorld(t, call("sh", `{"command":"touch started; sleep 60"}`), call("sh", `{"command":"cat kept"}`), say("ok"))
	id := w.begin("x")
	dir := w.workspace(id)
	w.eventually("the command", func() bool { _, err := os.Stat(filepath.Join(dir, "started")); return err == nil })
	if err := os.WriteFile(filepath.Join(dir, "kept"), []byte("still here"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.bench.Kill(filepath.Base(filepath.Dir(dir)))
	w.wait(id, conversation.Finished)
	log := w.text(id)
	if !strings.Contains(log, "The sandbox stopped while this ran") || !strings.Contains(log, "still here") {
		t.Errorf("log %s", log)
	}
}

func TestPausedSandboxHoldsTheRun(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	w := newWorld(t, func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
		close(started)
		<-release
		return call("sh", `{"command":"echo ran"}`)(ctx, r)
	}, say("ok"))
	id := w.begin("x")
	<-started
	box := must(w.engine.View(t.Context(), owner, id)).SandboxID
	if err := w.fleet.Pause(t.Context(), owner, box); err != nil {
		t.Fatal(err)
	}
	close(release)
	w.eventually("the action", func() bool { return strings.Contains(strings.Join(w.trace(id), " "), "action sh") })
	if v := must(w.engine.View(t.Context(), owner, id)); v.SandboxStatus != store.SandboxPaused || v.Summary.Status != conversation.Running {
		t.Fatalf("sandbox %s, run %s", v.SandboxStatus, v.Summary.Status)
	}
	if err := w.fleet.Resume(t.Context(), owner, box); err != nil {
		t.Fatal(err)
	}
	w.wait(id, conversation.Finished)
}

// A user may write while the sandbox is still being made.
func TestAMessageBeforeReadyDoesNotReplaceTheFirst(t *testing.T) {
	w := newWorld(t)
	release := make(chan struct{})
	w.bench.HoldCreate(release)
	task := must(w.engine.Start(t.Context(), engine.StartRequest{Owner: owner, InitialMessage: []content.Part{content.Text("the first")}}))
	w.send(task.ConversationID, "an early one")
	close(release)
	w.eventually("the first message", func() bool { return strings.Contains(w.text(task.ConversationID), "the first") })
	if !strings.Contains(w.text(task.ConversationID), "an early one") {
		t.Error("the early message is gone")
	}
	w.wait(task.ConversationID, conversation.Finished)
}

func TestFailedStartIsToldAndCanBeContinued(t *testing.T) {
	w := newWorld(t, call("sh", `{"command":"echo works"}`), say("ok"))
	w.bench.FailWith(fault.New(fault.Unavailable, "no_namespaces", "This machine has no user namespaces."))
	task := must(w.engine.Start(t.Context(), engine.StartRequest{Owner: owner, InitialMessage: []content.Part{content.Text("x")}}))
	w.eventually("ERROR", func() bool {
		task = must(w.engine.Task(t.Context(), owner, []string{task.ID}))[0]
		return task.Status == conversation.TaskError
	})
	if !strings.Contains(task.Detail, "no user namespaces") {
		t.Errorf("detail %q", task.Detail)
	}
	id := task.ConversationID
	w.wait(id, conversation.Error)
	if got := w.trace(id); len(got) != 4 || got[1] != "user: x" {
		t.Errorf("trace %v", got)
	}
	w.bench.FailWith(nil)
	w.send(id, "again")
	w.wait(id, conversation.Finished)
}

func TestStartRefusals(t *testing.T) {
	w := newWorld(t)
	for name, tt := range map[string]struct {
		req  engine.StartRequest
		kind fault.Kind
		code string
	}{
		"unknown parent":  {engine.StartRequest{ParentID: "nope"}, fault.NotFound, "parent_not_found"},
		"unknown sandbox": {engine.StartRequest{SandboxID: "nope"}, fault.NotFound, "sandbox_not_found"},
		"unknown spec":    {engine.StartRequest{SpecID: "nope"}, fault.NotFound, "sandbox_spec_not_found"},
		"no settings":     {engine.StartRequest{Owner: "somebody-else"}, fault.Invalid, engine.CodeNoSettings},
	} {
		if tt.req.Owner == "" {
			tt.req.Owner = owner
		}
		if _, err := w.engine.Start(t.Context(), tt.req); !fault.Is(err, tt.kind) || fault.CodeOf(err) != tt.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := must(w.engine.Count(t.Context(), store.ConversationQuery{})); n != 0 {
		t.Errorf("%d conversations stored by refused starts", n)
	}
	w.settings(func(s *account.Settings) { s.LLMAPIKey = account.Secret{} })
	if _, err := w.engine.Start(t.Context(), engine.StartRequest{Owner: owner}); fault.CodeOf(err) != engine.CodeNoKey {
		t.Errorf("no key: %v", err)
	}
}

func TestHostDirNeedsAProof(t *testing.T) {
	w := newWorld(t)
	dir := must(filepath.EvalSymlinks(t.TempDir()))
	const nonce = "0123456789abcdef0123"
	write := func(name, text string) { _ = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600) }
	write(".parley-proof-good", nonce)
	write(".parley-proof-wrong", "something else")
	_ = os.Symlink(".parley-proof-good", filepath.Join(dir, ".parley-proof-link"))
	_ = os.Symlink(dir, dir+"-link")
	for name, tt := range map[string]struct {
		h  engine.HostDir
		ok bool
	}{
		"good":            {engine.HostDir{Path: dir, Proof: ".parley-proof-good", Nonce: nonce}, true},
		"no proof":        {engine.HostDir{Path: dir, Proof: ".parley-proof-missing", Nonce: nonce}, false},
		"wrong nonce":     {engine.HostDir{Path: dir, Proof: ".parley-proof-wrong", Nonce: nonce}, false},
		"symbolic link":   {engine.HostDir{Path: dir, Proof: ".parley-proof-link", Nonce: nonce}, false},
		"path in proof":   {engine.HostDir{Path: dir, Proof: ".parley-proof-/../x", Nonce: nonce}, false},
		"short nonce":     {engine.HostDir{Path: dir, Proof: ".parley-proof-good", Nonce: "short"}, false},
		"relative":        {engine.HostDir{Path: "x", Proof: ".parley-proof-good", Nonce: nonce}, false},
		"root":            {engine.HostDir{Path: "/", Proof: ".parley-proof-good", Nonce: nonce}, false},
		"not clean":       {engine.HostDir{Path: dir + "/", Proof: ".parley-proof-good", Nonce: nonce}, false},
		"through a link":  {engine.HostDir{Path: dir + "-link", Proof: ".parley-proof-good", Nonce: nonce}, false},
		"does not exist":  {engine.HostDir{Path: dir + "-none", Proof: ".parley-proof-good", Nonce: nonce}, false},
		"file as the dir": {engine.HostDir{Path: dir + "/.parley-proof-good", Proof: ".parley-proof-good", Nonce: nonce}, false},
	} {
		_, err := w.engine.Start(t.Context(), engine.StartRequest{Owner: owner, HostDir: &tt.h})
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	h := engine.HostDir{Path: dir, Proof: ".parley-proof-good", Nonce: nonce}
	if _, err := w.engine.Start(t.Context(), engine.StartRequest{Owner: owner, HostDir: &h}); err == nil {
		t.Error("a directory that everybody may write to is accepted")
	}
}

func TestDeleteWhileRunning(t *testing.T) {
	started := make(chan struct{})
	w := newWorld(t, hang(started))
	id := w.begin("x")
	<-started
	f := must(w.engine.Follow(t.Context(), owner, id, -1))
	defer f.Close()
	box := must(w.engine.View(t.Context(), owner, id)).SandboxID
	if err := w.engine.Delete(t.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	if _, err := w.engine.View(t.Context(), owner, id); !fault.Is(err, fault.NotFound) {
		t.Errorf("view: %v", err)
	}
	if _, err := w.fleet.Get(t.Context(), owner, box); !fault.Is(err, fault.NotFound) {
		t.Errorf("sandbox: %v", err)
	}
	if boxes := must(w.bench.List(t.Context())); len(boxes) != 0 {
		t.Errorf("left behind: %v", boxes)
	}
	for {
		item, err := f.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if item.Deleted {
			return
		}
	}
}

func TestForeignConversationsAreNotFound(t *testing.T) {
	w := newWorld(t)
	id := w.begin("")
	for name, err := range map[string]error{
		"send":      w.engine.Send(t.Context(), "other", id, engine.Message{Parts: []content.Part{content.Text("x")}}),
		"run":       w.engine.Run(t.Context(), "other", id),
		"interrupt": w.engine.Interrupt(t.Context(), "other", id),
		"delete":    w.engine.Delete(t.Context(), "other", id),
	} {
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestConcurrentMessagesAreAllKeptInOneOrder(t *testing.T) {
	w := newWorldWith(t, func(o *engine.Options) { o.IdleAfter = time.Millisecond }) // evict as often as possible
	id := w.begin("")
	const n = 40
	var senders sync.WaitGroup
	for i := range n {
		senders.Go(func() {
			err := w.engine.Send(t.Context(), owner, id, engine.Message{Parts: []content.Part{content.Text(fmt.Sprintf("<%d>", i))}})
			if err != nil {
				t.Error(err)
			}
		})
	}
	senders.Wait()
	log := w.text(id)
	for i := range n {
		if strings.Count(log, fmt.Sprintf("<%d>", i)) != 1 {
			t.Errorf("message %d is there %d times", i, strings.Count(log, fmt.Sprintf("<%d>", i)))
		}
	}
	last := ""
	for _, ev := range w.events(id) {
		if ev.Timestamp <= last {
			t.Errorf("timestamp %s after %s", ev.Timestamp, last)
		}
		last = ev.Timestamp
	}
	w.eventually("eviction", func() bool { return w.engine.Live() == 0 })
}
