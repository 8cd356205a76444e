package factory

import (
	"strings"

	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/llm/anthropic"
	"parley/internal/llm/bedrock"
	"parley/internal/llm/gemini"
)

func (c *choice) anthropic() (llm.Model, error) {
	switch {
	case c.atHome() && c.keyless():
		return nil, c.needsKey()
	case c.base != "" && c.cfg.APIMode == "chat":
		return c.compatible(c.nameAtGateway())
	}
	return made(anthropic.New(anthropic.Config{ModelConfig: c.config()}))
}

func (c *choice) gemini() (llm.Model, error) {
	switch {
	case c.atHome() && c.keyless():
		return nil, c.needsKey()
	case c.base != "" && (c.cfg.APIMode == "chat" || strings.HasSuffix(strings.TrimRight(c.base, "/"), "/openai")):
		return c.compatible(c.nameAtGateway())
	}
	return made(gemini.New(gemini.Config{ModelConfig: c.config()}))
}

// nameAtGateway is the model's name at an endpoint that has the models of many
// providers; at the provider's own it has no prefix.
func (c *choice) nameAtGateway() string {
	if c.atHome() {
		return c.name
	}
	return c.provider.name + "/" + c.name
}

// vertex makes a Gemini model of Vertex AI. Google's own way to get a token is
// not built: the token, or a key, comes as the API key.
func (c *choice) vertex() (llm.Model, error) {
	if !strings.HasPrefix(c.name, "gemini") {
		return nil, fault.New(fault.Unsupported, "llm_provider_unsupported", "Of Vertex AI, Parley speaks to Gemini models only, not to %q.", c.name).
			WithHint("Use the model at its maker (anthropic/, mistral/, ...), over openrouter/, or over a LiteLLM proxy (litellm_proxy/).")
	}
	if c.base == "" || c.keyless() {
		return nil, fault.New(fault.Invalid, "llm_vertex_incomplete", "The model %q needs a base URL and an access token as API key.", c.id).
			WithHint("The base URL is %s, the token what \"gcloud auth print-access-token\" prints (it holds for an hour). With a key of Google AI Studio, use gemini/%s instead.",
				c.provider.example, c.name)
	}
	cfg := gemini.Config{ModelConfig: c.config(), Auth: gemini.AuthBearer}
	if strings.HasPrefix(strings.TrimSpace(c.cfg.APIKey.Reveal()), "AIza") { // a key, not a token
		cfg.Auth = gemini.AuthKeyHeader
	}
	return made(gemini.New(cfg))
}

// bedrock makes a model of Amazon Bedrock. What the server itself may do there is
// not shown to an address that is not Amazon's.
func (c *choice) bedrock() (llm.Model, error) {
	trusted := c.base == "" || isAmazon(hostOf(c.base))
	environment := trusted && !c.opt.AWS.NoEnvironment
	cfg := bedrock.Config{ModelConfig: c.config(), Region: c.cfg.AWSRegion, AccessKeyID: c.cfg.AWSAccessKeyID,
		SecretAccessKey: c.cfg.AWSSecretAccessKey, SessionToken: c.cfg.AWSSessionToken, UseEnvironment: &environment,
		Chain: c.opt.AWS.Chain, CanonicalModel: strings.TrimPrefix(c.cfg.CanonicalName, "bedrock/")}
	if trusted {
		cfg.Profile, cfg.BearerToken = c.cfg.AWSProfile, c.opt.AWS.BearerToken
	}
	return made(bedrock.New(cfg))
}

func isAmazon(host string) bool {
	return strings.HasSuffix(host, ".amazonaws.com") || strings.HasSuffix(host, ".amazonaws.com.cn") || strings.HasSuffix(host, ".api.aws")
}
