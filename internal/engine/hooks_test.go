package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/hook"
	"parley/internal/llm"
)

func TestAGuardDecidesWhetherACallRuns(t *testing.T) {
	for _, c := range []struct {
		name, command string
		timeout       string
		runs          bool
	}{
		{"exit code 0 agrees", "exit 0", "60", true},
		{"exit code 1 is a failure and no block", "exit 1", "60", true},
		{"exit code 2 blocks", "echo not today >&2; exit 2", "60", false},
		{"a decision blocks", `echo '{\"decision\":\"deny\",\"reason\":\"not today\"}'`, "60", false},
		{"a guard whose script is missing blocks", "./gone.sh", "60", false},
		{"a guard that does not end blocks", "sleep 30", "1", false},
		{"a guard that was killed blocks", "kill -9 $$", "60", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, call("sh", `{"command":"touch ran"}`))
			id := w.beginWith(withHooks(`{"PreToolUse":[{"matcher":"sh","hooks":[{"type":"command","command":"`+c.command+`","timeout":`+c.timeout+`}]}]}`, "go"))
			w.wait(id, conversation.Finished)
			if exists(w.path(id, "ran")) != c.runs {
				t.Errorf("ran: %v", !c.runs)
			}
			if c.runs {
				w.ends(id, "action sh call_0", "hook PreToolUse", "observation call_0", "agent: done", "status finished")
				return
			}
			w.ends(id, "action sh call_0", "hook PreToolUse blocked", "rejected call_0", "agent: done", "status finished")
			if text := w.text(id); !strings.Contains(text, `"rejection_source":"hook"`) {
				t.Error(text)
			}
			if read := w.model.lastRequest(); !strings.Contains(read, "hook") || strings.Contains(c.command, "not today") && !strings.Contains(read, "not today") {
				t.Error(read)
			}
		})
	}
}

// What the user stops while its guard thinks about it does not run.
func TestAnInterruptDuringAGuardIsNoPass(t *testing.T) {
	w := newWorld(t, call("sh", `{"command":"touch ran"}`))
	g := newGate(w)
	id := w.beginWith(withHooks(on(hook.PreToolUse, g.command("exit 0")), "go"))
	g.started()
	if err := w.engine.Interrupt(t.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	g.open()
	w.wait(id, conversation.Paused)
	w.ends(id, "action sh call_0", "agent error call_0", "interrupt", "status paused")
	if exists(w.path(id, "ran")) {
		t.Error("it ran")
	}
}

// A guard must not wake a sandbox that the user paused: the call waits, as without it.
func TestAGuardDoesNotWakeAPausedSandbox(t *testing.T) {
	thought := make(chan struct{})
	started := make(chan struct{})
	w := newWorld(t, gated(started, thought, call("sh", `{"command":"touch ran"}`)))
	id := w.beginWith(withHooks(on(hook.PreToolUse, "exit 0"), "go"))
	<-started
	box := must(w.engine.View(t.Context(), owner, id)).SandboxID
	if err := w.fleet.Pause(t.Context(), owner, box); err != nil && !fault.Is(err, fault.Conflict) {
		t.Fatal(err)
	}
	close(thought)
	w.eventually("the call", func() bool { return strings.Contains(w.text(id), `"tool_call_id":"call_0"`) })
	if err := w.fleet.Resume(t.Context(), owner, box); err != nil {
		t.Fatal(err)
	}
	w.wait(id, conversation.Finished)
	w.ends(id, "action sh call_0", "hook PreToolUse", "observation call_0", "agent: done", "status finished")
}

func TestWhatHooksSayAfterACallReachesTheModel(t *testing.T) {
	w := newWorld(t, call("sh", `{"command":"true"}`))
	id := w.beginWith(withHooks(on(hook.PostToolUse, `cat >in.json; echo '{"additionalContext":"mind the gap"}'`), "go"))
	w.wait(id, conversation.Finished)
	w.ends(id, "action sh call_0", "hook PostToolUse", "observation call_0", "agent: done", "status finished")
	if read := w.model.lastRequest(); !strings.Contains(read, "mind the gap") {
		t.Error(read)
	}
	if in := read(w.path(id, "in.json")); !strings.Contains(in, `"tool_name":"sh"`) || !strings.Contains(in, `"tool_response":{`) {
		t.Error(in)
	}
}

// Secrets reach a hook by name, only where it names them, and are masked.
func TestSecretsOfHooks(t *testing.T) {
	w := newWorld(t, call("sh", `{"command":"true"}`), call("sh", `{"command":"false"}`))
	req := withHooks(on(hook.PreToolUse, `env >env.txt; echo "$DEPLOY_KEY"`), "go")
	req.Secrets = map[string]account.CustomSecret{"DEPLOY_KEY": {Value: account.NewSecret("the-first-value")}, "OTHER_KEY": {Value: account.NewSecret("another-value")}}
	id := w.beginWith(req)
	w.wait(id, conversation.Finished)
	if env := read(w.path(id, "env.txt")); !strings.Contains(env, "the-first-value") || strings.Contains(env, "another-value") {
		t.Error(env)
	}
	err := w.engine.AddSecrets(t.Context(), owner, id, map[string]account.CustomSecret{"DEPLOY_KEY": {Value: account.NewSecret("the-second-value")}})
	if err != nil {
		t.Fatal(err)
	}
	w.model.mu.Lock()
	w.model.steps = []step{nil, nil, nil, call("sh", `{"command":"true"}`)}
	w.model.mu.Unlock()
	w.send(id, "again")
	w.wait(id, conversation.Finished)
	if env := read(w.path(id, "env.txt")); !strings.Contains(env, "the-second-value") || strings.Contains(env, "the-first-value") {
		t.Error("rotated:", env)
	}
	if text := w.text(id); strings.Contains(text, "the-first-value") || strings.Contains(text, "the-second-value") || !strings.Contains(text, "secret-hidden") {
		t.Error(text)
	}
}

func TestHooksThatAskAModel(t *testing.T) {
	for _, kind := range []string{`{"type":"prompt","prompt":"May it?"}`, `{"type":"agent","prompt":"May it?","tools":["sh"]}`} {
		answer := `{"decision":"deny","reason":"the model says no"}`
		asks := 0
		do := func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			switch {
			case !strings.Contains(whole(req), "May it?"):
				if strings.Contains(whole(req), "the model says no") {
					return say("fine")(ctx, req)
				}
				return call("sh", `{"command":"touch ran"}`)(ctx, req)
			case len(req.Tools) > 0 && asks == 0:
				asks++
				return call("sh", `{"command":"echo looked; touch looked; echo $TOKEN_OF_MINE"}`)(ctx, req)
			case len(req.Tools) > 0 && !strings.Contains(lastAsked(req), "looked"):
				return say(`{"decision":"allow"}`)(ctx, req)
			}
			return say(answer)(ctx, req)
		}
		w := newWorldWith(t, thinking(do))
		id := w.beginWith(withHooks(`{"PreToolUse":[{"matcher":"sh","hooks":[`+kind+`]}]}`, "go"))
		w.wait(id, conversation.Finished)
		w.ends(id, "hook PreToolUse blocked", "rejected call_0", "agent: fine", "status finished")
		if exists(w.path(id, "ran")) || strings.Contains(kind, "agent") != exists(w.path(id, "looked")) {
			t.Errorf("%s: ran %v", kind, exists(w.path(id, "ran")))
		}
		if m := must(w.engine.View(t.Context(), owner, id)).Summary.Metrics; m.ByUse["hook"].AccumulatedCost == 0 {
			t.Errorf("%s: it is not paid for: %+v", kind, m)
		}
	}
}

const plan = "the secret plan"

// noPlan blocks messages that speak of the plan.
var noPlan = on(hook.UserPromptSubmit, `if grep -q "secret plan"; then echo "not here" >&2; exit 2; fi; echo '{"additionalContext":"seen by the hook"}'`)

func TestABlockedMessageIsKeptAndNoModelReadsIt(t *testing.T) {
	w := newWorldWith(t, func(o *engine.Options) { o.AutoTitle = true })
	read := make(chan string, 20)
	w.model.title = func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		read <- whole(req)
		return say("A title")(ctx, req)
	}
	req := withHooks(noPlan, "")
	req.Condenser = &conversation.Condenser{Kind: conversation.CondenserSummarizing, MaxSize: 10, KeepFirst: ptr(0)}
	id := w.beginWith(req)
	w.send(id, plan)
	w.wait(id, conversation.Finished)
	w.ends(id, "prompt", "hook UserPromptSubmit blocked", "user: "+plan, "status running", "status finished")
	if w.model.calls() != 0 {
		t.Error("a model was called")
	}
	w.send(id, "hello")
	w.wait(id, conversation.Finished)
	w.eventually("the answer", func() bool { return w.model.calls() == 1 && w.status(id) == conversation.Finished })
	if said := w.model.lastRequest(); strings.Contains(said, plan) || !strings.Contains(said, "seen by the hook") {
		t.Error(said)
	}
	w.stop() // and after a restart
	w.start()
	w.send(id, "again")
	w.eventually("the answer", func() bool { return w.model.calls() == 2 && w.status(id) == conversation.Finished })
	if _, err := w.engine.Ask(t.Context(), owner, id, "how is it?"); err != nil {
		t.Fatal(err)
	}
	if err := w.engine.Condense(t.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	w.send(id, "and again")
	w.eventually("the answer", func() bool { return w.model.calls() == 4 && w.status(id) == conversation.Finished })
	for _, req := range w.model.reqs {
		if strings.Contains(whole(req), plan) {
			t.Error(whole(req))
		}
	}
	for len(read) > 0 {
		if said := <-read; strings.Contains(said, plan) {
			t.Error(said)
		}
	}
	if v := must(w.engine.View(t.Context(), owner, id)); len(v.Summary.BlockedMessages) != 1 || strings.Contains(v.Title, "plan") {
		t.Errorf("%+v %q", v.Summary.BlockedMessages, v.Title)
	}
	if err := w.engine.Goal(t.Context(), owner, id, plan, 1); !fault.Is(err, fault.Forbidden) || !strings.Contains(err.Error(), "not here") {
		t.Errorf("a goal: %v", err)
	}
}

func TestABlockedMessageDoesNotDisturbARun(t *testing.T) {
	started, open := make(chan struct{}), make(chan struct{})
	w := newWorld(t, gated(started, open, say("first")))
	id := w.beginWith(withHooks(noPlan, "go"))
	<-started
	w.send(id, plan)
	if s := w.status(id); s != conversation.Running {
		t.Errorf("it is %s", s)
	}
	close(open)
	w.wait(id, conversation.Finished)
	w.ends(id, "status running", "hook UserPromptSubmit blocked", "user: "+plan, "agent: first", "status finished")
}

func TestWordsBeforeTheStartIsThroughPassTheHooks(t *testing.T) {
	for _, c := range []struct {
		name, initial string
		early         []string
		calls         int
	}{
		{"one that is blocked", "", []string{plan}, 0},
		{"one that is not", "", []string{"fine"}, 1},
		{"each by itself", "", []string{plan + " one", "fine", plan + " two"}, 1},
		{"beside the first message", "begin", []string{plan}, 1},
		{"a first message that is blocked", plan, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			until := make(chan struct{})
			w.bench.HoldCreate(until)
			task := must(w.engine.Start(t.Context(), withHooks(noPlan, c.initial)))
			for _, text := range c.early {
				w.send(task.ConversationID, text)
			}
			close(until)
			w.wait(task.ConversationID, conversation.Finished)
			if w.model.calls() != c.calls {
				t.Errorf("%d calls of the model: %v", w.model.calls(), w.trace(task.ConversationID))
			}
			for _, req := range w.model.reqs {
				if strings.Contains(whole(req), plan) || len(c.early) > 1 && !strings.Contains(whole(req), "fine") {
					t.Error(whole(req))
				}
			}
		})
	}
}

// What is written while the hooks look at early words is looked at, too.
func TestWordsWhileEarlyWordsAreJudged(t *testing.T) {
	w := newWorld(t)
	g := newGate(w)
	until := make(chan struct{})
	w.bench.HoldCreate(until)
	task := must(w.engine.Start(t.Context(), withHooks(on(hook.UserPromptSubmit,
		`cat >`+g.dir+`/in; `+g.command(`if grep -q "secret plan" `+g.dir+`/in; then exit 2; fi`)), "")))
	w.send(task.ConversationID, "fine")
	close(until)
	g.started()
	w.send(task.ConversationID, plan)
	if w.model.calls() != 0 {
		t.Error("a run began")
	}
	g.open()
	w.wait(task.ConversationID, conversation.Finished)
	if said := w.model.lastRequest(); strings.Contains(said, plan) || !strings.Contains(said, "fine") {
		t.Errorf("%s %v", said, w.trace(task.ConversationID))
	}
}

func TestSessionHooksRunOnce(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	hooks := `{"SessionStart":[{"hooks":[{"type":"command","command":"echo x >>` + dir + `/begun; echo '{\"additionalContext\":\"you are watched\"}'"}]}],` +
		`"SessionEnd":[{"hooks":[{"type":"command","command":"echo x >>` + dir + `/ended"}]}]}`
	id := w.beginWith(withHooks(hooks, "hi"))
	w.wait(id, conversation.Finished)
	if got := w.trace(id)[:3]; strings.Join(got, ",") != "prompt,hook SessionStart,environment: [A hook adds]\nyou are watched" {
		t.Errorf("%q", got)
	}
	if said := w.model.lastRequest(); !strings.Contains(said, "you are watched") {
		t.Error(said)
	}
	w.stop()
	w.start()
	w.send(id, "again")
	w.eventually("the answer", func() bool { return w.model.calls() == 2 && w.status(id) == conversation.Finished })
	if err := w.engine.Delete(t.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	if begun, ended := read(filepath.Join(dir, "begun")), read(filepath.Join(dir, "ended")); begun != "x\n" || ended != "x\n" {
		t.Errorf("begun %q, ended %q", begun, ended)
	}
}

// Hooks that hang hold a start only until its user does not want to wait any more.
func TestHooksOfTheBeginningCanBeStopped(t *testing.T) {
	for name, event := range map[string]hook.Event{"the beginning": hook.SessionStart, "the message": hook.UserPromptSubmit} {
		for _, way := range []string{"interrupt", "delete"} {
			w := newWorld(t)
			g := newGate(w)
			task, err := w.engine.Start(t.Context(), withHooks(on(event, g.command("true")), "hi"))
			if err != nil {
				t.Fatal(err)
			}
			id := task.ConversationID
			g.started()
			if way == "delete" {
				w.expect("delete", w.engine.Delete(t.Context(), owner, id))
			} else {
				w.expect("interrupt", w.engine.Interrupt(t.Context(), owner, id))
			}
			w.eventually(name+": the end of the start after "+way, func() bool {
				tasks, err := w.engine.Task(t.Context(), owner, []string{task.ID})
				return err == nil && (tasks[0] == nil || tasks[0].Status.Done())
			})
			if way == "interrupt" && event == hook.SessionStart {
				w.wait(id, conversation.Finished) // without the rest of its hooks
			}
		}
	}
}

func TestAStopHookSendsTheAgentBackToWork(t *testing.T) {
	for name, last := range map[string]step{"a text": say("done"), "finish": call("finish", `{"message":"done"}`)} {
		w := newWorld(t, last, last)
		id := w.beginWith(withHooks(on(hook.Stop, `cat >>in.json; if [ -f asked ]; then exit 0; fi; touch asked; echo "run the tests" >&2; exit 2`), "go"))
		w.wait(id, conversation.Finished)
		got := strings.Join(w.trace(id), "\n")
		if w.model.calls() != 2 || strings.Count(got, "hook Stop") != 2 || strings.Count(got, "status finished") != 1 ||
			!strings.Contains(got, "hook Stop blocked\nenvironment: [Stop hook feedback] run the tests\n") || !strings.HasSuffix(got, "hook Stop\nstatus finished") {
			t.Errorf("%s: %d calls\n%s", name, w.model.calls(), got)
		}
		if in := read(w.path(id, "in.json")); !strings.Contains(in, `"message":"done"`) {
			t.Errorf("%s: %s", name, in)
		}
	}
}

// A hook that never lets the agent stop comes to the bound of steps.
func TestAStopHookThatNeverAgrees(t *testing.T) {
	w := newWorld(t, say("one"), say("two"), say("three"))
	req := withHooks(on(hook.Stop, "exit 2"), "go")
	req.MaxIterations = 2
	id := w.beginWith(req)
	w.wait(id, conversation.Error)
	w.ends(id, "environment: [Stop hook feedback] The hook exit 2 of request blocked it and gave no reason.", "error MaxIterationsReached", "status error")
}

func TestWhileStopHooksRun(t *testing.T) {
	for name, during := range map[string]func(w *world, g *gate, id conversation.ID){
		"a message is answered": func(w *world, g *gate, id conversation.ID) {
			w.send(id, "one more thing")
			g.open()
			w.wait(id, conversation.Finished)
			if w.model.calls() != 2 || !strings.Contains(w.model.lastRequest(), "one more thing") {
				w.Errorf("%d calls %v", w.model.calls(), w.trace(id))
			}
		},
		"a pause finds the run over": func(w *world, g *gate, id conversation.ID) {
			w.expect("pause", w.engine.Pause(w.Context(), owner, id))
			g.open()
			w.wait(id, conversation.Finished)
			if w.model.calls() != 1 {
				w.Errorf("%d calls", w.model.calls())
			}
		},
		"an interrupt leaves them to the next run": func(w *world, g *gate, id conversation.ID) {
			w.expect("interrupt", w.engine.Interrupt(w.Context(), owner, id))
			w.wait(id, conversation.Paused)
			g.open()
			w.expect("run", w.engine.Run(w.Context(), owner, id))
			w.wait(id, conversation.Finished)
			if w.model.calls() != 1 {
				w.Errorf("%d calls", w.model.calls())
			}
			w.ends(id, "hook Stop", "status finished")
		},
		"a restart asks them again": func(w *world, g *gate, id conversation.ID) {
			w.stop()
			g.open()
			w.start()
			w.wait(id, conversation.Finished)
			if w.model.calls() != 1 {
				w.Errorf("%d calls: the model answered itself", w.model.calls())
			}
			w.ends(id, "agent: done", "hook Stop", "status finished")
		},
		"a full store delays the end": func(w *world, g *gate, id conversation.ID) {
			w.store.setFull(true)
			g.open()
			w.eventually("a refusal", func() bool { return w.store.refusals() > 0 })
			w.store.setFull(false)
			w.wait(id, conversation.Finished)
			w.ends(id, "agent: done", "hook Stop", "status finished")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			g := newGate(w)
			id := w.beginWith(withHooks(on(hook.Stop, g.command("exit 0")), "go"))
			g.started()
			during(w, g, id)
		})
	}
}

// An end that the store refused at first must not go past its hooks afterwards.
func TestAFullStoreAtTheEndIsNoWayAroundStopHooks(t *testing.T) {
	started, open := make(chan struct{}), make(chan struct{})
	w := newWorld(t, gated(started, open, call("finish", `{"message":"done"}`)))
	id := w.beginWith(withHooks(on(hook.Stop, "touch asked"), "go"))
	<-started
	w.store.setFull(true)
	close(open)
	w.eventually("a refusal", func() bool { return w.store.refusals() > 0 })
	w.store.setFull(false)
	w.wait(id, conversation.Finished)
	w.ends(id, "hook Stop", "status finished")
}

// Hooks that nobody waits for come to their end with the conversation's goroutine.
func TestAsyncHooksHoldNothingBack(t *testing.T) {
	w := newWorldWith(t, func(o *engine.Options) { o.IdleAfter = 10 * time.Millisecond }, call("sh", `{"command":"true"}`))
	g := newGate(w)
	id := w.beginWith(withHooks(strings.Replace(on(hook.PreToolUse, g.command("touch "+g.dir+"/done")), `"timeout":60`, `"async":true`, 1), "go"))
	w.wait(id, conversation.Finished)
	g.open()
	w.eventually("the hook's end", func() bool { return exists(filepath.Join(g.dir, "done")) })
}

// The pins of what was trusted hold at each run.
func TestAHookWhoseFileChangedBlocks(t *testing.T) {
	dir := place(t, map[string]string{".openhands/hooks.json": on(hook.PreToolUse, "./guard.sh"), "guard.sh": "#!/bin/sh\nexit 0\n"})
	w := newWorldWith(t, func(o *engine.Options) { o.TrustAll = true },
		call("sh", `{"command":"true"}`), call("sh", `{"command":"printf '#!/bin/sh\nexit 0\n#' >guard.sh"}`), call("sh", `{"command":"touch ran"}`))
	id := w.beginWith(engine.StartRequest{Owner: owner, WorkingDir: dir, InitialMessage: words("go")})
	w.wait(id, conversation.Finished)
	got := strings.Join(w.trace(id), "\n")
	if exists(filepath.Join(dir, "ran")) || strings.Count(got, "hook PreToolUse") < 3 || !strings.Contains(got, "hook PreToolUse blocked\nrejected") {
		t.Error(got)
	}
	if err := os.Remove(filepath.Join(dir, "guard.sh")); err != nil {
		t.Fatal(err)
	}
}

// Clients ask for a conversation every second: what shows its hooks does not load it.
func TestHooksOfAConversationThatIsNotLoaded(t *testing.T) {
	w := newWorldWith(t, func(o *engine.Options) { o.IdleAfter = 5 * time.Millisecond })
	id := w.beginWith(withHooks(on(hook.PreToolUse, "true"), "go"))
	w.wait(id, conversation.Finished)
	w.eventually("the goroutine's end", func() bool { return w.engine.Live() == 0 })
	hooks := must(w.engine.Hooks(t.Context(), owner, id))
	if len(hooks) != 1 || len(hooks[0].Config.PreToolUse) != 1 || w.engine.Live() != 0 {
		t.Errorf("%+v, %d loaded", hooks, w.engine.Live())
	}
	if _, err := w.engine.Hooks(t.Context(), "somebody else", id); err == nil {
		t.Error("somebody else reads them")
	}
}
