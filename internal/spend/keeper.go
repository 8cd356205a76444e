package spend

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"parley/internal/conversation"
	"parley/internal/store"
)

// Options wire a keeper.
type Options struct {
	Ledger store.Ledger
	Holder string           // names this server in reservations; stable for a data directory
	Logger *slog.Logger     // nil = none
	Now    func() time.Time // nil = time.Now
}

// Keeper reserves and settles for all conversations of a server. It owns no
// goroutine and needs no end.
type Keeper struct {
	ledger store.Ledger
	holder string
	log    *slog.Logger
	now    func() time.Time

	mu    sync.Mutex
	freed chan struct{}      // closed when something was settled, and replaced
	owed  []store.Settlement // that the ledger has refused so far
}

// New returns a keeper.
func New(o Options) *Keeper {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Keeper{ledger: o.Ledger, holder: o.Holder, log: o.Logger, now: o.Now, freed: make(chan struct{})}
}

// Scope says for whom, for what and under which ceilings models are called.
type Scope struct {
	Conversation conversation.ID // "" = none (a test of a profile): only the day's ceilings apply
	Parent       conversation.ID // of the conversation; "" = it is a root
	Owner        string
	Use          string // store.UseAgent, ...
	Ceilings     store.Ceilings
	// Anchor is Tab.Anchor of the last call of the same conversation and use; nil
	// is always right, and makes the estimate of the prompt more cautious.
	Anchor *Anchor
	// OnWait, if not nil, is told once per call that it waits for other calls under
	// the same ceiling to end. It is called on the goroutine of Do.
	OnWait func(context.Context, Wait)
}

// Wait says what a call waits for.
type Wait struct {
	Model  string
	Budget *store.BudgetError // the ceiling, and what other calls hold of it
}

// Open returns the tab of one step.
func (k *Keeper) Open(s Scope) *Tab {
	return &Tab{keeper: k, scope: s, anchor: s.Anchor}
}

// Recover settles what dead holders had reserved; their calls may have been
// made. It returns how many there were. Call it before the first Open with this
// server's own name among them.
func (k *Keeper) Recover(ctx context.Context, deadHolders []string) (int, error) {
	n, err := k.ledger.Orphans(ctx, deadHolders)
	if n > 0 {
		k.wake()
	}
	return n, err
}

// settle stores outcomes, also after ctx has ended.
func (k *Keeper) settle(ctx context.Context, s ...store.Settlement) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if err := k.ledger.Settle(ctx, s...); err != nil {
		return err
	}
	k.wake()
	return nil
}

// settleLater stores outcomes now, or with a later reservation.
func (k *Keeper) settleLater(ctx context.Context, s []store.Settlement) {
	if len(s) == 0 {
		return
	}
	if err := k.settle(ctx, s...); err != nil {
		k.log.Warn("model calls not settled yet", "calls", len(s), "error", err)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.owed = append(k.owed, s...)
	}
}

// payDebts stores what the ledger has refused before. There are never more than
// calls that were under way when it began to refuse: it refuses reservations too.
func (k *Keeper) payDebts(ctx context.Context) {
	k.mu.Lock()
	owed := k.owed
	k.owed = nil
	k.mu.Unlock()
	k.settleLater(ctx, owed)
}

// signal returns a channel that is closed when room has been freed after now.
func (k *Keeper) signal() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.freed
}

func (k *Keeper) wake() {
	k.mu.Lock()
	defer k.mu.Unlock()
	close(k.freed)
	k.freed = make(chan struct{})
}
