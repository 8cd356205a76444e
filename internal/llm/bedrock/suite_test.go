package bedrock_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"parley/internal/account"
	"parley/internal/llm"
	"parley/internal/llm/bedrock"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/llmtest/bedrocktest"
)

const claudeID = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"

func TestSuite(t *testing.T) {
	for _, id := range []string{claudeID, "amazon.nova-lite-v1:0", "meta.llama3-3-70b-instruct-v1:0",
		"arn:aws:bedrock:eu-central-1:123456789012:application-inference-profile/abcdef123456"} {
		t.Run(id, func(t *testing.T) {
			llmtest.Run(t, func(t *testing.T, opt llmtest.Options, replies ...llmtest.Reply) llm.Model {
				cfg := bedrock.Config{}
				cfg.Model, cfg.Timeout, cfg.IdleTimeout = id, opt.Timeout, opt.IdleTimeout
				return serve(t, cfg, replies...).model
			}, llmtest.NoReasoningCount)
		})
	}
}

// fake is a server and a model that talks to it.
type fake struct {
	model *bedrock.Model
	mu    sync.Mutex
	seen  []seen
}

// seen is a request that the server accepted.
type seen struct {
	path   string
	header http.Header
	body   string
}

func (f *fake) requests() []seen {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

// serve starts a strict server that gives the replies in turn, the last one for
// ever, and a model with cfg's other settings.
func serve(t *testing.T, cfg bedrock.Config, replies ...llmtest.Reply) *fake {
	t.Helper()
	f := &fake{}
	strict := bedrocktest.Handler(func(r *http.Request, body []byte) llmtest.Reply {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.seen = append(f.seen, seen{r.URL.EscapedPath(), r.Header.Clone(), string(body)})
		return replies[min(len(f.seen), len(replies))-1]
	})
	f.model = connect(t, cfg, strict)
	return f
}

// connect starts a server and returns a model that talks to it, with the server's
// keys if cfg has none.
func connect(t *testing.T, cfg bedrock.Config, h http.Handler) *bedrock.Model {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	cfg.HTTPClient, cfg.BaseURL = server.Client(), server.URL
	if cfg.Region == "" {
		cfg.Region = bedrocktest.Region
	}
	if cfg.Model == "" {
		cfg.Model = claudeID
	}
	if !cfg.APIKey.IsSet() && !cfg.AccessKeyID.IsSet() && cfg.UseEnvironment == nil {
		cfg.AccessKeyID, cfg.SecretAccessKey = account.NewSecret(bedrocktest.AccessKeyID), account.NewSecret(bedrocktest.SecretAccessKey)
	}
	m, err := bedrock.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
