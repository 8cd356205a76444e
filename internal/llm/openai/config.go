// Package openai speaks the OpenAI chat completions API, as OpenAI and the
// dozens of endpoints that imitate it really do: streamed and not, with tool
// calls in all the shapes they arrive in, usage, cost, reasoning and fields of
// a provider's own that must be sent back.
//
// It makes one call per Do (more where an endpoint refuses an optional request
// field: it is left out then, or spelled otherwise, and so it stays) and does
// not retry; it never follows redirects, never puts the key into an error, and
// bounds what it reads. The bound on the length of an answer is never left out.
package openai

import (
	"sync/atomic"

	"parley/internal/llm"
	"parley/internal/llm/wire"
)

// DefaultBaseURL is OpenAI's own.
const DefaultBaseURL = "https://api.openai.com/v1"

// Config describes a model behind an endpoint. BaseURL goes up to and without
// /chat/completions and may have a query, which is kept; "" = DefaultBaseURL.
type Config struct {
	wire.ModelConfig
	Dialect Dialect
}

// Dialect is what an endpoint wants beyond the common API.
type Dialect struct {
	KeyHeader           string // the header that carries the key as it is; "" = Authorization: Bearer
	SessionHeader       string // a header that carries the session id
	MaxCompletionTokens bool   // the bound of an answer is max_completion_tokens, not max_tokens
	TopK                bool   // takes top_k, which is not OpenAI's
	ReasoningObject     bool   // reasoning: {effort, max_tokens} instead of reasoning_effort
	ReplayReasoning     bool   // reasoning_content of earlier answers is sent back
	UsageCost           bool   // usage: {include: true} makes it say what a call cost
	CacheMarkers        bool   // cache_control on messages (Anthropic behind a gateway)
	PromptCacheKey      bool   // prompt_cache_key = the session id
	CacheRetention      bool   // prompt_cache_retention, where one is configured
	PlainText           bool   // a message's text is a string, never a list of parts
}

// Model is one model behind one endpoint. It is safe for concurrent use.
type Model struct {
	cfg    Config
	url    string // with the path of the call
	host   string
	client *wire.Client
	tools  tools
	// refused remembers which optional request fields the endpoint refused, and
	// maxOutput the longest answer it allows; 0 = it did not complain.
	refused   atomic.Uint32
	maxOutput atomic.Int64
}

var _ llm.Model = (*Model)(nil)

// New checks the configuration. Errors are fault.Invalid.
func New(cfg Config) (*Model, error) {
	endpoint, err := cfg.Resolve(DefaultBaseURL)
	if err != nil {
		return nil, err
	}
	wire.AddPath(endpoint, "/chat/completions")
	return &Model{cfg: cfg, url: endpoint.String(), host: endpoint.Host, client: cfg.Client()}, nil
}

// Info implements llm.Model. Images count as taken until the endpoint refuses one.
func (m *Model) Info() llm.Info {
	info := m.cfg.Info()
	info.Vision = info.Vision && !refusals(m.refused.Load()).has(refusedImages)
	return info
}

// source marks the fields of an answer that only this model understands.
func (m *Model) source() string { return "chat " + m.host + " " + m.cfg.Model }
