package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

// once is a step that hangs the first time, and does what follows later.
func once(started chan struct{}, then step) step {
	var n atomic.Int32
	return func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		if n.Add(1) == 1 {
			return hang(started)(ctx, req)
		}
		return then(ctx, req)
	}
}

// gated answers once the gate is open, whoever stops it meanwhile.
func gated(started, gate chan struct{}, then step) step {
	return func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		close(started)
		<-gate
		return then(context.WithoutCancel(ctx), req)
	}
}

// forSummaries answers requests for summaries, and the others with the second step.
func forSummaries(summary, other step) step {
	return func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		if strings.Contains(req.Messages[len(req.Messages)-1].Text(), "Write the summary now") {
			return summary(ctx, req)
		}
		return other(ctx, req)
	}
}

const long = "remember this: " // with enough behind it that a summary is asked for

func longText() string { return long + strings.Repeat("blah ", 2000) }

// lookingWorld has a model that cannot see, a profile whose model sees, and a tool
// to look with.
func lookingWorld(t *testing.T, seer step) *world {
	look := tool.New(tool.Spec{Name: "look", Description: "looks", NoHands: true},
		func(ctx context.Context, env *tool.Env, _ struct{}) (tool.Result, error) {
			l, err := env.Models.Look(ctx, 0, "what is it?", "")
			if err != nil {
				return tool.Result{}, err
			}
			return tool.TextObservation("LookObservation", l.Answer).Result()
		})
	w := newWorldWith(t, func(o *engine.Options) {
		o.Tools, o.VisionTool = must(tool.NewSet(shTool(), look, finishTool())), "look"
		models := o.Models
		o.Models = func(l account.LLM, mo engine.ModelOptions) (llm.Model, error) {
			if l.Model == "test/seer" {
				return guard(mo, &script{title: seer, info: llm.Info{Model: "test/seer", Vision: true}}), nil
			}
			return models(l, mo)
		}
	}, call("look", "{}"))
	w.settings(func(s *account.Settings) { s.Profiles = map[string]account.LLM{"eyes": {Model: "test/seer"}} })
	return w
}

// Work that waits for the conversation's goroutine must not keep that from ending:
// whatever calls a model beside the run.
func TestWhatCallsAModelBesideTheRunIsNoWedge(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T, started chan struct{}) (*world, conversation.ID){
		"judge": func(t *testing.T, started chan struct{}) (*world, conversation.ID) {
			w := newWorld(t)
			w.model.title = once(started, verdict(1, true, ""))
			id := w.begin("hi")
			w.wait(id, conversation.Finished)
			if err := w.engine.Goal(t.Context(), owner, id, "make it work", 2); err != nil {
				t.Fatal(err)
			}
			return w, id
		},
		"condensation": func(t *testing.T, started chan struct{}) (*world, conversation.ID) {
			w := newWorld(t)
			w.model.title = once(started, say("summary"))
			id := w.begin(longText())
			w.wait(id, conversation.Finished)
			go func() { _ = w.engine.Condense(w.Context(), owner, id) }()
			return w, id
		},
		"critic": func(t *testing.T, started chan struct{}) (*world, conversation.ID) {
			w := newWorld(t)
			w.model.title = once(started, verdict(1, true, ""))
			return w, w.beginWith(engine.StartRequest{Owner: owner, Origin: conversation.OriginV1, Critic: &conversation.Critic{Kind: conversation.CriticModel},
				InitialMessage: []content.Part{content.Text("do it")}})
		},
		"look": func(t *testing.T, started chan struct{}) (*world, conversation.ID) {
			w := lookingWorld(t, once(started, say("a cat")))
			return w, w.beginWith(engine.StartRequest{Owner: owner, Origin: conversation.OriginV1,
				InitialMessage: []content.Part{content.Text("what is it?"), content.Image("data:image/png;base64,AAAA")}})
		},
	} {
		t.Run(name+", deleted", func(t *testing.T) {
			started := make(chan struct{})
			w, id := begin(t, started)
			<-started
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
			defer cancel()
			if err := w.engine.Delete(ctx, owner, id); err != nil {
				t.Fatalf("not deleted: %v", err)
			}
		})
		t.Run(name+", lease lost", func(t *testing.T) {
			started := make(chan struct{})
			w, id := begin(t, started)
			<-started
			later := time.Now().Add(24 * time.Hour)
			gen, err := w.store.Leases().Acquire(t.Context(), id, "another server", later, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			// The next append shows that the lease is gone.
			_ = w.engine.Send(t.Context(), owner, id, engine.Message{Parts: []content.Part{content.Text("are you there?")}})
			w.eventually("the goroutine to end", func() bool { return w.engine.Live() == 0 })
			if err := w.store.Leases().Release(t.Context(), id, "another server", gen); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
			defer cancel()
			if err := w.engine.Send(ctx, owner, id, engine.Message{Parts: []content.Part{content.Text("and now?")}, Run: true}); err != nil {
				t.Fatal(err)
			}
			w.wait(id, conversation.Finished)
			w.checkMoney(id)
			w.noReservations(id)
		})
	}
}

// Whatever a model or a user says, no secret enters the log by way of goals,
// critics and summaries.
func TestSecretsInWhatIsNew(t *testing.T) {
	t.Run("goal", func(t *testing.T) {
		w := newWorld(t)
		w.model.title = judges(verdict(0.1, false, "use "+key), verdict(1, true, "it was "+key))
		id := w.begin("hi")
		w.wait(id, conversation.Finished)
		if err := w.engine.Goal(t.Context(), owner, id, "make "+key+" work", 5); err != nil {
			t.Fatal(err)
		}
		g := w.awaitGoal(id, conversation.GoalComplete)
		if text := w.text(id) + fmt.Sprintf("%+v", g); strings.Contains(text, key) {
			t.Errorf("the key is shown:\n%s", text)
		}
	})
	t.Run("critic", func(t *testing.T) {
		for _, end := range []step{say("done"), call("finish", `{"message":"done"}`)} {
			w := newWorld(t, end)
			w.model.title = verdict(0.9, false, "it printed "+key)
			id := w.beginWith(engine.StartRequest{Owner: owner, Origin: conversation.OriginV1, InitialMessage: []content.Part{content.Text("do it")},
				Critic: &conversation.Critic{Kind: conversation.CriticModel}})
			w.wait(id, conversation.Finished)
			if text := w.text(id); strings.Contains(text, key) || !strings.Contains(text, "it printed") {
				t.Errorf("log:\n%s", text)
			}
		}
	})
	t.Run("summary", func(t *testing.T) {
		w := newWorld(t)
		w.model.title = func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			resp, err := say("the key is "+key)(ctx, req)
			resp.ID = "resp-" + key
			return resp, err
		}
		id := w.begin(longText())
		w.wait(id, conversation.Finished)
		if err := w.engine.Condense(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
		if text := w.text(id); strings.Contains(text, key) || !strings.Contains(text, "the key is") {
			t.Errorf("log:\n%s", text)
		}
	})
	t.Run("summary that failed", func(t *testing.T) {
		w := newWorld(t)
		w.model.title = fails(llm.ClassAuth)
		id := w.begin(longText())
		w.wait(id, conversation.Finished)
		err := w.engine.Condense(t.Context(), owner, id)
		if fault.CodeOf(err) != llm.ClassAuth.Code() || strings.Contains(fault.PublicText(err), key) || !strings.Contains(fault.PublicText(err), "llm_api_key") {
			t.Errorf("error %v: %s", err, fault.PublicText(err))
		}
	})
	t.Run("a tool of the client", func(t *testing.T) {
		w := newWorldWith(t, func(o *engine.Options) {
			o.ClientTool = func(c conversation.ClientTool) (tool.Tool, error) {
				return tool.New(tool.Spec{Name: c.Name, Description: c.Description, NoHands: true}, func(context.Context, *tool.Env, struct{}) (tool.Result, error) {
					return tool.TextObservation("ClientToolObservation", "told "+key).Result()
				}), nil
			}
		}, call("show", fmt.Sprintf(`{"what":%q,%q:1}`, key, key)))
		id := w.beginWith(engine.StartRequest{Owner: owner, Origin: conversation.OriginV1, InitialMessage: []content.Part{content.Text("go")},
			ClientTools: []conversation.ClientTool{{Name: "show", Description: "shows " + key}}})
		w.wait(id, conversation.Finished)
		if text := w.text(id); strings.Contains(text, key) {
			t.Errorf("log:\n%s", text)
		}
	})
}

// A call that could not run yet is not overtaken by those behind it, and least of
// all by the end of the run.
func TestNothingOvertakesACallThatWaitsForItsSandbox(t *testing.T) {
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
	}), call("late", "{}", "finish", `{"message":"bye"}`))
	id = w.begin("x")
	close(ready)
	w.wait(id, conversation.Finished)
	if got := answers(w.trace(id)); !slices.Equal(got, []string{"observation call_0", "observation call_1"}) {
		t.Errorf("answers %v", got)
	}
}

// A policy that is set while the model thinks holds for what it then wants to do.
func TestAPolicyHoldsForTheAnswerUnderWay(t *testing.T) {
	started, gate := make(chan struct{}), make(chan struct{})
	w := newWorld(t, gated(started, gate, call("sh", `{"command":"touch ran"}`)))
	id := w.begin("go")
	<-started
	if err := w.engine.SetPolicy(t.Context(), owner, id, conversation.ConfirmationPolicy{Kind: conversation.AlwaysConfirm}); err != nil {
		t.Fatal(err)
	}
	close(gate)
	w.eventually("an end", func() bool { return w.status(id) != conversation.Running })
	if s := w.status(id); s != conversation.WaitingConfirmation {
		t.Errorf("it is %s: %v", s, w.trace(id))
	}
}

// slowTasks tells of a failed start late.
type slowTasks struct{ store.Store }

type slowTask struct{ store.StartTasks }

func (s *slowTasks) StartTasks() store.StartTasks { return &slowTask{s.Store.StartTasks()} }

func (s *slowTask) Save(ctx context.Context, t *conversation.StartTask) error {
	if t.Status == conversation.TaskError {
		time.Sleep(100 * time.Millisecond) // a slow disk
	}
	return s.StartTasks.Save(ctx, t)
}

// A start that failed is an error, also where that is written down late.
func TestCreateTellsThatTheStartFailed(t *testing.T) {
	w := newWorldWith(t, func(o *engine.Options) { o.Store = &slowTasks{o.Store} })
	w.bench.FailWith(fault.New(fault.Unavailable, "no_namespaces", "This machine has no user namespaces."))
	v, err := w.engine.Create(t.Context(), engine.StartRequest{Owner: owner, Origin: conversation.OriginAgent})
	if err == nil || !strings.Contains(fault.PublicText(err), "no user namespaces") {
		t.Errorf("%+v, %v", v, err)
	}
	if n := must(w.engine.Count(t.Context(), store.ConversationQuery{Owner: owner})); n != 0 {
		t.Errorf("%d conversations are left behind", n)
	}
}

// The first message is said once, on whichever branch.
func TestAFailedStartCanBeContinuedFromTheBeginning(t *testing.T) {
	w := newWorld(t)
	w.bench.FailWith(fault.New(fault.Unavailable, "no_namespaces", "This machine has no user namespaces."))
	task := must(w.engine.Start(t.Context(), engine.StartRequest{Owner: owner, InitialMessage: []content.Part{content.Text("x")}}))
	id := task.ConversationID
	w.wait(id, conversation.Error)
	w.eventually("ERROR", func() bool {
		return must(w.engine.Task(t.Context(), owner, []string{task.ID}))[0].Status == conversation.TaskError
	})
	w.navigate(id, "")
	w.bench.FailWith(nil)
	w.send(id, "again")
	w.wait(id, conversation.Finished)
}

// sameID answers with one id always, and wants its fields back.
type sameID struct {
	mu   sync.Mutex
	n    int
	last []string
}

func (m *sameID) Info() llm.Info { return llm.Info{Model: "test/model", NativeTools: true} }

func (m *sameID) Do(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n++
	m.last = nil
	for _, msg := range req.Messages {
		if raw, ok := msg.Extra["signature"]; ok {
			m.last = append(m.last, string(raw))
		}
	}
	resp, err := say(fmt.Sprint("answer ", m.n))(ctx, req)
	resp.ID, resp.Message.Extra = "same", map[string]json.RawMessage{"signature": json.RawMessage(fmt.Sprint(m.n))}
	return resp, err
}

// An endpoint that gives all its answers one id does not mix up branches.
func TestAnswersOfOneIDOnTwoBranches(t *testing.T) {
	m := &sameID{}
	w := newWorldWith(t, func(o *engine.Options) {
		o.Models = func(_ account.LLM, mo engine.ModelOptions) (llm.Model, error) { return guard(mo, m), nil }
	})
	id := w.begin("one")
	w.wait(id, conversation.Finished)
	first := must(w.engine.View(t.Context(), owner, id)).Summary.Leaf
	w.navigate(id, "")
	w.send(id, "other one")
	w.wait(id, conversation.Finished)
	w.navigate(id, first)
	w.send(id, "two")
	w.wait(id, conversation.Finished)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Equal(m.last, []string{"1"}) {
		t.Errorf("the model got back %v", m.last)
	}
}

// What is done at once (here: a pause) does not keep others waiting until something
// else happens.
func TestNobodyWaitsBehindAPause(t *testing.T) {
	started, gate := make(chan struct{}), make(chan struct{})
	w := newWorldWith(t, func(o *engine.Options) { o.IdleAfter = time.Millisecond }, gated(started, gate, call("sh", `{"command":"true"}`)))
	id := w.begin("go")
	<-started
	condensed := make(chan error, 1)
	go func() { condensed <- w.engine.Condense(w.Context(), owner, id) }()
	w.eventually("the request", func() bool { return strings.Contains(w.text(id), conversation.KindCondenseRequest) })
	if err := w.engine.Pause(t.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	close(gate)
	if err := <-condensed; !fault.Is(err, fault.Conflict) {
		t.Errorf("error %v", err)
	}
}

// A call that failed for good does not look like one that waits to be tried again.
func TestAFailureEndsTheRetry(t *testing.T) {
	w := newWorldWith(t, func(o *engine.Options) {
		models := o.Models
		o.Models = func(l account.LLM, mo engine.ModelOptions) (llm.Model, error) {
			if mo.OnRetry != nil {
				mo.OnRetry(t.Context(), llm.Retry{Attempt: 1, MaxAttempts: 5, Err: &llm.Error{Class: llm.ClassOverloaded}})
			}
			return models(l, mo)
		}
	}, fails(llm.ClassOverloaded))
	id := w.begin("x")
	w.wait(id, conversation.Error)
	if n := must(w.engine.View(t.Context(), owner, id)).Summary.Notes; n.LLMRetry != nil {
		t.Errorf("notes %+v", n)
	}
}

// A fork of what has no title gets its own.
func TestAForkGetsATitle(t *testing.T) {
	w := newWorld(t)
	id := w.begin("")
	fork := w.fork(id, engine.ForkRequest{})
	w.send(fork.ID, "fix the parser")
	w.wait(fork.ID, conversation.Finished)
	if title := must(w.engine.View(t.Context(), owner, fork.ID)).Title; title != "fix the parser" {
		t.Errorf("title %q", title)
	}
}

// Whatever the outcome is that a full store refuses, it is recorded once there is
// room, and nothing is lost or done twice.
func TestAFullStoreAtEachOutcome(t *testing.T) {
	goal := func(w *world, id conversation.ID) error {
		return w.engine.Goal(w.Context(), owner, id, "make it work", 2)
	}
	for name, c := range map[string]struct {
		critic *conversation.Critic
		then   func(*world, conversation.ID) error // begins what is refused
		steps  func(started, gate chan struct{}) []step
		aside  func(started, gate chan struct{}) step
		ok     func(*world, conversation.ID) bool
	}{
		"not reached": {then: goal,
			aside: func(started, gate chan struct{}) step {
				return judges(gated(started, gate, verdict(0.1, false, "all")), verdict(1, true, ""))
			},
			ok: func(w *world, id conversation.ID) bool {
				g := w.goal(id)
				return g.Status == conversation.GoalComplete && g.Iteration == 2
			}},
		"reached": {then: goal,
			aside: func(started, gate chan struct{}) step { return gated(started, gate, verdict(1, true, "")) },
			ok:    func(w *world, id conversation.ID) bool { return w.goal(id).Status == conversation.GoalComplete }},
		"no judge": {then: goal,
			aside: func(started, gate chan struct{}) step { return gated(started, gate, fails(llm.ClassAuth)) },
			ok:    func(w *world, id conversation.ID) bool { return w.goal(id).Status == conversation.GoalInterrupted }},
		"summary": {then: func(w *world, id conversation.ID) error { return w.engine.Condense(w.Context(), owner, id) },
			aside: func(started, gate chan struct{}) step { return gated(started, gate, say("summary")) },
			ok:    func(w *world, id conversation.ID) bool { return w.condensations(id) == 1 }},
		"no summary": {then: func(w *world, id conversation.ID) error { _ = w.engine.Condense(w.Context(), owner, id); return nil },
			aside: func(started, gate chan struct{}) step { return gated(started, gate, fails(llm.ClassAuth)) },
			ok:    func(w *world, id conversation.ID) bool { return w.condensations(id) == 1 }},
		"refinement": {critic: &conversation.Critic{Kind: conversation.CriticFinished, Refinement: &conversation.Refinement{MaxIterations: 1}},
			then: func(w *world, id conversation.ID) error { w.send(id, "do it"); return nil },
			steps: func(started, gate chan struct{}) []step {
				return []step{call("finish", `{"message":"hi"}`), gated(started, gate, say("done")), call("finish", `{"message":"done"}`)}
			},
			ok: func(w *world, id conversation.ID) bool {
				return strings.Count(strings.Join(w.trace(id), "\n"), "user: [Review") == 1 && w.status(id) == conversation.Finished
			}},
	} {
		t.Run(name, func(t *testing.T) {
			started, gate := make(chan struct{}), make(chan struct{})
			w := newWorld(t)
			if c.steps != nil {
				w.model.steps = c.steps(started, gate)
			}
			if c.aside != nil {
				w.model.title = c.aside(started, gate)
			}
			id := w.beginWith(engine.StartRequest{Owner: owner, Origin: conversation.OriginV1, Critic: c.critic, InitialMessage: []content.Part{content.Text(longText())}})
			w.wait(id, conversation.Finished)
			begun := make(chan error, 1)
			go func() { begun <- c.then(w, id) }()
			<-started
			w.store.setFull(true)
			close(gate)
			w.eventually("two refusals", func() bool { return w.store.refusals() > 1 })
			if err := w.engine.Send(t.Context(), owner, id, engine.Message{Parts: []content.Part{content.Text("x")}}); fault.CodeOf(err) != store.CodeStoreFull {
				t.Errorf("a message meanwhile: %v", err)
			}
			w.store.setFull(false)
			w.eventually("the outcome", func() bool { return c.ok(w, id) })
			if err := <-begun; err != nil {
				t.Error(err)
			}
			w.eventually("rest", func() bool { return w.status(id) == conversation.Finished })
			w.checkMoney(id)
		})
	}
}

// toldReads calls a function before the log is read.
type toldReads struct {
	store.Store
	mu     sync.Mutex
	before func()
}

type toldEvents struct {
	store.Events
	s *toldReads
}

func (s *toldReads) Events() store.Events { return &toldEvents{s.Store.Events(), s} }

func (e *toldEvents) Read(ctx context.Context, id conversation.ID, after int64, limit int) ([]conversation.Event, error) {
	e.s.mu.Lock()
	before := e.s.before
	e.s.before = nil
	e.s.mu.Unlock()
	if before != nil {
		before()
	}
	return e.Events.Read(ctx, id, after, limit)
}

// A conversation that is deleted while it is copied leaves no half of itself.
func TestAForkOfWhatIsDeleted(t *testing.T) {
	reads := &toldReads{}
	w := newWorldWith(t, func(o *engine.Options) { reads.Store, o.Store = o.Store, reads })
	id := w.begin("hi")
	w.wait(id, conversation.Finished)
	reads.mu.Lock()
	reads.before = func() {
		if err := w.engine.Delete(t.Context(), owner, id); err != nil {
			t.Error(err)
		}
	}
	reads.mu.Unlock()
	if v, err := w.engine.Fork(t.Context(), owner, id, engine.ForkRequest{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("%+v, %v", v, err)
	}
	if n := must(w.engine.Count(t.Context(), store.ConversationQuery{Owner: owner})); n != 0 {
		t.Errorf("%d conversations", n)
	}
}
