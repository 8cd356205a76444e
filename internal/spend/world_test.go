package spend_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/llm"
	"parley/internal/spend"
	"parley/internal/store"
	"parley/internal/store/sqlstore"
	"parley/internal/vault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a real ledger with a keeper over it, and one conversation "root".
type world struct {
	testing.TB
	store  *sqlstore.Store
	keeper *spend.Keeper
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := openWorld(t, t.TempDir())
	t.Cleanup(func() { _ = w.store.Close() }) // some tests close it themselves
	return w
}

func openWorld(t testing.TB, dir string) *world {
	t.Helper()
	v, err := vault.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: filepath.Join(dir, "parley.db"), Sealer: v})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, store: s, keeper: spend.New(spend.Options{Ledger: s.Ledger(), Holder: "here"})}
	w.create("root", "")
	return w
}

func (w *world) create(id, parent conversation.ID) {
	w.Helper()
	err := w.store.Conversations().Create(w.Context(), &conversation.Conversation{ID: id, Owner: "u", ParentID: parent})
	if err != nil {
		w.Fatal(err)
	}
}

// scope is the agent of "root" under a ceiling in USD.
func scope(usd float64) spend.Scope {
	limit, tokens := conversation.MoneyOf(usd), int64(100_000)
	return spend.Scope{Conversation: "root", Owner: "u", Use: store.UseAgent,
		Ceilings: store.Ceilings{Tree: &limit, TreeTokens: &tokens}}
}

// sums reads what a conversation's tree has spent and what is held.
func (w *world) sums(id conversation.ID) store.BudgetError {
	w.Helper()
	none := conversation.Money(0)
	err := w.store.Ledger().Reserve(context.Background(), store.Reservation{ID: "look", Conversation: id, Owner: "nobody",
		Amount: 1, Now: time.Now(), Ceilings: store.Ceilings{Own: &none}})
	var full *store.BudgetError
	if !errors.As(err, &full) {
		w.Fatalf("look at %s: %v", id, err)
	}
	return *full
}

func (w *world) wantSums(id conversation.ID, spent, uncertain, held conversation.Money) {
	w.Helper()
	s := w.sums(id)
	if s.Spent != int64(spent) || s.Uncertain != int64(uncertain) || s.Held != int64(held) {
		w.Errorf("%s has spent %d, uncertain %d, held %d; want %d, %d, %d", id, s.Spent, s.Uncertain, s.Held, spent, uncertain, held)
	}
}

// settle stores what is on the tab.
func (w *world) settle(tab *spend.Tab) {
	w.Helper()
	if err := w.store.Ledger().Settle(w.Context(), tab.Take()...); err != nil {
		w.Fatal(err)
	}
	tab.Stored()
}

// model is a model that does what it is told and notes what it was asked.
type model struct {
	info llm.Info
	do   func(ctx context.Context, req *llm.Request) (*llm.Response, error)

	mu    sync.Mutex
	asked []*llm.Request
}

func (m *model) Info() llm.Info { return m.info }

func (m *model) Do(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	m.mu.Lock()
	m.asked = append(m.asked, req)
	m.mu.Unlock()
	return m.do(ctx, req)
}

// calls returns how often the model was asked, and the last bound it was given.
func (m *model) calls() (int, int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.asked) == 0 {
		return 0, 0
	}
	return len(m.asked), m.asked[len(m.asked)-1].MaxOutput
}

// price is 1 USD for a million tokens in and 10 USD out.
func price() *llm.Price {
	return &llm.Price{Input: 1e-6, CacheRead: 1e-7, CacheWrite: 1.25e-6, Output: 1e-5}
}

func newModel(do func(ctx context.Context, req *llm.Request) (*llm.Response, error)) *model {
	return &model{info: llm.Info{Model: "test/m", MaxOutput: 8000, NativeTools: true, Price: price()}, do: do}
}

// answer makes a response of so many tokens, priced by the model's list.
func answer(p *llm.Price, prompt, completion int64) *llm.Response {
	r := &llm.Response{ID: "r", Message: content.Message{Role: content.RoleAssistant, Parts: []content.Part{content.Text("ok")}},
		Usage: conversation.Usage{Model: "test/m", PromptTokens: prompt, CompletionTokens: completion}}
	if p != nil {
		cost := p.Cost(r.Usage)
		r.Cost = &cost
	}
	return r
}

func replies(prompt, completion int64) func(context.Context, *llm.Request) (*llm.Response, error) {
	return func(context.Context, *llm.Request) (*llm.Response, error) {
		return answer(price(), prompt, completion), nil
	}
}

func fails(err error) func(context.Context, *llm.Request) (*llm.Response, error) {
	return func(context.Context, *llm.Request) (*llm.Response, error) { return nil, err }
}

func ask(texts ...string) *llm.Request {
	req := &llm.Request{}
	for _, text := range texts {
		req.Messages = append(req.Messages, content.Message{Role: content.RoleUser, Parts: []content.Part{content.Text(text)}})
	}
	return req
}

// soon bounds what a test waits for.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errors.New("the test waited a minute"))
	t.Cleanup(cancel)
	return ctx
}

func mustNotCall(t testing.TB) func(context.Context, *llm.Request) (*llm.Response, error) {
	return func(context.Context, *llm.Request) (*llm.Response, error) {
		t.Error("the model was called")
		return nil, errors.New("called")
	}
}

func env(name string, fallback int) int {
	n := fallback
	_, _ = fmt.Sscan(os.Getenv(name), &n)
	return n
}
