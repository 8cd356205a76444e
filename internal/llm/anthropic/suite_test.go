package anthropic_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"parley/internal/account"
	"parley/internal/llm"
	"parley/internal/llm/anthropic"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/llmtest/anthropictest"
)

func TestSuite(t *testing.T) {
	for name, cfg := range map[string]anthropic.Config{
		"without thinking": config("claude-sonnet-4-5"),
		"budget":           thinking(config("claude-sonnet-4-5-20250929"), "high"),
		"adaptive":         thinking(config("claude-opus-5"), "medium"),
	} {
		t.Run(name, func(t *testing.T) {
			llmtest.Run(t, func(t *testing.T, opt llmtest.Options, replies ...llmtest.Reply) llm.Model {
				cfg := cfg
				cfg.Timeout, cfg.IdleTimeout = opt.Timeout, opt.IdleTimeout
				return serve(t, cfg, replies...).model
			})
		})
	}
}

func config(model string) anthropic.Config {
	var cfg anthropic.Config
	cfg.Model, cfg.DisplayModel = model, "anthropic/"+model
	cfg.APIKey = account.NewSecret("sk-ant-0123456789")
	return cfg
}

func thinking(cfg anthropic.Config, effort string) anthropic.Config {
	cfg.Reasoning, cfg.ReasoningEffort = true, effort
	return cfg
}

// endpoint is a strict endpoint and a model that talks to it.
type endpoint struct {
	model *anthropic.Model

	mu      sync.Mutex
	replies []llmtest.Reply
	bodies  [][]byte
	headers []http.Header
}

// serve starts an endpoint that gives the replies in turn, one per request that
// is not refused.
func serve(t testing.TB, cfg anthropic.Config, replies ...llmtest.Reply) *endpoint {
	t.Helper()
	e := &endpoint{replies: replies}
	s := httptest.NewServer(e.noting(anthropictest.Handler(e.next)))
	t.Cleanup(s.Close)
	cfg.HTTPClient = s.Client()
	if cfg.BaseURL == "" {
		cfg.BaseURL = s.URL
	}
	m, err := anthropic.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	e.model = m
	return e
}

func (e *endpoint) next(*http.Request, []byte) llmtest.Reply {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.replies) == 0 {
		return llmtest.Reply{Fail: llm.ClassTimeout}
	}
	r := e.replies[0]
	e.replies = e.replies[1:]
	return r
}

// noting remembers every request, refused ones included.
func (e *endpoint) noting(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := drain(r)
		e.mu.Lock()
		e.bodies, e.headers = append(e.bodies, body), append(e.headers, r.Header.Clone())
		e.mu.Unlock()
		h.ServeHTTP(w, r)
	})
}

func (e *endpoint) requests() [][]byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.bodies
}

func (e *endpoint) last() (string, http.Header) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return string(e.bodies[len(e.bodies)-1]), e.headers[len(e.headers)-1]
}
