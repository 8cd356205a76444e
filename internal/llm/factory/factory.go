// Package factory makes a model from what a user configured. The rules:
//
//   - A model id is "provider/model". The provider decides which API is spoken,
//     where, and what of the rest goes over the wire; a base URL replaces the
//     provider's own address, not its API.
//   - An id without a provider, or with one that nobody knows, is an error that
//     says what may be meant. Nothing is guessed: a guess would send a key and a
//     conversation to somebody.
//   - What is not configured comes from the catalogue, and what that does not
//     know stays unknown.
//   - "demo/scripted" is the built-in demo model.
//
// It calls nothing: a wrong key or an unreachable address shows at the first call.
package factory

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/llm/bedrock"
	"parley/internal/llm/catalog"
	"parley/internal/llm/retry"
	"parley/internal/llm/scripted"
	"parley/internal/llm/texttools"
)

// Options are the settings that are the same for all models of a process.
type Options struct {
	HTTPClient   *http.Client  // nil = http.DefaultTransport, which honours HTTP(S)_PROXY
	Timeout      time.Duration // until an answer begins, and between its parts; 0 = 300 s
	ExtraHeaders map[string]string
	DemoPace     time.Duration    // between the words of the demo model
	Retry        Retry            // zero fields take the defaults; MaxAttempts 1 = no retries
	Catalog      *catalog.Catalog // nil = catalog.Default()
	AWS          AWS
	// OnRetry is told of each retry before its wait, on the goroutine of Do.
	OnRetry func(context.Context, llm.Retry)
}

// AWS is what the server itself has for Amazon Bedrock. It is used for models
// without keys of their own, and never sent to an address outside AWS.
type AWS struct {
	NoEnvironment bool           // the AWS SDK does not look for credentials by itself
	BearerToken   account.Secret // a Bedrock API key
	Chain         *bedrock.Chain // credentials that the models share; nil = each looks for its own
}

// Retry says how often and how patiently calls are repeated.
type Retry = retry.Policy

func (o Options) catalog() *catalog.Catalog {
	if o.Catalog != nil {
		return o.Catalog
	}
	return catalog.Default()
}

// New makes the model, with retries around it unless opt.Retry.MaxAttempts is 1.
// Errors are fault.Invalid or fault.Unsupported with a public text that says
// what to change.
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

// choice is a user's choice of a model, taken apart.
type choice struct {
	cfg      account.LLM
	opt      Options
	provider provider
	id       string // as the user wrote it
	name     string // behind the provider
	base     string // the configured base URL, "" = none
	entry    catalog.Entry
}

// resolve finds the model of an id.
func resolve(cfg account.LLM, opt Options) (llm.Model, error) {
	id := strings.TrimSpace(cfg.Model)
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
		return nil, unknown(id, cfg.BaseURL, opt.catalog())
	}
	c := choice{cfg: cfg, opt: opt, provider: p, id: id, name: strings.TrimSpace(name), base: strings.TrimSpace(cfg.BaseURL)}
	if c.name == "" {
		return nil, fault.New(fault.Invalid, "llm_model_missing", "The model id %q names a provider but no model.", id).
			WithHint("A model id is \"provider/model\", for example \"openai/gpt-4o\".")
	}
	c.entry = c.lookup()
	m, err := c.adapter()
	if err != nil {
		return nil, err
	}
	return c.withTools(m), nil
}

// lookup finds what the catalogue knows; where the id is an alias, by the name
// of what is behind it.
func (c *choice) lookup() catalog.Entry {
	for _, id := range []string{strings.TrimSpace(c.cfg.CanonicalName), c.provider.name + "/" + c.name} {
		if id == "" {
			continue
		}
		if e, ok := c.opt.catalog().Lookup(id); ok {
			return e
		}
	}
	return catalog.Entry{}
}

// adapter makes the model of the provider's API.
func (c *choice) adapter() (llm.Model, error) {
	switch c.provider.api {
	case apiAnthropic:
		return c.anthropic()
	case apiGemini:
		return c.gemini()
	case apiVertex:
		return c.vertex()
	case apiBedrock:
		return c.bedrock()
	case apiAzure:
		return c.azure()
	case apiAzureAI:
		return c.azureAI()
	}
	return c.openai()
}

// textTools reports whether tools go through the text protocol from the start.
func (c *choice) textTools() bool {
	if native := c.cfg.NativeToolCalling; native != nil {
		return !*native
	}
	return c.entry.Tools == catalog.No
}

// withTools gives a model tools: in text where it has none of its own, and where
// its endpoint turns out to refuse them.
func (c *choice) withTools(m llm.Model) llm.Model {
	if c.textTools() {
		return texttools.New(m)
	}
	return texttools.Learn(m)
}

// keyless reports whether nothing authorizes a call: no key, and no header that
// may hold one.
func (c *choice) keyless() bool {
	if c.cfg.APIKey.IsSet() {
		return false
	}
	for name := range c.cfg.ExtraHeaders {
		if slices.Contains([]string{"authorization", "api-key", "x-api-key", "x-goog-api-key"}, strings.ToLower(name)) {
			return false
		}
	}
	return true
}

func (c *choice) needsKey() error {
	return fault.New(fault.Invalid, "llm_api_key_missing", "The model %q needs an API key.", c.id).
		WithHint("Set the LLM API key in the settings.")
}

func (c *choice) needsBase(example string) error {
	return fault.New(fault.Invalid, "llm_base_url_missing", "The model %q needs a base URL.", c.id).
		WithHint("Set the address of your endpoint, for example %s.", example)
}
