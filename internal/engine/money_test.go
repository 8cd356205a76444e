package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/store"
)

// priced is a model with a price of 1 USD per million tokens.
func priced() llm.Info {
	return llm.Info{Model: "test/model", NativeTools: true, MaxOutput: 1000, Price: &llm.Price{Input: 1e-6, Output: 1e-6, CacheRead: 1e-7, CacheWrite: 1e-6}}
}

// costs makes the endpoint report what its counts cost at the price: counts this
// small are not believed without that.
func costs(s step, prompt, completion int64) step {
	return func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
		resp, err := s(ctx, r)
		if resp != nil {
			resp.Usage = conversation.Usage{Model: "test/model", PromptTokens: prompt, CompletionTokens: completion}
			resp.Cost, resp.Reported = ptr(priced().Price.Cost(resp.Usage)), true
		}
		return resp, err
	}
}

// checkMoney holds what a conversation shows against the ledger, by use.
func (w *world) checkMoney(id conversation.ID) conversation.Stats {
	w.Helper()
	usage := must(w.engine.ConversationUsage(w.Context(), owner, id))
	shown := must(w.engine.View(w.Context(), owner, id)).Summary.Metrics
	var sum conversation.Money
	for use, s := range usage.ByUse {
		m := shown.ByUse[use]
		sum += s.Cost
		if m.Cost() != s.Cost || m.Usage.PromptTokens != s.PromptTokens || m.Usage.CompletionTokens != s.CompletionTokens ||
			m.Usage.CacheReadTokens != s.CacheReadTokens || m.Usage.ReasoningTokens != s.ReasoningTokens {
			w.Errorf("%s %s: the log has %s and %+v, the ledger %+v", id, use, m.Cost(), m.Usage, s)
		}
	}
	for use, m := range shown.ByUse {
		if _, ok := usage.ByUse[use]; !ok && m.Cost() > 0 {
			w.Errorf("%s %s: %s are not in the ledger", id, use, m.Cost())
		}
	}
	if shown.Cost() != sum {
		w.Errorf("%s: all together %s, the ledger has %s", id, shown.Cost(), sum)
	}
	calls := must(w.engine.Calls(w.Context(), owner, id))
	for use, c := range calls {
		total := c.EarlierCost
		for _, call := range c.Recent {
			total += call.Cost
		}
		if m := shown.ByUse[use]; total != m.Cost() {
			w.Errorf("%s %s: its calls cost %s, together %s", id, use, total, m.Cost())
		}
	}
	return shown.ByUse
}

// rows is what the owner has spent, also if the day changes in between.
func (w *world) rows() []store.SpendingRow {
	w.Helper()
	now := time.Now().UTC()
	return must(w.engine.Usage(w.Context(), owner, now.AddDate(0, 0, -1).Format(time.DateOnly), now.Format(time.DateOnly)))
}

func TestCostsAreInTheLogAndInTheLedger(t *testing.T) {
	w := newWorld(t, costs(call("sh", `{"command":"true"}`), 100, 11), costs(say("done"), 200, 22))
	w.model.info = priced()
	id := w.begin("x")
	w.wait(id, conversation.Finished)
	m := w.checkMoney(id)["agent"]
	if m.Cost() != 333*conversation.USD/1e6 || m.Usage.ResponseID == "" || m.ModelName != "test/model" {
		t.Errorf("%s, %+v", m.Cost(), m)
	}
	calls := must(w.engine.Calls(t.Context(), owner, id))["agent"].Recent
	if len(calls) != 2 || calls[1].Usage.PromptTokens != 200 || calls[1].Cost != 222*conversation.USD/1e6 || calls[0].Latency <= 0 || calls[0].Timestamp >= calls[1].Timestamp {
		t.Errorf("calls %+v", calls)
	}
	w.stop() // what was derived while it ran and what the log says are the same
	w.start()
	again := must(w.engine.Calls(t.Context(), owner, id))["agent"].Recent
	if !slices.Equal(calls, again) {
		t.Errorf("%+v became %+v", calls, again)
	}
	rows := w.rows()
	if len(rows) != 1 || rows[0].Use != store.UseAgent || rows[0].Model != "test/model" || rows[0].Cost != m.Cost() || rows[0].Calls != 2 {
		t.Errorf("today %+v", rows)
	}
}

func TestUsageIsForItsOwner(t *testing.T) {
	w := newWorld(t, costs(say("x"), 1, 1))
	id := w.begin("x")
	w.wait(id, conversation.Finished)
	today := time.Now().UTC().Format(time.DateOnly)
	if rows := must(w.engine.Usage(t.Context(), "other", today, today)); len(rows) != 0 {
		t.Errorf("%+v", rows)
	}
	if _, err := w.engine.ConversationUsage(t.Context(), "other", id); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
	if _, err := w.engine.Calls(t.Context(), "other", id); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
	for _, days := range [][2]string{{"yesterday", today}, {today, ""}, {"2026-02-02", "2026-02-01"}, {"2026-02-30", today}} {
		if _, err := w.engine.Usage(t.Context(), owner, days[0], days[1]); !fault.Is(err, fault.Invalid) {
			t.Errorf("%v: %v", days, err)
		}
	}
}

// Each answer costs about half a cent: the ceiling is reached, not passed, and
// raising it is the way on.
func TestACeilingIsNeverPassedAndRaisingItGoesOn(t *testing.T) {
	steps := make([]step, 40)
	for i := range steps {
		steps[i] = costs(call("sh", fmt.Sprintf(`{"command":"true %d"}`, i)), 4000, 900)
	}
	w := newWorld(t, steps...)
	w.model.info = priced()
	w.settings(func(s *account.Settings) { s.MaxBudgetPerTask = ptr(0.02) })
	id := w.begin("x")
	w.wait(id, conversation.Error)
	first := w.checkMoney(id)["agent"].Cost()
	if first == 0 || first > conversation.MoneyOf(0.02) {
		t.Errorf("cost %s", first)
	}
	var said *conversation.ConversationErrorEvent
	for _, ev := range w.events(id) {
		if e, ok := must(conversation.Decode(ev)).(*conversation.ConversationErrorEvent); ok {
			said = e
		}
	}
	if said == nil || said.Code != "MaxBudgetReached" || !strings.Contains(said.Detail, "max_budget_per_task") ||
		said.Classification.Kind != "quota" || said.Classification.UserAction != "settings" {
		t.Fatalf("%+v", said)
	}
	calls := w.model.calls()
	w.send(id, "go on") // without a higher ceiling there is nothing to go on with
	w.eventually("the second refusal", func() bool { return strings.Count(w.text(id), "MaxBudgetReached") == 2 })
	w.wait(id, conversation.Error)
	if w.model.calls() != calls {
		t.Errorf("%d calls after the ceiling was reached", w.model.calls()-calls)
	}
	w.settings(func(s *account.Settings) { s.MaxBudgetPerTask = ptr(0.04) })
	if m := must(w.engine.View(t.Context(), owner, id)).Summary.Metrics; m.MaxBudget == nil || *m.MaxBudget != 0.04 {
		t.Errorf("shown ceiling %v", m.MaxBudget)
	}
	w.send(id, "go on")
	w.eventually("the third refusal", func() bool { return strings.Count(w.text(id), "MaxBudgetReached") == 3 })
	w.wait(id, conversation.Error)
	if second := w.checkMoney(id)["agent"].Cost(); second <= first || second > conversation.MoneyOf(0.04) {
		t.Errorf("cost %s, then %s", first, second)
	}
	w.settings(func(s *account.Settings) { s.MaxBudgetPerTask = ptr(0.0) })
	w.send(id, "go on")
	w.wait(id, conversation.Finished)
	if m := must(w.engine.View(t.Context(), owner, id)).Summary.Metrics; m.MaxBudget != nil {
		t.Errorf("shown ceiling %v", *m.MaxBudget)
	}
}

func TestTheDaysCeilingHoldsForAllConversations(t *testing.T) {
	day := conversation.MoneyOf(0.012)
	w := newWorldWith(t, func(o *engine.Options) { o.DailyBudget = &day })
	w.model.info = priced()
	w.model.steps = make([]step, 20)
	for i := range w.model.steps {
		w.model.steps[i] = costs(say("done"), 4000, 900)
	}
	stopped := false
	for range 4 {
		id := w.begin("x")
		w.eventually("the end", func() bool { s := w.status(id); return s == conversation.Finished || s == conversation.Error })
		if w.status(id) == conversation.Error {
			stopped = true
			if log := w.text(id); !strings.Contains(log, "MaxBudgetReached") || !strings.Contains(log, "today") {
				t.Error(log)
			}
		}
		w.checkMoney(id)
	}
	var spent conversation.Money
	for _, r := range w.rows() {
		spent += r.Cost + r.Uncertain
	}
	if !stopped || spent == 0 || spent > day {
		t.Errorf("stopped %v, spent %s", stopped, spent)
	}
	if r := w.engine.Probe(t.Context(), owner, account.LLM{Model: "test/model", APIKey: account.NewSecret(key), MaxOutputTokens: 1}); r.OK && spent > day {
		t.Errorf("a probe passes the ceiling: %+v", r)
	}
}

func TestWithoutAPriceTokensAreCounted(t *testing.T) {
	for name, tt := range map[string]struct {
		tokens int64
		some   bool // calls are made
		text   string
	}{
		"no token ceiling": {0, false, "price of test/model is not known"},
		"a token ceiling":  {40000, true, "token ceiling"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldWith(t, func(o *engine.Options) { o.TaskTokens = tt.tokens })
			for i := range 20 {
				w.model.steps = append(w.model.steps, costs(call("sh", fmt.Sprintf(`{"command":"true %d"}`, i)), 4000, 900))
			}
			w.settings(func(s *account.Settings) { s.MaxBudgetPerTask = ptr(1.0) })
			id := w.begin("x")
			w.wait(id, conversation.Error)
			log, u := w.text(id), w.checkMoney(id)["agent"].Usage
			if !strings.Contains(log, "MaxBudgetReached") || !strings.Contains(log, tt.text) {
				t.Error(log)
			}
			if n := u.PromptTokens + u.CompletionTokens; n > tt.tokens || (n > 0) != tt.some {
				t.Errorf("%d tokens in %d calls", n, w.model.calls())
			}
		})
	}
}

// A call that breaks off costs what was seen of it. Only the ledger knows at
// first; the log must not lack it.
func TestBrokenCallsCostInTheLogToo(t *testing.T) {
	broken := func(_ context.Context, r *llm.Request) (*llm.Response, error) {
		r.OnDelta(llm.Delta{Text: strings.Repeat("half an answer ", 20)})
		return nil, &llm.Error{Class: llm.ClassNetwork, Message: "broke off", Streamed: true}
	}
	w := newWorld(t, costs(call("sh", `{"command":"true"}`), 100, 10), broken, costs(say("done"), 300, 30))
	w.model.info = priced()
	id := w.begin("x")
	w.wait(id, conversation.Error)
	if m := w.checkMoney(id)["agent"]; m.Cost() <= 110*conversation.USD/1e6 {
		t.Errorf("the broken call cost nothing: %s", m.Cost())
	}
	w.send(id, "again")
	w.wait(id, conversation.Finished)
	w.checkMoney(id)
	if u := must(w.engine.ConversationUsage(t.Context(), owner, id)); u.Tree.Uncertain == 0 {
		t.Errorf("nothing is uncertain: %+v", u.Tree)
	}
}

func TestAnInterruptedCallIsSettled(t *testing.T) {
	started := make(chan struct{})
	w := newWorld(t, func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
		r.OnDelta(llm.Delta{Text: strings.Repeat("x", 400)})
		return hang(started)(ctx, r)
	})
	w.model.info = priced()
	id := w.begin("x")
	<-started
	if err := w.engine.Interrupt(t.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	w.wait(id, conversation.Paused)
	if m := w.checkMoney(id)["agent"]; m.Cost() == 0 || m.Usage.CompletionTokens != 100 {
		t.Errorf("%s, %+v", m.Cost(), m.Usage)
	}
	w.noReservations(id)
}

// noReservations demands that nothing is set aside: a ceiling just above what was
// spent and may have been charged is enough for a tiny call.
func (w *world) noReservations(id conversation.ID) {
	w.Helper()
	tree := must(w.engine.ConversationUsage(w.Context(), owner, id)).Tree
	limit := tree.Cost + tree.Uncertain + 1
	r := store.Reservation{ID: "check-" + string(id), Conversation: id, Owner: owner, Use: "check", Amount: 1, Holder: "check",
		Ceilings: store.Ceilings{Tree: &limit}, Now: time.Now()}
	if err := w.store.Ledger().Reserve(w.Context(), r); err != nil {
		w.Errorf("%s: %v", id, err)
	}
	if err := w.store.Ledger().Settle(w.Context(), store.Settlement{Reservation: r.ID}); err != nil {
		w.Error(err)
	}
}

// The server leaves in the middle of a call: what was set aside becomes what may
// have been charged, and the log catches up with the ledger.
func TestTheLogCatchesUpWithTheLedger(t *testing.T) {
	w := newWorld(t, costs(say("one"), 100, 10), costs(say("two"), 200, 20))
	w.model.info = priced()
	id := w.begin("x")
	w.wait(id, conversation.Finished)
	w.stop()
	ledger := w.store.Ledger()
	r := store.Reservation{ID: "lost", Conversation: id, Owner: owner, Use: store.UseAgent, Model: "test/model", Amount: 5000, Holder: "me", Now: time.Now()}
	left := r
	left.ID = "left open"
	for _, r := range []store.Reservation{r, left} {
		if err := ledger.Reserve(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	err := ledger.Settle(t.Context(), store.Settlement{Reservation: "lost", Cost: 4000, Usage: conversation.Usage{Model: "test/model", PromptTokens: 3, CompletionTokens: 1}})
	if err != nil {
		t.Fatal(err)
	}
	w.start()
	w.noReservations(id)
	if u := must(w.engine.ConversationUsage(t.Context(), owner, id)); u.Tree.Uncertain != 5000 {
		t.Errorf("what was left open: %+v", u.Tree)
	}
	head := len(w.events(id))
	if err := w.engine.Run(t.Context(), owner, id); err != nil { // loads it
		t.Fatal(err)
	}
	if m := w.checkMoney(id)["agent"]; m.Cost() != 110*conversation.USD/1e6+4000 || m.Usage.PromptTokens != 103 {
		t.Errorf("%s, %+v", m.Cost(), m.Usage)
	}
	if n := len(w.events(id)); n != head+1 {
		t.Errorf("%d events for the correction", n-head)
	}
	w.stop()
	w.start()
	if err := w.engine.Run(t.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	if n := len(w.events(id)); n != head+1 {
		t.Errorf("corrected again: %d events", n-head)
	}
	w.send(id, "more")
	w.eventually("two answers", func() bool { return strings.Contains(w.text(id), `"two"`) })
	w.wait(id, conversation.Finished)
	w.checkMoney(id)
}

// A call of a sub-conversation waits until its parent's is settled, and says so.
func TestACallWaitsForTheTreesOtherCalls(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	w := newWorld(t, func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
		close(started)
		<-release
		return costs(say("parent"), 10, 1)(ctx, r)
	}, costs(say("child"), 10, 1))
	w.model.info = priced()
	w.model.info.MaxOutput = 50000 // the first one takes all that is left
	w.settings(func(s *account.Settings) { s.MaxBudgetPerTask = ptr(0.04) })
	parent := w.begin("x")
	<-started
	child := w.beginWith(engine.StartRequest{Owner: owner, ParentID: parent, InitialMessage: []content.Part{content.Text("y")}})
	w.eventually("the note", func() bool { return strings.Contains(w.text(child), "BudgetWait") })
	if w.model.calls() != 1 {
		t.Errorf("%d calls", w.model.calls())
	}
	close(release)
	w.wait(parent, conversation.Finished)
	w.wait(child, conversation.Finished)
	w.checkMoney(parent)
	w.checkMoney(child)
	tree := must(w.engine.ConversationUsage(t.Context(), owner, parent)).Tree
	if tree.Calls != 2 || tree.Cost != 22*conversation.USD/1e6 {
		t.Errorf("%+v", tree)
	}
	for _, ev := range w.events(child) {
		if u, ok := must(conversation.Decode(ev)).(*conversation.StateUpdateEvent); ok && strings.Contains(string(u.Value), "BudgetWait") &&
			!strings.Contains(string(u.Value), `"attempt":0`) {
			t.Errorf("%s", u.Value)
		}
	}
}

// A model that nobody guards would not be held to any ceiling.
func TestAnUnguardedModelIsNotCalled(t *testing.T) {
	w := newWorldWith(t, nil)
	w.stop()
	w.change = func(o *engine.Options) {
		o.Models = func(account.LLM, engine.ModelOptions) (llm.Model, error) { return w.model, nil }
	}
	w.start()
	id := w.begin("x")
	w.wait(id, conversation.Error)
	if w.model.calls() != 0 || !strings.Contains(w.text(id), "unguarded_model") {
		t.Errorf("%d calls, %v", w.model.calls(), w.trace(id))
	}
}

// A ledger that cannot answer means no.
func TestWithoutALedgerThereAreNoCalls(t *testing.T) {
	w := newWorld(t, costs(say("ok"), 1, 1))
	w.store.breakLedger(errors.New("the disk is gone"))
	id := w.begin("x")
	w.wait(id, conversation.Error)
	if w.model.calls() != 0 {
		t.Errorf("%d calls", w.model.calls())
	}
	w.store.breakLedger(nil)
	w.send(id, "again")
	w.wait(id, conversation.Finished)
	w.checkMoney(id)
}

// While the store is full, an answer waits with its bill, and a second bill joins it.
func TestAFullStoreKeepsTheBills(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	w := newWorld(t, func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
		close(started)
		<-release
		return costs(say("ok"), 100, 10)(ctx, r)
	}, costs(say("more"), 200, 20))
	w.model.info = priced()
	id := w.begin("x")
	<-started
	w.store.setFull(true)
	close(release)
	w.eventually("a refused append", func() bool { return w.store.refusals() > 0 })
	w.store.setFull(false)
	w.wait(id, conversation.Finished)
	w.send(id, "more")
	w.eventually("two answers", func() bool { return strings.Contains(w.text(id), `"more"`) })
	w.wait(id, conversation.Finished)
	if m := w.checkMoney(id)["agent"]; m.Cost() != 330*conversation.USD/1e6 {
		t.Error(m.Cost())
	}
	w.noReservations(id)
}

func TestAFallbackShowsInTheMetrics(t *testing.T) {
	w := newWorld(t, func(ctx context.Context, r *llm.Request) (*llm.Response, error) {
		resp, err := costs(say("ok"), 10, 1)(ctx, r)
		resp.Model = "other/backup"
		return resp, err
	})
	w.model.info = priced()
	w.settings(func(s *account.Settings) {
		s.Profiles = map[string]account.LLM{"backup": {Model: "other/backup", APIKey: account.NewSecret("sk-backup")}}
		s.Tuning = &account.LLM{Model: "test/model", Fallbacks: []string{"backup", "gone"}}
	})
	var offered []account.LLM
	w.stop()
	w.change = func(o *engine.Options) {
		models := o.Models
		o.Models = func(l account.LLM, mo engine.ModelOptions) (llm.Model, error) {
			offered = mo.Fallbacks
			return models(l, mo)
		}
	}
	w.start()
	id := w.begin("x")
	w.wait(id, conversation.Finished)
	if m := w.checkMoney(id)["agent"]; m.ModelName != "other/backup" || m.Usage.Model != "other/backup" {
		t.Errorf("%+v", m)
	}
	if len(offered) != 1 || offered[0].Model != "other/backup" || offered[0].APIKey.Reveal() != "sk-backup" {
		t.Errorf("fallbacks %v", offered)
	}
	if log := w.text(id); !strings.Contains(log, `"missing_fallbacks":["gone"]`) || strings.Contains(log, "sk-backup") {
		t.Error(log)
	}
}

func TestEachUseHasItsMetrics(t *testing.T) {
	w := newWorldWith(t, func(o *engine.Options) { o.AutoTitle = true })
	w.model.info = priced()
	w.model.title = costs(say("A fine title"), 30, 3)
	w.model.steps = []step{costs(call("sh", `{"command":"true"}`), 100, 10), costs(say("done"), 200, 20)}
	id := w.begin("please do a long thing with many words that make no good title at all")
	w.wait(id, conversation.Finished)
	w.eventually("the title", func() bool { return w.begunTitle(id) == "A fine title" })
	w.eventually("its cost", func() bool {
		return must(w.engine.View(t.Context(), owner, id)).Summary.Metrics.ByUse["title"].AccumulatedCost > 0
	})
	stats := w.checkMoney(id)
	if a, b := stats["agent"], stats["title"]; a.Cost() != 330*conversation.USD/1e6 || b.Cost() != 33*conversation.USD/1e6 {
		t.Errorf("%+v", stats)
	}
	if !strings.Contains(w.text(id), fmt.Sprintf(`"title":{"model_name":%q`, "test/model")) {
		t.Error("the stats events do not show the title's use")
	}
}
