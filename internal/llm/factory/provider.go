package factory

import (
	"strings"

	"parley/internal/llm/anthropic"
	"parley/internal/llm/gemini"
	"parley/internal/llm/openai"
)

// api is which API a provider speaks.
type api int

const (
	apiOpenAI api = iota // chat completions, and Responses where asked for
	apiAnthropic
	apiGemini
	apiVertex
	apiBedrock
	apiAzure
	apiAzureAI
)

// provider is what the first part of a model id means.
type provider struct {
	name     string // of the catalogue
	api      api
	base     string // default base URL; "" = the user must give one
	example  string // of a base URL, where there is no default
	needsKey bool   // at the default base
	addV1    bool   // a base URL without a path lacks its /v1
	gateway  bool   // forwards to other providers
	local    bool   // runs on the user's own machines: costs nothing there
}

// providerOf returns what is known of a prefix.
func providerOf(prefix string) (provider, bool) {
	prefix = strings.ToLower(strings.TrimSpace(prefix))
	if prefix == "google" {
		prefix = "gemini"
	}
	for _, p := range providers() {
		if p.name == prefix {
			return p, true
		}
	}
	return provider{}, false
}

func providers() []provider {
	return append(native(), append(hosted(), selfHosted()...)...)
}

// native are the providers with an adapter of their own.
func native() []provider {
	return []provider{
		{name: "openai", base: openai.DefaultBaseURL, needsKey: true},
		{name: "anthropic", api: apiAnthropic, base: anthropic.DefaultBaseURL, needsKey: true},
		{name: "gemini", api: apiGemini, base: gemini.DefaultBaseURL, needsKey: true},
		{name: "vertex_ai", api: apiVertex, example: "https://us-central1-aiplatform.googleapis.com/v1/projects/PROJECT/locations/us-central1"},
		{name: "bedrock", api: apiBedrock},
		{name: "azure", api: apiAzure, example: "https://NAME.openai.azure.com"},
		{name: "azure_ai", api: apiAzureAI, example: "https://NAME.services.ai.azure.com"},
	}
}

// hosted are the providers that imitate OpenAI's API.
func hosted() []provider {
	return []provider{
		{name: "openrouter", base: "https://openrouter.ai/api/v1", needsKey: true, gateway: true},
		{name: "groq", base: "https://api.groq.com/openai/v1", needsKey: true},
		{name: "deepseek", base: "https://api.deepseek.com/v1", needsKey: true},
		{name: "mistral", base: "https://api.mistral.ai/v1", needsKey: true},
		{name: "together_ai", base: "https://api.together.xyz/v1", needsKey: true},
		{name: "fireworks_ai", base: "https://api.fireworks.ai/inference/v1", needsKey: true},
		{name: "xai", base: "https://api.x.ai/v1", needsKey: true},
		{name: "cerebras", base: "https://api.cerebras.ai/v1", needsKey: true},
		{name: "sambanova", base: "https://api.sambanova.ai/v1", needsKey: true},
		{name: "perplexity", base: "https://api.perplexity.ai", needsKey: true},
		{name: "moonshot", base: "https://api.moonshot.ai/v1", needsKey: true},
		{name: "zai", base: "https://api.z.ai/api/paas/v4", needsKey: true},
		{name: "minimax", base: "https://api.minimax.io/v1", needsKey: true},
		{name: "dashscope", base: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", needsKey: true},
		{name: "nvidia_nim", base: "https://integrate.api.nvidia.com/v1", needsKey: true},
		{name: "huggingface", base: "https://router.huggingface.co/v1", needsKey: true},
		{name: "deepinfra", base: "https://api.deepinfra.com/v1/openai", needsKey: true},
		{name: "clarifai", base: "https://api.clarifai.com/v2/ext/openai/v1", needsKey: true},
	}
}

// selfHosted are servers that imitate OpenAI's API wherever the user runs them.
func selfHosted() []provider {
	return []provider{
		{name: "ollama", base: "http://127.0.0.1:11434/v1", addV1: true, local: true},
		{name: "ollama_chat", base: "http://127.0.0.1:11434/v1", addV1: true, local: true},
		{name: "lm_studio", base: "http://127.0.0.1:1234/v1", addV1: true, local: true},
		{name: "vllm", example: "http://127.0.0.1:8000/v1", addV1: true, local: true},
		{name: "hosted_vllm", example: "http://127.0.0.1:8000/v1", addV1: true, local: true},
		{name: "litellm_proxy", example: "http://127.0.0.1:4000/v1", gateway: true},
		{name: "openhands", example: "https://llm-proxy.app.all-hands.dev", gateway: true},
	}
}
