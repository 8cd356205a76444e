package openai_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"parley/internal/account"
	"parley/internal/llm"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/openai"
	"parley/test/testkit/openaitest"
)

func TestSuite(t *testing.T) {
	llmtest.Run(t, func(t *testing.T, replies ...llmtest.Reply) llm.Model {
		s := openaitest.New(t)
		for _, r := range replies {
			s.Reply(wire(r))
		}
		return model(t, s, openai.Config{})
	})
}

// model returns a model that talks to s, with cfg's other settings.
func model(t *testing.T, s *openaitest.Server, cfg openai.Config) *openai.Model {
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

func wire(r llmtest.Reply) openaitest.Reply {
	if r.Fail != "" {
		return failed(r)
	}
	out := openaitest.Reply{Text: r.Text, Reasoning: r.Reasoning, Finish: r.Finish, Hang: r.Hang}
	for _, c := range r.Calls {
		out.Calls = append(out.Calls, openaitest.Call{ID: c.ID, Name: c.Name, Arguments: c.Arguments})
	}
	if u := r.Usage; u.PromptTokens > 0 {
		out.Usage = &openaitest.Usage{Prompt: u.PromptTokens, Completion: u.CompletionTokens, Cached: u.CacheReadTokens, Reasoning: u.ReasoningTokens}
	}
	if r.HangAfterText {
		out.HangAfter = 3
	}
	if r.CutAfterText {
		out.CutAfter = 3
	}
	return out
}

func failed(r llmtest.Reply) openaitest.Reply {
	switch r.Fail {
	case llm.ClassAuth:
		return openaitest.Fail(http.StatusUnauthorized, "Incorrect API key provided")
	case llm.ClassQuota:
		return openaitest.Raw(http.StatusTooManyRequests, "application/json",
			`{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`)
	case llm.ClassRateLimit:
		return openaitest.RateLimited(strconv.Itoa(int(r.RetryAfter / time.Second)))
	case llm.ClassOverloaded:
		return openaitest.Raw(http.StatusBadGateway, "text/html", "<html><title>502 Bad Gateway</title></html>")
	case llm.ClassTimeout:
		return openaitest.Raw(http.StatusGatewayTimeout, "text/plain", "")
	case llm.ClassContext:
		return openaitest.Raw(http.StatusBadRequest, "application/json",
			`{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}`)
	case llm.ClassContentPolicy:
		return openaitest.Reply{Finish: "content_filter"}
	case llm.ClassMalformed:
		return openaitest.Fail(http.StatusBadRequest, "The following tool_call_ids did not have response messages: x")
	case llm.ClassBadRequest:
		return openaitest.Fail(http.StatusNotFound, "The model does not exist")
	case llm.ClassNoResponse:
		return openaitest.Raw(http.StatusOK, "application/json", `{"id":"x","choices":[]}`)
	}
	return openaitest.Reply{Drop: true}
}
