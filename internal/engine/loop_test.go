package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley/internal/account"
	"parley/internal/agent/policy"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/tool"
)

func repeat(n int, s step) []step { return slices.Repeat([]step{s}, n) }

// An agent that repeats itself is stopped with a reason, and a message or another
// run goes on.
func TestAnAgentThatRepeatsItselfIsStopped(t *testing.T) {
	w := newWorld(t, append(repeat(8, call("sh", `{"command":"echo same"}`)), say("done"), say("done"))...)
	id := w.begin("go")
	w.wait(id, conversation.Stuck)
	trace := w.trace(id)
	if i := slices.Index(trace, "error AgentStuck"); i < 0 || trace[i+1] != "status stuck" {
		t.Fatalf("trace %v", trace)
	}
	if n := len(answers(trace)); n != 4 {
		t.Errorf("it was stopped after %d calls", n)
	}
	if err := w.engine.Run(t.Context(), owner, id); err != nil { // another chance
		t.Fatal(err)
	}
	w.eventually("to be stuck again", func() bool { return len(answers(w.trace(id))) == 8 && w.status(id) == conversation.Stuck })
	w.send(id, "do something else")
	w.wait(id, conversation.Finished)
}

func TestStuckDetectionCanBeOff(t *testing.T) {
	w := newWorld(t, repeat(8, call("sh", `{"command":"echo same"}`))...)
	id := w.beginWith(engine.StartRequest{Owner: owner, Origin: conversation.OriginV1, Stuck: &conversation.StuckDetection{Off: true}})
	w.send(id, "go")
	w.wait(id, conversation.Finished)
}

// The same failing call gets one hint before the run is stopped.
func TestAHintBeforeStuck(t *testing.T) {
	w := newWorld(t, append(repeat(3, call("nope", `{}`)), say("I see"))...)
	id := w.begin("go")
	w.wait(id, conversation.Finished)
	if got := w.model.lastRequest(); !strings.Contains(got, "[The same call failed again]") {
		t.Errorf("the model read\n%s", got)
	}
}

// asksFor starts a conversation whose model makes one call, and tells how it goes.
func (w *world) asksFor(req engine.StartRequest) conversation.Status {
	w.Helper()
	req.Owner, req.Origin = owner, conversation.OriginV1
	req.InitialMessage = []content.Part{content.Text("go")}
	id := w.beginWith(req)
	w.eventually("an end", func() bool { s := w.status(id); return s != conversation.Running && s != conversation.Idle })
	if s := w.status(id); s == conversation.WaitingConfirmation {
		if got := answers(w.trace(id)); len(got) > 0 {
			w.Errorf("what waits has run: %v", got)
		}
	}
	return w.status(id)
}

// What the client says counts, and what the server says counts more.
func TestPoliciesAndFloor(t *testing.T) {
	never := &conversation.ConfirmationPolicy{Kind: conversation.NeverConfirm}
	risky := &conversation.ConfirmationPolicy{Kind: conversation.ConfirmRisky}
	always := &conversation.ConfirmationPolicy{Kind: conversation.AlwaysConfirm}
	floor := func(p *conversation.ConfirmationPolicy) *policy.Rule { return &policy.Rule{Policy: *p} }
	label := &conversation.Analyzer{Kind: conversation.AnalyzerLLM}
	harmless := `{"command":"true","security_risk":"LOW"}`
	for name, c := range map[string]struct {
		policy   *conversation.ConfirmationPolicy
		analyzer *conversation.Analyzer
		floor    *policy.Rule
		args     string
		waits    bool
	}{
		"never":                               {never, label, nil, `{"command":"true","security_risk":"HIGH"}`, false},
		"always":                              {always, label, nil, harmless, true},
		"risky, low":                          {risky, label, nil, harmless, false},
		"risky, high":                         {risky, label, nil, `{"command":"true","security_risk":"HIGH"}`, true},
		"risky, no label":                     {risky, label, nil, `{"command":"true"}`, true},
		"risky, a label that is none":         {risky, label, nil, `{"command":"true","security_risk":"SAFE"}`, true},
		"risky, nobody judges":                {risky, nil, nil, harmless, true},
		"never, but the server asks for all":  {never, nil, floor(always), harmless, true},
		"never, but the server asks by risk":  {never, nil, floor(risky), harmless, false},
		"the client's analyzer is the model":  {risky, label, floor(risky), harmless, false},
		"the server's floor below the client": {always, label, floor(never), harmless, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldWith(t, func(o *engine.Options) { o.Floor = c.floor }, call("sh", c.args))
			req := engine.StartRequest{Confirmation: c.policy, Analyzer: c.analyzer}
			want := conversation.Finished
			if c.waits {
				want = conversation.WaitingConfirmation
			}
			if got := w.asksFor(req); got != want {
				t.Errorf("it is %s, want %s", got, want)
			}
		})
	}
}

// The policy and the analyzer can be changed in the middle.
func TestPolicyIsSwitched(t *testing.T) {
	w := newWorld(t, call("sh", `{"command":"echo 1"}`), say("one"), call("sh", `{"command":"echo 2"}`), say("two"))
	id := w.begin("go")
	w.wait(id, conversation.Finished)
	if err := w.engine.SetPolicy(t.Context(), owner, id, conversation.ConfirmationPolicy{Kind: conversation.AlwaysConfirm}); err != nil {
		t.Fatal(err)
	}
	w.send(id, "again")
	w.wait(id, conversation.WaitingConfirmation)
	if err := w.engine.Confirm(t.Context(), owner, id, false, "not like this"); err != nil {
		t.Fatal(err)
	}
	w.wait(id, conversation.Idle)
	if err := w.engine.SetAnalyzer(t.Context(), owner, id, &conversation.Analyzer{Kind: conversation.AnalyzerLLM}); err != nil {
		t.Fatal(err)
	}
	w.send(id, "well?")
	w.wait(id, conversation.Finished)
	if got := w.model.lastRequest(); !strings.Contains(got, "not like this") {
		t.Errorf("the model did not read the reason:\n%s", got)
	}
	if p := must(w.engine.View(t.Context(), owner, id)).Options.Policy(); p.Kind != conversation.AlwaysConfirm {
		t.Errorf("the analyzer changed the policy to %s", p.Kind)
	}
	if err := w.engine.SetPolicy(t.Context(), owner, id, conversation.ConfirmationPolicy{Kind: "Nonsense"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("nonsense: %v", err)
	}
}

// A question beside the run is answered from what the agent knows, also while it
// works, and leaves nothing in the log but its cost.
func TestAsk(t *testing.T) {
	started := make(chan struct{})
	asked := func(_ context.Context, req *llm.Request) (*llm.Response, error) {
		last := req.Messages[len(req.Messages)-1].Text()
		if problem := wellFormed(req.Messages); problem != "" {
			return nil, fmt.Errorf("malformed: %s", problem)
		}
		return say("you said walnut; "+fmt.Sprint(strings.Contains(last, "which word?"), key))(context.Background(), req)
	}
	w := newWorld(t, say("one"), hang(started), asked)
	id := w.begin("walnut")
	w.wait(id, conversation.Finished)
	w.send(id, "go on")
	<-started
	before := len(w.trace(id))
	answer, err := w.engine.Ask(t.Context(), owner, id, "which word?")
	if err != nil || !strings.Contains(answer, "walnut; true") || strings.Contains(answer, key) {
		t.Errorf("answer %q, %v", answer, err)
	}
	if after := len(w.trace(id)); after != before {
		t.Errorf("it left %v in the log", w.trace(id)[before:])
	}
	if u := must(w.engine.ConversationUsage(t.Context(), owner, id)); u.ByUse["ask"].Calls != 1 {
		t.Errorf("usage %+v", u.ByUse)
	}
	if err := w.engine.Interrupt(t.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
}

func TestAskAModelThatFails(t *testing.T) {
	w := newWorld(t, say("one"), fails(llm.ClassAuth))
	id := w.begin("hi")
	w.wait(id, conversation.Finished)
	if _, err := w.engine.Ask(t.Context(), owner, id, "?"); fault.CodeOf(err) != llm.ClassAuth.Code() || strings.Contains(fault.PublicText(err), key) {
		t.Errorf("error %v: %s", err, fault.PublicText(err))
	}
}

// verdict answers as a judge.
func verdict(score float64, complete bool, missing string) step {
	return say(fmt.Sprintf(`{"score": %v, "complete": %v, "missing": %q}`, score, complete, missing))
}

// judges answers one after the other.
func judges(steps ...step) step {
	n := 0
	return func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		if n >= len(steps) {
			return nil, &llm.Error{Class: llm.ClassOverloaded, Message: "no more judges"}
		}
		n++
		return steps[n-1](ctx, req)
	}
}

func (w *world) goal(id conversation.ID) conversation.Goal {
	w.Helper()
	if g := must(w.engine.View(w.Context(), owner, id)).Summary.Goal; g != nil {
		return *g
	}
	return conversation.Goal{}
}

func (w *world) awaitGoal(id conversation.ID, want conversation.GoalStatus) conversation.Goal {
	w.Helper()
	w.eventually("a goal that is "+string(want), func() bool { return w.goal(id).Status == want })
	return w.goal(id)
}

// A goal is worked on over several runs until the judge is content.
func TestGoal(t *testing.T) {
	w := newWorld(t, say("hello"), say("first try"), say("second try"))
	w.model.title = judges(verdict(0.3, false, "the tests"), verdict(1, true, ""))
	id := w.begin("hi")
	w.wait(id, conversation.Finished)
	if err := w.engine.Goal(t.Context(), owner, id, "make it work", 5); err != nil {
		t.Fatal(err)
	}
	g := w.awaitGoal(id, conversation.GoalComplete)
	if g.Active || g.Iteration != 2 || g.Verdict == nil || !g.Verdict.Complete || w.status(id) != conversation.Finished {
		t.Errorf("goal %+v, %s", g, w.status(id))
	}
	if got := w.model.lastRequest(); !strings.Contains(got, "the tests") || !strings.Contains(got, "make it work") {
		t.Errorf("the model read\n%s", got)
	}
	if u := must(w.engine.ConversationUsage(t.Context(), owner, id)); u.ByUse["judge"].Calls != 2 {
		t.Errorf("usage %+v", u.ByUse)
	}
}

func TestAGoalEndsAtItsCapAndCanBeResumed(t *testing.T) {
	w := newWorld(t)
	w.model.title = judges(verdict(0.3, false, "much"), verdict(0.4, false, "less"), verdict(1, true, ""))
	id := w.begin("hi")
	w.wait(id, conversation.Finished)
	if err := w.engine.ResumeGoal(t.Context(), owner, id); fault.CodeOf(err) != "no_resumable_goal" {
		t.Errorf("nothing to resume: %v", err)
	}
	if err := w.engine.Goal(t.Context(), owner, id, "make it work", 2); err != nil {
		t.Fatal(err)
	}
	if err := w.engine.Goal(t.Context(), owner, id, "another", 2); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second goal: %v", err)
	}
	w.awaitGoal(id, conversation.GoalCapped)
	if err := w.engine.ResumeGoal(t.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	w.awaitGoal(id, conversation.GoalComplete)
	if err := w.engine.ResumeGoal(t.Context(), owner, id); fault.CodeOf(err) != "no_resumable_goal" {
		t.Errorf("a goal that is reached: %v", err)
	}
}

// Whatever the user does ends a goal: a message, an interrupt, stop; and a judge
// that cannot be asked.
func TestWhatEndsAGoal(t *testing.T) {
	for name, end := range map[string]func(*world, conversation.ID) error{
		"a message": func(w *world, id conversation.ID) error {
			return w.engine.Send(w.Context(), owner, id, engine.Message{Parts: []content.Part{content.Text("stop that")}})
		},
		"an interrupt": func(w *world, id conversation.ID) error { return w.engine.Interrupt(w.Context(), owner, id) },
		"stop":         func(w *world, id conversation.ID) error { return w.engine.StopGoal(w.Context(), owner, id) },
	} {
		for _, when := range []string{"during a run", "during the judgement"} {
			t.Run(name+" "+when, func(t *testing.T) {
				started := make(chan struct{})
				w := newWorld(t)
				w.model.title = judges(hang(started))
				if when == "during a run" {
					w.model.steps, w.model.title = []step{say("hello"), hang(started)}, nil
				}
				id := w.begin("hi")
				w.wait(id, conversation.Finished)
				if err := w.engine.Goal(t.Context(), owner, id, "make it work", 5); err != nil {
					t.Fatal(err)
				}
				<-started
				if err := end(w, id); err != nil {
					t.Fatal(err)
				}
				w.awaitGoal(id, conversation.GoalInterrupted)
				if err := w.engine.Interrupt(t.Context(), owner, id); err != nil {
					t.Fatal(err)
				}
				w.eventually("rest", func() bool { return w.status(id) != conversation.Running })
				w.send(id, "are you there?")
				w.wait(id, conversation.Finished)
			})
		}
	}
	t.Run("no judge", func(t *testing.T) {
		w := newWorld(t)
		w.model.title = judges(say("I have no opinion"))
		id := w.begin("hi")
		w.wait(id, conversation.Finished)
		if err := w.engine.Goal(t.Context(), owner, id, "make it work", 5); err != nil {
			t.Fatal(err)
		}
		g := w.awaitGoal(id, conversation.GoalInterrupted)
		if g.Verdict == nil || !strings.Contains(g.Verdict.Missing, "judge") {
			t.Errorf("goal %+v", g)
		}
	})
}

// A critic that is not content sends the agent back to work, a bounded number of
// times, and its opinion stands in the log.
func TestCriticSendsBack(t *testing.T) {
	critic := func(kind string) *conversation.Critic {
		return &conversation.Critic{Kind: kind, Refinement: &conversation.Refinement{MaxIterations: 2}}
	}
	for name, c := range map[string]struct {
		critic *conversation.Critic
		steps  []step
		judge  step
		sent   int
	}{
		"a text where finish is wanted": {critic(conversation.CriticFinished), []step{say("done"), say("done!"), call("finish", `{"message":"done"}`)}, nil, 2},
		"finish at once":                {critic(conversation.CriticFinished), []step{call("finish", `{"message":"done"}`)}, nil, 0},
		"never content":                 {critic(conversation.CriticFinished), nil, nil, 2},
		"content with all":              {critic(conversation.CriticPass), nil, nil, 0},
		"a model":                       {critic(conversation.CriticModel), []step{call("finish", `{"message":"done"}`)}, judges(verdict(0.2, false, "tests"), verdict(0.9, true, "")), 1},
		"a model that fails":            {critic(conversation.CriticModel), nil, judges(), 0},
		"no change":                     {critic(conversation.CriticEmptyPatch), []step{call("sh", `{"command":"git init -q . && git add -A"}`), say("done"), call("sh", `{"command":"echo x > new"}`), say("done")}, nil, 1},
		"only shown":                    {&conversation.Critic{Kind: conversation.CriticFinished}, nil, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.steps...)
			w.model.title = c.judge
			id := w.beginWith(engine.StartRequest{Owner: owner, Origin: conversation.OriginV1, Critic: c.critic,
				InitialMessage: []content.Part{content.Text("do it")}})
			w.wait(id, conversation.Finished)
			sent := 0
			for _, line := range w.trace(id) {
				if strings.HasPrefix(line, "user: [Review") {
					sent++
				}
			}
			if sent != c.sent {
				t.Errorf("sent back %d times, want %d: %v", sent, c.sent, w.trace(id))
			}
			shown := strings.Contains(w.text(id), `"critic_result"`)
			if failing := name == "a model that fails"; shown == failing {
				t.Errorf("result shown: %v", shown)
			}
		})
	}
}

// The count of refinements begins anew when the user speaks.
func TestRefinementsBeginAnew(t *testing.T) {
	w := newWorld(t)
	id := w.beginWith(engine.StartRequest{Owner: owner, Origin: conversation.OriginV1,
		Critic: &conversation.Critic{Kind: conversation.CriticFinished, Refinement: &conversation.Refinement{MaxIterations: 1}}})
	for range 2 {
		w.send(id, "do it")
		w.wait(id, conversation.Finished)
	}
	if n := strings.Count(strings.Join(w.trace(id), "\n"), "user: [Review"); n != 2 {
		t.Errorf("sent back %d times", n)
	}
}

// A client's tool is answered at once; the client reads the call in the log.
func TestClientTools(t *testing.T) {
	made := 0
	w := newWorldWith(t, func(o *engine.Options) {
		o.ClientTool = func(c conversation.ClientTool) (tool.Tool, error) {
			made++
			return tool.New(tool.Spec{Name: c.Name, Description: c.Description, NoHands: true}, func(context.Context, *tool.Env, struct{}) (tool.Result, error) {
				return tool.TextObservation("ClientToolObservation", "told").Result()
			}), nil
		}
	}, call("show_map", `{}`), call("show_map", `{}`))
	mine := []conversation.ClientTool{{Name: "show_map", Description: "shows"}}
	id := w.beginWith(engine.StartRequest{Owner: owner, Origin: conversation.OriginV1, ClientTools: mine, InitialMessage: []content.Part{content.Text("go")}})
	w.wait(id, conversation.Finished)
	if got := answers(w.trace(id)); len(got) != 2 || !strings.Contains(w.text(id), "told") {
		t.Errorf("answers %v", got)
	}
	if made > 3 { // checked at the start, made when it is used
		t.Errorf("the tool was made %d times", made)
	}
	other := w.begin("go")
	w.wait(other, conversation.Finished)
	if strings.Contains(strings.Join(toolNames(w.model.reqs[len(w.model.reqs)-1]), " "), "show_map") {
		t.Error("another conversation has the tool")
	}
	for _, bad := range [][]conversation.ClientTool{{{Name: "sh"}}, {{Name: "a"}, {Name: "a"}}} {
		_, err := w.engine.Start(t.Context(), engine.StartRequest{Owner: owner, Origin: conversation.OriginV1, ClientTools: bad})
		if fault.CodeOf(err) != "client_tool_clash" {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// Sets of tools are named like tools, and a plan agent has its own.
func TestToolSetsAndPlans(t *testing.T) {
	w := newWorldWith(t, func(o *engine.Options) {
		o.Tools = must(tool.NewSet(shTool(), echoTool(), finishTool()))
		o.DefaultTools, o.PlanTools, o.ToolSets = []string{"sh"}, []string{"echo"}, map[string][]string{"all": {"sh", "echo"}}
	})
	for _, c := range []struct {
		req  engine.StartRequest
		want []string
	}{
		{engine.StartRequest{Tools: []string{"all"}}, []string{"sh", "echo", "finish"}},
		{engine.StartRequest{AgentType: engine.AgentPlan}, []string{"echo", "finish"}},
	} {
		c.req.Owner, c.req.Origin, c.req.InitialMessage = owner, conversation.OriginV1, []content.Part{content.Text("go")}
		id := w.beginWith(c.req)
		w.wait(id, conversation.Finished)
		req := w.model.reqs[len(w.model.reqs)-1]
		if got := toolNames(req); !slices.Equal(got, c.want) {
			t.Errorf("tools %v, want %v", got, c.want)
		}
		if plans := strings.Contains(req.Messages[0].Text(), "that plans"); plans != (c.req.AgentType == engine.AgentPlan) {
			t.Errorf("%+v has the wrong prompt", c.req)
		}
	}
	if got := w.engine.ToolNames(); !slices.Equal(got, []string{"finish", "all"}) {
		t.Errorf("names %v", got)
	}
}

// Create waits until the conversation can work, and leaves nothing behind if it
// cannot.
func TestCreate(t *testing.T) {
	w := newWorld(t)
	v, err := w.engine.Create(t.Context(), engine.StartRequest{Owner: owner, Origin: conversation.OriginAgent})
	if err != nil || v.Options.WorkingDir == "" || v.Summary.Status != conversation.Idle {
		t.Fatalf("%+v, %v", v, err)
	}
	w.settings(func(s *account.Settings) { s.LLMModel = nil })
	if _, err := w.engine.Create(t.Context(), engine.StartRequest{Owner: owner, Origin: conversation.OriginAgent}); fault.CodeOf(err) != engine.CodeNoModel {
		t.Errorf("without a model: %v", err)
	}
}

// A secret shows in no event, however the model writes it, also after it was
// replaced.
func TestSecretsInOtherSpellings(t *testing.T) {
	const secret = "hush-hush-1"
	steps := []step{call("sh", `{"command":"echo \u0068ush-hush-1"}`), say("one"), say("still " + secret)}
	w := newWorld(t, steps...)
	id := w.beginWith(engine.StartRequest{Owner: owner, Origin: conversation.OriginV1, InitialMessage: []content.Part{content.Text("go")},
		Secrets: map[string]account.CustomSecret{"A": {Value: account.NewSecret(secret)}}})
	w.wait(id, conversation.Finished)
	if err := w.engine.AddSecrets(t.Context(), owner, id, map[string]account.CustomSecret{"A": {Value: account.NewSecret("another-1")}}); err != nil {
		t.Fatal(err)
	}
	w.send(id, "again")
	w.wait(id, conversation.Finished)
	for _, ev := range w.events(id) {
		var v any
		if err := json.Unmarshal(ev.Raw, &v); err != nil {
			t.Fatal(err)
		}
		plain := fmt.Sprint(v)
		if strings.Contains(plain, secret) || strings.Contains(plain, `\u0068ush`) {
			t.Errorf("%s shows the secret: %s", ev.Kind, ev.Raw)
		}
	}
	big := map[string]account.CustomSecret{"B": {Value: account.NewSecret(strings.Repeat("x", 2<<20))}}
	if err := w.engine.AddSecrets(t.Context(), owner, id, big); !fault.Is(err, fault.Invalid) {
		t.Errorf("a huge secret: %v", err)
	}
	if _, err := w.engine.Start(t.Context(), engine.StartRequest{Owner: owner, Origin: conversation.OriginV1, Secrets: big}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a start with a huge secret: %v", err)
	}
}
