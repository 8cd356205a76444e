package wire

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/llm/failure"
)

// ModelConfig is what every adapter is made from. The factory fills it from the
// user's configuration and the catalogue; an adapter ignores what its API has no
// word for, and never sends what is zero here.
type ModelConfig struct {
	Model        string // the endpoint's name for it
	DisplayModel string // as the user configured it; "" = Model
	BaseURL      string // "" = the provider's own
	APIKey       account.Secret
	Headers      map[string]string // added to every call; they win over the adapter's
	Body         json.RawMessage   // an object, merged over the request's body (Merge)

	HTTPClient  *http.Client
	Timeout     time.Duration
	IdleTimeout time.Duration
	Total       time.Duration

	Temperature *float64
	TopP        *float64
	TopK        *float64
	Seed        *int64
	// MaxOutput bounds an answer, in tokens; 0 = unknown. Request.MaxOutput may
	// lower it for one call.
	MaxOutput int64

	// Reasoning says that the model can think. Effort is "none", "minimal", "low",
	// "medium", "high", "xhigh" or "" for the model's default; Budget is in tokens.
	Reasoning        bool
	ReasoningEffort  string
	ReasoningBudget  int64
	ReasoningSummary string

	ContextWindow  int64 // tokens; 0 = unknown
	NoVision       bool  // the model is known to take no images, or shall get none
	NoTools        bool  // the model has no native tool calling
	Price          *llm.Price
	NoCache        bool   // no cache markers or keys
	CacheRetention string // "24h", "1h", "5m"; "" = the provider's default
}

// Resolve checks what every adapter needs, a model, an address and a key that can
// be sent, and sets the address to base, the provider's own, where there is none.
// It returns the address; a missing key is none of its errors, which are
// fault.Invalid.
func (c *ModelConfig) Resolve(base string) (*url.URL, error) {
	if strings.TrimSpace(c.Model) == "" {
		return nil, fault.New(fault.Invalid, "llm_model_missing", "No model is set.")
	}
	c.BaseURL = cmp.Or(c.BaseURL, base)
	u, err := Endpoint(c.BaseURL)
	if err != nil {
		return nil, err
	}
	c.APIKey, err = Key(c.APIKey)
	return u, err
}

// Output returns the bound of one call's answer, in tokens; 0 = none.
func (c *ModelConfig) Output(req *llm.Request) int64 {
	switch {
	case req.MaxOutput <= 0:
		return c.MaxOutput
	case c.MaxOutput <= 0:
		return req.MaxOutput
	}
	return min(c.MaxOutput, req.MaxOutput)
}

// Name is the model's name as the user knows it.
func (c *ModelConfig) Name() string {
	return cmp.Or(c.DisplayModel, c.Model)
}

// Info is what llm.Model.Info returns.
func (c *ModelConfig) Info() llm.Info {
	return llm.Info{Model: c.Name(), Endpoint: c.BaseURL, ContextWindow: c.ContextWindow, MaxOutput: c.MaxOutput, Vision: !c.NoVision,
		NativeTools: !c.NoTools, Price: c.Price}
}

// Header returns the header of a call: what the endpoint may answer with, then
// what set adds, then the user's own, which win.
func (c *ModelConfig) Header(req *llm.Request, set func(http.Header)) http.Header {
	h := http.Header{}
	h.Set("Accept", "application/json")
	if req.OnDelta != nil {
		h.Set("Accept", "text/event-stream, application/json")
	}
	set(h)
	for k, v := range c.Headers {
		h.Set(k, v)
	}
	return h
}

// Authorize adds the key to a call, if there is one: bare in the header of that
// name, "" = as a bearer token.
func (c *ModelConfig) Authorize(h http.Header, name string) {
	switch {
	case !c.APIKey.IsSet():
	case name != "":
		h.Set(name, c.APIKey.Reveal())
	default:
		h.Set("Authorization", "Bearer "+c.APIKey.Reveal())
	}
}

// Unknown makes e say that the endpoint at host knows neither the model nor what
// else it was asked for (such as "the path"), and what to check beside the model
// id; what the endpoint said itself stays in it.
func (c *ModelConfig) Unknown(e *llm.Error, host, what, check string) {
	e.Message = failure.Bound("the endpoint " + host + " does not know the model \"" + c.Model + "\" or " + what +
		"; check the model id and " + check + " (it said: " + e.Message + ")")
}

// Client returns the client of the configuration. Its secrets are the key, then
// the values of the headers and what is secret of the base URL, then more.
func (c *ModelConfig) Client(more ...string) *Client {
	secrets := []string{c.APIKey.Reveal()}
	for _, v := range c.Headers {
		secrets = append(append(secrets, v), account.HeaderSecrets(v)...)
	}
	secrets = append(secrets, account.AddressSecrets(c.BaseURL)...)
	return New(Config{HTTPClient: c.HTTPClient, Timeout: c.Timeout, IdleTimeout: c.IdleTimeout, Total: c.Total,
		Secrets: append(secrets, more...)})
}

// Account turns an endpoint's token counts into a response's usage and cost.
// reported is the endpoint's own figure, which wins; known says that there were
// counts at all.
func (c *ModelConfig) Account(u Counts, responseID string, known bool, reported *float64) (Usage, *float64) {
	out := Usage{Model: c.Name(), PromptTokens: u.Prompt, CompletionTokens: u.Completion, CacheReadTokens: u.Read,
		CacheWriteTokens: u.Write, ReasoningTokens: u.Reasoning, ContextWindow: c.ContextWindow,
		PerTurnToken: u.Prompt + u.Completion, ResponseID: responseID}
	if reported == nil && c.Price != nil && known {
		cost := c.Price.Cost(out)
		reported = &cost
	}
	return out, reported
}
