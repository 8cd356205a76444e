package spend_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/spend"
	"parley/internal/store"
)

func TestAnswerIsPaid(t *testing.T) {
	w := newWorld(t)
	m := newModel(replies(1000, 100))
	tab := w.keeper.Open(scope(1))
	req := ask("hello")
	if _, err := tab.Guard(m).Do(w.Context(), req); err != nil {
		t.Fatal(err)
	}
	cost := conversation.MoneyOf(0.001 + 0.001)
	bound := spend.Estimate(m.info, req, nil).Bound
	w.wantSums("root", 0, 0, conversation.MoneyCeil(price().Worst(bound, 8000)))
	if n, bound := m.calls(); n != 1 || bound != 8000 || req.MaxOutput != 0 {
		t.Errorf("%d calls with bound %d; the request was changed to %d", n, bound, req.MaxOutput)
	}
	taken := tab.Take()
	if len(taken) != 1 || taken[0].Cost != cost || taken[0].Uncertain != 0 || taken[0].Usage.PromptTokens != 1000 {
		t.Fatalf("taken %+v", taken)
	}
	if again := tab.Take(); len(again) != 0 {
		t.Errorf("taken again: %+v", again)
	}
	err := w.store.Events().Append(w.Context(), store.Append{Conversation: "root", Settle: taken, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	tab.Stored()
	tab.Abandon(w.Context())
	w.wantSums("root", cost, 0, 0)
	own, _, err := w.store.Ledger().Conversation(w.Context(), "root")
	if err != nil || own[store.UseAgent].Calls != 1 || own[store.UseAgent].CompletionTokens != 100 {
		t.Errorf("spending %+v, %v", own, err)
	}
}

func TestReportedCostWins(t *testing.T) {
	for name, tt := range map[string]struct {
		price *llm.Price
		cost  float64
		want  conversation.Money
	}{
		"lower":         {price(), 0.0001, 100_000},
		"above worst":   {price(), 3.5, 3_500_000_000},
		"free":          {price(), 0, 0},
		"without price": {nil, 0.25, 250_000_000},
		"nonsense":      {price(), -7, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			m := newModel(func(context.Context, *llm.Request) (*llm.Response, error) {
				r := answer(tt.price, 1000, 100)
				r.Cost, r.Reported = &tt.cost, true
				return r, nil
			})
			m.info.Price = tt.price
			tab := w.keeper.Open(scope(1))
			if _, err := tab.Guard(m).Do(w.Context(), ask("x")); err != nil {
				t.Fatal(err)
			}
			w.settle(tab)
			w.wantSums("root", tt.want, 0, 0)
		})
	}
}

// TestIncredibleUsage: token counts that cannot be true are no bill. What is
// likely counts as cost, the rest of the worst case stays uncertain.
func TestIncredibleUsage(t *testing.T) {
	long := strings.Repeat("a long message of a user ", 400)
	for name, tt := range map[string]struct {
		prompt, completion int64
		said               string
		believed           bool
	}{
		"a usual one":               {2500, 5, "ok", true},
		"every byte a token":        {10_000, 5, "ok", true},
		"no prompt":                 {0, 5, "ok", false},
		"hardly any prompt":         {5, 5, "ok", false},
		"no completion":             {2500, 0, strings.Repeat("many words ", 50), false},
		"an absurd prompt":          {1e12, 5, "ok", false},
		"an absurd completion":      {2500, 1e12, "ok", false},
		"more than was asked for":   {2500, 2_000_000, "ok", false},
		"a long answer, few tokens": {2500, 20, strings.Repeat("x", 1200), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			budget := 5 * conversation.USD
			w.create("c", "")
			tab := w.keeper.Open(spend.Scope{Conversation: "c", Owner: "u", Use: store.UseAgent, Ceilings: store.Ceilings{Tree: &budget}})
			r := answer(price(), tt.prompt, tt.completion)
			r.Message.Parts = []content.Part{content.Text(tt.said)}
			m := newModel(func(context.Context, *llm.Request) (*llm.Response, error) { return r, nil })
			if _, err := tab.Guard(m).Do(t.Context(), ask(long)); err != nil {
				t.Fatal(err)
			}
			got := tab.Take()
			if len(got) != 1 {
				t.Fatalf("%d settlements", len(got))
			}
			s := got[0]
			if believed := s.Uncertain == 0; believed != tt.believed {
				t.Fatalf("settled with %s and %s uncertain", s.Cost, s.Uncertain)
			}
			if tt.believed && s.Cost != conversation.MoneyOf(*r.Cost) {
				t.Errorf("cost %s, the price list says %v", s.Cost, *r.Cost)
			}
			if s.Cost <= 0 || s.Cost+s.Uncertain > budget {
				t.Errorf("settled with %s and %s uncertain under %s", s.Cost, s.Uncertain, budget)
			}
		})
	}
}

func TestSilentEndpoint(t *testing.T) {
	w := newWorld(t)
	m := newModel(func(context.Context, *llm.Request) (*llm.Response, error) {
		r := answer(nil, 0, 0)
		r.Message.Reasoning = strings.Repeat("hm, ", 1000)
		return r, nil
	})
	tab := w.keeper.Open(scope(1))
	req := ask(strings.Repeat("x", 4000))
	if _, err := tab.Guard(m).Do(w.Context(), req); err != nil {
		t.Fatal(err)
	}
	w.settle(tab)
	p := spend.Estimate(m.info, req, nil)
	cost := conversation.MoneyOf(price().Cost(conversation.Usage{PromptTokens: p.Likely, CompletionTokens: 1000}))
	w.wantSums("root", cost, conversation.MoneyCeil(price().Worst(p.Bound, 8000))-cost, 0)
	if tab.Anchor() != nil {
		t.Error("no count is an anchor")
	}
}

// TestFailures: what a failed call may have cost is settled before Do returns.
func TestFailures(t *testing.T) {
	stopped := errors.New("stopped")
	worst := func(w *world, m *model, req *llm.Request) conversation.Money {
		return conversation.MoneyCeil(price().Worst(spend.Estimate(m.info, req, nil).Bound, 8000))
	}
	for name, tt := range map[string]struct {
		err   error
		shown int
		free  bool
		begun bool
		panic bool
	}{
		"refused":             {err: &llm.Error{Class: llm.ClassAuth, Status: 401}, free: true},
		"overloaded":          {err: &llm.Error{Class: llm.ClassOverloaded, Status: 529}, free: true},
		"not sent":            {err: &llm.Error{Class: llm.ClassNetwork, NotSent: true}, free: true},
		"timeout":             {err: &llm.Error{Class: llm.ClassTimeout}},
		"empty":               {err: &llm.Error{Class: llm.ClassNoResponse}},
		"broken stream":       {err: &llm.Error{Class: llm.ClassNetwork, Streamed: true}, shown: 400, begun: true},
		"error in the stream": {err: &llm.Error{Class: llm.ClassOverloaded, Status: 529, Streamed: true}, shown: 4, begun: true},
		"half a tool call":    {err: &llm.Error{Class: llm.ClassNetwork, Streamed: true}, begun: true},
		"cancelled":           {err: stopped},
		"cancelled in stream": {err: stopped, shown: 40, begun: true},
		"longer than allowed": {err: &llm.Error{Class: llm.ClassNetwork, Streamed: true}, shown: 1 << 20, begun: true},
		"nothing at all":      {},
		"a defect":            {panic: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			m := newModel(func(_ context.Context, req *llm.Request) (*llm.Response, error) {
				if tt.shown > 0 {
					req.OnDelta(llm.Delta{Text: strings.Repeat("t", tt.shown/2), Reasoning: strings.Repeat("r", tt.shown/2)})
				}
				if tt.panic {
					panic("a defect of the adapter")
				}
				return nil, tt.err
			})
			req := ask(strings.Repeat("x", 40_000))
			seen := 0
			req.OnDelta = func(d llm.Delta) { seen += len(d.Text) + len(d.Reasoning) }
			tab := w.keeper.Open(scope(1))
			err := func() (err error) {
				defer func() {
					if r := recover(); r != nil && !tt.panic {
						t.Error(r)
					}
				}()
				_, err = tab.Guard(m).Do(w.Context(), req)
				return err
			}()
			if !errors.Is(err, tt.err) || seen != tt.shown {
				t.Errorf("error %v, %d bytes seen", err, seen)
			}
			var cost, uncertain conversation.Money
			if !tt.free {
				if tt.begun {
					p := spend.Estimate(m.info, req, nil)
					cost = conversation.MoneyOf(price().Cost(conversation.Usage{PromptTokens: p.Likely, CompletionTokens: min(int64(tt.shown/4), 8000)}))
				}
				uncertain = worst(w, m, req) - cost
			}
			w.wantSums("root", cost, uncertain, 0)
			if len(tab.Take()) != 0 {
				t.Error("a failure is left on the tab")
			}
			own, _, err := w.store.Ledger().Conversation(w.Context(), "root")
			if calls := own[store.UseAgent].Calls; err != nil || calls != map[bool]int64{true: 0, false: 1}[tt.free] {
				t.Errorf("%d calls are counted, %v", calls, err)
			}
		})
	}
}

// TestEndedContext: a call whose context ends is settled all the same.
func TestEndedContext(t *testing.T) {
	w := newWorld(t)
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(context.Background())
	m := newModel(func(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
		cancel(stopped)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	tab := w.keeper.Open(scope(1))
	if _, err := tab.Guard(m).Do(ctx, ask("x")); !errors.Is(err, stopped) {
		t.Fatal(err)
	}
	if s := w.sums("root"); s.Held != 0 || s.Uncertain == 0 {
		t.Errorf("sums %+v", s)
	}
	m.do = mustNotCall(t)
	before := w.sums("root")
	if _, err := tab.Guard(m).Do(ctx, ask("x")); err == nil {
		t.Error("a call without a context")
	}
	if after := w.sums("root"); after != before {
		t.Errorf("sums %+v, then %+v", before, after)
	}
}

func TestCeilingShortensTheAnswer(t *testing.T) {
	w := newWorld(t)
	m := newModel(replies(100, 10))
	req := ask("x")
	bound := spend.Estimate(m.info, req, nil).Bound
	room := price().Worst(bound, 700)
	tab := w.keeper.Open(scope(room))
	if _, err := tab.Guard(m).Do(w.Context(), req); err != nil {
		t.Fatal(err)
	}
	n, output := m.calls()
	held := conversation.Money(w.sums("root").Held)
	if n != 1 || output < 698 || output > 700 || held > conversation.MoneyOf(room) || held < conversation.MoneyOf(room)-20_000 {
		t.Errorf("%d calls, %d tokens of output, %s of %v held", n, output, held, room)
	}
	// The shortest answer that exactly fits is bought, too.
	w = newWorld(t)
	exact := conversation.MoneyCeil(price().Worst(bound, 512))
	s := scope(0)
	s.Ceilings.Tree = &exact
	if _, err := w.keeper.Open(s).Guard(m).Do(w.Context(), req); err != nil {
		t.Error(err)
	}
	if _, output := m.calls(); output != 512 {
		t.Errorf("%d tokens of output", output)
	}
	w.wantSums("root", 0, 0, exact)
}

func TestCeilingIsReached(t *testing.T) {
	w := newWorld(t)
	m := newModel(mustNotCall(t))
	req := ask("x")
	bound := spend.Estimate(m.info, req, nil).Bound
	least := conversation.MoneyCeil(price().Worst(bound, 512))
	limit := least - 1
	s := scope(0)
	s.Ceilings.Tree = &limit
	_, err := w.keeper.Open(s).Guard(m).Do(w.Context(), req)
	var over *spend.Exceeded
	var full *store.BudgetError
	if !errors.As(err, &over) || !errors.As(err, &full) || over.Budget != full || fault.CodeOf(err) != spend.CodeExceeded {
		t.Fatalf("error %v", err)
	}
	if full.Want != int64(least) || full.Limit != int64(limit) || over.Model != "test/m" {
		t.Errorf("figures %+v", full)
	}
	w.wantSums("root", 0, 0, 0)
	// A request that wants less fits.
	req.MaxOutput = 50
	m.do = replies(10, 5)
	if _, err := w.keeper.Open(s).Guard(m).Do(w.Context(), req); err != nil {
		t.Error(err)
	}
	if _, output := m.calls(); output != 50 {
		t.Errorf("%d tokens of output", output)
	}
}

func TestOutputBounds(t *testing.T) {
	for name, tt := range map[string]struct {
		model, request int64
		window         bool
		room           int64 // what the window has beside the prompt's bound
		limited        bool
		told           int64 // the bound that the model is given
		held           int64 // the output that is reserved
	}{
		"the model's":                  {model: 8000, limited: true, told: 8000, held: 8000},
		"the request's":                {model: 8000, request: 100, limited: true, told: 100, held: 100},
		"not more than the model's":    {model: 8000, request: 9000, limited: true, told: 8000, held: 8000},
		"the request's alone":          {request: 100, limited: true, told: 100, held: 100},
		"none":                         {limited: true, told: 32768, held: 32768},
		"none, no ceiling":             {held: 32768},
		"no ceiling":                   {model: 8000, held: 8000},
		"in the window":                {model: 8000, window: true, room: 7000, limited: true, told: 7000, held: 7000},
		"in the window, no ceiling":    {model: 8000, window: true, room: 7000, told: 7000, held: 7000},
		"a wide window":                {model: 8000, window: true, room: 8000, held: 8000},
		"a small window":               {model: 8000, window: true, room: -500, limited: true, told: 4096, held: 4096},
		"a window, and nothing is set": {window: true, room: 7000, held: 7000},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			m := newModel(replies(10, 5))
			req := ask("x")
			req.MaxOutput = tt.request
			bound := spend.Estimate(m.info, req, nil).Bound
			m.info.MaxOutput = tt.model
			if tt.window {
				m.info.ContextWindow = bound + tt.room
			}
			s := spend.Scope{Conversation: "root", Owner: "u"}
			if tt.limited {
				s = scope(100)
			}
			if _, err := w.keeper.Open(s).Guard(m).Do(w.Context(), req); err != nil {
				t.Fatal(err)
			}
			if _, told := m.calls(); told != tt.told {
				t.Errorf("the model is told %d, want %d", told, tt.told)
			}
			w.wantSums("root", 0, 0, conversation.MoneyCeil(price().Worst(bound, tt.held)))
		})
	}
}

// TestSubConversationIsAlwaysBounded: the ledger may know ceilings above it.
func TestSubConversationIsAlwaysBounded(t *testing.T) {
	w := newWorld(t)
	w.create("sub", "root")
	m := newModel(replies(10, 5))
	m.info.MaxOutput = 0
	s := spend.Scope{Conversation: "sub", Parent: "root", Owner: "u"}
	if _, err := w.keeper.Open(s).Guard(m).Do(w.Context(), ask("x")); err != nil {
		t.Fatal(err)
	}
	if _, told := m.calls(); told != 32768 {
		t.Errorf("the model is told %d", told)
	}
}

func TestTokensWithoutPrice(t *testing.T) {
	w := newWorld(t)
	m := newModel(func(context.Context, *llm.Request) (*llm.Response, error) { return answer(nil, 60_000, 1000), nil })
	m.info.Price = nil
	tab := w.keeper.Open(scope(1)) // 100,000 tokens
	if _, err := tab.Guard(m).Do(w.Context(), ask(strings.Repeat("x", 60_000))); err != nil {
		t.Fatal(err)
	}
	w.settle(tab)
	tab = w.keeper.Open(scope(1))
	if _, err := tab.Guard(m).Do(w.Context(), ask(strings.Repeat("x", 34_000))); err != nil { // shortened
		t.Fatal(err)
	}
	if _, output := m.calls(); output >= 8000 || output < 512 {
		t.Errorf("%d tokens of output", output)
	}
	w.settle(tab)
	m.do = mustNotCall(t)
	_, err := w.keeper.Open(scope(1)).Guard(m).Do(w.Context(), ask("x"))
	var over *spend.Exceeded
	if !errors.As(err, &over) || !over.Budget.Tokens || over.Budget.Spent != 122_000 || !strings.Contains(fault.PublicText(err), "122000 tokens of 100000 tokens") {
		t.Fatalf("error %v: %s", err, fault.PublicText(err))
	}
}

// TestFailedWithoutPrice: all tokens of a broken call count.
func TestFailedWithoutPrice(t *testing.T) {
	w := newWorld(t)
	m := newModel(fails(&llm.Error{Class: llm.ClassTimeout}))
	m.info.Price = nil
	for range 100 {
		_, err := w.keeper.Open(scope(1)).Guard(m).Do(w.Context(), ask("x"))
		var over *spend.Exceeded
		if errors.As(err, &over) {
			if n, _ := m.calls(); n < 10 || n > 30 || over.Budget.Spent > 100_000 {
				t.Errorf("%d calls, %+v", n, over.Budget)
			}
			return
		}
	}
	t.Error("there is no end to it")
}

// TestNoPriceNoTokens: a ceiling that cannot be kept is no reason to spend.
func TestNoPriceNoTokens(t *testing.T) {
	w := newWorld(t)
	m := newModel(mustNotCall(t))
	m.info.Price = nil
	usd := conversation.USD
	tokens := int64(1 << 40)
	for name, c := range map[string]store.Ceilings{
		"tree":        {Tree: &usd},
		"own":         {Own: &usd},
		"day":         {Day: &usd},
		"day, tree":   {Day: &usd, Tree: &usd, TreeTokens: &tokens},
		"wrong limit": {Tree: &usd, DayTokens: &tokens},
	} {
		_, err := w.keeper.Open(spend.Scope{Conversation: "root", Owner: "u", Ceilings: c}).Guard(m).Do(w.Context(), ask("x"))
		var over *spend.Exceeded
		if !errors.As(err, &over) || over.Budget != nil || fault.CodeOf(err) != spend.CodeNoPrice || !strings.Contains(fault.PublicText(err), "test/m") {
			t.Errorf("%s: %v", name, err)
		}
	}
	m.do = func(context.Context, *llm.Request) (*llm.Response, error) { return answer(nil, 10, 10), nil }
	for name, s := range map[string]spend.Scope{
		"none":           {Conversation: "root", Owner: "u"},
		"both":           {Conversation: "root", Owner: "u", Ceilings: store.Ceilings{Day: &usd, Tree: &usd, TreeTokens: &tokens, DayTokens: &tokens}},
		"probe":          {Owner: "u", Ceilings: store.Ceilings{Tree: &usd}},
		"of a day alone": {Conversation: "root", Owner: "u", Ceilings: store.Ceilings{Day: &usd, DayTokens: &tokens}},
	} {
		if _, err := w.keeper.Open(s).Guard(m).Do(w.Context(), ask("x")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOddPrices: what cannot be a price is none, and not a gift.
func TestOddPrices(t *testing.T) {
	w := newWorld(t)
	usd := conversation.USD
	for name, p := range map[string]llm.Price{
		"negative":         {Input: -1, Output: 1},
		"no number":        {Input: 1, Output: math.NaN()},
		"infinite":         {Input: 1, CacheWrite: math.Inf(1)},
		"a negative step":  {Input: 1, Output: 1, Long: &llm.Price{CacheRead: -1}},
		"an unlikely step": {Input: 1, Output: 1, Long: &llm.Price{Input: 1, Long: &llm.Price{Output: -1}}},
	} {
		m := newModel(mustNotCall(t))
		m.info.Price = &p
		_, err := w.keeper.Open(spend.Scope{Conversation: "root", Owner: "u", Ceilings: store.Ceilings{Tree: &usd}}).Guard(m).Do(w.Context(), ask("x"))
		if fault.CodeOf(err) != spend.CodeNoPrice {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTexts(t *testing.T) {
	for name, tt := range map[string]struct {
		scope store.BudgetScope
		want  []string
	}{
		"tree": {store.ScopeConversation, []string{"The conversation has reached its cost ceiling", "1.2500 USD of 2.0000 USD", "up to 0.5000 USD more", "max_budget_per_task", "send a message"}},
		"day":  {store.ScopeDay, []string{"today (UTC)", "1.2500 USD of 2.0000 USD", "tomorrow"}},
		"sub":  {store.ScopeSub, []string{"The sub-conversation"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			two := 2 * conversation.USD
			s := spend.Scope{Conversation: "root", Owner: "u", Use: store.UseAgent}
			switch tt.scope {
			case store.ScopeConversation:
				s.Ceilings.Tree = &two
			case store.ScopeDay:
				s.Ceilings.Day = &two
			default:
				s.Ceilings.Own = &two
			}
			r := store.Reservation{ID: "r", Conversation: "root", Owner: "u", Now: time.Now(), Amount: two}
			if err := w.store.Ledger().Reserve(w.Context(), r); err != nil {
				t.Fatal(err)
			}
			if err := w.store.Ledger().Settle(w.Context(), store.Settlement{Reservation: "r", Cost: two * 5 / 8, Uncertain: two / 4}); err != nil {
				t.Fatal(err)
			}
			_, err := w.keeper.Open(s).Guard(newModel(mustNotCall(t))).Do(w.Context(), ask(strings.Repeat("x", 300_000)))
			var over *spend.Exceeded
			if !errors.As(err, &over) || over.Budget.Scope != tt.scope || !fault.Is(err, fault.Conflict) {
				t.Fatalf("error %v", err)
			}
			text := fault.PublicText(err)
			for _, want := range tt.want {
				if !strings.Contains(text, want) {
					t.Errorf("%q is not in %q", want, text)
				}
			}
		})
	}
}

// TestStoreSaysNo: a ledger that cannot answer means that nothing is spent.
func TestStoreSaysNo(t *testing.T) {
	w := newWorld(t)
	tab := w.keeper.Open(spend.Scope{Conversation: "root", Owner: "u"})
	other := w.keeper.Open(spend.Scope{Conversation: "nobody", Owner: "u"})
	m := newModel(mustNotCall(t))
	if _, err := other.Guard(m).Do(w.Context(), ask("x")); !fault.Is(err, fault.NotFound) {
		t.Errorf("an unknown conversation: %v", err)
	}
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := tab.Guard(m).Do(w.Context(), ask("x")); !fault.Is(err, fault.Unavailable) {
		t.Errorf("error %v", err)
	}
}
