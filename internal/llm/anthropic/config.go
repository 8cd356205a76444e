// Package anthropic speaks the Anthropic Messages API, as Anthropic and the
// gateways that imitate it really do: streamed and not, with tools, images,
// prompt caching, and thinking whose signed blocks go back as they came.
//
// It makes one call per Do (a few more where the endpoint refuses an optional
// field or an old thinking block: the first refusal teaches it to do without)
// and does not retry; it never follows redirects, never puts the key into an
// error, and bounds what it reads. It does not count tokens, does not use the
// provider's own server-side tools and never asks a model to continue a
// half-written answer: a history that ends with one gets a user message behind it.
package anthropic

import (
	"encoding/json"
	"strings"
	"sync/atomic"

	"parley/internal/llm"
	"parley/internal/llm/wire"
)

// DefaultBaseURL is Anthropic's own.
const DefaultBaseURL = "https://api.anthropic.com"

// DefaultMaxOutput is what an answer may hold where neither the configuration
// nor the request says it, in tokens: the API demands a bound.
const DefaultMaxOutput = 8192

// version is the API's version. A newer one (2026-10-21) takes no sampling
// parameters, which older models have a use for; who configures its header gets
// it, and the first refusal teaches the adapter.
const version = "2023-06-01"

// Config describes a model behind an endpoint. Of ModelConfig, Seed and NoTools
// mean nothing here; CacheRetention "1h" keeps prompts for an hour, anything
// else for the API's default of 5 minutes. BaseURL may end in /v1 or
// /v1/messages, or in neither. A max_tokens in Body counts as MaxOutput, so that
// a request can still ask for less.
type Config struct{ wire.ModelConfig }

// Model is one model behind one endpoint. It is safe for concurrent use.
type Model struct {
	cfg    Config
	url    string // of the call
	host   string
	source string // of the blocks that go back (wire.Mark)
	family family
	prices prices
	client *wire.Client

	refused atomic.Uint32 // refusals: the optional fields that the endpoint does not take
	ceiling atomic.Int64  // the longest answer the endpoint allows, once it said so; 0 = unknown
	graves  graves        // thinking blocks that the endpoint takes no more
}

var _ llm.Model = (*Model)(nil)

// New checks the configuration. Errors are fault.Invalid.
func New(cfg Config) (*Model, error) {
	endpoint, err := cfg.Resolve(DefaultBaseURL)
	if err != nil {
		return nil, err
	}
	endpoint.Path = callPath(endpoint.Path)
	boundByBody(&cfg.ModelConfig)
	m := &Model{cfg: cfg, url: endpoint.String(), host: endpoint.Host, family: familyOf(cfg.Model), client: cfg.Client()}
	// Signatures belong to the model that made them, not only to the endpoint.
	m.source = "messages " + endpoint.Host + " " + cfg.Model
	m.prices = pricesOf(cfg.Price)
	if m.prices.known() {
		m.cfg.Price = m.prices.minutes
		if m.hourly() {
			m.cfg.Price = m.prices.hour // what reservations reckon with
		}
	}
	return m, nil
}

// boundByBody moves max_tokens out of the extra body: what is merged there wins,
// and the bound of a request keeps it within its budget.
func boundByBody(cfg *wire.ModelConfig) {
	members := wire.Object(cfg.Body)
	raw, there := members["max_tokens"]
	if !there {
		return
	}
	delete(members, "max_tokens")
	rest, err := json.Marshal(members)
	if err != nil {
		return
	}
	cfg.Body = rest
	if n := wire.Count(raw); n > 0 {
		cfg.MaxOutput = n
	}
}

// callPath returns the path of the call below that of a base URL.
func callPath(base string) string {
	path := strings.TrimSuffix(strings.TrimRight(base, "/"), "/messages")
	return strings.TrimSuffix(path, "/v1") + "/v1/messages"
}

// Info implements llm.Model. Its price is that of the cache retention asked for.
func (m *Model) Info() llm.Info { return m.cfg.Info() }

// hourly reports whether prompts shall be cached for an hour.
func (m *Model) hourly() bool { return !m.cfg.NoCache && m.cfg.CacheRetention == "1h" }

// maxTokens is the bound of one call's answer.
func (m *Model) maxTokens(req *llm.Request) int64 {
	n := m.cfg.Output(req)
	if n <= 0 {
		n = DefaultMaxOutput
	}
	if c := m.ceiling.Load(); c > 0 {
		n = min(n, c)
	}
	return n
}
