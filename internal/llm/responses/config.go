// Package responses speaks the OpenAI Responses API, as OpenAI, Azure and the
// endpoints that imitate it really do: streamed and whole, without anything
// stored at the provider. What a model thought comes back encrypted and goes back
// with the history, beside the items it belongs to, because the API refuses one
// without the other.
//
// It makes one call per Do (more where an endpoint refuses an optional field, or
// an old thought that it cannot read any more) and does not retry; it never
// follows redirects, never puts the key into an error, and bounds what it reads.
package responses

import (
	"strings"
	"sync/atomic"

	"parley/internal/llm"
	"parley/internal/llm/wire"
)

// DefaultBaseURL is OpenAI's own.
const DefaultBaseURL = "https://api.openai.com/v1"

// MinOutput is the lowest bound of an answer that the API takes, in tokens.
const MinOutput = 16

// Config describes a model behind an endpoint. BaseURL is the address up to and
// without /responses; its query (API versions) is kept.
type Config struct {
	wire.ModelConfig
	KeyHeader     string // the header that carries the bare key (Azure: "api-key"); "" = Authorization: Bearer
	SessionHeader string // a header that carries the session id; "" = none
}

// Model is one model behind one endpoint. It is safe for concurrent use.
type Model struct {
	cfg    Config
	url    string // with the path of the call
	host   string
	source string // whose fields of a history may be sent back
	client *wire.Client
	// refused remembers which optional request fields the endpoint refused.
	refused atomic.Uint32
	stale   staleThoughts
}

var _ llm.Model = (*Model)(nil)

// New checks the configuration. Errors are fault.Invalid. A bound of the answer
// below MinOutput is raised to it.
func New(cfg Config) (*Model, error) {
	cfg.Model = strings.TrimSpace(cfg.Model)
	endpoint, err := cfg.Resolve(DefaultBaseURL)
	if err != nil {
		return nil, err
	}
	wire.AddPath(endpoint, "/responses")
	if cfg.MaxOutput > 0 {
		cfg.MaxOutput = max(cfg.MaxOutput, MinOutput)
	}
	return &Model{cfg: cfg, url: endpoint.String(), host: endpoint.Host, client: cfg.Client(),
		source: "responses " + endpoint.Host + " " + cfg.Model}, nil
}

// Info implements llm.Model.
func (m *Model) Info() llm.Info { return m.cfg.Info() }
