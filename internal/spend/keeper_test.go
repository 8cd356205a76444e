package spend_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/spend"
	"parley/internal/store"
)

// blocked is a call that has reserved nearly the whole ceiling and waits.
type blocked struct {
	tab     *spend.Tab
	outcome chan func() (*llm.Response, error)
	done    chan struct{}
	err     error // once done is closed
}

// end lets the call end with an outcome.
func (b *blocked) end(outcome func() (*llm.Response, error)) {
	b.outcome <- outcome
	<-b.done
}

// block starts a call that holds what a ceiling has.
func block(w *world, s spend.Scope) *blocked {
	w.Helper()
	b := &blocked{tab: w.keeper.Open(s), outcome: make(chan func() (*llm.Response, error)), done: make(chan struct{})}
	begun := make(chan struct{})
	m := newModel(func(context.Context, *llm.Request) (*llm.Response, error) {
		close(begun)
		return (<-b.outcome)()
	})
	m.info.MaxOutput = 1 << 30
	go func() {
		defer close(b.done)
		_, b.err = b.tab.Guard(m).Do(context.Background(), ask("x"))
	}()
	select {
	case <-begun:
	case <-b.done:
		w.Fatalf("the call that should hold the budget: %v", b.err)
	}
	return b
}

// wait starts a call that has to wait, and returns what it ends with.
func wait(w *world, ctx context.Context, s spend.Scope, m *model) (chan spend.Wait, chan error) {
	waits, done := make(chan spend.Wait, 10), make(chan error, 1)
	s.OnWait = func(_ context.Context, x spend.Wait) { waits <- x }
	go func() {
		_, err := w.keeper.Open(s).Guard(m).Do(ctx, ask("x"))
		done <- err
	}()
	return waits, done
}

func receive[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-soon(t).Done():
		t.Fatal("nothing happened")
		panic("unreachable")
	}
}

// TestWaitForOthers: a call that only others stand in the way of waits for them.
func TestWaitForOthers(t *testing.T) {
	for name, tt := range map[string]struct {
		outcome func() (*llm.Response, error)
		after   func(*world, *blocked)
	}{
		"it was free":     {func() (*llm.Response, error) { return nil, &llm.Error{NotSent: true} }, nil},
		"it was stored":   {func() (*llm.Response, error) { return answer(price(), 10, 10), nil }, func(w *world, b *blocked) { w.settle(b.tab) }},
		"it was left":     {func() (*llm.Response, error) { return answer(price(), 10, 10), nil }, func(w *world, b *blocked) { b.tab.Abandon(w.Context()) }},
		"another process": {func() (*llm.Response, error) { return answer(price(), 10, 10), nil }, func(w *world, b *blocked) { _ = w.store.Ledger().Settle(w.Context(), b.tab.Take()...) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			b := block(w, scope(1))
			m := newModel(replies(100, 10))
			waits, done := wait(w, soon(t), scope(1), m)
			first := receive(t, waits)
			if first.Model != "test/m" || first.Budget.Scope != store.ScopeConversation || first.Budget.Held == 0 {
				t.Errorf("waits for %+v", first)
			}
			b.end(tt.outcome)
			if tt.after != nil {
				tt.after(w, b)
			}
			if err := receive(t, done); err != nil {
				t.Fatal(err)
			}
			if n, output := m.calls(); n != 1 || output != 8000 || len(waits) != 0 {
				t.Errorf("%d calls with %d tokens of output, %d more waits", n, output, len(waits))
			}
		})
	}
}

// TestWakesAtOnce: a call that waits does not wait for the next poll.
func TestWakesAtOnce(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := openWorld(t, dir)
		defer func() { _ = w.store.Close() }()
		b := block(w, scope(1))
		m := newModel(replies(100, 10))
		waits, done := wait(w, context.Background(), scope(1), m)
		<-waits
		began := time.Now()
		b.end(func() (*llm.Response, error) { return nil, &llm.Error{NotSent: true} })
		if err := <-done; err != nil || time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestRatherWaitThanCut: an answer is cut short only where waiting does not help.
func TestRatherWaitThanCut(t *testing.T) {
	bound := spend.Estimate(newModel(nil).info, ask("x"), nil).Bound
	for room, waits := range map[int64]bool{600: true, 4000: true, 4100: false} {
		w := newWorld(t)
		s := scope(1)
		held := store.Reservation{ID: "held", Conversation: "root", Owner: "u", Now: time.Now(),
			Amount: conversation.USD - conversation.MoneyCeil(price().Worst(bound, room))}
		if err := w.store.Ledger().Reserve(w.Context(), held); err != nil {
			t.Fatal(err)
		}
		waited := false
		s.OnWait = func(context.Context, spend.Wait) {
			waited = true
			if err := w.store.Ledger().Settle(w.Context(), store.Settlement{Reservation: "held"}); err != nil {
				t.Error(err)
			}
		}
		m := newModel(replies(10, 10))
		if _, err := w.keeper.Open(s).Guard(m).Do(soon(t), ask("x")); err != nil {
			t.Fatal(err)
		}
		_, output := m.calls()
		if waited != waits || waits && output != 8000 || !waits && (output > room || output < room-2) {
			t.Errorf("room for %d tokens: waited %v, then %d tokens of output", room, waited, output)
		}
	}
}

// TestWaitInVain: what others held was spent.
func TestWaitInVain(t *testing.T) {
	w := newWorld(t)
	b := block(w, scope(1))
	waits, done := wait(w, soon(t), scope(1), newModel(mustNotCall(t)))
	receive(t, waits)
	b.end(func() (*llm.Response, error) { return nil, &llm.Error{Class: llm.ClassTimeout} })
	var over *spend.Exceeded
	if err := receive(t, done); !errors.As(err, &over) || over.Budget.Uncertain == 0 {
		t.Fatal(err)
	}
}

// TestWaitEndsWithTheContext: a stop does not wait.
func TestWaitEndsWithTheContext(t *testing.T) {
	w := newWorld(t)
	b := block(w, scope(1))
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(context.Background())
	waits, done := wait(w, ctx, scope(1), newModel(mustNotCall(t)))
	receive(t, waits)
	held := w.sums("root").Held
	cancel(stopped)
	if err := receive(t, done); !errors.Is(err, stopped) {
		t.Fatal(err)
	}
	if now := w.sums("root").Held; now != held {
		t.Errorf("%d is held, it was %d", now, held)
	}
	b.end(func() (*llm.Response, error) { return nil, &llm.Error{NotSent: true} })
	w.wantSums("root", 0, 0, 0)
}

// TestOverIsOver: nobody waits for what would not be enough.
func TestOverIsOver(t *testing.T) {
	w := newWorld(t)
	s := scope(1)
	r := store.Reservation{ID: "spent", Conversation: "root", Owner: "u", Now: time.Now(), Amount: conversation.USD}
	if err := w.store.Ledger().Reserve(w.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := w.store.Ledger().Settle(w.Context(), store.Settlement{Reservation: "spent", Cost: conversation.USD - 5}); err != nil {
		t.Fatal(err)
	}
	r.ID, r.Amount = "held", 5
	if err := w.store.Ledger().Reserve(w.Context(), r); err != nil {
		t.Fatal(err)
	}
	var over *spend.Exceeded
	if _, err := w.keeper.Open(s).Guard(newModel(mustNotCall(t))).Do(soon(t), ask("x")); !errors.As(err, &over) {
		t.Fatal(err)
	}
}

// moody is a ledger whose disk refuses settlements at times, or reservations.
type moody struct {
	store.Ledger
	refuse  atomic.Bool  // settlements
	full    atomic.Bool  // no reservations
	settles atomic.Int64 // how often it was asked to settle
}

func (l *moody) Reserve(ctx context.Context, r store.Reservation) error {
	if l.full.Load() {
		return fault.New(fault.Unavailable, store.CodeStoreFull, "The disk is full.")
	}
	return l.Ledger.Reserve(ctx, r)
}

func (l *moody) Settle(ctx context.Context, s ...store.Settlement) error {
	l.settles.Add(1)
	if l.refuse.Load() {
		return fault.New(fault.Unavailable, store.CodeStoreFull, "The disk is full.")
	}
	return l.Ledger.Settle(ctx, s...)
}

// TestRefusedReservation: nothing is held, so there is nothing to settle, however
// often calls are tried.
func TestRefusedReservation(t *testing.T) {
	w := newWorld(t)
	l := &moody{Ledger: w.store.Ledger()}
	w.keeper = spend.New(spend.Options{Ledger: l, Holder: "here"})
	l.full.Store(true)
	tab := w.keeper.Open(scope(1))
	for range 20 {
		if _, err := tab.Guard(newModel(mustNotCall(t))).Do(w.Context(), ask("x")); fault.CodeOf(err) != store.CodeStoreFull {
			t.Fatal(err)
		}
	}
	tab.Abandon(w.Context())
	l.full.Store(false)
	if _, err := tab.Guard(newModel(fails(&llm.Error{NotSent: true}))).Do(w.Context(), ask("x")); err == nil {
		t.Fatal("no error")
	}
	if n := l.settles.Load(); n != 1 {
		t.Errorf("the ledger was asked to settle %d times, for one call", n)
	}
	w.wantSums("root", 0, 0, 0)
}

// TestRefusedSettlement: what cannot be settled stays held, and is settled later.
func TestRefusedSettlement(t *testing.T) {
	w := newWorld(t)
	l := &moody{Ledger: w.store.Ledger()}
	w.keeper = spend.New(spend.Options{Ledger: l, Holder: "here"})
	l.refuse.Store(true)
	tab := w.keeper.Open(scope(1))
	if _, err := tab.Guard(newModel(fails(&llm.Error{Class: llm.ClassTimeout}))).Do(w.Context(), ask("x")); err == nil {
		t.Fatal("no error")
	}
	held := conversation.Money(w.sums("root").Held)
	taken := tab.Take() // the engine can store it with its events
	if held == 0 || len(taken) != 1 || taken[0].Uncertain != held {
		t.Fatalf("%d is held, taken %+v", held, taken)
	}
	tab.Abandon(w.Context()) // but it did not
	w.wantSums("root", 0, 0, held)
	other := w.keeper.Open(scope(1))
	if _, err := other.Guard(newModel(replies(10, 10))).Do(w.Context(), ask("x")); err != nil {
		t.Fatal(err) // the ledger still refuses settlements
	}
	other.Abandon(w.Context())
	l.refuse.Store(false)
	last := w.keeper.Open(scope(1))
	if _, err := last.Guard(newModel(replies(10, 10))).Do(w.Context(), ask("x")); err != nil {
		t.Fatal(err)
	}
	last.Abandon(w.Context())
	w.wantSums("root", 2*conversation.MoneyOf(price().Cost(conversation.Usage{PromptTokens: 10, CompletionTokens: 10})), held, 0)
}

// TestAbandon settles what the engine never stored, once.
func TestAbandon(t *testing.T) {
	w := newWorld(t)
	tab := w.keeper.Open(scope(1))
	g := tab.Guard(newModel(replies(1000, 100)))
	for range 3 {
		if _, err := g.Do(w.Context(), ask("x")); err != nil {
			t.Fatal(err)
		}
		if n := len(tab.Take()); n != 1 {
			t.Errorf("%d taken", n)
		}
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	tab.Abandon(ended)
	tab.Abandon(ended)
	w.wantSums("root", 3*conversation.MoneyOf(0.002), 0, 0)
	if _, err := g.Do(w.Context(), ask("x")); err != nil { // too late for the engine
		t.Fatal(err)
	}
	w.wantSums("root", 4*conversation.MoneyOf(0.002), 0, 0)
}

// TestRecover: what a server that was killed had reserved is uncertain.
func TestRecover(t *testing.T) {
	w := newWorld(t)
	b := block(w, scope(1))
	held := conversation.Money(w.sums("root").Held)
	waits, done := wait(w, soon(t), scope(1), newModel(mustNotCall(t)))
	receive(t, waits)
	next := spend.New(spend.Options{Ledger: w.store.Ledger(), Holder: "next"})
	if n, err := next.Recover(w.Context(), []string{"somebody"}); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	if n, err := next.Recover(w.Context(), []string{"here"}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	w.wantSums("root", 0, held, 0)
	var over *spend.Exceeded
	if err := receive(t, done); !errors.As(err, &over) {
		t.Error(err)
	}
	b.end(func() (*llm.Response, error) { return answer(price(), 10, 10), nil }) // it lives after all
	b.tab.Abandon(w.Context())
	w.wantSums("root", 0, held, 0)
}

// TestDayEnds: a call is counted for the day on which it begins.
func TestDayEnds(t *testing.T) {
	w := newWorld(t)
	now := time.Date(2026, 3, 1, 23, 59, 0, 0, time.UTC)
	w.keeper = spend.New(spend.Options{Ledger: w.store.Ledger(), Holder: "here", Now: func() time.Time { return now }})
	limit := conversation.MoneyOf(0.02)
	s := spend.Scope{Conversation: "root", Owner: "u", Ceilings: store.Ceilings{Day: &limit}}
	m := newModel(replies(1000, 1000))
	run := func() error {
		tab := w.keeper.Open(s)
		defer tab.Abandon(w.Context())
		_, err := tab.Guard(m).Do(w.Context(), ask("x"))
		return err
	}
	var over *spend.Exceeded
	if err := run(); err != nil {
		t.Fatal(err)
	}
	if err := run(); err != nil && !errors.As(err, &over) {
		t.Fatal(err)
	}
	if err := run(); !errors.As(err, &over) || over.Budget.Scope != store.ScopeDay {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	if err := run(); err != nil {
		t.Fatal(err)
	}
	rows, err := w.store.Ledger().Days(w.Context(), "u", "2026-03-01", "2026-03-02")
	if err != nil || len(rows) != 2 || rows[1].Day != "2026-03-02" || rows[1].Calls != 1 {
		t.Errorf("days %+v, %v", rows, err)
	}
}

// BenchmarkGuard measures what money adds to a model call: a reservation before
// and a settlement after it, each durable, for one conversation and for many.
func BenchmarkGuard(b *testing.B) {
	for _, callers := range []int{1, 16} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) {
			w := newWorld(b)
			m := newModel(replies(100, 10))
			req := ask("hello")
			for i := range callers {
				w.create(conversation.ID(fmt.Sprint("c", i)), "root")
			}
			limit := conversation.Money(1e18)
			b.ResetTimer()
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() {
					for range b.N/callers + 1 {
						tab := w.keeper.Open(spend.Scope{Conversation: conversation.ID(fmt.Sprint("c", i)), Parent: "root", Owner: "u",
							Use: store.UseAgent, Ceilings: store.Ceilings{Tree: &limit, Day: &limit}})
						if _, err := tab.Guard(m).Do(b.Context(), req); err != nil {
							b.Error(err)
							return
						}
						tab.Abandon(b.Context())
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}
