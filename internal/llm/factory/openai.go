package factory

import (
	"net/url"
	"slices"
	"strings"

	"parley/internal/lazyre"
	"parley/internal/llm"
	"parley/internal/llm/openai"
	"parley/internal/llm/responses"
)

// sessionHeader groups the calls of a conversation at a LiteLLM proxy (4.12).
const sessionHeader = "X-Litellm-Session-Id"

// openai makes a model of a provider that speaks OpenAI's API.
func (c *choice) openai() (llm.Model, error) {
	p := c.provider
	switch {
	case c.base == "" && p.base == "":
		return nil, c.needsBase(p.example)
	case c.atHome() && p.needsKey && c.keyless():
		return nil, c.needsKey()
	}
	cfg := c.config()
	cfg.BaseURL = c.address()
	if p.addV1 {
		cfg.BaseURL = withV1(cfg.BaseURL)
	}
	if c.wantsResponses(p.name == "openai" && c.atHome()) {
		rc := responses.Config{ModelConfig: cfg}
		if c.isLiteLLM() {
			rc.SessionHeader = sessionHeader
		}
		return made(responses.New(rc))
	}
	return made(openai.New(openai.Config{ModelConfig: cfg, Dialect: c.dialect()}))
}

// made is a model, or no model and the error: a nil of an adapter's type is none.
func made[M llm.Model](m M, err error) (llm.Model, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

// responsesFirst are the models that OpenAI develops for the Responses API
// (agent protocol 4.12: those of gpt-5, codex-mini-latest), and the reasoning
// models that lose their thoughts between calls elsewhere.
var responsesFirst = lazyre.MustCompile(`gpt-([5-9]|[1-9]\d)|codex|(^|[^a-z0-9])o[1-9](-|$)`)

// wantsResponses chooses between the two APIs of OpenAI. Only at its own
// endpoints, and Azure's, is that done by the name.
func (c *choice) wantsResponses(home bool) bool {
	switch c.cfg.APIMode {
	case "responses":
		return true
	case "chat":
		return false
	}
	if !home {
		return false
	}
	if c.entry.Responses {
		return true
	}
	name := c.name
	if canonical := strings.TrimSpace(c.cfg.CanonicalName); canonical != "" {
		name = canonical[strings.LastIndexByte(canonical, '/')+1:]
	}
	return responsesFirst.MatchString(strings.ToLower(name))
}

func (c *choice) isLiteLLM() bool {
	return c.provider.name == "litellm_proxy" || c.provider.name == "openhands"
}

// withV1 completes the bare address of a local server.
func withV1(base string) string {
	if u, err := url.Parse(base); err == nil && strings.Trim(u.Path, "/") == "" && u.RawQuery == "" {
		return strings.TrimRight(base, "/") + "/v1"
	}
	return base
}

// longCache are OpenAI's models that keep a prompt cached for a day where asked to.
var longCache = lazyre.MustCompile(`^gpt-(4\.1|5)`)

// dialect collects what is known of an endpoint and a model.
func (c *choice) dialect() openai.Dialect {
	id, name := strings.ToLower(c.id), strings.ToLower(c.name)
	own := c.provider.name == "openai" && c.atHome()
	router := c.provider.name == "openrouter"
	d := openai.Dialect{
		MaxCompletionTokens: own,
		PromptCacheKey:      own,
		CacheRetention:      own && longCache.MatchString(name),
		TopK:                !own,
		ReasoningObject:     router,
		UsageCost:           router,
		CacheMarkers:        !own && strings.Contains(name, "claude"),
		ReplayReasoning:     containsAny(name, "kimi-k2", "kimi-k3", "deepseek-reasoner", "deepseek-v4", "minimax-m2"),
		PlainText:           containsAny(id, "deepseek", "glm", "groq/moonshotai/kimi-k2-instruct", "groq/kimi-k2-instruct", "openrouter/minimax"),
	}
	if c.isLiteLLM() {
		d.SessionHeader = sessionHeader
	}
	return d
}

func containsAny(s string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(s, w) })
}

// compatible makes a model that is reached over the chat completions API though
// its provider has another: a gateway's or the provider's own imitation. model is
// its name there.
func (c *choice) compatible(model string) (llm.Model, error) {
	cfg := c.config()
	cfg.Model = model
	return made(openai.New(openai.Config{ModelConfig: cfg, Dialect: c.dialect()}))
}
