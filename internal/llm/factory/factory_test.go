package factory_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/llm/catalog"
	"parley/internal/llm/factory"
	"parley/internal/llm/llmtest"
)

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// call is what a model sends.
type call struct {
	URL    string
	Header http.Header
	Body   map[string]any
}

// ask calls a model and returns it with what it sent; the answer is an error.
func ask(t *testing.T, cfg account.LLM, opt factory.Options) (llm.Model, call) {
	t.Helper()
	var sent call
	opt.Retry.MaxAttempts = 1
	opt.HTTPClient = &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		sent = call{URL: r.URL.String(), Header: r.Header, Body: map[string]any{}}
		return &http.Response{StatusCode: 401, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{}`))}, json.Unmarshal(raw, &sent.Body)
	})}
	m, err := factory.New(cfg, opt)
	if err != nil {
		t.Fatal(err)
	}
	var e *llm.Error
	if _, err := m.Do(t.Context(), llmtest.Request(nil)); !errors.As(err, &e) || sent.URL == "" {
		t.Fatalf("%v; sent %+v", err, sent)
	}
	return m, sent
}

func key(cfg account.LLM) account.LLM {
	cfg.APIKey = account.NewSecret("key-0123456789")
	return cfg
}

// Headers that carry a key.
const (
	bearer    = "Authorization: Bearer key-0123456789"
	apiKey    = "Api-Key: key-0123456789"
	xAPIKey   = "X-Api-Key: key-0123456789"
	googleKey = "X-Goog-Api-Key: key-0123456789"
)

// TestRoutes: every prefix goes where it shall, under the name it has there.
func TestRoutes(t *testing.T) {
	const chat, resp = "/chat/completions", "/responses"
	tests := []struct {
		cfg    account.LLM
		url    string
		model  string // in the body; "" = in the URL
		header string
	}{
		{account.LLM{Model: "openai/gpt-4o"}, "https://api.openai.com/v1" + chat, "gpt-4o", bearer},
		{account.LLM{Model: " OpenAI/gpt-4o "}, "https://api.openai.com/v1" + chat, "gpt-4o", bearer},
		{account.LLM{Model: "openai/gpt-4o", BaseURL: "https://API.openai.com/v1/"}, "https://API.openai.com/v1" + chat, "gpt-4o", bearer},
		{account.LLM{Model: "openai/gpt-5-mini"}, "https://api.openai.com/v1" + resp, "gpt-5-mini", bearer},
		{account.LLM{Model: "openai/o3"}, "https://api.openai.com/v1" + resp, "o3", bearer},
		{account.LLM{Model: "openai/codex-mini-latest"}, "https://api.openai.com/v1" + resp, "codex-mini-latest", bearer},
		{account.LLM{Model: "openai/gpt-5-mini", APIMode: "auto"}, "https://api.openai.com/v1" + resp, "gpt-5-mini", bearer},
		{account.LLM{Model: "openai/gpt-5-mini", APIMode: "chat"}, "https://api.openai.com/v1" + chat, "gpt-5-mini", bearer},
		{account.LLM{Model: "openai/gpt-4o", APIMode: "responses"}, "https://api.openai.com/v1" + resp, "gpt-4o", bearer},
		{account.LLM{Model: "openai/gpt-5", BaseURL: "http://h:1/v1"}, "http://h:1/v1" + chat, "gpt-5", bearer},
		{account.LLM{Model: "openai/gpt-5", BaseURL: "http://h:1/v1", APIMode: "responses"}, "http://h:1/v1" + resp, "gpt-5", bearer},
		{account.LLM{Model: "openai/qwen/qwen3", BaseURL: "http://h:1/v1"}, "http://h:1/v1" + chat, "qwen/qwen3", bearer},
		{account.LLM{Model: "openrouter/anthropic/claude-x"}, "https://openrouter.ai/api/v1" + chat, "anthropic/claude-x", bearer},
		{account.LLM{Model: "groq/x"}, "https://api.groq.com/openai/v1" + chat, "x", bearer},
		{account.LLM{Model: "deepseek/x"}, "https://api.deepseek.com/v1" + chat, "x", bearer},
		{account.LLM{Model: "mistral/x"}, "https://api.mistral.ai/v1" + chat, "x", bearer},
		{account.LLM{Model: "together_ai/a/b"}, "https://api.together.xyz/v1" + chat, "a/b", bearer},
		{account.LLM{Model: "fireworks_ai/accounts/a/models/b"}, "https://api.fireworks.ai/inference/v1" + chat, "accounts/a/models/b", bearer},
		{account.LLM{Model: "xai/x"}, "https://api.x.ai/v1" + chat, "x", bearer},
		{account.LLM{Model: "cerebras/x"}, "https://api.cerebras.ai/v1" + chat, "x", bearer},
		{account.LLM{Model: "sambanova/x"}, "https://api.sambanova.ai/v1" + chat, "x", bearer},
		{account.LLM{Model: "perplexity/x"}, "https://api.perplexity.ai" + chat, "x", bearer},
		{account.LLM{Model: "moonshot/x"}, "https://api.moonshot.ai/v1" + chat, "x", bearer},
		{account.LLM{Model: "zai/x"}, "https://api.z.ai/api/paas/v4" + chat, "x", bearer},
		{account.LLM{Model: "minimax/x"}, "https://api.minimax.io/v1" + chat, "x", bearer},
		{account.LLM{Model: "dashscope/x"}, "https://dashscope-intl.aliyuncs.com/compatible-mode/v1" + chat, "x", bearer},
		{account.LLM{Model: "nvidia_nim/a/b"}, "https://integrate.api.nvidia.com/v1" + chat, "a/b", bearer},
		{account.LLM{Model: "huggingface/a/b"}, "https://router.huggingface.co/v1" + chat, "a/b", bearer},
		{account.LLM{Model: "deepinfra/a/b"}, "https://api.deepinfra.com/v1/openai" + chat, "a/b", bearer},
		{account.LLM{Model: "clarifai/a/b"}, "https://api.clarifai.com/v2/ext/openai/v1" + chat, "a/b", bearer},
		{account.LLM{Model: "ollama/llama3:8b"}, "http://127.0.0.1:11434/v1" + chat, "llama3:8b", bearer},
		{account.LLM{Model: "ollama_chat/llama3", BaseURL: "http://gpu:11434/"}, "http://gpu:11434/v1" + chat, "llama3", bearer},
		{account.LLM{Model: "lm_studio/x", BaseURL: "http://gpu:1234/v1"}, "http://gpu:1234/v1" + chat, "x", bearer},
		{account.LLM{Model: "lm_studio/x"}, "http://127.0.0.1:1234/v1" + chat, "x", bearer},
		{account.LLM{Model: "vllm/a/b", BaseURL: "http://gpu:8000"}, "http://gpu:8000/v1" + chat, "a/b", bearer},
		{account.LLM{Model: "hosted_vllm/x", BaseURL: "http://gpu:8000/other"}, "http://gpu:8000/other" + chat, "x", bearer},
		{account.LLM{Model: "litellm_proxy/anthropic/claude-x", BaseURL: "http://proxy:4000"}, "http://proxy:4000" + chat, "anthropic/claude-x", bearer},
		{account.LLM{Model: "openhands/claude-x", BaseURL: "http://proxy:4000/"}, "http://proxy:4000" + chat, "claude-x", bearer},
		{account.LLM{Model: "anthropic/claude-x"}, "https://api.anthropic.com/v1/messages", "claude-x", xAPIKey},
		{account.LLM{Model: "anthropic/claude-x", BaseURL: "http://proxy:4000/v1"}, "http://proxy:4000/v1/messages", "claude-x", xAPIKey},
		{account.LLM{Model: "anthropic/claude-x", BaseURL: "http://proxy:4000/v1", APIMode: "chat"}, "http://proxy:4000/v1" + chat, "anthropic/claude-x", bearer},
		{account.LLM{Model: "anthropic/claude-x", BaseURL: "https://api.anthropic.com/v1", APIMode: "chat"}, "https://api.anthropic.com/v1" + chat, "claude-x", bearer},
		{account.LLM{Model: "gemini/gemini-x"}, "https://generativelanguage.googleapis.com/v1beta/models/gemini-x:generateContent", "", googleKey},
		{account.LLM{Model: "google/gemini-x"}, "https://generativelanguage.googleapis.com/v1beta/models/gemini-x:generateContent", "", googleKey},
		{account.LLM{Model: "gemini/gemini-x", BaseURL: "https://generativelanguage.googleapis.com/v1beta/openai/"},
			"https://generativelanguage.googleapis.com/v1beta/openai" + chat, "gemini-x", bearer},
		{account.LLM{Model: "vertex_ai/gemini-x", BaseURL: "https://eu-aiplatform.googleapis.com/v1/projects/p/locations/eu"},
			"https://eu-aiplatform.googleapis.com/v1/projects/p/locations/eu/publishers/google/models/gemini-x:generateContent", "", bearer},
		{account.LLM{Model: "bedrock/us.anthropic.claude-x", AWSRegion: "us-east-1"},
			"https://bedrock-runtime.us-east-1.amazonaws.com/model/us.anthropic.claude-x/converse", "", bearer},
		{account.LLM{Model: "azure/d", BaseURL: "https://n.openai.azure.com/", APIVersion: "2024-10-21"},
			"https://n.openai.azure.com/openai/deployments/d" + chat + "?api-version=2024-10-21", "d", apiKey},
		{account.LLM{Model: "azure/d", BaseURL: "https://n.openai.azure.com/openai?api-version=2024-10-21"},
			"https://n.openai.azure.com/openai/deployments/d" + chat + "?api-version=2024-10-21", "d", apiKey},
		{account.LLM{Model: "azure/d", BaseURL: "https://n.openai.azure.com/openai/deployments/e/chat/completions", APIVersion: "2024-10-21"},
			"https://n.openai.azure.com/openai/deployments/e" + chat + "?api-version=2024-10-21", "d", apiKey},
		{account.LLM{Model: "azure/d", BaseURL: "https://n.openai.azure.com/openai/v1/", APIVersion: "2024-10-21"}, "https://n.openai.azure.com/openai/v1" + chat, "d", apiKey},
		{account.LLM{Model: "azure/d", BaseURL: "https://n.openai.azure.com", APIVersion: "preview"},
			"https://n.openai.azure.com/openai/v1" + chat + "?api-version=preview", "d", apiKey},
		{account.LLM{Model: "azure/d", BaseURL: "https://n.openai.azure.com", APIVersion: "v1"}, "https://n.openai.azure.com/openai/v1" + chat, "d", apiKey},
		{account.LLM{Model: "azure/my-gpt-5", BaseURL: "https://n.openai.azure.com", APIVersion: "2024-10-21"}, "https://n.openai.azure.com/openai/v1" + resp, "my-gpt-5", apiKey},
		{account.LLM{Model: "azure/d", BaseURL: "https://n.openai.azure.com", CanonicalName: "azure/gpt-5"}, "https://n.openai.azure.com/openai/v1" + resp, "d", apiKey},
		{account.LLM{Model: "azure/d", BaseURL: "https://n.openai.azure.com", APIMode: "responses"}, "https://n.openai.azure.com/openai/v1" + resp, "d", apiKey},
		{account.LLM{Model: "azure/my-gpt-5", BaseURL: "https://gateway.example/az", APIVersion: "2024-10-21"},
			"https://gateway.example/az/openai/deployments/my-gpt-5" + chat + "?api-version=2024-10-21", "my-gpt-5", apiKey},
		{account.LLM{Model: "azure_ai/grok-x", BaseURL: "https://n.services.ai.azure.com"}, "https://n.services.ai.azure.com/models" + chat + "?api-version=2024-05-01-preview", "grok-x", apiKey},
		{account.LLM{Model: "azure_ai/grok-x", BaseURL: "https://n.services.ai.azure.com/openai/v1"}, "https://n.services.ai.azure.com/openai/v1" + chat, "grok-x", apiKey},
		{account.LLM{Model: "azure_ai/claude-x", BaseURL: "https://n.services.ai.azure.com"}, "https://n.services.ai.azure.com/anthropic/v1/messages", "claude-x", xAPIKey},
		{account.LLM{Model: "azure_ai/m", BaseURL: "https://m.eastus.models.ai.azure.com"}, "https://m.eastus.models.ai.azure.com/v1" + chat, "m", bearer},
	}
	for _, tt := range tests {
		t.Run(tt.cfg.Model+" "+tt.cfg.BaseURL+" "+tt.cfg.APIMode, func(t *testing.T) {
			m, sent := ask(t, key(tt.cfg), factory.Options{AWS: factory.AWS{NoEnvironment: true}})
			if d := cmp.Diff(tt.url, sent.URL); d != "" {
				t.Errorf("URL (-want +got)\n%s", d)
			}
			if got, _ := sent.Body["model"].(string); got != tt.model {
				t.Errorf("model %q, want %q", got, tt.model)
			}
			name, value, _ := strings.Cut(tt.header, ": ")
			if got := sent.Header.Get(name); got != value {
				t.Errorf("%s is %q, want %q", name, got, value)
			}
			if name != "Authorization" && sent.Header.Get("Authorization") != "" {
				t.Error("the key is in two headers")
			}
			if got := m.Info().Model; got != strings.TrimSpace(tt.cfg.Model) {
				t.Errorf("it calls itself %q", got)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	tests := []struct {
		cfg        account.LLM
		kind       fault.Kind
		code, text string
	}{
		{account.LLM{}, fault.Invalid, "llm_model_missing", "--demo"},
		{account.LLM{Model: "openai/"}, fault.Invalid, "llm_model_missing", "names a provider"},
		{account.LLM{Model: "gpt-4o"}, fault.Invalid, "llm_model_without_provider", "Did you mean openai/gpt-4o"},
		{account.LLM{Model: "mystery"}, fault.Invalid, "llm_model_without_provider", "openrouter/"},
		{account.LLM{Model: "mystery", BaseURL: "http://h/v1"}, fault.Invalid, "llm_model_without_provider", "openai/mystery"},
		{account.LLM{Model: "qwen/qwen3-what", BaseURL: "http://h/v1"}, fault.Invalid, "llm_model_without_provider", "litellm_proxy/qwen/qwen3-what"},
		{account.LLM{Model: "antropic/claude-x"}, fault.Invalid, "llm_model_without_provider", "Did you mean anthropic/claude-x?"},
		{account.LLM{Model: "opneai/gpt-4o"}, fault.Invalid, "llm_model_without_provider", "Did you mean openai/gpt-4o?"},
		{account.LLM{Model: "lm-studio/x"}, fault.Invalid, "llm_model_without_provider", "Did you mean lm_studio/x?"},
		{account.LLM{Model: "claude/x"}, fault.Invalid, "llm_model_without_provider", "Did you mean anthropic/x?"},
		{account.LLM{Model: "openai/gpt-4o"}, fault.Invalid, "llm_api_key_missing", "API key"},
		{account.LLM{Model: "openai/gpt-4o", BaseURL: "https://api.openai.com/v1/"}, fault.Invalid, "llm_api_key_missing", "API key"},
		{account.LLM{Model: "anthropic/claude-x"}, fault.Invalid, "llm_api_key_missing", "API key"},
		{account.LLM{Model: "gemini/gemini-x"}, fault.Invalid, "llm_api_key_missing", "API key"},
		{account.LLM{Model: "litellm_proxy/x"}, fault.Invalid, "llm_base_url_missing", "base URL"},
		{account.LLM{Model: "openhands/x"}, fault.Invalid, "llm_base_url_missing", "https://"},
		{account.LLM{Model: "vllm/x"}, fault.Invalid, "llm_base_url_missing", "base URL"},
		{account.LLM{Model: "azure/d"}, fault.Invalid, "llm_base_url_missing", "openai.azure.com"},
		{account.LLM{Model: "azure/d", BaseURL: "https://n.openai.azure.com"}, fault.Invalid, "llm_api_key_missing", "API key"},
		{key(account.LLM{Model: "azure/d", BaseURL: "https://n.openai.azure.com"}), fault.Invalid, "llm_api_version_missing", "/openai/v1"},
		{key(account.LLM{Model: "azure/d", BaseURL: "n.openai.azure.com"}), fault.Invalid, "llm_base_url_invalid", "http"},
		{account.LLM{Model: "azure_ai/d"}, fault.Invalid, "llm_base_url_missing", "services.ai.azure.com"},
		{account.LLM{Model: "vertex_ai/gemini-x"}, fault.Invalid, "llm_vertex_incomplete", "gemini/gemini-x"},
		{account.LLM{Model: "vertex_ai/claude-x"}, fault.Unsupported, "llm_provider_unsupported", "litellm_proxy/"},
		{account.LLM{Model: "openai/x", BaseURL: "nonsense"}, fault.Invalid, "llm_base_url_invalid", "http"},
		{account.LLM{Model: "bedrock/x"}, fault.Invalid, "llm_aws_region_missing", "region"},
	}
	for _, tt := range tests {
		m, err := factory.New(tt.cfg, factory.Options{AWS: factory.AWS{NoEnvironment: true}})
		if m != nil || !fault.Is(err, tt.kind) || fault.CodeOf(err) != tt.code || !strings.Contains(fault.PublicText(err), tt.text) {
			t.Errorf("%s %s: %v, %v, %s", tt.cfg.Model, tt.cfg.BaseURL, m, err, fault.PublicText(err))
		}
	}
}

func ptr[T any](v T) *T { return &v }

// TestSettings: every field of a configuration arrives.
func TestSettings(t *testing.T) {
	m, sent := ask(t, account.LLM{Model: "openai/custom", BaseURL: "http://h/v1", APIKey: account.NewSecret("k"),
		Temperature: ptr(0.5), TopP: ptr(0.25), TopK: ptr(40.0), Seed: ptr(int64(7)), MaxInputTokens: 5000, MaxOutputTokens: 600,
		ExtraHeaders: map[string]account.Secret{"X-Team": account.NewSecret("red")}, ExtraBody: []byte(`{"provider":{"order":["a"]}}`),
		InputCost: ptr(1e-6), OutputCost: ptr(2e-6), DisableVision: ptr(true)},
		factory.Options{ExtraHeaders: map[string]string{"X-Server": "parley", "X-Team": "blue"}})
	delete(sent.Body, "messages")
	delete(sent.Body, "tools")
	want := map[string]any{"model": "custom", "temperature": 0.5, "top_p": 0.25, "top_k": 40.0, "seed": 7.0, "max_tokens": 600.0,
		"provider": map[string]any{"order": []any{"a"}}}
	if d := cmp.Diff(want, sent.Body); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if sent.Header.Get("X-Team") != "red" || sent.Header.Get("X-Server") != "parley" {
		t.Errorf("headers %v", sent.Header)
	}
	wantInfo := llm.Info{Model: "openai/custom", Endpoint: "http://h/v1", ContextWindow: 5000, MaxOutput: 600, NativeTools: true,
		Price: &llm.Price{Input: 1e-6, CacheRead: 1e-6, CacheWrite: 1e-6, Output: 2e-6}}
	if d := cmp.Diff(wantInfo, m.Info()); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestTimeout(t *testing.T) {
	client := &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	})}
	m, err := factory.New(account.LLM{Model: "ollama/x", Timeout: ptr(0.01)}, factory.Options{HTTPClient: client, Retry: factory.Retry{MaxAttempts: 1}})
	if err != nil {
		t.Fatal(err)
	}
	var e *llm.Error
	if _, err := m.Do(t.Context(), llmtest.Request(nil)); !errors.As(err, &e) || e.Class != llm.ClassTimeout {
		t.Errorf("%v", err)
	}
}

func small(t *testing.T) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Parse(strings.Join([]string{
		"openai/big\t100000\t128000\tVTR\t1/4/0.1\t",
		"openai/old\t8000\t4000\tTr\t1/4\t",
		"anthropic/claude-q\t200000\t64000\tVTRC\t1/4/0.1/1.25/2\t",
		"ollama/llama\t8000\t4000\tT\t1/4\t",
	}, "\n") + "\n")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestFacts: what the catalogue says holds unless the user says otherwise.
func TestFacts(t *testing.T) {
	const home, away = "", "http://h/v1"
	price := &llm.Price{Input: 1e-6, CacheRead: 0.1e-6, CacheWrite: 1e-6, Output: 4e-6}
	tests := map[string]struct {
		cfg  account.LLM
		want llm.Info
	}{
		"known":         {account.LLM{Model: "openai/big", BaseURL: home}, llm.Info{ContextWindow: 100000, MaxOutput: 32768, Vision: true, NativeTools: true, Price: price}},
		"elsewhere":     {account.LLM{Model: "openai/big", BaseURL: away}, llm.Info{ContextWindow: 100000, MaxOutput: 16384, Vision: true, NativeTools: true, Price: price}},
		"bound":         {account.LLM{Model: "openai/big", MaxOutputTokens: 50000}, llm.Info{ContextWindow: 100000, MaxOutput: 50000, Vision: true, NativeTools: true, Price: price}},
		"alias":         {account.LLM{Model: "openai/team-model", BaseURL: away, CanonicalName: "openai/big"}, llm.Info{ContextWindow: 100000, MaxOutput: 16384, Vision: true, NativeTools: true, Price: price}},
		"unknown":       {account.LLM{Model: "openai/what", BaseURL: away}, llm.Info{Vision: true, NativeTools: true}},
		"no tools":      {account.LLM{Model: "openai/what", BaseURL: away, NativeToolCalling: ptr(false)}, llm.Info{Vision: true}},
		"no vision":     {account.LLM{Model: "openai/big", DisableVision: ptr(true)}, llm.Info{ContextWindow: 100000, MaxOutput: 32768, NativeTools: true, Price: price}},
		"local is free": {account.LLM{Model: "ollama/llama"}, llm.Info{ContextWindow: 8000, MaxOutput: 4000, Vision: true, NativeTools: true, Price: &llm.Price{}}},
		"local by name": {account.LLM{Model: "vllm/x", BaseURL: "http://gpu:8000"}, llm.Info{Vision: true, NativeTools: true, Price: &llm.Price{}}},
		"local, private": {account.LLM{Model: "lm_studio/x", BaseURL: "http://192.168.1.5:1234"},
			llm.Info{Vision: true, NativeTools: true, Price: &llm.Price{}}},
		"not local": {account.LLM{Model: "vllm/x", BaseURL: "https://vllm.example.com/v1"}, llm.Info{Vision: true, NativeTools: true}},
		"local, priced": {account.LLM{Model: "ollama/x", InputCost: ptr(1e-6), OutputCost: ptr(2e-6)},
			llm.Info{Vision: true, NativeTools: true, Price: &llm.Price{Input: 1e-6, CacheRead: 1e-6, CacheWrite: 1e-6, Output: 2e-6}}},
		"discounts stay": {account.LLM{Model: "openai/big", InputCost: ptr(10e-6), OutputCost: ptr(20e-6)},
			llm.Info{ContextWindow: 100000, MaxOutput: 32768, Vision: true, NativeTools: true, Price: &llm.Price{Input: 10e-6, CacheRead: 1e-6, CacheWrite: 10e-6, Output: 20e-6}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m, _ := ask(t, key(tt.cfg), factory.Options{Catalog: small(t)})
			tt.want.Model = tt.cfg.Model
			got := m.Info()
			if (got.Price == nil) != (tt.want.Price == nil) || got.Price != nil && !near(*got.Price, *tt.want.Price) {
				t.Errorf("price %+v, want %+v", got.Price, tt.want.Price)
			}
			got.Price, tt.want.Price, got.Endpoint = nil, nil, ""
			if name == "local is free" {
				got.Vision = tt.want.Vision // what the small table says of images is not the matter
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

func near(a, b llm.Price) bool {
	same := func(x, y float64) bool { return x-y < 1e-15 && y-x < 1e-15 }
	return same(a.Input, b.Input) && same(a.Output, b.Output) && same(a.CacheRead, b.CacheRead) && same(a.CacheWrite, b.CacheWrite)
}

// TestReasoning: an effort is sent to models that think, and to unknown ones of
// which nothing else is said.
func TestReasoning(t *testing.T) {
	tests := map[string]struct {
		cfg             account.LLM
		effort, sampled bool
	}{
		"thinks":                {account.LLM{Model: "openai/big", ReasoningEffort: "high", Temperature: ptr(0.0)}, true, false},
		"does not, no wish":     {account.LLM{Model: "openai/old", ReasoningEffort: "high"}, false, false},
		"does not":              {account.LLM{Model: "openai/old", ReasoningEffort: "high", Temperature: ptr(0.0)}, false, true},
		"unknown":               {account.LLM{Model: "openai/what", ReasoningEffort: "high"}, true, false},
		"unknown, with a wish":  {account.LLM{Model: "openai/what", ReasoningEffort: "high", Temperature: ptr(0.0)}, false, true},
		"unknown, not to think": {account.LLM{Model: "openai/what", ReasoningEffort: "none", Temperature: ptr(0.0)}, false, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.cfg.BaseURL = "http://h/v1"
			_, sent := ask(t, key(tt.cfg), factory.Options{Catalog: small(t)})
			_, effort := sent.Body["reasoning_effort"]
			_, sampled := sent.Body["temperature"]
			if effort != tt.effort || sampled != tt.sampled {
				t.Errorf("%v", sent.Body)
			}
		})
	}
}

// TestDialects: the words that only some endpoints know.
func TestDialects(t *testing.T) {
	off := ptr(false)
	tests := []struct {
		cfg  account.LLM
		has  []string // in the body, as JSON
		not  []string
		head string
	}{
		{account.LLM{Model: "openai/gpt-4.1", PromptCacheRetention: "24h", TopK: ptr(5.0)},
			[]string{`"prompt_cache_key":"session-1"`, `"prompt_cache_retention":"24h"`, `"max_completion_tokens":`}, []string{"top_k", `"max_tokens"`}, ""},
		{account.LLM{Model: "openai/gpt-4.1", PromptCacheRetention: "24h", CachingPrompt: off}, nil, []string{"prompt_cache"}, ""},
		{account.LLM{Model: "openai/gpt-4.1", BaseURL: "http://h/v1"}, []string{`"max_tokens":16384`}, []string{"prompt_cache"}, ""},
		{account.LLM{Model: "openrouter/anthropic/claude-sonnet-4.5", ReasoningEffort: "low"},
			[]string{`"usage":{"include":true}`, `"reasoning":{"effort":"low"}`, `"cache_control":{"type":"ephemeral"}`}, []string{"reasoning_effort"}, ""},
		{account.LLM{Model: "openrouter/anthropic/claude-sonnet-4.5", CachingPrompt: off}, nil, []string{"cache_control"}, ""},
		{account.LLM{Model: "litellm_proxy/claude-x", BaseURL: "http://p:4000"}, []string{"cache_control"}, nil, "X-Litellm-Session-Id"},
		{account.LLM{Model: "openhands/gpt-x", BaseURL: "http://p:4000"}, nil, []string{"cache_control"}, "X-Litellm-Session-Id"},
		{account.LLM{Model: "litellm_proxy/gpt-5", BaseURL: "http://p:4000", APIMode: "responses"}, []string{`"input"`}, nil, "X-Litellm-Session-Id"},
		{account.LLM{Model: "azure/d", BaseURL: "https://n.openai.azure.com", APIVersion: "2024-10-21", MaxOutputTokens: 9}, []string{`"max_tokens":9`}, nil, ""},
		{account.LLM{Model: "azure/d", CanonicalName: "openai/gpt-5", APIMode: "chat", BaseURL: "https://n.openai.azure.com", APIVersion: "2024-10-21", MaxOutputTokens: 9},
			[]string{`"max_completion_tokens":9`}, nil, ""},
		{account.LLM{Model: "ollama/gemma", NativeToolCalling: off}, []string{"function=name_of_the_tool"}, []string{`"tools"`}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.cfg.Model, func(t *testing.T) {
			_, sent := ask(t, key(tt.cfg), factory.Options{})
			raw, err := json.Marshal(sent.Body)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tt.has {
				if !strings.Contains(string(raw), want) {
					t.Errorf("%s is not in %s", want, raw)
				}
			}
			for _, bad := range tt.not {
				if strings.Contains(string(raw), bad) {
					t.Errorf("%s is in %s", bad, raw)
				}
			}
			if tt.head != "" && sent.Header.Get(tt.head) != "session-1" {
				t.Errorf("headers %v", sent.Header)
			}
		})
	}
}

// TestAWSOfTheServer: what the server may do at Amazon is used there only.
func TestAWSOfTheServer(t *testing.T) {
	opt := factory.Options{AWS: factory.AWS{NoEnvironment: true, BearerToken: account.NewSecret("token-of-the-server")}}
	_, sent := ask(t, account.LLM{Model: "bedrock/m.x", AWSRegion: "us-east-1"}, opt)
	if sent.Header.Get("Authorization") != "Bearer token-of-the-server" {
		t.Errorf("headers %v", sent.Header)
	}
	reached := false
	opt.HTTPClient = &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
		reached = true
		return nil, io.ErrUnexpectedEOF
	})}
	opt.Retry.MaxAttempts = 1
	m, err := factory.New(account.LLM{Model: "bedrock/m.x", AWSRegion: "us-east-1", BaseURL: "https://bedrock.evil.example"}, opt)
	if err == nil {
		_, err = m.Do(t.Context(), llmtest.Request(nil))
	}
	if err == nil || reached {
		t.Errorf("%v; another address was called: %v", err, reached)
	}
}

func TestDemo(t *testing.T) {
	demo, err := factory.New(account.LLM{Model: "demo/scripted"}, factory.Options{})
	if err != nil || !demo.Info().Demo {
		t.Errorf("%v, %v", demo, err)
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
