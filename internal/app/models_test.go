package app

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/internal/account"
	"parley/internal/config"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/llm/llmtest"
	"parley/test/testkit/openaitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// settings are a server's configuration with little patience.
func settings() config.Config {
	return config.Config{LLMMaxAttempts: 3, LLMRetryMin: time.Millisecond, LLMRetryMax: 4 * time.Millisecond,
		LLMTimeout: 30 * time.Second, LLMConcurrency: 8}
}

func newTestModels(t *testing.T, cfg config.Config) *models {
	t.Helper()
	m, err := newModels(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.client.CloseIdleConnections)
	return m
}

// endpoint serves an OpenAI endpoint whose answers next chooses by number.
func endpoint(t *testing.T, next func(n int, body string) llmtest.Reply) (url string, calls *atomic.Int64) {
	t.Helper()
	calls = &atomic.Int64{}
	s := httptest.NewServer(openaitest.Handler(func(_ *http.Request, body []byte) llmtest.Reply {
		return next(int(calls.Add(1))-1, string(body))
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1", calls
}

func fails(class llm.Class) func(int, string) llmtest.Reply {
	return func(int, string) llmtest.Reply { return llmtest.Reply{Fail: class} }
}

func says(text string) func(int, string) llmtest.Reply {
	return func(int, string) llmtest.Reply { return llmtest.Reply{Text: text} }
}

func at(url, model string) account.LLM {
	return account.LLM{Model: model, BaseURL: url, APIKey: account.NewSecret("sk-test-key")}
}

// watcher is a guard that notes who is called.
type watcher struct {
	mu     sync.Mutex
	seen   []string
	inside atomic.Int64
	most   atomic.Int64
	refuse error
}

func (w *watcher) guard(next llm.Model) llm.Model { return watched{w, next} }

type watched struct {
	*watcher
	next llm.Model
}

func (w watched) Info() llm.Info { return w.next.Info() }

func (w watched) Do(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	if n := w.inside.Add(1); n > w.most.Load() {
		w.most.Store(n)
	}
	defer w.inside.Add(-1)
	w.mu.Lock()
	w.seen = append(w.seen, fmt.Sprintf("%s %d", w.next.Info().Model, llm.Attempt(ctx)))
	w.mu.Unlock()
	if w.refuse != nil {
		return nil, w.refuse
	}
	return w.next.Do(ctx, req)
}

// The guard sees every attempt of every model, with the model that makes it.
func TestGuardSeesAllAttempts(t *testing.T) {
	bad, badCalls := endpoint(t, fails(llm.ClassOverloaded))
	good, _ := endpoint(t, says("hello"))
	w := &watcher{}
	var told []string
	m, err := newTestModels(t, settings()).get(at(bad, "openai/bad"), engine.ModelOptions{Guard: w.guard,
		Fallbacks: []account.LLM{at(good, "openai/good")},
		OnRetry: func(_ context.Context, r llm.Retry) {
			if r.Err == nil {
				t.Error("a wait without a reason")
			}
			told = append(told, fmt.Sprintf("%d/%d %s", r.Attempt, r.MaxAttempts, r.Fallback))
		}})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := m.Do(t.Context(), llmtest.Request(nil))
	if err != nil || resp.Model != "openai/good" || resp.Message.Text() != "hello" {
		t.Fatalf("%+v, %v", resp, err)
	}
	if want := []string{"openai/bad 1", "openai/bad 2", "openai/bad 3", "openai/good 1"}; !slices.Equal(w.seen, want) || badCalls.Load() != 3 {
		t.Errorf("guarded %v, %d calls", w.seen, badCalls.Load())
	}
	if want := []string{"1/3 ", "2/3 ", "1/2 openai/good"}; !slices.Equal(told, want) {
		t.Errorf("told %q", told)
	}
	// The outage is known to the next use.
	if resp, err := m.Do(t.Context(), llmtest.Request(nil)); err != nil || resp.Model != "openai/good" || badCalls.Load() != 3 {
		t.Errorf("%+v, %v, %d calls", resp, err, badCalls.Load())
	}
}

// A budget is set aside only when it is a call's turn: never for more calls than
// may be under way.
func TestTurnComesBeforeTheGuard(t *testing.T) {
	url, calls := endpoint(t, says("x"))
	cfg := settings()
	cfg.LLMConcurrency = 2
	models, w := newTestModels(t, cfg), &watcher{}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			m, err := models.get(at(url, "openai/a"), engine.ModelOptions{Guard: w.guard})
			if err == nil {
				_, err = m.Do(t.Context(), llmtest.Request(nil))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if w.most.Load() > 2 || calls.Load() != 20 {
		t.Errorf("%d at a time, %d calls", w.most.Load(), calls.Load())
	}
}

// A spent budget is no outage: nobody else is asked, nothing is repeated.
func TestSpentBudgetEndsIt(t *testing.T) {
	url, calls := endpoint(t, says("x"))
	w := &watcher{refuse: errors.New("the budget is spent")}
	m, err := newTestModels(t, settings()).get(at(url, "openai/a"), engine.ModelOptions{Guard: w.guard, Fallbacks: []account.LLM{at(url, "openai/b")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Do(t.Context(), llmtest.Request(nil)); !errors.Is(err, w.refuse) || calls.Load() != 0 || len(w.seen) != 1 {
		t.Errorf("%v, %d calls, %v", err, calls.Load(), w.seen)
	}
}

func TestFallbackThatCannotBeMade(t *testing.T) {
	url, _ := endpoint(t, fails(llm.ClassAuth))
	m, err := newTestModels(t, settings()).get(at(url, "openai/a"), engine.ModelOptions{
		Fallbacks: []account.LLM{at(url, "openai/a"), {Model: "openai/without-a-key"}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Do(t.Context(), llmtest.Request(nil))
	var e *llm.Error
	if !errors.As(err, &e) || e.Class != llm.ClassAuth || !strings.Contains(e.Message, "; then openai/without-a-key: ") || !strings.Contains(e.Message, "API key") {
		t.Errorf("%v", err)
	}
	if strings.Count(e.Message, "then ") != 1 {
		t.Errorf("the same configuration was asked twice: %s", e.Message)
	}
}

func TestProfilesPatience(t *testing.T) {
	url, calls := endpoint(t, func(n int, _ string) llmtest.Reply {
		if n == 0 {
			return llmtest.Reply{Hang: true}
		}
		return llmtest.Reply{Fail: llm.ClassOverloaded}
	})
	models := newTestModels(t, settings())
	one, soon := 1, 0.05
	l := at(url, "openai/a")
	l.Attempts, l.Timeout = &one, &soon
	m, err := models.get(l, engine.ModelOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var e *llm.Error
	if _, err := m.Do(t.Context(), llmtest.Request(nil)); !errors.As(err, &e) || e.Class != llm.ClassTimeout || calls.Load() != 1 {
		t.Errorf("%v, %d calls", err, calls.Load())
	}
	// Patience is not part of the adapter: the same one serves all.
	five := 5
	l.Attempts = &five
	if m, err = models.get(l, engine.ModelOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Do(t.Context(), llmtest.Request(nil)); !errors.As(err, &e) || calls.Load() != 6 || len(models.made) != 1 {
		t.Errorf("%v, %d calls, %d adapters", err, calls.Load(), len(models.made))
	}
}

func TestAnotherKeyIsAnotherAdapter(t *testing.T) {
	models := newTestModels(t, settings())
	a, b := at("http://127.0.0.1:1/v1", "openai/a"), at("http://127.0.0.1:1/v1", "openai/a")
	b.APIKey = account.NewSecret("sk-another-key")
	for _, l := range []account.LLM{a, b, a} {
		if _, err := models.get(l, engine.ModelOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(models.made) != 2 || limiterKey(a) == limiterKey(b) {
		t.Errorf("%d adapters", len(models.made))
	}
	other := at("http://127.0.0.1:1/v1/", "anthropic/b")
	if limiterKey(a) != limiterKey(other) {
		t.Error("two models at one endpoint with one key have two limits")
	}
	for i := range 2 * maxModels {
		if _, err := models.get(at("http://127.0.0.1:1/v1", fmt.Sprintf("openai/%d", i)), engine.ModelOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(models.made) > maxModels {
		t.Errorf("%d adapters are kept", len(models.made))
	}
	a.ExtraBody = []byte("{")
	if _, err := models.get(a, engine.ModelOptions{}); err == nil {
		t.Error("a body that is no JSON was accepted")
	}
}

// Every id that is offered makes a model once there is a key, or says which
// address it needs.
func TestOffersCanBeUsed(t *testing.T) {
	cfg := settings()
	cfg.Demo = true
	models := newTestModels(t, cfg)
	offers := models.offers()
	if len(offers) < 500 || !slices.IsSortedFunc(offers, func(a, b llm.Offer) int { return strings.Compare(a.ID(), b.ID()) }) {
		t.Fatalf("%d offers", len(offers))
	}
	if !slices.Contains(offers, llm.Offer{Provider: "demo", Name: "scripted"}) {
		t.Error("the demo model is not offered in demo mode")
	}
	for _, o := range offers {
		_, err := models.get(account.LLM{Model: o.ID(), APIKey: account.NewSecret("sk-test-key"), AWSRegion: "us-east-1",
			AWSAccessKeyID: account.NewSecret("AKIAEXAMPLE"), AWSSecretAccessKey: account.NewSecret("secret")}, engine.ModelOptions{})
		if err != nil && fault.CodeOf(err) != "llm_base_url_missing" {
			t.Errorf("%s: %v, %s", o.ID(), err, fault.PublicText(err))
		}
	}
	cfg.Demo = false
	if slices.Contains(newTestModels(t, cfg).offers(), llm.Offer{Provider: "demo", Name: "scripted"}) {
		t.Error("the demo model is offered without demo mode")
	}
}

func TestCatalogueFile(t *testing.T) {
	cfg := settings()
	cfg.LLMCatalog = filepath.Join(t.TempDir(), "models.yaml")
	write := func(text string) {
		if err := os.WriteFile(cfg.LLMCatalog, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("models:\n  openai/house:\n    context_window: 4242\n    vision: false\n    price: {input: 1, output: 2}\n")
	models := newTestModels(t, cfg)
	m, err := models.get(at("http://127.0.0.1:1/v1", "openai/house"), engine.ModelOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if i := m.Info(); i.ContextWindow != 4242 || i.Vision || i.Price == nil {
		t.Errorf("%+v", i)
	}
	if !slices.ContainsFunc(models.offers(), func(o llm.Offer) bool { return o.ID() == "openai/house" }) {
		t.Error("it is not offered")
	}
	if found, err := CheckCatalog(cfg.LLMCatalog); err != nil || !strings.Contains(found, "models") {
		t.Errorf("%s, %v", found, err)
	}
	write("models:\n  openai/house:\n    contextwindow: 1\n")
	if _, err := CheckCatalog(cfg.LLMCatalog); err == nil {
		t.Error("the doctor sees nothing")
	}
	if _, err := newModels(cfg); !fault.Is(err, fault.Invalid) || !strings.Contains(fault.PublicText(err), "line 3") {
		t.Errorf("%s", fault.PublicText(err))
	}
}

func TestCertificates(t *testing.T) {
	s := httptest.NewUnstartedServer(openaitest.Handler(func(*http.Request, []byte) llmtest.Reply { return llmtest.Reply{Text: "hello"} }))
	s.Config.ErrorLog = nil
	s.StartTLS()
	defer s.Close()
	cfg := settings()
	ask := func() error {
		models := newTestModels(t, cfg)
		m, err := models.get(at(s.URL+"/v1", "openai/a"), engine.ModelOptions{})
		if err == nil {
			_, err = m.Do(t.Context(), llmtest.Request(nil))
		}
		return err
	}
	var e *llm.Error
	if err := ask(); !errors.As(err, &e) || e.Class != llm.ClassBadRequest || !strings.Contains(e.Message, "not trusted") {
		t.Errorf("without its authority: %v", err)
	}
	cfg.LLMCAFile = filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(cfg.LLMCAFile, block, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ask(); err != nil {
		t.Errorf("with its authority: %v", err)
	}
	if _, err := CheckCertificates(cfg.LLMCAFile); err != nil {
		t.Error(err)
	}
	for _, path := range []string{cfg.LLMCAFile + ".none", "/dev/null"} {
		if _, err := CheckCertificates(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("the doctor says %v", err)
		}
		cfg.LLMCAFile = path
		if _, err := newModels(cfg); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// The variables for proxies are read once per process: another one shows that
// they are honoured.
func TestProxy(t *testing.T) {
	if os.Getenv("PARLEY_TEST_PROXIED") != "" {
		m, err := newTestModels(t, settings()).get(at("http://models.invalid/v1", "openai/a"), engine.ModelOptions{})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := m.Do(t.Context(), llmtest.Request(nil))
		if err != nil || resp.Message.Text() != "by proxy" {
			t.Fatal(resp, err)
		}
		return
	}
	var asked atomic.Pointer[string]
	handler := openaitest.Handler(func(*http.Request, []byte) llmtest.Reply { return llmtest.Reply{Text: "by proxy"} })
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.URL.Host
		asked.Store(&host)
		handler.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProxy$")
	child.Env = append(os.Environ(), "PARLEY_TEST_PROXIED=1", "HTTP_PROXY="+proxy.URL, "http_proxy="+proxy.URL, "NO_PROXY=", "no_proxy=")
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if host := asked.Load(); host == nil || *host != "models.invalid" {
		t.Errorf("the proxy was asked for %v", host)
	}
}

// A server without models does not read the table: it must not cost the start.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		if _, err := newModels(settings()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	m, err := newModels(settings())
	if err != nil {
		b.Fatal(err)
	}
	l := at("http://127.0.0.1:1/v1", "openai/a")
	for b.Loop() {
		if _, err := m.get(l, engine.ModelOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
