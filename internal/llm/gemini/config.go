// Package gemini speaks Google's Gemini API (generateContent and
// streamGenerateContent), as the Generative Language API and Vertex AI serve it
// to holders of a key or a token.
//
// It makes one call per Do (one more where the endpoint refuses something that
// can be said in another way) and does not retry; it never follows redirects,
// never puts the key into an error, and bounds what it reads. It fetches no
// images, makes no explicit caches (Google caches prefixes by itself) and does
// no OAuth: a token for Vertex AI comes from outside.
package gemini

import (
	"cmp"
	"net/url"
	"strings"
	"sync/atomic"

	"parley/internal/fault"
	"parley/internal/lazyre"
	"parley/internal/llm"
	"parley/internal/llm/wire"
)

// DefaultBaseURL is Google's Generative Language API.
const DefaultBaseURL = "https://generativelanguage.googleapis.com/v1beta"

// Ways to show the key.
const (
	AuthKeyHeader = "x-goog-api-key" // the header of that name: the default
	AuthBearer    = "bearer"         // Authorization: an OAuth token, or a gateway's key
)

// Config describes a model behind an endpoint. BaseURL goes up to and without
// /models/...; a version that is missing is added, and for Vertex AI
// (aiplatform.googleapis.com) the publisher too. TopK is sent as a whole number,
// Seed modulo 2^31; the cache settings do nothing.
type Config struct {
	wire.ModelConfig
	Auth string // AuthKeyHeader or AuthBearer; "" = AuthKeyHeader
}

// Model is one model behind one endpoint. It is safe for concurrent use.
type Model struct {
	cfg    Config
	base   *url.URL // up to the method: its path ends in the model's name
	source string   // what marks the signatures of this model
	gen    generation
	vertex bool
	client *wire.Client
	// refused remembers what the endpoint refused.
	refused atomic.Uint32
	schemas schemaCache
}

var _ llm.Model = (*Model)(nil)

// New checks the configuration. Errors are fault.Invalid.
func New(cfg Config) (*Model, error) {
	cfg.Model = strings.TrimPrefix(strings.TrimSpace(cfg.Model), "models/")
	base, err := cfg.Resolve(DefaultBaseURL)
	if err != nil {
		return nil, err
	}
	cfg.Auth = cmp.Or(cfg.Auth, AuthKeyHeader)
	if cfg.Auth != AuthKeyHeader && cfg.Auth != AuthBearer {
		return nil, fault.New(fault.Invalid, "llm_auth_invalid", "The LLM authentication is neither %q nor %q.",
			AuthKeyHeader, AuthBearer)
	}
	base.Path = modelPath(base, cfg.Model)
	return &Model{cfg: cfg, base: base, gen: generationOf(cfg.Model), vertex: isVertex(base),
		source: "gemini " + base.Host + " " + cfg.Model, client: cfg.Client()}, nil
}

// Info implements llm.Model.
func (m *Model) Info() llm.Info { return m.cfg.Info() }

var versionSegment = lazyre.MustCompile(`(^|/)v[0-9]+((alpha|beta)[0-9]*)?(/|$)`)

// modelPath returns the path of the model below a base URL.
func modelPath(u *url.URL, model string) string {
	path := strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/models")
	if !versionSegment.MatchString(path) {
		path += defaultVersion(u)
	}
	if isVertex(u) && !strings.Contains(path, "/publishers/") {
		path += "/publishers/google"
	}
	if !strings.HasPrefix(model, "tunedModels/") {
		path += "/models"
	}
	return path + "/" + model
}

func defaultVersion(u *url.URL) string {
	if isVertex(u) {
		return "/v1"
	}
	return "/v1beta"
}

// isVertex goes by the path too: Vertex AI is also reached over regional and
// private names and over proxies, and only its paths begin with a project.
func isVertex(u *url.URL) bool {
	host := strings.ToLower(u.Hostname())
	return strings.Contains(u.Path, "/projects/") || host == "aiplatform.googleapis.com" || strings.HasSuffix(host, "-aiplatform.googleapis.com")
}

// callURL is where a call goes.
func (m *Model) callURL(streamed bool) string {
	u := *m.base
	if !streamed {
		u.Path += ":generateContent"
		return u.String()
	}
	u.Path += ":streamGenerateContent"
	q := u.Query()
	q.Set("alt", "sse")
	u.RawQuery = q.Encode()
	return u.String()
}
