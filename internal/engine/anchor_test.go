package engine_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/spend"
	"parley/internal/store"
)

// reserving notes what was set aside.
type reserving struct {
	store.Ledger
	mu   sync.Mutex
	held []conversation.Money
}

func (r *reserving) Reserve(ctx context.Context, s store.Reservation) error {
	r.mu.Lock()
	r.held = append(r.held, s.Amount)
	r.mu.Unlock()
	return r.Ledger.Reserve(ctx, s)
}

// TestCountsOfAnotherEndpointAreNotTrusted: how many tokens one endpoint counted
// says nothing about another one's, also where the model has the same name.
func TestCountsOfAnotherEndpointAreNotTrusted(t *testing.T) {
	var ledger *reserving
	w := newWorldWith(t, func(o *engine.Options) {
		ledger = &reserving{Ledger: o.Store.Ledger()}
		o.Spend = spend.New(spend.Options{Ledger: ledger, Holder: "me"})
	}, costs(say("one"), 10_000, 5), costs(say("two"), 10_000, 5), costs(say("three"), 10_000, 5))
	w.model.info = priced()
	w.settings(func(s *account.Settings) { s.MaxBudgetPerTask = ptr(1000.0) })
	id := w.begin(strings.Repeat("word ", 20_000))
	w.wait(id, conversation.Finished)
	w.send(id, "go on")
	w.wait(id, conversation.Finished)
	if err := w.engine.SwitchLLM(t.Context(), owner, id, account.LLM{Model: "test/model", BaseURL: "http://elsewhere", APIKey: account.NewSecret(key)}); err != nil {
		t.Fatal(err)
	}
	w.send(id, "go on")
	w.wait(id, conversation.Finished)
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	if n := len(ledger.held); n != 3 || ledger.held[1] >= ledger.held[0] || ledger.held[2] < ledger.held[0] {
		t.Errorf("%v are set aside: the second call knows the size of the prompt, the third must not", ledger.held)
	}
}
