// Package factory makes a model from what a user configured. The rules:
//
//   - "demo/scripted" is the built-in demo model.
//   - "provider/model" with a provider that speaks the OpenAI API goes to its
//     well-known address, or to the base URL if there is one; the provider is
//     not part of the name on the wire.
//   - Providers with an API of their own (anthropic, gemini, bedrock, azure,
//     vertex_ai) need a base URL of an OpenAI-compatible endpoint for now. The
//     whole id is the name on the wire there, as gateways name their models,
//     except at the provider's own OpenAI-compatible address.
//   - Any other id, with or without a slash, is the name on the wire of the
//     endpoint at the base URL; without one it is an error with suggestions.
//
// It calls nothing: a wrong key or an unreachable address shows at the first call.
package factory

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/llm/catalog"
	"parley/internal/llm/openai"
	"parley/internal/llm/retry"
	"parley/internal/llm/scripted"
)

// Options are the settings that are the same for all models of a process.
type Options struct {
	HTTPClient   *http.Client  // nil = http.DefaultTransport, which honours HTTP(S)_PROXY
	Timeout      time.Duration // until an answer begins, and between its parts; 0 = 300 s
	ExtraHeaders map[string]string
	DemoPace     time.Duration // between the words of the demo model
	Retry        Retry         // zero fields take the defaults; MaxAttempts 1 = no retries
	// OnRetry is told of each retry before its wait, on the goroutine of Do.
	OnRetry func(context.Context, llm.Retry)
}

// Retry says how often and how patiently calls are repeated.
type Retry = retry.Policy

// New makes the model, with retries around it. Errors are fault.Invalid or
// fault.Unsupported with a public text that says what to change.
func New(cfg account.LLM, opt Options) (llm.Model, error) {
	m, err := resolve(cfg, opt)
	if err != nil {
		return nil, err
	}
	if opt.Retry.MaxAttempts == 1 {
		return m, nil // whoever wraps it counts the attempts
	}
	return retry.New(m, opt.Retry, opt.OnRetry), nil
}

// resolve finds the model of an id.
func resolve(cfg account.LLM, opt Options) (llm.Model, error) {
	id, base := strings.TrimSpace(cfg.Model), strings.TrimSpace(cfg.BaseURL)
	switch {
	case id == "":
		return nil, fault.New(fault.Invalid, "llm_model_missing", "No LLM model is set.").
			WithHint("Set one in the settings, for example \"openai/gpt-4o\", or start the server with --demo.")
	case strings.EqualFold(id, scripted.ID):
		return &scripted.Model{Pace: opt.DemoPace}, nil
	}
	prefix, name, slash := strings.Cut(id, "/")
	p, known := providerOf(prefix)
	if !slash || !known {
		return compatible(id, base, cfg, opt)
	}
	if strings.TrimSpace(name) == "" {
		return nil, fault.New(fault.Invalid, "llm_model_missing", "The model id %q names a provider but no model.", id).
			WithHint("A model id is \"provider/model\", for example \"openai/gpt-4o\".")
	}
	if p.native {
		return native(p, name, base, cfg, opt)
	}
	return remote(p, name, base, cfg, opt)
}

// compatible makes a model with an id that only the endpoint understands.
func compatible(id, base string, cfg account.LLM, opt Options) (llm.Model, error) {
	if base == "" {
		return nil, withoutProvider(id)
	}
	return build(openai.Config{Model: id, BaseURL: base}, id, cfg, opt)
}

// withoutProvider explains an id that says not where the model is.
func withoutProvider(id string) error {
	var prefixes []string
	for _, p := range providers() {
		if p.base != "" {
			prefixes = append(prefixes, p.name+"/")
		}
	}
	e := fault.New(fault.Invalid, "llm_model_without_provider", "The model id %q does not name a provider that Parley knows.", id)
	if found := catalog.Default().Suggest(id); len(found) > 0 {
		return e.WithHint("Did you mean %s?", strings.Join(found, " or "))
	}
	return e.WithHint("Put one of %s in front of it, or set the base URL of an OpenAI-compatible endpoint that has the model.",
		strings.Join(prefixes, ", "))
}

// native makes a model of a provider whose own API is not built yet.
func native(p provider, name, base string, cfg account.LLM, opt Options) (llm.Model, error) {
	if base == "" {
		e := fault.New(fault.Unsupported, "llm_provider_unsupported",
			"Parley does not speak the native API of %q yet.", p.name)
		if p.ownBase != "" {
			return nil, e.WithHint("Set the base URL %s (the provider's OpenAI-compatible API), or that of a gateway such as LiteLLM, or use openrouter/%s.",
				p.ownBase, p.name+"/"+name)
		}
		return nil, e.WithHint("Set the base URL of an OpenAI-compatible endpoint that has the model, such as a LiteLLM proxy.")
	}
	wire := p.name + "/" + name
	if u, err := url.Parse(base); err == nil && p.ownHost != "" && strings.EqualFold(u.Hostname(), p.ownHost) {
		wire = name
	}
	return build(openai.Config{Model: wire, BaseURL: base, Dialect: dialect(p, name, base)}, p.name+"/"+name, cfg, opt)
}

// remote makes a model of a provider that speaks the OpenAI API.
func remote(p provider, name, base string, cfg account.LLM, opt Options) (llm.Model, error) {
	id := p.name + "/" + name
	switch {
	case base == "" && p.base == "":
		return nil, fault.New(fault.Invalid, "llm_base_url_missing", "The model %q needs a base URL.", id).
			WithHint("Set the address of your endpoint, for example http://127.0.0.1:4000/v1.")
	case base == "" && p.needsKey && !cfg.APIKey.IsSet():
		return nil, fault.New(fault.Invalid, "llm_api_key_missing", "The model %q needs an API key.", id).
			WithHint("Set the LLM API key in the settings.")
	}
	c := openai.Config{Model: name, BaseURL: base, Dialect: dialect(p, name, base)}
	if base == "" {
		c.BaseURL = p.base
	} else if p.addV1 {
		c.BaseURL = withV1(base)
	}
	return build(c, id, cfg, opt)
}

// withV1 completes the bare address of a local server.
func withV1(base string) string {
	if u, err := url.Parse(base); err == nil && strings.Trim(u.Path, "/") == "" && u.RawQuery == "" {
		return strings.TrimRight(base, "/") + "/v1"
	}
	return base
}

// dialect collects what is known of an endpoint and a model.
func dialect(p provider, name, base string) openai.Dialect {
	name = strings.ToLower(name)
	d := openai.Dialect{
		PromptCacheKey: p.name == "openai" && base == "",
		CacheMarkers:   p.gateway && strings.Contains(name, "claude"),
	}
	if p.name == "litellm_proxy" || p.name == "openhands" {
		d.SessionHeader = "X-Litellm-Session-Id"
	}
	// Models that want their reasoning back (agent protocol 4.12).
	for _, family := range []string{"kimi-k2", "kimi-k3", "deepseek-reasoner", "deepseek-v4", "minimax-m2"} {
		d.ReplayReasoning = d.ReplayReasoning || strings.Contains(name, family)
	}
	return d
}

// build adds what is the same for all.
func build(c openai.Config, id string, cfg account.LLM, opt Options) (llm.Model, error) {
	c.DisplayModel, c.APIKey = id, cfg.APIKey
	c.HTTPClient, c.Timeout, c.ExtraHeaders = opt.HTTPClient, opt.Timeout, opt.ExtraHeaders
	if e, ok := catalog.Default().Lookup(id); ok {
		c.ContextWindow, c.Price, c.NoVision = e.ContextWindow, e.Price, !e.Vision
	}
	m, err := openai.New(c)
	if err != nil {
		return nil, err
	}
	return m, nil
}
