package openai_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"parley/internal/account"
	"parley/internal/llm"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/openai"
	"parley/internal/llm/wire"
	"parley/test/testkit/openaitest"
)

func TestSuite(t *testing.T) {
	llmtest.Run(t, func(t *testing.T, opt llmtest.Options, replies ...llmtest.Reply) llm.Model {
		return serve(t, config{ModelConfig: wire.ModelConfig{Timeout: opt.Timeout, IdleTimeout: opt.IdleTimeout}}, replies...)
	})
}

// config is a shorthand.
type config = openai.Config

// serve starts a strict endpoint that gives the replies in turn.
func serve(t testing.TB, cfg config, replies ...llmtest.Reply) *openai.Model {
	t.Helper()
	var mu sync.Mutex
	server := httptest.NewServer(openaitest.Handler(func(*http.Request, []byte) llmtest.Reply {
		mu.Lock()
		defer mu.Unlock()
		if len(replies) == 0 {
			return llmtest.Reply{Fail: llm.ClassBadRequest}
		}
		r := replies[0]
		replies = replies[1:]
		return r
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	cfg.Model, cfg.DisplayModel, cfg.BaseURL, cfg.HTTPClient = "test-model", "openai/test-model", server.URL+"/v1", server.Client()
	m, err := openai.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// model returns a model that talks to s, with cfg's other settings.
func model(t testing.TB, s *openaitest.Server, cfg openai.Config) *openai.Model {
	t.Helper()
	cfg.HTTPClient = s.Client()
	if cfg.BaseURL == "" {
		cfg.BaseURL = s.URL() + "/v1"
	}
	if cfg.Model == "" {
		cfg.Model, cfg.DisplayModel = "test-model", "openai/test-model"
	}
	if !cfg.APIKey.IsSet() {
		cfg.APIKey = account.NewSecret("sk-test-0123456789")
	}
	m, err := openai.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
