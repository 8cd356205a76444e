package spend_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/internal/conversation"
	"parley/internal/llm"
	"parley/internal/spend"
	"parley/internal/store"
)

// provider is a model server that does anything a provider may do, and charges
// anything up to the worst case. It knows what it really charged.
type provider struct {
	mu      sync.Mutex
	random  *rand.Rand
	charged conversation.Money // for all calls
	billed  conversation.Money // of that, what callers were told
	calls   int
}

func (p *provider) draw(n int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.random.Int64N(n)
}

func (p *provider) charge(m conversation.Money, told bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.charged += m
	if told {
		p.billed += m
	}
}

// usage draws what a call used, the worst case often among it.
func (p *provider) usage(prompt, output int64) conversation.Usage {
	u := conversation.Usage{Model: "test/m", PromptTokens: 1 + prompt/4 + p.draw(prompt-prompt/4), CompletionTokens: p.draw(output + 1)}
	if p.draw(3) == 0 {
		u.PromptTokens, u.CompletionTokens = prompt, output
	}
	if p.draw(2) == 0 {
		u.CacheWriteTokens = u.PromptTokens
	}
	return u
}

func (p *provider) do(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	p.mu.Lock()
	p.calls++
	p.mu.Unlock()
	prompt := int64(len(req.Messages[0].Text())) // every byte is a token
	u := p.usage(prompt, req.MaxOutput)
	cost := conversation.MoneyOf(price().Cost(u))
	switch p.draw(8) {
	case 0:
		return nil, &llm.Error{Class: llm.ClassOverloaded, Status: 529}
	case 1:
		return nil, &llm.Error{Class: llm.ClassNetwork, NotSent: true}
	case 2: // the answer is lost, the bill is not
		p.charge(cost, false)
		return nil, &llm.Error{Class: llm.ClassTimeout}
	case 3:
		p.charge(cost, false)
		req.OnDelta(llm.Delta{Text: strings.Repeat("t", int(p.draw(4*req.MaxOutput+1)))})
		return nil, &llm.Error{Class: llm.ClassNetwork, Streamed: true}
	case 4: // somebody stops it
		p.charge(cost, false)
		req.OnDelta(llm.Delta{Reasoning: "let me"})
		ctx.Value(stopKey{}).(context.CancelCauseFunc)(errStopped)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	p.charge(cost, true)
	r := answer(price(), u.PromptTokens, u.CompletionTokens)
	r.Usage = u
	reported := cost.USD()
	if r.Cost, r.Reported = &reported, true; p.draw(2) == 0 {
		r.Cost, r.Reported = nil, false // by the price list
	}
	return r, nil
}

type stopKey struct{}

var errStopped = errors.New("stopped")

// spender is a sub-conversation that calls until the budget is used up.
type spender struct {
	w     *world
	p     *provider
	scope spend.Scope
	head  int64
}

// run returns the ceiling that ended it.
func (s *spender) run(ctx context.Context) (*spend.Exceeded, error) {
	for range 500 {
		if err := s.step(ctx); err != nil {
			var over *spend.Exceeded
			if errors.As(err, &over) {
				return over, nil
			}
			return nil, err
		}
	}
	return nil, errors.New("there is no end to it")
}

// step makes one call and stores what it cost in one of the ways of the engine.
func (s *spender) step(ctx context.Context) error {
	tab := s.w.keeper.Open(s.scope)
	defer tab.Abandon(ctx)
	callCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m := newModel(s.p.do)
	req := ask(strings.Repeat("x", int(1+s.p.draw(5000))))
	req.OnDelta = func(llm.Delta) {}
	_, err := tab.Guard(m).Do(context.WithValue(callCtx, stopKey{}, cancel), req)
	var failed *llm.Error
	if err != nil && !errors.As(err, &failed) && !errors.Is(err, errStopped) {
		return err
	}
	s.scope.Anchor = tab.Anchor()
	switch s.p.draw(4) {
	case 0: // the engine never gets to it
		return nil
	case 1: // it does not hear that it was stored
		return s.append(ctx, tab.Take())
	case 2: // the append is refused
		s.head++
		err := s.append(ctx, tab.Take())
		s.head--
		if err == nil {
			return errors.New("an append at the wrong head")
		}
		return nil
	}
	if err := s.append(ctx, tab.Take()); err != nil {
		return err
	}
	tab.Stored()
	return nil
}

func (s *spender) append(ctx context.Context, settle []store.Settlement) error {
	return s.w.store.Events().Append(ctx, store.Append{Conversation: s.scope.Conversation, ExpectHead: s.head, Settle: settle, Now: time.Now()})
}

// TestTheLastCent: 16 sub-conversations spend one budget at the same time, with
// everything that can go wrong. The ceiling is never passed, whatever was really
// charged is covered, and in the end nothing is held.
func TestTheLastCent(t *testing.T) {
	for seed := range env("SPEND_TEST_SEEDS", 8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { spendLastCent(t, uint64(seed)) })
	}
}

func spendLastCent(t *testing.T, seed uint64) {
	w := newWorld(t)
	p := &provider{random: rand.New(rand.NewPCG(seed, 1))}
	limit := conversation.Money(2_000_000_000 + p.draw(6_000_000_000))
	scopes := sixteen(w, p, limit)
	watched := make(chan struct{})
	ctx, cancel := context.WithCancel(soon(t))
	go func() { defer close(watched); watch(ctx, w, limit) }()
	var wg sync.WaitGroup
	for _, s := range scopes {
		wg.Go(func() {
			over, err := (&spender{w: w, p: p, scope: s}).run(ctx)
			if err != nil {
				t.Errorf("%s: %v", s.Conversation, err)
			} else if b := over.Budget; b.Spent+b.Uncertain+b.Want <= b.Limit {
				t.Errorf("%s stopped too early: %v", s.Conversation, over)
			}
		})
	}
	wg.Wait()
	cancel()
	<-watched
	settleAccounts(w, p, limit)
}

// sixteen makes sub-conversations, half of them below others, and says under
// which ceiling they share: their tree's or their owner's day.
func sixteen(w *world, p *provider, limit conversation.Money) []spend.Scope {
	byDay := p.draw(3) == 0
	var scopes []spend.Scope
	for i := range 16 {
		s := spend.Scope{Conversation: conversation.ID(fmt.Sprint("sub", i)), Parent: "root", Owner: "u", Use: store.UseAgent}
		if i >= 8 {
			s.Parent = conversation.ID(fmt.Sprint("sub", i-8))
		}
		w.create(s.Conversation, s.Parent)
		if s.Ceilings.Tree = &limit; byDay {
			s.Ceilings = store.Ceilings{Day: &limit}
		}
		if p.draw(4) == 0 {
			own := limit / 5
			s.Ceilings.Own = &own
		}
		scopes = append(scopes, s)
	}
	return scopes
}

// watch looks at the sums while they change.
func watch(ctx context.Context, w *world, limit conversation.Money) {
	for ctx.Err() == nil {
		if s := w.sums("root"); s.Spent+s.Uncertain+s.Held > int64(limit) {
			w.Errorf("over the ceiling of %d: %+v", limit, s)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// settleAccounts compares the ledger with what the provider knows.
func settleAccounts(w *world, p *provider, limit conversation.Money) {
	s := w.sums("root")
	if s.Held != 0 || s.Spent+s.Uncertain > int64(limit) {
		w.Errorf("in the end %+v, the ceiling was %d", s, limit)
	}
	if int64(p.charged) > s.Spent+s.Uncertain || int64(p.billed) > s.Spent {
		w.Errorf("the provider charged %d and billed %d, the ledger has %+v", p.charged, p.billed, s)
	}
	if p.calls < 30 || s.Spent == 0 {
		w.Errorf("%d calls, %+v", p.calls, s)
	}
	_, tree, err := w.store.Ledger().Conversation(w.Context(), "root")
	if err != nil || int64(tree.Cost) != s.Spent {
		w.Errorf("tree %+v, %v", tree, err)
	}
	rows, err := w.store.Ledger().Days(w.Context(), "u", "", "9999")
	if err != nil {
		w.Fatal(err)
	}
	var days store.Spending
	for _, r := range rows {
		days.Calls, days.Cost, days.Uncertain = days.Calls+r.Calls, days.Cost+r.Cost, days.Uncertain+r.Uncertain
	}
	if days.Calls != tree.Calls || days.Cost != tree.Cost || days.Uncertain != tree.Uncertain {
		w.Errorf("days %+v, tree %+v", days, tree)
	}
}
