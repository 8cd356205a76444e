// Package openai speaks the OpenAI chat completions API, as OpenAI and the
// dozens of endpoints that imitate it really do: streamed and not, with tool
// calls in all the shapes they arrive in, usage, cost, reasoning and fields of
// a provider's own that must be sent back.
//
// It makes one call per Do (two where an endpoint refuses an optional request
// field) and does not retry; it never follows redirects, never puts the key
// into an error, and bounds what it reads.
package openai

import (
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/llm/catalog"
)

// Defaults of Config.
const (
	DefaultBaseURL = "https://api.openai.com/v1"
	DefaultTimeout = 300 * time.Second
	DefaultTotal   = time.Hour
)

// Bounds of what is read from an endpoint, in bytes.
const (
	maxAnswer = 64 << 20 // one answer in all
	maxEvent  = 16 << 20 // one event of a stream
)

// endGrace is how long a stream may go on after its finish reason: for the
// usage, and for [DONE] that some endpoints never send.
const endGrace = 10 * time.Second

// Config describes a model behind an endpoint.
type Config struct {
	Model        string // the endpoint's name for it
	DisplayModel string // as the user configured it; "" = Model
	BaseURL      string // up to and without /chat/completions; "" = DefaultBaseURL
	APIKey       account.Secret
	ExtraHeaders map[string]string
	HTTPClient   *http.Client // nil = http.DefaultTransport, which honours HTTP(S)_PROXY

	Timeout     time.Duration // until the first byte of the answer; 0 = DefaultTimeout
	IdleTimeout time.Duration // between two reads of an answer; 0 = Timeout
	Total       time.Duration // the whole answer; 0 = DefaultTotal

	ContextWindow int64          // tokens; 0 = unknown
	NoVision      bool           // the model is known to take no images
	Price         *catalog.Price // nil = unknown
	Dialect       Dialect
}

// Dialect is what an endpoint wants beyond the common API.
type Dialect struct {
	CacheMarkers    bool   // cache_control on the parts that ask for it (Anthropic behind a gateway)
	PromptCacheKey  bool   // prompt_cache_key = the session id
	SessionHeader   string // a header that carries the session id
	ReplayReasoning bool   // reasoning_content of earlier answers is sent back
}

// Model is one model behind one endpoint. It is safe for concurrent use.
type Model struct {
	cfg    Config
	url    string // with the path of the call
	host   string
	client *http.Client
	// refused remembers which optional request fields the endpoint refused.
	refused atomic.Uint32
}

var _ llm.Model = (*Model)(nil)

// New checks the configuration. Errors are fault.Invalid.
func New(cfg Config) (*Model, error) {
	if strings.TrimSpace(cfg.Model) == "" {
		return nil, fault.New(fault.Invalid, "llm_model_missing", "No model is set.")
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = DefaultBaseURL
	}
	endpoint, err := endpointOf(cfg.BaseURL)
	if err != nil {
		return nil, err
	}
	cfg.APIKey = account.NewSecret(strings.TrimSpace(cfg.APIKey.Reveal()))
	if strings.ContainsFunc(cfg.APIKey.Reveal(), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fault.New(fault.Invalid, "llm_api_key_invalid",
			"The LLM API key has characters that cannot be sent (spaces, line breaks or non-ASCII).").
			WithHint("Copy the key again.")
	}
	cfg.fill()
	return &Model{cfg: cfg, url: endpoint.String(), host: endpoint.Host, client: client(cfg.HTTPClient)}, nil
}

func (c *Config) fill() {
	if c.DisplayModel == "" {
		c.DisplayModel = c.Model
	}
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	if c.IdleTimeout <= 0 {
		c.IdleTimeout = c.Timeout
	}
	if c.Total <= 0 {
		c.Total = DefaultTotal
	}
}

// endpointOf returns the URL of the call. The base may end in a slash or hold
// the call's path already; its query (API versions) is kept.
func endpointOf(base string) (*url.URL, error) {
	const path = "/chat/completions"
	u, err := url.Parse(strings.TrimSpace(base))
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fault.New(fault.Invalid, "llm_base_url_invalid", "The LLM base URL is not an http or https URL.").
			WithHint("It looks like https://host/v1.")
	}
	u.Fragment, u.RawPath = "", ""
	u.Path = strings.TrimSuffix(strings.TrimRight(u.Path, "/"), path) + path
	return u, nil
}

// client copies c and makes it refuse redirects: they would carry the key and
// the conversation to another host.
func client(c *http.Client) *http.Client {
	own := &http.Client{}
	if c != nil {
		*own = *c
	}
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return own
}

// Info implements llm.Model.
func (m *Model) Info() llm.Info {
	return llm.Info{Model: m.cfg.DisplayModel, ContextWindow: m.cfg.ContextWindow,
		Vision: !m.cfg.NoVision, PriceKnown: m.cfg.Price != nil}
}
