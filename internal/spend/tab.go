package spend

import (
	"context"
	"sync"

	"parley/internal/llm"
	"parley/internal/store"
)

// Tab collects what the model calls of one step cost. It is safe for use by
// several goroutines.
type Tab struct {
	keeper *Keeper
	scope  Scope

	mu     sync.Mutex
	open   []store.Settlement // that nobody has taken
	taken  []store.Settlement // that Take gave out and Stored has not confirmed
	anchor *Anchor
	left   bool // abandoned: what comes late goes straight to the ledger
}

// Guard puts the tab around one model: inside the retries and around every
// fallback, so that it sees each attempt with the model that makes it. Its Do
// fails with *Exceeded where a ceiling is reached and with the ledger's fault
// where the ledger cannot answer; the model is not called then. Everything else
// is the model's own answer or error.
func (t *Tab) Guard(m llm.Model) llm.Model { return &guard{tab: t, next: m} }

// Take returns the settlements to store together with the events of the step
// (store.Append.Settle). They stay the tab's until Stored confirms them; taking
// again returns the new ones only.
func (t *Tab) Take() []store.Settlement {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.open
	t.taken = append(t.taken, out...)
	t.open = nil
	return out
}

// Stored says that what Take returned so far is durable. It wakes calls that
// wait for room under a ceiling.
func (t *Tab) Stored() {
	t.mu.Lock()
	n := len(t.taken)
	t.taken = nil
	t.mu.Unlock()
	if n > 0 {
		t.keeper.wake()
	}
}

// Abandon settles directly what is not known to be stored: what was never taken
// and, as settling twice does no harm, what was taken without a Stored. A ledger
// that cannot store it now is asked again before the next reservation of any
// conversation. It works although ctx has ended, for at most a few seconds, and
// costs nothing if there is nothing to settle.
func (t *Tab) Abandon(ctx context.Context) {
	t.mu.Lock()
	rest := append(t.taken, t.open...)
	t.taken, t.open, t.left = nil, nil, true
	t.mu.Unlock()
	t.keeper.settleLater(ctx, rest)
}

// Anchor returns the bound that the last successful call gives for the next
// one; what Open was given if there was none. It may be nil.
func (t *Tab) Anchor() *Anchor {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.anchor
}

// keep puts an outcome on the tab.
func (t *Tab) keep(ctx context.Context, s store.Settlement, a *Anchor) {
	t.mu.Lock()
	if a != nil {
		t.anchor = a
	}
	left := t.left
	if !left {
		t.open = append(t.open, s)
	}
	t.mu.Unlock()
	if left {
		t.keeper.settleLater(ctx, []store.Settlement{s})
	}
}
