package engine_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/fleet"
	"parley/internal/llm"
	"parley/internal/store"
	"parley/internal/tool"
)

// withTool adds a tool of the test's own.
func withTool(name string, run func(context.Context, *tool.Env) (tool.Result, error)) func(*engine.Options) {
	type in struct{}
	t := tool.New(tool.Spec{Name: name, Description: "tests"}, func(ctx context.Context, env *tool.Env, _ in) (tool.Result, error) { return run(ctx, env) })
	return func(o *engine.Options) { o.Tools = must(tool.NewSet(shTool(), finishTool(), t)) }
}

func result(observation string) tool.Result { return tool.Result{Observation: []byte(observation)} }

// A name that any file may have would make .git/HEAD a proof.
func TestAFileThatWasThereIsNoProof(t *testing.T) {
	w := newWorld(t)
	dir := must(filepath.EvalSymlinks(t.TempDir()))
	const known = "ref: refs/heads/main"
	write := func(name string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(known), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	old := write(".parley-proof-old")
	hour := time.Now().Add(-time.Hour)
	linked := write(".parley-proof-linked")
	pipe := ".parley-proof-pipe"
	if err := errors.Join(os.Chtimes(filepath.Join(dir, old), hour, hour), os.Link(filepath.Join(dir, linked), filepath.Join(dir, "other")),
		syscall.Mkfifo(filepath.Join(dir, pipe), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, proof := range []string{write("HEAD"), old, linked, pipe} {
		h := engine.HostDir{Path: dir, Proof: proof, Nonce: known}
		if _, err := w.engine.Start(t.Context(), engine.StartRequest{Owner: owner, HostDir: &h}); fault.CodeOf(err) != "host_dir_refused" {
			t.Errorf("%s: %v", proof, err)
		}
	}
}

func TestSystemDirectoriesAreRefusedWithAnyProof(t *testing.T) {
	w := newWorld(t)
	for _, dir := range []string{"/etc", "/usr/share", "/tmp", "/home", "/root", "/usr"} {
		h := engine.HostDir{Path: dir, Proof: ".parley-proof-x", Nonce: "0123456789abcdef"}
		if _, err := w.engine.Start(t.Context(), engine.StartRequest{Owner: owner, HostDir: &h}); err == nil || !strings.Contains(err.Error(), "system directory") {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestAGitTokenIsOnlySentToItsHost(t *testing.T) {
	var mu sync.Mutex
	var sent []string
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, r.Header.Get("Authorization"))
		if r.Header.Get("Authorization") == "" {
			rw.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		rw.WriteHeader(http.StatusNotFound)
	}))
	defer srv.Close()
	w := newWorld(t)
	clone := func(host *string) []string {
		w.settings(func(s *account.Settings) {
			s.Secrets.ProviderTokens = map[string]account.ProviderToken{"github": {Token: account.NewSecret("ghp_token_of_github"), Host: host}}
		})
		mu.Lock()
		sent = nil
		mu.Unlock()
		task := must(w.engine.Start(t.Context(), engine.StartRequest{Owner: owner, Repository: srv.URL + "/x/y.git"}))
		w.eventually("the failure", func() bool {
			return must(w.engine.Task(t.Context(), owner, []string{task.ID}))[0].Status == conversation.TaskError
		})
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(sent)
		return slices.Compact(sent)
	}
	if got := clone(nil); len(got) != 1 || got[0] != "" {
		t.Errorf("the token of github went to another host: %q", got)
	}
	if got := clone(ptr(srv.URL)); len(got) != 2 || !strings.HasPrefix(got[1], "Basic ") {
		t.Errorf("the token's own host got %q", got)
	}
}

func TestAKeyIsOnlyUsedWhereItWasStoredFor(t *testing.T) {
	var mu sync.Mutex
	var asked []account.LLM
	w := newWorldWith(t, nil)
	w.stop()
	w.change = func(o *engine.Options) {
		models := o.Models
		o.Models = func(l account.LLM, r engine.ModelOptions) (llm.Model, error) {
			mu.Lock()
			asked = append(asked, l)
			mu.Unlock()
			return models(l, r)
		}
	}
	w.start()
	_, err := w.engine.Start(t.Context(), engine.StartRequest{Owner: owner, LLMModel: "other/model"})
	if fault.CodeOf(err) != engine.CodeNoKey {
		t.Errorf("a model of another provider: %v", err)
	}
	parent := w.begin("")
	w.settings(func(s *account.Settings) {
		s.LLMModel, s.LLMAPIKey = ptr("other/model"), account.NewSecret("sk-of-the-other-provider")
	})
	w.beginWith(engine.StartRequest{Owner: owner, ParentID: parent, InitialMessage: []content.Part{content.Text("x")}})
	mu.Lock()
	defer mu.Unlock()
	for _, l := range asked {
		if l.Model == "test/model" && l.APIKey.Reveal() != key {
			t.Errorf("%s is called with %q", l.Model, l.APIKey.Reveal())
		}
	}
}

func TestADefectOfAToolAnswersTheCall(t *testing.T) {
	w := newWorldWith(t, withTool("bad", func(context.Context, *tool.Env) (tool.Result, error) { panic("a defect") }),
		call("bad", "{}"), say("ok"))
	id := w.begin("x")
	w.wait(id, conversation.Finished)
	if got := strings.Join(w.trace(id), "\n"); !strings.Contains(got, "agent error call_0") {
		t.Error(got)
	}
}

func TestADefectOfAModelEndsTheRun(t *testing.T) {
	w := newWorld(t, func(context.Context, *llm.Request) (*llm.Response, error) { panic("a defect") },
		func(context.Context, *llm.Request) (*llm.Response, error) { return nil, nil }, say("ok"))
	id := w.begin("x")
	w.wait(id, conversation.Error)
	w.send(id, "again")
	w.eventually("the second failure", func() bool { return strings.Count(strings.Join(w.trace(id), "\n"), "status error") == 2 })
	w.send(id, "again")
	w.wait(id, conversation.Finished)
}

// A result that cannot be an event must not hold the conversation for ever.
func TestAResultThatIsNoJSONIsAnswered(t *testing.T) {
	w := newWorldWith(t, withTool("bad", func(context.Context, *tool.Env) (tool.Result, error) { return result(`{"kind":`), nil }),
		call("bad", "{}"), say("ok"))
	id := w.begin("x")
	w.wait(id, conversation.Finished)
}

// The sandbox resumed while the call was on its way to say that it is paused.
func TestAWakeDuringTheCallIsNotLost(t *testing.T) {
	var w *world
	var id conversation.ID
	var tries atomic.Int32
	ready := make(chan struct{})
	w = newWorldWith(t, withTool("late", func(ctx context.Context, _ *tool.Env) (tool.Result, error) {
		if tries.Add(1) > 1 {
			return result(`{"kind":"LateObservation","content":[],"is_error":false}`), nil
		}
		<-ready
		w.engine.SandboxChanged(must(w.engine.View(ctx, owner, id)).SandboxID)
		for range 64 { // each answer is a chance of one half that the wake was seen
			_ = w.engine.Run(ctx, owner, id)
		}
		return tool.Result{}, fault.New(fault.Conflict, fleet.CodePaused, "It was paused.")
	}), call("late", "{}"), say("ok"))
	id = w.begin("x")
	close(ready)
	w.wait(id, conversation.Finished)
}

func TestAMessageToAHeldRunResumesItsSandbox(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	w := newWorld(t, func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
		close(started)
		<-release
		return call("sh", `{"command":"echo ran"}`)(ctx, r)
	}, say("ok"))
	id := w.begin("x")
	<-started
	if err := w.fleet.Pause(t.Context(), owner, must(w.engine.View(t.Context(), owner, id)).SandboxID); err != nil {
		t.Fatal(err)
	}
	close(release)
	w.eventually("the action", func() bool { return strings.Contains(strings.Join(w.trace(id), " "), "action sh") })
	w.eventually("the end", func() bool {
		w.send(id, "go on")
		return strings.Contains(strings.Join(w.trace(id), " "), "observation call_0")
	})
	w.wait(id, conversation.Finished)
}

// The machine went down with the server: the run's sandbox is dead when it goes on.
func TestARunWithADeadSandboxGoesOnAfterARestart(t *testing.T) {
	started := make(chan struct{})
	w := newWorld(t, hang(started), call("sh", `{"command":"echo back"}`), say("ok"))
	id := w.begin("x")
	<-started
	box := must(w.engine.View(t.Context(), owner, id)).SandboxID
	w.stop()
	w.bench.Kill(box)
	w.start()
	w.wait(id, conversation.Finished)
	if log := w.text(id); !strings.Contains(log, "back\\n") {
		t.Error(log)
	}
}

// An interrupt that came while the store was full belongs to that run only.
func TestAnInterruptWhileTheStoreIsFullDoesNotHitTheNextRun(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	w := newWorld(t, func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
		close(started)
		<-release
		return nil, &llm.Error{Class: llm.ClassAuth, Message: "no"}
	}, call("sh", `{"command":"true"}`), say("better"))
	id := w.begin("x")
	<-started
	w.store.setFull(true)
	close(release)
	w.eventually("a refused append", func() bool { return w.store.refusals() > 0 })
	ctx, leave := context.WithTimeout(t.Context(), time.Second) // the caller has no patience
	defer leave()
	if err := w.engine.Interrupt(ctx, owner, id); err != nil {
		t.Fatal(err)
	}
	w.store.setFull(false)
	w.wait(id, conversation.Error)
	w.send(id, "again")
	w.wait(id, conversation.Finished)
}

// What waits for confirmation must not run because a start was carried out again
// and failed this time.
func TestAFailedStartDoesNotFreeWhatWaits(t *testing.T) {
	w := newWorld(t, call("sh", `{"command":"touch ran"}`), say("ok"))
	w.settings(func(s *account.Settings) { s.ConfirmationMode = ptr(true) })
	id := w.begin("x")
	w.wait(id, conversation.WaitingConfirmation)
	task := must(w.engine.LatestTask(t.Context(), id))
	box := must(w.engine.View(t.Context(), owner, id)).SandboxID
	w.stop()
	task.Status = conversation.TaskConversation // as if the server died before READY was stored
	if err := errors.Join(w.store.StartTasks().Save(t.Context(), task), w.store.Sandboxes().Delete(t.Context(), box)); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.eventually("the failure", func() bool { return must(w.engine.LatestTask(t.Context(), id)).Status == conversation.TaskError })
	if s := w.status(id); s != conversation.WaitingConfirmation {
		t.Errorf("status %s: %v", s, w.trace(id))
	}
}

func TestDeleteDuringTheStartLeavesNothing(t *testing.T) {
	w := newWorld(t)
	release := make(chan struct{})
	w.bench.HoldCreate(release)
	task := must(w.engine.Start(t.Context(), engine.StartRequest{Owner: owner, InitialMessage: []content.Part{content.Text("x")}}))
	w.eventually("the sandbox", func() bool { return must(w.engine.View(t.Context(), owner, task.ConversationID)).SandboxID != "" })
	done := make(chan error, 1)
	go func() { done <- w.engine.Delete(t.Context(), owner, task.ConversationID) }()
	w.eventually("the deletion", func() bool {
		_, err := w.engine.View(t.Context(), owner, task.ConversationID)
		return fault.Is(err, fault.NotFound)
	})
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.stop()
	w.start()
	if n := must(w.engine.CountTasks(t.Context(), store.TaskQuery{Owner: owner})); n != 0 {
		t.Errorf("%d start tasks of a deleted conversation", n)
	}
	if boxes := must(w.bench.List(t.Context())); len(boxes) != 0 {
		t.Errorf("left behind: %v", boxes)
	}
}

func TestADeleteIsFinishedWithoutItsCaller(t *testing.T) {
	w := newWorld(t)
	id := w.begin("x")
	w.wait(id, conversation.Finished)
	ctx, leave := context.WithCancel(t.Context())
	w.store.hook(nil, leave)
	if err := w.engine.Delete(ctx, owner, id); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	w.eventually("the sandbox's end", func() bool { return len(must(w.bench.List(t.Context()))) == 0 })
}

func TestAFullStoreDuringTheStartDelaysIt(t *testing.T) {
	w := newWorld(t, say("ok"))
	w.store.setFull(true)
	task := must(w.engine.Start(t.Context(), engine.StartRequest{Owner: owner, InitialMessage: []content.Part{content.Text("x")}}))
	w.eventually("a refused append", func() bool { return w.store.refusals() > 1 })
	w.store.setFull(false)
	w.eventually("READY", func() bool {
		return must(w.engine.Task(t.Context(), owner, []string{task.ID}))[0].Status == conversation.TaskReady
	})
	w.wait(task.ConversationID, conversation.Finished)
}

func TestARunIsTakenUpOnceTheStoreTakesWrites(t *testing.T) {
	started := make(chan struct{})
	w := newWorld(t, hang(started), say("ok"))
	id := w.begin("x")
	<-started
	w.stop()
	w.store.setFull(true)
	w.start()
	w.eventually("a refused append", func() bool { return w.store.refusals() > 0 })
	w.store.setFull(false)
	w.wait(id, conversation.Finished)
}

// Somebody wrote to the log behind the goroutine's back: the run goes on all the same.
func TestARunWhoseLogMovedGoesOn(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	w := newWorld(t, func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
		close(started)
		<-release
		return say("lost")(ctx, r)
	}, say("ok"))
	id := w.begin("x")
	<-started
	conv := must(w.store.Conversations().Get(t.Context(), owner, id))
	p := &conversation.MessageEvent{Header: conversation.Head(conversation.KindMessage, conversation.SourceUser, time.Now().Add(time.Hour)),
		LLMMessage: conversation.LLMMessage{Role: content.RoleUser, Content: []content.Part{content.Text("from elsewhere")}}}
	err := w.store.Store.Events().Append(t.Context(), store.Append{Conversation: id, ExpectHead: conv.Summary.Head, Generation: conv.Generation,
		Events: []conversation.Event{must(conversation.Encode(p))}, Summary: conv.Summary, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	close(release)
	w.wait(id, conversation.Finished)
	if !strings.Contains(w.model.lastRequest(), "from elsewhere") {
		t.Error(w.model.lastRequest())
	}
}

// The server died between making the sandbox and writing down whose it is.
func TestACrashDuringTheStartLeaksNoSandbox(t *testing.T) {
	w := newWorld(t, say("ok"))
	reached := make(chan struct{}, 1)
	w.store.hook(func(ctx context.Context) {
		select {
		case reached <- struct{}{}:
		default:
		}
		<-ctx.Done() // the update is never made in this life
	}, nil)
	task := must(w.engine.Start(t.Context(), engine.StartRequest{Owner: owner, InitialMessage: []content.Part{content.Text("x")}}))
	<-reached
	w.stop()
	w.store.hook(nil, nil)
	w.start()
	w.wait(task.ConversationID, conversation.Finished)
	if boxes := must(w.bench.List(t.Context())); len(boxes) != 1 {
		t.Errorf("%d boxes for one conversation", len(boxes))
	}
	if all := must(w.store.Sandboxes().All(t.Context())); len(all) != 1 {
		t.Errorf("%d records for one conversation", len(all))
	}
}

func TestMaskingKeepsNumbersAndFindsCode(t *testing.T) {
	w := newWorldWith(t, withTool("show", func(context.Context, *tool.Env) (tool.Result, error) {
		return result(`{"kind":"ShowObservation","content":[],"is_error":false,"big":12345678901234567890,"code":"print('s3cr3t-value-1')",` +
			`"type":"plain","pin":9876543210,"env":{"s3cr3t-value-1":"x"}}`), nil
	}), call("show", "{}"), say("ok"))
	w.settings(func(s *account.Settings) {
		s.Secrets.Custom = map[string]account.CustomSecret{"K": {Value: account.NewSecret("s3cr3t-value-1")}, "PIN": {Value: account.NewSecret("9876543210")}}
	})
	id := w.begin("x")
	w.wait(id, conversation.Finished)
	log := w.text(id)
	for _, want := range []string{`12345678901234567890`, `"type":"plain"`, `"kind":"ShowObservation"`} {
		if !strings.Contains(log, want) {
			t.Errorf("%s is gone: %s", want, log)
		}
	}
	for _, leak := range []string{"s3cr3t-value-1", "9876543210"} {
		if strings.Contains(log, leak) {
			t.Errorf("%s leaked: %s", leak, log)
		}
	}
}

func TestAReplacedKeyIsMaskedAtOnce(t *testing.T) {
	const newKey = "sk-the-new-key-of-the-user"
	w := newWorld(t)
	w.model.steps = []step{func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
		w.settings(func(s *account.Settings) { s.LLMAPIKey = account.NewSecret(newKey) })
		return call("sh", `{"command":"true"}`)(ctx, r)
	}, func(context.Context, *llm.Request) (*llm.Response, error) {
		return nil, &llm.Error{Class: llm.ClassAuth, Message: "Incorrect API key: " + newKey}
	}}
	id := w.begin("x")
	w.wait(id, conversation.Error)
	if strings.Contains(w.text(id), newKey) {
		t.Error(w.text(id))
	}
}

func TestAFailedStartIsDoneAgainWhole(t *testing.T) {
	w := newWorld(t, call("sh", `{"command":"echo it works in $PWD"}`), say("ok"))
	w.bench.FailWith(fault.New(fault.Unavailable, "no_namespaces", "This machine has no user namespaces."))
	task := must(w.engine.Start(t.Context(), engine.StartRequest{Owner: owner, InitialMessage: []content.Part{content.Text("x")}}))
	w.wait(task.ConversationID, conversation.Error)
	w.bench.FailWith(nil)
	w.send(task.ConversationID, "again")
	w.wait(task.ConversationID, conversation.Finished)
	if log := w.text(task.ConversationID); !strings.Contains(log, "it works in "+w.workspace(task.ConversationID)) {
		t.Error(log)
	}
}

// A clone that was cut off must not pass for a whole one.
func TestAHalfCloneIsMadeAgain(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		c := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@y", "-C", filepath.Join(dir, "origin")}, args...)...)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "origin"), 0o700), os.WriteFile(filepath.Join(dir, "origin", "f"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	git("init", "--quiet")
	git("add", "f")
	git("commit", "--quiet", "-m", "x")
	clone := filepath.Join(dir, "work", "clone")
	prepare := func(bash string) error {
		c := exec.Command("bash", bash)
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "PARLEY_DIR=" + filepath.Dir(clone), "PARLEY_CLONE=" + filepath.Join(dir, "origin"),
			"PARLEY_CLONE_DIR=" + clone, "PARLEY_BRANCH=", "PARLEY_NEW_BRANCH=new"}
		return c.Run()
	}
	script := must(os.ReadFile("prepare.sh"))
	cut := filepath.Join(dir, "cut.sh") // the machine stops in the middle
	half := strings.Replace(string(script), "  if [ -n \"$PARLEY_BRANCH\" ]", "  rm f; kill -9 $$\n  if [ -n \"$PARLEY_BRANCH\" ]", 1)
	if err := os.WriteFile(cut, []byte(half), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := prepare(cut); err == nil {
		t.Fatal("the script was not cut off")
	}
	for range 2 { // and doing it twice is harmless
		if err := prepare("prepare.sh"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(clone, "f")); err != nil {
		t.Error(err)
	}
}
