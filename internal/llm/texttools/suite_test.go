package texttools_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"parley/internal/llm"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/openai"
	"parley/internal/llm/texttools"
	"parley/internal/llm/wire"
	"parley/test/testkit/openaitest"
)

// TestSuite: a model that may turn out to refuse tools is a model like any other
// as long as it does not.
func TestSuite(t *testing.T) {
	llmtest.Run(t, func(t *testing.T, opt llmtest.Options, replies ...llmtest.Reply) llm.Model {
		var mu sync.Mutex
		s := httptest.NewServer(openaitest.Handler(func(*http.Request, []byte) llmtest.Reply {
			mu.Lock()
			defer mu.Unlock()
			r := replies[0]
			replies = replies[1:]
			return r
		}))
		t.Cleanup(func() {
			s.CloseClientConnections()
			s.Close()
		})
		m, err := openai.New(openai.Config{ModelConfig: wire.ModelConfig{Model: "m", BaseURL: s.URL + "/v1", HTTPClient: s.Client(),
			Timeout: opt.Timeout, IdleTimeout: opt.IdleTimeout}})
		if err != nil {
			t.Fatal(err)
		}
		return texttools.Learn(m)
	})
}
