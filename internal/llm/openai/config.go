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
	"parley/internal/llm/wire"
)

// DefaultBaseURL is OpenAI's own.
const DefaultBaseURL = "https://api.openai.com/v1"

// Config describes a model behind an endpoint.
type Config struct {
	Model        string // the endpoint's name for it
	DisplayModel string // as the user configured it; "" = Model
	BaseURL      string // up to and without /chat/completions; "" = DefaultBaseURL
	APIKey       account.Secret
	ExtraHeaders map[string]string
	HTTPClient   *http.Client // nil = http.DefaultTransport, which honours HTTP(S)_PROXY

	Timeout     time.Duration // until the first byte of the answer; 0 = wire.DefaultTimeout
	IdleTimeout time.Duration // between two reads of an answer; 0 = Timeout
	Total       time.Duration // the whole answer; 0 = wire.DefaultTotal

	ContextWindow int64      // tokens; 0 = unknown
	NoVision      bool       // the model is known to take no images
	Price         *llm.Price // nil = unknown
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
	client *wire.Client
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
	if cfg.APIKey, err = wire.Key(cfg.APIKey); err != nil {
		return nil, err
	}
	if cfg.DisplayModel == "" {
		cfg.DisplayModel = cfg.Model
	}
	secrets := []string{cfg.APIKey.Reveal()}
	for _, v := range cfg.ExtraHeaders {
		secrets = append(secrets, v)
	}
	client := wire.New(wire.Config{HTTPClient: cfg.HTTPClient, Timeout: cfg.Timeout, IdleTimeout: cfg.IdleTimeout,
		Total: cfg.Total, Secrets: secrets})
	return &Model{cfg: cfg, url: endpoint.String(), host: endpoint.Host, client: client}, nil
}

// endpointOf returns the URL of the call. The base may end in a slash or hold
// the call's path already; its query (API versions) is kept.
func endpointOf(base string) (*url.URL, error) {
	const path = "/chat/completions"
	u, err := wire.Endpoint(base)
	if err != nil {
		return nil, err
	}
	u.Path = strings.TrimSuffix(strings.TrimRight(u.Path, "/"), path) + path
	return u, nil
}

// Info implements llm.Model.
func (m *Model) Info() llm.Info {
	return llm.Info{Model: m.cfg.DisplayModel, ContextWindow: m.cfg.ContextWindow,
		Vision: !m.cfg.NoVision, NativeTools: true, Price: m.cfg.Price}
}
