package factory

import "strings"

// provider is what the first part of a model id means.
type provider struct {
	name     string
	base     string // default base URL; "" = the user must give one
	needsKey bool   // at the default base
	addV1    bool   // a base URL without a path lacks its /v1
	gateway  bool   // forwards to other providers
	// native providers have an API of their own, which is not built yet. ownHost
	// is where they speak the OpenAI API too, ownBase how that is reached.
	native  bool
	ownHost string
	ownBase string
}

// providerOf returns what is known of a prefix.
func providerOf(name string) (provider, bool) {
	name = strings.ToLower(name)
	for _, p := range providers() {
		if p.name == name {
			return p, true
		}
	}
	return provider{}, false
}

func providers() []provider {
	return []provider{
		{name: "openai", base: "https://api.openai.com/v1", needsKey: true},
		{name: "openrouter", base: "https://openrouter.ai/api/v1", needsKey: true, gateway: true},
		{name: "groq", base: "https://api.groq.com/openai/v1", needsKey: true},
		{name: "deepseek", base: "https://api.deepseek.com/v1", needsKey: true},
		{name: "mistral", base: "https://api.mistral.ai/v1", needsKey: true},
		{name: "together_ai", base: "https://api.together.xyz/v1", needsKey: true},
		{name: "fireworks_ai", base: "https://api.fireworks.ai/inference/v1", needsKey: true},
		{name: "xai", base: "https://api.x.ai/v1", needsKey: true},
		{name: "ollama", base: "http://127.0.0.1:11434/v1", addV1: true},
		{name: "ollama_chat", base: "http://127.0.0.1:11434/v1", addV1: true},
		{name: "lm_studio", base: "http://127.0.0.1:1234/v1", addV1: true},
		{name: "hosted_vllm"},
		{name: "vllm"},
		{name: "litellm_proxy", gateway: true},
		{name: "openhands", gateway: true},
		{name: "anthropic", native: true, ownHost: "api.anthropic.com", ownBase: "https://api.anthropic.com/v1"},
		{name: "gemini", native: true, ownHost: "generativelanguage.googleapis.com",
			ownBase: "https://generativelanguage.googleapis.com/v1beta/openai"},
		{name: "bedrock", native: true},
		{name: "azure", native: true},
		{name: "vertex_ai", native: true},
	}
}
