package app

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/llm"
	"parley/internal/llm/llmtest"
	"parley/internal/spend"
	"parley/internal/store"
	"parley/internal/store/sqlstore"
	"parley/internal/vault"
)

// counted is a ledger that notes what becomes of each reservation.
type counted struct {
	store.Ledger
	mu       sync.Mutex
	open     map[string]bool
	settled  map[string]int
	reserved int
}

func (c *counted) Reserve(ctx context.Context, r store.Reservation) error {
	err := c.Ledger.Reserve(ctx, r)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.open[r.ID] = true
		c.reserved++
	}
	return err
}

func (c *counted) Settle(ctx context.Context, list ...store.Settlement) error {
	err := c.Ledger.Settle(ctx, list...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		for _, s := range list {
			delete(c.open, s.Reservation)
			c.settled[s.Reservation]++
		}
	}
	return err
}

func openLedger(t *testing.T) (*counted, *sqlstore.Store) {
	t.Helper()
	dir := t.TempDir()
	v, err := vault.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: filepath.Join(dir, "parley.db"), Sealer: v})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return &counted{Ledger: s.Ledger(), open: map[string]bool{}, settled: map[string]int{}}, s
}

// gate is below the guard: what passes it reaches the adapter.
type gate struct {
	llm.Model
	passed *atomic.Int64
}

func (g gate) Do(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	g.passed.Add(1)
	return g.Model.Do(ctx, req)
}

// TestAllTogether: limiter, guard, retries and fallbacks under random faults,
// cancellations and a ceiling. Every call ends, every reservation is settled
// once, the ceiling is not passed and nothing is held at the end.
func TestAllTogether(t *testing.T) {
	faulty := func(int, string) llmtest.Reply {
		usage := conversation.Usage{PromptTokens: 200, CompletionTokens: 20}
		switch rand.IntN(16) {
		case 0:
			return llmtest.Reply{Fail: llm.ClassRateLimit}
		case 1:
			return llmtest.Reply{Fail: llm.ClassOverloaded}
		case 2:
			return llmtest.Reply{Fail: llm.ClassNetwork}
		case 3:
			return llmtest.Reply{Fail: llm.ClassNoResponse}
		case 4:
			return llmtest.Reply{Text: "a long answer that breaks", CutAfterText: true}
		case 5:
			return llmtest.Reply{Text: "a long answer that stops", HangAfterText: true}
		case 6:
			return llmtest.Reply{Hang: true}
		case 7:
			return llmtest.Reply{Text: "absurd", Fault: llmtest.WrongUsage}
		case 8:
			return llmtest.Reply{Text: "very dear", Usage: conversation.Usage{PromptTokens: 1_000_000_000_000, CompletionTokens: 1_000_000_000_000}}
		case 9:
			return llmtest.Reply{Fail: llm.ClassBadRequest}
		case 10:
			return llmtest.Reply{Text: "error", Fault: llmtest.ErrorInStream}
		}
		return llmtest.Reply{Text: "fine", Usage: usage}
	}
	first, firstCalls := endpoint(t, faulty)
	second, secondCalls := endpoint(t, faulty)
	cfg := settings()
	cfg.LLMConcurrency = 3
	cfg.LLMTimeout = 300 * time.Millisecond
	m := newTestModels(t, cfg)
	ledger, s := openLedger(t)
	keeper := spend.New(spend.Options{Ledger: ledger, Holder: "here"})
	if err := s.Conversations().Create(t.Context(), &conversation.Conversation{ID: "root", Owner: "u"}); err != nil {
		t.Fatal(err)
	}
	price := 1e-6
	limit := conversation.MoneyOf(0.2)
	model := func(url, name string) account.LLM {
		l := at(url, name)
		l.InputCost, l.OutputCost, l.MaxOutputTokens = &price, &price, 2000
		return l
	}
	var passed, cancelled, refused, answered atomic.Int64
	stopped := errors.New("stopped")
	var wg sync.WaitGroup
	for worker := range 12 {
		wg.Go(func() {
			for n := range 8 {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if rand.IntN(4) == 0 {
					time.AfterFunc(time.Duration(rand.IntN(100))*time.Millisecond, func() { cancel(stopped) })
				}
				tab := keeper.Open(spend.Scope{Conversation: "root", Owner: "u", Use: store.UseAgent, Ceilings: store.Ceilings{Tree: &limit}})
				got, err := m.get(model(first, "openai/first"), engine.ModelOptions{Fallbacks: []account.LLM{model(second, "openai/second")},
					Guard: func(inner llm.Model) llm.Model { return tab.Guard(gate{inner, &passed}) }, OnRetry: func(context.Context, llm.Retry) {}})
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := got.Do(ctx, llmtest.Request(func(llm.Delta) {}))
				var full *spend.Exceeded
				var e *llm.Error
				switch {
				case err == nil && resp != nil:
					answered.Add(1)
				case errors.Is(err, stopped):
					cancelled.Add(1)
				case errors.As(err, &full):
					refused.Add(1)
				case !errors.As(err, &e):
					t.Errorf("worker %d, call %d: %v", worker, n, err)
				}
				cancel(nil)
				tab.Abandon(ctx)
			}
		})
	}
	wg.Wait()
	t.Logf("%d reservations, %d calls passed, %d and %d arrived, %d answered, %d refused, %d cancelled", ledger.reserved, passed.Load(),
		firstCalls.Load(), secondCalls.Load(), answered.Load(), refused.Load(), cancelled.Load())
	if len(ledger.open) > 0 {
		t.Errorf("%d reservations are open", len(ledger.open))
	}
	for id, n := range ledger.settled {
		if n != 1 {
			t.Errorf("%s was settled %d times", id, n)
		}
	}
	if passed.Load() > int64(ledger.reserved) {
		t.Errorf("%d calls with %d reservations", passed.Load(), ledger.reserved)
	}
	_, tree, err := s.Ledger().Conversation(t.Context(), "root")
	if err != nil || tree.Cost+tree.Uncertain > limit {
		t.Errorf("%s and %s of %s are spent, %v", tree.Cost, tree.Uncertain, limit, err)
	}
	none := conversation.Money(0)
	var look *store.BudgetError
	err = s.Ledger().Reserve(t.Context(), store.Reservation{ID: "look", Conversation: "root", Owner: "u", Amount: 1, Ceilings: store.Ceilings{Tree: &none}, Now: time.Now()})
	if !errors.As(err, &look) || look.Held != 0 {
		t.Errorf("%v: something is held", err)
	}
}

// TestNothingAfterCancellation: a call that was cancelled is not made, whatever it
// waits for.
func TestNothingAfterCancellation(t *testing.T) {
	url, calls := endpoint(t, fails(llm.ClassOverloaded))
	cfg := settings()
	cfg.LLMRetryMin, cfg.LLMRetryMax = time.Minute, time.Minute
	m := newTestModels(t, cfg)
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	got, err := m.get(at(url, "openai/x"), engine.ModelOptions{Fallbacks: []account.LLM{at(url, "openai/y")},
		OnRetry: func(context.Context, llm.Retry) { cancel(stopped) }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := got.Do(ctx, llmtest.Request(nil)); !errors.Is(err, stopped) || calls.Load() != 1 {
		t.Errorf("%v after %d calls", err, calls.Load())
	}
	if _, err := got.Do(ctx, llmtest.Request(nil)); !errors.Is(err, stopped) || calls.Load() != 1 {
		t.Errorf("%v after %d calls", err, calls.Load())
	}
}

// TestAbsurdWishesDoNotHoldOthers: a wish that nobody can fulfil fails its own call
// at once, and holds no other conversation with the same key.
func TestAbsurdWishesDoNotHoldOthers(t *testing.T) {
	for _, wish := range []string{"315360000", "Wed, 21 Oct 2215 07:28:00 GMT", "-5", "0", "garbage", "1e308"} {
		var calls atomic.Int64
		url := raw(t, func(w http.ResponseWriter, _ *http.Request) {
			if calls.Add(1) == 1 {
				w.Header().Set("Retry-After", wish)
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(w, `{"id":"x","choices":[{"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}`)
		})
		m := newTestModels(t, settings())
		got, err := m.get(at(url, "openai/x"), engine.ModelOptions{})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = got.Do(t.Context(), llmtest.Request(nil))
		long := strings.HasPrefix(wish, "3") || strings.HasPrefix(wish, "W") || strings.HasPrefix(wish, "1e")
		if (err != nil) != long {
			t.Errorf("%q: %v", wish, err)
		}
		if _, err := got.Do(t.Context(), llmtest.Request(nil)); err != nil {
			t.Errorf("%q: the next call: %v", wish, err)
		}
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("%q: took %v", wish, took)
		}
	}
}

// raw serves h below the path of a chat endpoint.
func raw(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}
