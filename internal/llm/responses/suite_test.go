package responses_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"parley/internal/account"
	"parley/internal/llm"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/llmtest/responsestest"
	"parley/internal/llm/responses"
	"parley/internal/llm/wire"
)

func TestSuite(t *testing.T) {
	llmtest.Run(t, func(t *testing.T, opt llmtest.Options, replies ...llmtest.Reply) llm.Model {
		s := serve(t, replies...)
		return s.model(t, responses.Config{ModelConfig: wire.ModelConfig{Timeout: opt.Timeout, IdleTimeout: opt.IdleTimeout}})
	})
}

// server gives replies in turn and keeps the requests.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	replies  []llmtest.Reply
	requests []string // bodies
	headers  []http.Header
	uris     []string
	// refuse may refuse a request before it is looked at; nil = none.
	refuse func(body string) *responsestest.Refusal
}

func serve(t *testing.T, replies ...llmtest.Reply) *server {
	s := &server{replies: replies}
	strict := responsestest.Handler(s.next)
	s.start(t, strict)
	return s
}

// start serves h behind what records and refuses.
func (s *server) start(t *testing.T, h http.Handler) {
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.requests, s.headers, s.uris = append(s.requests, string(body)), append(s.headers, r.Header), append(s.uris, r.URL.RequestURI())
		refuse := s.refuse
		s.mu.Unlock()
		if refuse != nil {
			if no := refuse(string(body)); no != nil {
				http.Error(w, `{"error":{"message":`+quote(no.Message)+`,"type":"invalid_request_error","param":`+quote(no.Param)+`}}`, no.Status)
				return
			}
		}
		r.Body = io.NopCloser(newReader(body))
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
}

func (s *server) next(*http.Request, []byte) llmtest.Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.replies) == 0 {
		return llmtest.Reply{Text: "no reply left"}
	}
	reply := s.replies[0]
	s.replies = s.replies[1:]
	return reply
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

func (s *server) body(i int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[i]
}

// model returns a model that thinks and talks to s, with cfg's other settings.
func (s *server) model(t *testing.T, cfg responses.Config) *responses.Model {
	t.Helper()
	cfg.HTTPClient = s.Client()
	if cfg.BaseURL == "" {
		cfg.BaseURL = s.URL + "/v1"
	}
	if cfg.Model == "" {
		cfg.Model, cfg.DisplayModel = "gpt-5-test", "openai/gpt-5-test"
		cfg.Reasoning, cfg.ReasoningSummary = true, "auto"
	}
	if !cfg.APIKey.IsSet() {
		cfg.APIKey = account.NewSecret("sk-test-0123456789")
	}
	m, err := responses.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
