// Package bedrock speaks the Converse API of Amazon Bedrock: every model there
// behind one wire, streamed (AWS event streams) and whole, with images, tools,
// thinking that is kept and sent back, and prompt caching.
//
// Requests are signed with Signature Version 4, or carry a Bedrock API key. New
// calls no network: credentials are looked for at the first call, within a bound
// (Config.CredentialWait), and kept until they expire. Where they are looked for
// is the AWS SDK's business: unless Config.UseEnvironment is false, the SDK reads
// the AWS_* environment of the process, the shared configuration files (with SSO,
// web identity, assumed roles, credential processes), and asks the container's or
// the machine's metadata service. This package reads no environment itself.
//
// It makes one call per Do, more where a model refuses an optional part of the
// request (then it is left out from there on) or credentials turn out to be
// renewed. It does not retry otherwise, follows no redirects, bounds what it
// reads, and shows no secret in an error.
package bedrock

import (
	"strings"
	"sync/atomic"
	"time"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/llm/wire"
)

// Config describes a model of Bedrock. ModelConfig.Model is a model id, the id of
// an inference profile, or an ARN of either; ModelConfig.BaseURL is an endpoint
// instead of AWS's own, such as a private link or a gateway.
//
// What authorizes the calls is the first of: AccessKeyID and SecretAccessKey;
// ModelConfig.APIKey, a Bedrock API key; Profile; BearerToken; the environment.
type Config struct {
	wire.ModelConfig

	// Region, such as "eu-central-1"; "" = that of the ARN, of the base URL, or of
	// the environment.
	Region string
	// Profile is one of the shared AWS configuration; "" = the environment's choice.
	Profile string

	AccessKeyID     account.Secret
	SecretAccessKey account.Secret
	SessionToken    account.Secret // of temporary keys

	// BearerToken is the Bedrock API key of the whole server, which AWS tools take
	// from AWS_BEARER_TOKEN_BEDROCK: whoever reads the environment hands it in.
	BearerToken account.Secret

	// UseEnvironment lets the AWS SDK look for a region and credentials in the
	// environment, the shared configuration and the metadata services; nil = true.
	UseEnvironment *bool
	// Chain keeps the credentials found there, for all models that share it; nil =
	// the model has its own.
	Chain *Chain
	// CredentialWait bounds the search for credentials; 0 = DefaultCredentialWait.
	CredentialWait time.Duration

	// CanonicalModel is the id of the model where Model does not show it, as in the
	// ARN of an application's inference profile; "" = Model shows it.
	CanonicalModel string
}

// DefaultCredentialWait is the bound of Config.CredentialWait. A metadata service
// that does not exist answers nothing for ever.
const DefaultCredentialWait = 5 * time.Second

// Model is one model of Bedrock. It is safe for concurrent use.
type Model struct {
	cfg    Config
	family family
	url    string // up to the operation: ".../model/{id}/"
	region string
	source string // of the fields that are sent back
	auth   authorizer
	client *wire.Client
	// refused remembers which optional parts of a request the model refused.
	refused atomic.Uint32
}

var _ llm.Model = (*Model)(nil)

// New checks the configuration. Errors are fault.Invalid.
func New(cfg Config) (*Model, error) {
	name := modelName(cfg.Model)
	if name.id == "" {
		return nil, fault.New(fault.Invalid, "llm_model_missing", "No Bedrock model is set.").
			WithHint("A model id looks like \"bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0\", or is the ARN of an inference profile.")
	}
	if cfg.Name() == cfg.Model {
		cfg.DisplayModel = "bedrock/" + name.id
	}
	if cfg.CredentialWait <= 0 {
		cfg.CredentialWait = DefaultCredentialWait
	}
	var err error
	if cfg.APIKey, err = wire.Key(cfg.APIKey); err != nil {
		return nil, err
	}
	if cfg.BearerToken, err = wire.Key(cfg.BearerToken); err != nil {
		return nil, err
	}
	m := &Model{cfg: cfg, family: familyOf(name.id, cfg.CanonicalModel), source: "bedrock " + name.id}
	if m.region, err = regionOf(&cfg, name); err != nil {
		return nil, err
	}
	if m.auth, err = authorizerOf(&m.cfg, m.region); err != nil {
		return nil, err
	}
	if m.url, err = endpointOf(cfg.BaseURL, m.region, name.id); err != nil {
		return nil, err
	}
	m.client = cfg.Client(cfg.SecretAccessKey.Reveal(), cfg.SessionToken.Reveal(), cfg.AccessKeyID.Reveal(), cfg.BearerToken.Reveal())
	return m, nil
}

// Info implements llm.Model.
func (m *Model) Info() llm.Info { return m.cfg.Info() }

// useEnvironment is Config.UseEnvironment with its default.
func (c *Config) useEnvironment() bool { return c.UseEnvironment == nil || *c.UseEnvironment }

// hasKeys reports whether the configuration has AWS keys of its own.
func (c *Config) hasKeys() bool { return c.AccessKeyID.IsSet() && c.SecretAccessKey.IsSet() }

// bearer returns the API key that calls carry, "" if they are signed.
func (c *Config) bearer() string {
	switch {
	case c.hasKeys():
		return ""
	case c.APIKey.IsSet():
		return c.APIKey.Reveal()
	case strings.TrimSpace(c.Profile) == "":
		return c.BearerToken.Reveal()
	}
	return ""
}
