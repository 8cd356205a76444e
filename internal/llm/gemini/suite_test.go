package gemini_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"parley/internal/account"
	"parley/internal/llm"
	"parley/internal/llm/gemini"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/llmtest/geminitest"
)

// TestSuite runs for one model of each generation: the rules differ.
func TestSuite(t *testing.T) {
	for _, name := range []string{"gemini-2.5-flash", "gemini-3.1-pro-preview", "my-gemini"} {
		t.Run(name, func(t *testing.T) {
			llmtest.Run(t, func(t *testing.T, opt llmtest.Options, replies ...llmtest.Reply) llm.Model {
				s := serve(t, replies...)
				cfg := config(s, name)
				cfg.Timeout, cfg.IdleTimeout = opt.Timeout, opt.IdleTimeout
				return model(t, cfg)
			})
		})
	}
}

// server gives replies in turn and keeps what it was asked.
type server struct {
	url string

	mu      sync.Mutex
	replies []llmtest.Reply
	bodies  [][]byte
	urls    []string
	headers []http.Header
}

func serve(t testing.TB, replies ...llmtest.Reply) *server {
	s := &server{replies: replies}
	hs := httptest.NewServer(geminitest.Handler(s.next))
	t.Cleanup(hs.Close)
	s.url = hs.URL
	return s
}

func (s *server) next(r *http.Request, body []byte) llmtest.Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies, s.urls, s.headers = append(s.bodies, body), append(s.urls, r.URL.String()), append(s.headers, r.Header)
	if len(s.replies) == 0 {
		return llmtest.Reply{Text: "nothing left to say"}
	}
	reply := s.replies[0]
	s.replies = s.replies[1:]
	return reply
}

func config(s *server, name string) gemini.Config {
	cfg := gemini.Config{}
	cfg.BaseURL, cfg.Model, cfg.DisplayModel, cfg.APIKey = s.url, name, "gemini/"+name, account.NewSecret("AIza-test-0123456789")
	return cfg
}

func model(t testing.TB, cfg gemini.Config) *gemini.Model {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	cfg.HTTPClient = client
	m, err := gemini.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
