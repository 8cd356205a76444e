package factory

import (
	"cmp"
	"net/url"
	"strings"

	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/llm/anthropic"
	"parley/internal/llm/openai"
	"parley/internal/llm/responses"
	"parley/internal/llm/wire"
)

// azureKey is the header that carries an Azure key.
const azureKey = "api-key"

// foundryVersion is the version of the model inference API of Azure AI Foundry.
const foundryVersion = "2024-05-01-preview"

// azure makes a deployment of Azure OpenAI. Its API has two forms: the one of
// OpenAI itself below /openai/v1, and an older one with a path for each
// deployment and a dated version. The Responses API is reached in the first form.
func (c *choice) azure() (llm.Model, error) {
	u, err := c.azureBase()
	if err != nil {
		return nil, err
	}
	cfg := c.config()
	if c.wantsResponses(isAzure(hostOf(c.base))) {
		cfg.BaseURL = azureV1(u, c.cfg.APIVersion)
		return made(responses.New(responses.Config{ModelConfig: cfg, KeyHeader: azureKey}))
	}
	if cfg.BaseURL, err = c.azureChat(u); err != nil {
		return nil, err
	}
	d := openai.Dialect{KeyHeader: azureKey, PromptCacheKey: true,
		MaxCompletionTokens: cfg.Reasoning, // the models that think take no max_tokens; the rest does (4.12)
		CacheRetention:      longCache.MatchString(strings.ToLower(c.name))}
	return made(openai.New(openai.Config{ModelConfig: cfg, Dialect: d}))
}

// azureBase reads the address and checks that there is what Azure needs.
func (c *choice) azureBase() (*url.URL, error) {
	if c.base == "" {
		return nil, c.needsBase(c.provider.example)
	}
	if c.keyless() {
		return nil, c.needsKey()
	}
	u, err := wire.Endpoint(c.base)
	if err != nil {
		return nil, err
	}
	path := strings.TrimRight(u.Path, "/")
	for _, call := range []string{"/chat/completions", "/responses"} {
		path = strings.TrimSuffix(path, call)
	}
	u.Path = path
	return u, nil
}

// isV1 reports whether the newer form is asked for.
func isV1(u *url.URL, version string) bool {
	switch strings.ToLower(strings.TrimSpace(version)) {
	case "v1", "preview", "latest":
		return true
	}
	return strings.HasSuffix(u.Path, "/openai/v1")
}

// azureV1 is the base of the newer form. A dated version is none of its.
func azureV1(u *url.URL, version string) string {
	v := *u
	if i := strings.Index(v.Path, "/openai"); i >= 0 {
		v.Path = v.Path[:i]
	}
	v.Path += "/openai/v1"
	query := v.Query()
	query.Del("api-version")
	if version = strings.ToLower(strings.TrimSpace(version)); version == "preview" || version == "latest" {
		query.Set("api-version", version)
	}
	v.RawQuery = query.Encode()
	return v.String()
}

// azureChat is the base of chat completions.
func (c *choice) azureChat(u *url.URL) (string, error) {
	if isV1(u, c.cfg.APIVersion) {
		return azureV1(u, c.cfg.APIVersion), nil
	}
	v, query := *u, u.Query()
	if version := strings.TrimSpace(c.cfg.APIVersion); version != "" {
		query.Set("api-version", version)
	}
	if query.Get("api-version") == "" {
		return "", fault.New(fault.Invalid, "llm_api_version_missing", "The Azure deployment %q needs an API version.", c.name).
			WithHint("Set the API version, for example 2024-10-21, or let the base URL end in /openai/v1, which needs none.")
	}
	if !strings.Contains(v.Path, "/deployments/") {
		v.Path = strings.TrimSuffix(v.Path, "/openai") + "/openai/deployments/" + c.name
	}
	v.RawQuery = query.Encode()
	return v.String(), nil
}

func isAzure(host string) bool {
	for _, zone := range []string{".openai.azure.com", ".openai.azure.us", ".openai.azure.cn", ".cognitiveservices.azure.com", ".services.ai.azure.com"} {
		if strings.HasSuffix(host, zone) {
			return true
		}
	}
	return false
}

// azureAI makes a model of Azure AI Foundry: Claude over Anthropic's API, others
// over the model inference API, over OpenAI's (a base URL with /openai/v1), or at
// a serverless endpoint of their own.
func (c *choice) azureAI() (llm.Model, error) {
	u, err := c.azureBase()
	if err != nil {
		return nil, err
	}
	cfg, d := c.config(), openai.Dialect{KeyHeader: azureKey}
	foundry := strings.HasSuffix(u.Hostname(), ".services.ai.azure.com")
	switch {
	case foundry && strings.Contains(strings.ToLower(c.name), "claude") && c.cfg.APIMode != "chat":
		u.Path, u.RawQuery = "/anthropic", ""
		cfg.BaseURL = u.String()
		return made(anthropic.New(anthropic.Config{ModelConfig: cfg}))
	case isV1(u, c.cfg.APIVersion):
		cfg.BaseURL = azureV1(u, c.cfg.APIVersion)
	case foundry && (u.Path == "" || u.Path == "/models"):
		u.Path = "/models"
		query := u.Query()
		if version := strings.TrimSpace(c.cfg.APIVersion); version != "" || query.Get("api-version") == "" {
			query.Set("api-version", cmp.Or(version, foundryVersion))
		}
		u.RawQuery = query.Encode()
		cfg.BaseURL = u.String()
	case strings.HasSuffix(u.Hostname(), ".models.ai.azure.com"): // serverless
		d.KeyHeader, cfg.BaseURL = "", withV1(u.String())
	default:
		cfg.BaseURL = u.String()
	}
	return made(openai.New(openai.Config{ModelConfig: cfg, Dialect: d}))
}
