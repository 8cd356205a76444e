package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/store"
)

// asked notes which models were made.
type asked struct {
	mu  sync.Mutex
	all []account.LLM
}

func (a *asked) watch(o *engine.Options) {
	models := o.Models
	o.Models = func(l account.LLM, mo engine.ModelOptions) (llm.Model, error) {
		if mo.Guard != nil { // made to be called
			a.mu.Lock()
			a.all = append(a.all, l)
			a.mu.Unlock()
		}
		return models(l, mo)
	}
}

// models renders what was asked: model and key.
func (a *asked) models() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []string
	for _, l := range a.all {
		out = append(out, l.Model+" "+l.APIKey.Reveal())
	}
	return slices.Compact(out)
}

func profiles(m map[string]account.LLM) func(*account.Settings) {
	return func(s *account.Settings) { s.Profiles = m }
}

func TestSwitchTakesEffectAtTheNextCall(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	a := &asked{}
	w := newWorldWith(t, a.watch, func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
		close(started)
		<-release
		return call("sh", `{"command":"true"}`)(ctx, r)
	}, say("one"), say("two"), say("three"), say("four"))
	w.settings(profiles(map[string]account.LLM{"big": {Model: "other/big", APIKey: account.NewSecret("sk-big-1")}}))
	id := w.begin("x")
	<-started
	if err := w.engine.SwitchProfile(t.Context(), owner, id, "big"); err != nil {
		t.Fatal(err)
	}
	close(release)
	w.wait(id, conversation.Finished)
	next := func(want ...string) {
		t.Helper()
		n := w.model.calls()
		w.send(id, "more")
		w.eventually("an answer", func() bool { return w.model.calls() > n && w.status(id) == conversation.Finished })
		if got := a.models(); !slices.Equal(got, want) {
			t.Errorf("asked %q, want %q", got, want)
		}
	}
	w.stop() // the choice survives
	w.start()
	seen := []string{"test/model " + key, "other/big sk-big-1"}
	next(seen...)
	w.settings(profiles(map[string]account.LLM{"big": {Model: "other/bigger", APIKey: account.NewSecret("sk-big-2")}}))
	next(append(seen, "other/bigger sk-big-2")...)
	w.settings(profiles(nil))                      // deleted: the copy stays
	next(append(seen, "other/bigger sk-big-2")...) // asked as before
	log := w.text(id)
	if !strings.Contains(log, `"key":"current_model_id","value":"other/big"`) || !strings.Contains(log, `"key":"current_model_id","value":"other/bigger"`) || strings.Contains(log, "sk-big") {
		t.Error(log)
	}
	if m := must(w.engine.View(t.Context(), owner, id)); m.Options.LLM.Model != "other/bigger" || m.Options.LLMProfile != "big" || len(m.Summary.Metrics.ByUse) != 1 {
		t.Errorf("model %s, profile %s, uses %v", m.Options.LLM.Model, m.Options.LLMProfile, m.Summary.Metrics.ByUse)
	}
}

func TestSwitchRefusals(t *testing.T) {
	w := newWorld(t, say("x"))
	id := w.begin("x")
	w.wait(id, conversation.Finished)
	w.settings(profiles(map[string]account.LLM{"keyless": {Model: "other/m"}}))
	for name, tt := range map[string]struct {
		err  error
		kind fault.Kind
		code string
	}{
		"no profile":      {w.engine.SwitchProfile(t.Context(), owner, id, "nope"), fault.NotFound, account.CodeProfileNotFound},
		"no conversation": {w.engine.SwitchProfile(t.Context(), owner, "nope", "keyless"), fault.NotFound, ""},
		"another's":       {w.engine.SwitchLLM(t.Context(), "other", id, account.LLM{Model: "test/model"}), fault.NotFound, ""},
		"no key":          {w.engine.SwitchProfile(t.Context(), owner, id, "keyless"), fault.Invalid, engine.CodeNoKey},
		"no model":        {w.engine.SwitchLLM(t.Context(), owner, id, account.LLM{}), fault.Invalid, engine.CodeNoModel},
	} {
		if !fault.Is(tt.err, tt.kind) || tt.code != "" && fault.CodeOf(tt.err) != tt.code {
			t.Errorf("%s: %v", name, tt.err)
		}
	}
	if v := must(w.engine.View(t.Context(), owner, id)); v.Options.LLM.Model != "test/model" || v.Options.LLMProfile != "" {
		t.Errorf("a refused switch changed the model: %s", v.Options.LLM.Model)
	}
}

// Whatever is switched, started or edited: a key goes only where it was stored for.
func TestKeysStayAtTheirEndpointWithProfiles(t *testing.T) {
	a := &asked{}
	w := newWorldWith(t, a.watch)
	w.settings(profiles(map[string]account.LLM{
		"same":  {Model: "test/other"},
		"own":   {Model: "test/own", APIKey: account.NewSecret("sk-own")},
		"local": {Model: "test/local", BaseURL: "http://127.0.0.1:9/v1"},
		"far":   {Model: "far/m", APIKey: account.NewSecret("sk-far")},
	}))
	run := func(req engine.StartRequest) conversation.ID {
		t.Helper()
		req.Owner, req.InitialMessage = owner, []content.Part{content.Text("x")}
		id := w.beginWith(req)
		w.wait(id, conversation.Finished)
		return id
	}
	for _, name := range []string{"same", "own", "local", "far"} {
		run(engine.StartRequest{LLMProfile: name})
	}
	parent := run(engine.StartRequest{LLMProfile: "far"})
	run(engine.StartRequest{ParentID: parent})
	run(engine.StartRequest{LLMProfile: "far", LLMModel: "far/another"})
	direct := run(engine.StartRequest{})
	if err := w.engine.SwitchLLM(t.Context(), owner, direct, account.LLM{Model: "test/two", APIKey: account.NewSecret("sk-second-account")}); err != nil {
		t.Fatal(err)
	}
	w.send(direct, "more")
	w.eventually("the end", func() bool { return slices.Contains(a.models(), "test/two sk-second-account") })
	want := []string{"test/other " + key, "test/own sk-own", "test/local ", "far/m sk-far", "far/another sk-far",
		"test/model " + key, "test/two sk-second-account"}
	if got := a.models(); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if _, err := w.engine.Start(t.Context(), engine.StartRequest{Owner: owner, LLMProfile: "nope"}); fault.CodeOf(err) != account.CodeProfileNotFound {
		t.Error(err)
	}
	if _, err := w.engine.Start(t.Context(), engine.StartRequest{Owner: owner, LLMProfile: "far", LLMModel: "near/m"}); fault.CodeOf(err) != engine.CodeNoKey {
		t.Errorf("another provider's model with the profile's key: %v", err)
	}
}

// A key may be in a header; a header may also be an ordinary word.
func TestHeadersOfAModelAreMaskedWhereTheyAreKeys(t *testing.T) {
	w := newWorld(t, say("the key is tok-123456789, in production, with Bearer"))
	w.settings(profiles(map[string]account.LLM{"gw": {Model: "gateway/m", BaseURL: "https://gw.example/v1", ExtraHeaders: map[string]account.Secret{
		"Authorization": account.NewSecret("Bearer tok-123456789"), "X-Env": account.NewSecret("production")}}}))
	id := w.beginWith(engine.StartRequest{Owner: owner, LLMProfile: "gw", InitialMessage: []content.Part{content.Text("x")}})
	w.wait(id, conversation.Finished)
	if log := w.text(id); strings.Contains(log, "tok-123456789") || !strings.Contains(log, "in production, with Bearer") {
		t.Error(log)
	}
}

func TestImagesWithoutVisionAreAnsweredNotFailed(t *testing.T) {
	for name, tt := range map[string]struct {
		info  llm.Info
		off   *bool
		calls int
		text  string
	}{
		"no vision":  {llm.Info{Model: "test/model"}, nil, 0, "takes no images"},
		"turned off": {llm.Info{Model: "test/model"}, ptr(true), 0, "disable_vision"},
		"vision":     {llm.Info{Model: "test/model", Vision: true}, nil, 1, "I see"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, say("I see"), say("and now text"))
			w.model.info = tt.info
			w.settings(func(s *account.Settings) { s.Tuning = &account.LLM{Model: "test/model", DisableVision: tt.off} })
			id := w.beginWith(engine.StartRequest{Owner: owner, InitialMessage: []content.Part{content.Text("look"), content.Image("data:image/png;base64,AAAA")}})
			w.wait(id, conversation.Finished)
			if log := w.text(id); w.model.calls() != tt.calls || !strings.Contains(log, tt.text) || strings.Contains(log, "ConversationError") {
				t.Errorf("%d calls: %s", w.model.calls(), log)
			}
			if log := w.text(id); tt.calls == 0 && !strings.Contains(log, "test/model") {
				t.Error("the answer does not name the model")
			}
			w.send(id, "then without it") // the conversation can go on
			w.eventually("an answer", func() bool { return w.model.calls() == tt.calls+1 && w.status(id) == conversation.Finished })
		})
	}
}

func titled(t *testing.T, change func(*engine.Options), title step) *world {
	t.Helper()
	w := newWorldWith(t, func(o *engine.Options) {
		o.AutoTitle = true
		if change != nil {
			change(o)
		}
	})
	w.model.info, w.model.title = priced(), title
	return w
}

func (s *script) titles() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.named
}

func TestATitleIsMadeOnce(t *testing.T) {
	var req *llm.Request
	w := titled(t, nil, func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
		req = r
		return costs(say("\n## Title: \"Fix the s3cr3t-value-1\nlogin page\"\n"), 30, 3)(ctx, r)
	})
	w.settings(func(s *account.Settings) {
		s.Secrets.Custom = map[string]account.CustomSecret{"K": {Value: account.NewSecret("s3cr3t-value-1")}}
	})
	id := w.begin("the login page is broken since yesterday, s3cr3t-value-1, please find out why and fix it")
	w.wait(id, conversation.Finished)
	w.eventually("the title", func() bool { return w.begunTitle(id) == "Fix the <secret-hidden>" })
	if req.OnDelta != nil || req.MaxOutput > 2000 || req.MaxOutput < 16 || strings.Contains(req.Messages[1].Text(), "s3cr3t") {
		t.Errorf("request %+v", req)
	}
	w.stop()
	w.start()
	w.send(id, "and this")
	w.eventually("an answer", func() bool { return w.model.calls() == 2 && w.status(id) == conversation.Finished })
	if n := w.model.titles(); n != 1 {
		t.Errorf("%d titles were asked for", n)
	}
	w.checkMoney(id)
}

func TestTheTitleOfTheUserStays(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	w := titled(t, nil, func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
		close(started)
		<-release
		return say("From the model")(ctx, r)
	})
	id := w.begin("name me")
	<-started
	w.wait(id, conversation.Finished) // the run does not wait for the title
	_, err := w.engine.Patch(t.Context(), owner, id, func(c *conversation.Conversation) error { c.Title = "Mine"; return nil })
	if err != nil {
		t.Fatal(err)
	}
	close(release)
	w.eventually("the title's cost", func() bool {
		return must(w.engine.View(t.Context(), owner, id)).Summary.Metrics.ByUse["title"].AccumulatedCost > 0
	})
	if got := w.begunTitle(id); got != "Mine" {
		t.Errorf("title %q", got)
	}
	named := w.beginWith(engine.StartRequest{Owner: owner, Title: "Given", InitialMessage: []content.Part{content.Text("x")}})
	w.wait(named, conversation.Finished)
	if n := w.model.titles(); n != 1 || w.begunTitle(named) != "Given" {
		t.Errorf("%d titles were asked for, title %q", n, w.begunTitle(named))
	}
}

func TestWithoutATitleTheMessageIsIt(t *testing.T) {
	tests := map[string]struct {
		change func(*engine.Options)
		title  step
		asked  int
	}{
		"it fails":      {nil, fails(llm.ClassAuth), 1},
		"it is a panic": {nil, func(context.Context, *llm.Request) (*llm.Response, error) { panic("a defect") }, 1},
		"it is empty":   {nil, say(" \n***\n"), 1},
		"it is off":     {func(o *engine.Options) { o.AutoTitle = false }, say("never"), 0},
		"it is a demo":  {func(o *engine.Options) { o.DemoModel = "test/model" }, say("never"), 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := titled(t, tt.change, tt.title)
			id := w.begin("  fix   the\nthing ")
			w.wait(id, conversation.Finished)
			w.eventually("the call", func() bool { return w.model.titles() == tt.asked })
			w.stop() // waits for what is under way
			w.start()
			if got := w.begunTitle(id); got != "fix the thing" {
				t.Errorf("title %q", got)
			}
		})
	}
}

func TestTitlesHaveTheirOwnProfile(t *testing.T) {
	a := &asked{}
	w := titled(t, a.watch, say("Cheap"))
	w.settings(func(s *account.Settings) {
		s.Profiles = map[string]account.LLM{"cheap": {Model: "test/cheap", ReasoningEffort: "high", Attempts: ptr(5)}}
		s.TitleProfile = "cheap"
	})
	id := w.begin("x")
	w.wait(id, conversation.Finished)
	w.eventually("the title", func() bool { return w.begunTitle(id) == "Cheap" })
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.all, func(l account.LLM) bool { return l.Model == "test/cheap" })
	if i < 0 || a.all[i].APIKey.Reveal() != key || *a.all[i].Attempts > 2 || a.all[i].ReasoningEffort != "low" {
		t.Errorf("asked %+v", a.all)
	}
}

// A ceiling holds for titles too, and its end is not the run's.
func TestATitleThatDoesNotFitIsNotMade(t *testing.T) {
	w := titled(t, nil, say("never"))
	w.settings(func(s *account.Settings) { s.MaxBudgetPerTask = ptr(0.0001) })
	id := w.begin("x")
	w.wait(id, conversation.Error)
	w.stop()
	w.start()
	if w.model.titles() != 0 || w.begunTitle(id) != "x" || strings.Count(w.text(id), "MaxBudgetReached") != 1 {
		t.Errorf("%d titles, %q, %v", w.model.titles(), w.begunTitle(id), w.trace(id))
	}
}

func TestProbe(t *testing.T) {
	tests := map[string]struct {
		llm    account.LLM
		answer step
		want   engine.ProbeResult
		text   string
	}{
		"good": {account.LLM{Model: "test/model"}, costs(say(" ready\n"), 10, 1), engine.ProbeResult{OK: true, Text: "ready"}, ""},
		"auth": {account.LLM{Model: "test/model"}, fails(llm.ClassAuth), engine.ProbeResult{Error: &engine.ProbeError{Code: "LLMAuthenticationError"}}, "Check llm_api_key"},
		"down": {account.LLM{Model: "test/model"}, fails(llm.ClassNetwork), engine.ProbeResult{Error: &engine.ProbeError{Code: "LLMServiceUnavailableError"}}, "cannot be reached"},
		"empty": {account.LLM{Model: "test/model"}, func(context.Context, *llm.Request) (*llm.Response, error) { return nil, nil },
			engine.ProbeResult{Error: &engine.ProbeError{Code: "LLMNoResponseError"}}, ""},
		"a defect": {account.LLM{Model: "test/model"}, func(context.Context, *llm.Request) (*llm.Response, error) { panic("x") },
			engine.ProbeResult{Error: &engine.ProbeError{Code: "defect"}}, ""},
		"no key":   {account.LLM{Model: "other/model"}, nil, engine.ProbeResult{Error: &engine.ProbeError{Code: engine.CodeNoKey}}, "llm_api_key"},
		"no model": {account.LLM{}, nil, engine.ProbeResult{Error: &engine.ProbeError{Code: engine.CodeNoModel}}, ""},
		"anything": {account.LLM{Model: "test/model"}, func(context.Context, *llm.Request) (*llm.Response, error) { return nil, errors.New("odd " + key) },
			engine.ProbeResult{Error: &engine.ProbeError{Code: "InternalError"}}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.model.info, w.model.title = priced(), tt.answer
			got := w.engine.Probe(t.Context(), owner, tt.llm)
			if got.OK != tt.want.OK || got.Text != tt.want.Text || (got.Error == nil) != (tt.want.Error == nil) {
				t.Fatalf("%+v", got)
			}
			if got.Error != nil {
				if got.Error.Code != tt.want.Error.Code || !strings.Contains(got.Error.Text+got.Error.Advice, tt.text) || strings.Contains(got.Error.Text, key) {
					t.Errorf("%+v", got.Error)
				}
				return
			}
			if got.LatencySeconds <= 0 || got.Model != "test/model" || got.Usage.PromptTokens != 10 {
				t.Errorf("%+v", got)
			}
			w.checkProbe()
		})
	}
}

// checkProbe finds the probe among the owner's spending.
func (w *world) checkProbe() {
	w.Helper()
	rows := w.rows()
	if len(rows) != 1 || rows[0].Use != store.UseProbe || rows[0].Cost != 11*conversation.USD/1e6 {
		w.Errorf("%+v", rows)
	}
}

func TestAProbeEndsWithItsCallerAndTheServer(t *testing.T) {
	started := make(chan struct{})
	w := newWorld(t)
	w.model.title = hang(started)
	result := make(chan engine.ProbeResult, 1)
	go func() {
		result <- w.engine.Probe(context.WithoutCancel(t.Context()), owner, account.LLM{Model: "test/model"})
	}()
	<-started
	w.stop()
	if r := <-result; r.OK || r.Error == nil {
		t.Errorf("%+v", r)
	}
	w.start()
}
