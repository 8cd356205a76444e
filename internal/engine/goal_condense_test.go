package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/llm"
)

// A server that went down while a goal was judged goes on with the goal, without
// anybody asking for it.
func TestAGoalIsTakenUpAfterARestart(t *testing.T) {
	started := make(chan struct{})
	w := newWorld(t)
	w.model.title = once(started, verdict(1, true, ""))
	id := w.begin("hi")
	w.wait(id, conversation.Finished)
	if err := w.engine.Goal(t.Context(), owner, id, "make it work", 2); err != nil {
		t.Fatal(err)
	}
	<-started
	w.stop()
	w.start()
	w.awaitGoal(id, conversation.GoalComplete)
}

// Pausing and interrupting a goal stop it, whenever they come: while the last step of
// a run answers all the same, and while it is judged.
func TestStoppingAGoalAtTheEndOfARun(t *testing.T) {
	for _, how := range []string{"pause", "interrupt"} {
		for when, ends := range map[string]struct{ run, judge step }{
			"while the run ends":                {say("done"), verdict(0.1, false, "all")},
			"while the run ends with finish":    {call("finish", `{"message":"done"}`), verdict(0.1, false, "all")},
			"while it is judged, not reached":   {nil, verdict(0.1, false, "all")},
			"while it is judged, reached":       {nil, verdict(1, true, "")},
			"while it is judged, without words": {nil, fails(llm.ClassAuth)},
		} {
			t.Run(how+" "+when, func(t *testing.T) {
				started, gate := make(chan struct{}), make(chan struct{})
				late := func(then step) step { // answers although it is too late
					if how == "pause" {
						return gated(started, gate, then)
					}
					return func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
						close(started)
						<-ctx.Done()
						return then(context.WithoutCancel(ctx), req)
					}
				}
				w := newWorld(t, say("hello"))
				if ends.run == nil {
					w.model.title = late(ends.judge)
				} else {
					w.model.steps, w.model.title = append(w.model.steps, late(ends.run)), ends.judge
				}
				id := w.begin("hi")
				w.wait(id, conversation.Finished)
				if err := w.engine.Goal(t.Context(), owner, id, "make it work", 5); err != nil {
					t.Fatal(err)
				}
				<-started
				stop := w.engine.Interrupt
				if how == "pause" {
					stop = w.engine.Pause
				}
				if err := stop(t.Context(), owner, id); err != nil {
					t.Fatal(err)
				}
				close(gate)
				w.eventually("rest", func() bool { return w.status(id) != conversation.Running })
				if w.status(id) == conversation.Paused && how == "pause" { // the call of finish is left for the next run
					w.send(id, "never mind")
				}
				w.awaitGoal(id, conversation.GoalInterrupted)
			})
		}
	}
}

// A condensation that comes to nothing is no reason to try again and again: the
// model is asked, and says itself whether the prompt is too long.
func TestACondensationThatCameToNothing(t *testing.T) {
	for _, told := range []int64{500, 900, 1100, 1300, 1500, 1700, 2000, 2500} {
		t.Run(fmt.Sprint(told), func(t *testing.T) {
			m := &narrow{window: 1 << 20, told: told, summarise: fails(llm.ClassBadRequest)}
			w := narrowWorld(t, m)
			id := w.begin("hi")
			w.wait(id, conversation.Finished)
			for n := range 12 {
				w.send(id, fmt.Sprint("message ", n))
				w.wait(id, conversation.Finished)
			}
			if m.summaries > 40 {
				t.Errorf("%d calls for summaries, %d condensations", m.summaries, w.condensations(id))
			}
		})
	}
}

// What is asked for during a run and comes when actions wait does not touch them.
func TestACondensationAskedForDoesNotTouchWhatWaits(t *testing.T) {
	confirm := true
	started, gate := make(chan struct{}), make(chan struct{})
	w := newWorld(t, gated(started, gate, call("sh", `{"command":"touch ran"}`)))
	w.model.title = say("summary")
	id := w.beginWith(engine.StartRequest{Owner: owner, Origin: conversation.OriginV1, ConfirmationMode: &confirm})
	w.send(id, longText())
	<-started
	condensed := make(chan error, 1)
	go func() { condensed <- w.engine.Condense(w.Context(), owner, id) }()
	w.eventually("the request", func() bool { return strings.Contains(w.text(id), conversation.KindCondenseRequest) })
	close(gate)
	select {
	case err := <-condensed:
		if !fault.Is(err, fault.Conflict) {
			t.Errorf("error %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("nobody answered")
	}
	if n := w.condensations(id); n != 0 || w.status(id) != conversation.WaitingConfirmation {
		t.Errorf("%d condensations, %s", n, w.status(id))
	}
	if err := w.engine.Confirm(t.Context(), owner, id, true, ""); err != nil {
		t.Fatal(err)
	}
	w.wait(id, conversation.Finished)
	if n := w.condensations(id); n != 1 {
		t.Errorf("%d condensations after the run went on", n)
	}
}

// A message that ends a goal ends what judges it, not a condensation that somebody
// waits for.
func TestAMessageDoesNotStopACondensation(t *testing.T) {
	for name, stop := range map[string]func(*world, conversation.ID) error{
		"message": func(w *world, id conversation.ID) error {
			return w.engine.Send(w.Context(), owner, id, engine.Message{Parts: []content.Part{content.Text("stop that")}})
		},
		"stop": func(w *world, id conversation.ID) error { return w.engine.StopGoal(w.Context(), owner, id) },
	} {
		t.Run(name, func(t *testing.T) {
			running, run := make(chan struct{}), make(chan struct{})
			summarising, summarise := make(chan struct{}), make(chan struct{})
			w := newWorld(t, say("hello"), gated(running, run, say("done")))
			w.model.title = forSummaries(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
				close(summarising)
				select {
				case <-summarise:
					return say("summary")(ctx, req)
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}, verdict(0.1, false, "all"))
			id := w.begin(longText())
			w.wait(id, conversation.Finished)
			if err := w.engine.Goal(t.Context(), owner, id, "make it work", 5); err != nil {
				t.Fatal(err)
			}
			<-running
			condensed := make(chan error, 1)
			go func() { condensed <- w.engine.Condense(w.Context(), owner, id) }()
			w.eventually("the request", func() bool { return strings.Contains(w.text(id), conversation.KindCondenseRequest) })
			close(run)
			<-summarising
			if err := stop(w, id); err != nil {
				t.Fatal(err)
			}
			close(summarise)
			if err := <-condensed; err != nil || w.condensations(id) != 1 {
				t.Errorf("%v, %d condensations", err, w.condensations(id))
			}
			w.awaitGoal(id, conversation.GoalInterrupted)
		})
	}
}

// A defect in what runs beside the goroutine ends the run, not the server.
func TestADefectOfACondensersModelIsNoEnd(t *testing.T) {
	w := newWorldWith(t, func(o *engine.Options) {
		models := o.Models
		o.Models = func(l account.LLM, mo engine.ModelOptions) (llm.Model, error) {
			if l.Model == "test/defect" {
				panic("a defect")
			}
			return models(l, mo)
		}
	})
	w.model.title = say("summary")
	id := w.beginWith(engine.StartRequest{Owner: owner, Origin: conversation.OriginV1, InitialMessage: []content.Part{content.Text(longText())},
		Condenser: &conversation.Condenser{Kind: conversation.CondenserSummarizing, LLM: &account.LLM{Model: "test/defect"}}})
	w.wait(id, conversation.Finished)
	_ = w.engine.Condense(t.Context(), owner, id)
	w.send(id, "are you there?")
	w.eventually("an end", func() bool { return w.status(id) != conversation.Running })
}

// A retry is over when the answer is there, also where a critic sends it back.
func TestRefiningForgetsTheRetry(t *testing.T) {
	w := newWorldWith(t, func(o *engine.Options) {
		models := o.Models
		o.Models = func(l account.LLM, mo engine.ModelOptions) (llm.Model, error) {
			if mo.OnRetry != nil {
				mo.OnRetry(t.Context(), llm.Retry{Attempt: 1, MaxAttempts: 5, Err: &llm.Error{Class: llm.ClassOverloaded}})
			}
			return models(l, mo)
		}
	})
	id := w.beginWith(engine.StartRequest{Owner: owner, Origin: conversation.OriginV1, InitialMessage: []content.Part{content.Text("do it")},
		Critic: &conversation.Critic{Kind: conversation.CriticFinished, Refinement: &conversation.Refinement{MaxIterations: 1}}})
	w.wait(id, conversation.Finished)
	sawRefinement := false
	for _, ev := range w.events(id) {
		u, ok := must(conversation.Decode(ev)).(*conversation.StateUpdateEvent)
		if !ok || u.Key != conversation.KeyAgentState {
			continue
		}
		var n conversation.AgentNotes
		if err := json.Unmarshal(u.Value, &n); err != nil {
			t.Fatal(err)
		}
		if n.Refinements == 1 && !sawRefinement {
			sawRefinement = true
			if n.LLMRetry != nil {
				t.Errorf("the retry is shown still: %s", u.Value)
			}
		}
	}
	if !sawRefinement {
		t.Error("nothing was refined")
	}
}

// Whoever goes on with a goal whose judge failed is not told of the judge's failure
// as if it were a review.
func TestAGoalIsResumedAfterItsJudgeFailed(t *testing.T) {
	w := newWorld(t)
	w.model.title = judges(fails(llm.ClassAuth), verdict(1, true, ""))
	id := w.begin("hi")
	w.wait(id, conversation.Finished)
	if err := w.engine.Goal(t.Context(), owner, id, "make it work", 5); err != nil {
		t.Fatal(err)
	}
	if g := w.awaitGoal(id, conversation.GoalInterrupted); g.Verdict == nil || strings.Contains(g.Verdict.Missing, key) ||
		!strings.Contains(g.Verdict.Missing, "llm_api_key") {
		t.Errorf("goal %+v", g)
	}
	if err := w.engine.ResumeGoal(t.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	w.awaitGoal(id, conversation.GoalComplete)
	if got := w.model.lastRequest(); strings.Contains(got, "llm_api_key") {
		t.Errorf("the agent read\n%s", got)
	}
}

// An agent that commits its work has changed the repository.
func TestACommitIsAChange(t *testing.T) {
	w := newWorld(t, call("sh", `{"command":"git init -q . && touch a && git add a && git -c user.name=x -c user.email=x@example.org commit -qm x"}`), say("done"))
	id := w.beginWith(engine.StartRequest{Owner: owner, Origin: conversation.OriginV1, InitialMessage: []content.Part{content.Text("do it")},
		Critic: &conversation.Critic{Kind: conversation.CriticEmptyPatch, Refinement: &conversation.Refinement{}}})
	w.wait(id, conversation.Finished)
	if text := w.text(id); strings.Contains(text, "[Review") || !strings.Contains(text, `"critic_result":{"score":1`) {
		t.Errorf("log:\n%s", text)
	}
}

// A goal is a new word of the user's: refinements are counted anew.
func TestRefinementsBeginAnewWithAGoal(t *testing.T) {
	w := newWorld(t)
	w.model.title = verdict(1, true, "")
	id := w.beginWith(engine.StartRequest{Owner: owner, Origin: conversation.OriginV1, InitialMessage: []content.Part{content.Text("do it")},
		Critic: &conversation.Critic{Kind: conversation.CriticFinished, Refinement: &conversation.Refinement{MaxIterations: 1}}})
	w.wait(id, conversation.Finished)
	if err := w.engine.Goal(t.Context(), owner, id, "make it work", 1); err != nil {
		t.Fatal(err)
	}
	w.awaitGoal(id, conversation.GoalComplete)
	if n := strings.Count(strings.Join(w.trace(id), "\n"), "user: [Review"); n != 2 {
		t.Errorf("sent back %d times", n)
	}
}

// However often condensing did not help, the user's next message is another try: with
// a model that reads more it helps.
func TestCondensingInVainIsNotForEver(t *testing.T) {
	m := &narrow{window: 10}
	w := narrowWorld(t, m)
	id := w.beginWith(engine.StartRequest{Owner: owner, Origin: conversation.OriginV1, Stuck: &conversation.StuckDetection{Off: true}})
	for n := range 6 {
		w.send(id, longText())
		w.eventually("a failure", func() bool { return w.status(id) != conversation.Running })
		m.mu.Lock()
		t.Logf("%d: %s, %d refused, %d condensations", n, w.status(id), m.refused, w.condensations(id))
		m.mu.Unlock()
	}
	m.mu.Lock()
	m.window = 8000 // another model
	m.mu.Unlock()
	w.send(id, longText()+longText())
	w.wait(id, conversation.Finished)
}

// What begins with a goal is named after it.
func TestAGoalGivesATitle(t *testing.T) {
	w := newWorld(t)
	w.model.title = verdict(1, true, "")
	id := w.begin("")
	if err := w.engine.Goal(t.Context(), owner, id, "make it work", 1); err != nil {
		t.Fatal(err)
	}
	w.awaitGoal(id, conversation.GoalComplete)
	if title := must(w.engine.View(t.Context(), owner, id)).Title; title != "make it work" {
		t.Errorf("title %q", title)
	}
}
