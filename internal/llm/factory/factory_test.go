package factory_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/llm/factory"
	"parley/internal/llm/llmtest"
)

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// ask calls a model and returns the URL and body it would have sent.
func ask(t *testing.T, cfg account.LLM) (m llm.Model, url, body, auth string) {
	t.Helper()
	client := &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		b, err := io.ReadAll(r.Body)
		url, body, auth = r.URL.String(), string(b), r.Header.Get("Authorization")
		return &http.Response{StatusCode: 200, Header: http.Header{},
			Body: io.NopCloser(strings.NewReader(`{"choices":[{"message":{"content":"x"}}]}`))}, err
	})}
	m, err := factory.New(cfg, factory.Options{HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Do(t.Context(), llmtest.Request(nil)); err != nil {
		t.Fatal(err)
	}
	return m, url, body, auth
}

func TestRoutes(t *testing.T) {
	const chat = "/chat/completions"
	tests := []struct{ model, base, wantURL, wantModel string }{
		{"openai/gpt-4o", "", "https://api.openai.com/v1" + chat, "gpt-4o"},
		{"OpenAI/gpt-4o", "", "https://api.openai.com/v1" + chat, "gpt-4o"},
		{"openai/qwen", "http://h:1/v1", "http://h:1/v1" + chat, "qwen"},
		{"openrouter/anthropic/claude-x", "", "https://openrouter.ai/api/v1" + chat, "anthropic/claude-x"},
		{"fireworks_ai/accounts/a/models/b", "", "https://api.fireworks.ai/inference/v1" + chat, "accounts/a/models/b"},
		{"ollama/llama3:8b", "", "http://127.0.0.1:11434/v1" + chat, "llama3:8b"},
		{"ollama/llama3", "http://gpu:11434/", "http://gpu:11434/v1" + chat, "llama3"},
		{"lm_studio/x", "http://gpu:1234/v1", "http://gpu:1234/v1" + chat, "x"},
		{"litellm_proxy/anthropic/claude-x", "http://proxy:4000", "http://proxy:4000" + chat, "anthropic/claude-x"},
		{"anthropic/claude-x", "http://proxy:4000/v1", "http://proxy:4000/v1" + chat, "anthropic/claude-x"},
		{"anthropic/claude-x", "https://api.anthropic.com/v1/", "https://api.anthropic.com/v1" + chat, "claude-x"},
		{"gpt-4o", "http://h/v1", "http://h/v1" + chat, "gpt-4o"},
		{"qwen/qwen3", "http://h/v1", "http://h/v1" + chat, "qwen/qwen3"},
	}
	for _, tt := range tests {
		t.Run(tt.model+" "+tt.base, func(t *testing.T) {
			_, url, body, auth := ask(t, account.LLM{Model: " " + tt.model, BaseURL: tt.base, APIKey: account.NewSecret("k")})
			if url != tt.wantURL || !strings.Contains(body, `"model":"`+tt.wantModel+`"`) || auth != "Bearer k" {
				t.Errorf("%s %s %s", url, auth, body)
			}
		})
	}
}

func TestInfo(t *testing.T) {
	m, _, body, _ := ask(t, account.LLM{Model: "openai/gpt-4o", APIKey: account.NewSecret("k")})
	if i := m.Info(); i.Model != "openai/gpt-4o" || i.ContextWindow != 128000 || i.Price == nil || !i.Vision || i.Demo {
		t.Errorf("%+v", i)
	}
	if !strings.Contains(body, `"prompt_cache_key":"session-1"`) {
		t.Error("no cache key for OpenAI itself")
	}
	m, _, body, auth := ask(t, account.LLM{Model: "ollama/unheard-of"})
	if i := m.Info(); i.ContextWindow != 0 || i.Price != nil || !i.Vision || auth != "" || strings.Contains(body, "prompt_cache_key") {
		t.Errorf("%+v, auth %q, %s", i, auth, body)
	}
	demo, err := factory.New(account.LLM{Model: "demo/scripted"}, factory.Options{})
	if err != nil || !demo.Info().Demo {
		t.Errorf("%v, %v", demo, err)
	}
}

func TestRefusals(t *testing.T) {
	tests := []struct {
		model, base string
		kind        fault.Kind
		code, text  string
	}{
		{"", "", fault.Invalid, "llm_model_missing", "--demo"},
		{"openai/", "", fault.Invalid, "llm_model_missing", "names a provider"},
		{"gpt-4o", "", fault.Invalid, "llm_model_without_provider", "Did you mean openai/gpt-4o?"},
		{"mystery", "", fault.Invalid, "llm_model_without_provider", "openrouter/"},
		{"qwen/qwen3", "", fault.Invalid, "llm_model_without_provider", "base URL"},
		{"openai/gpt-4o", "", fault.Invalid, "llm_api_key_missing", "API key"},
		{"litellm_proxy/x", "", fault.Invalid, "llm_base_url_missing", "base URL"},
		{"openhands/x", "", fault.Invalid, "llm_base_url_missing", "base URL"},
		{"vllm/x", "", fault.Invalid, "llm_base_url_missing", "base URL"},
		{"anthropic/claude-x", "", fault.Unsupported, "llm_provider_unsupported", "https://api.anthropic.com/v1"},
		{"bedrock/x", "", fault.Unsupported, "llm_provider_unsupported", "LiteLLM"},
		{"openai/x", "nonsense", fault.Invalid, "llm_base_url_invalid", "http"},
	}
	for _, tt := range tests {
		m, err := factory.New(account.LLM{Model: tt.model, BaseURL: tt.base}, factory.Options{})
		if m != nil || !fault.Is(err, tt.kind) || fault.CodeOf(err) != tt.code || !strings.Contains(fault.PublicText(err), tt.text) {
			t.Errorf("%s: %v, %s", tt.model, m, fault.PublicText(err))
		}
	}
}

func TestRetries(t *testing.T) {
	var seen []int
	m, err := factory.New(account.LLM{Model: "demo/scripted"}, factory.Options{
		Retry:   factory.Retry{MaxAttempts: 3, Min: time.Millisecond, Max: time.Millisecond},
		OnRetry: func(_ context.Context, r llm.Retry) { seen = append(seen, r.Attempt) }})
	if err != nil {
		t.Fatal(err)
	}
	req := llmtest.Request(nil)
	req.Messages[1].Parts[0].Text = "error: overloaded"
	if _, err := m.Do(t.Context(), req); err == nil || len(seen) != 2 {
		t.Errorf("%v, retries after the attempts %v", err, seen)
	}
}
