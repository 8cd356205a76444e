package factory

import (
	"net/netip"
	"net/url"
	"strings"
	"time"

	"parley/internal/llm"
	"parley/internal/llm/catalog"
	"parley/internal/llm/wire"
)

// Bounds of an answer where none is configured, in tokens: what models allow may
// be more than any step needs, and every call reserves its worst case.
const (
	maxOutput       = 32768
	maxOutputCustom = 16384 // at a base URL of the user's (agent protocol 4.12)
)

// config fills in what all adapters take.
func (c *choice) config() wire.ModelConfig {
	cfg, e := &c.cfg, &c.entry
	return wire.ModelConfig{
		Model: c.name, DisplayModel: c.id, BaseURL: c.base, APIKey: cfg.APIKey, Headers: c.headers(), Body: cfg.ExtraBody,
		HTTPClient: c.opt.HTTPClient, Timeout: c.timeout(),
		Temperature: cfg.Temperature, TopP: cfg.TopP, TopK: cfg.TopK, Seed: cfg.Seed, MaxOutput: c.maxOutput(),
		Reasoning: c.reasons(), ReasoningEffort: cfg.ReasoningEffort, ReasoningBudget: cfg.ReasoningBudget, ReasoningSummary: cfg.ReasoningSummary,
		ContextWindow: first(cfg.MaxInputTokens, e.ContextWindow), NoVision: c.blind(), NoTools: c.textTools(), Price: c.price(),
		NoCache: cfg.CachingPrompt != nil && !*cfg.CachingPrompt, CacheRetention: cfg.PromptCacheRetention,
	}
}

func first(values ...int64) int64 {
	for _, v := range values {
		if v > 0 {
			return v
		}
	}
	return 0
}

func (c *choice) headers() map[string]string {
	out := map[string]string{}
	for k, v := range c.opt.ExtraHeaders {
		out[k] = v
	}
	for k, v := range c.cfg.ExtraHeaders {
		out[k] = v.Reveal()
	}
	return out
}

func (c *choice) timeout() time.Duration {
	if t := c.cfg.Timeout; t != nil && *t > 0 {
		return time.Duration(*t * float64(time.Second))
	}
	return c.opt.Timeout
}

// maxOutput is the bound of an answer: the configured one, else what the model
// allows within reason, else none.
func (c *choice) maxOutput() int64 {
	switch {
	case c.cfg.MaxOutputTokens > 0:
		return c.cfg.MaxOutputTokens
	case c.entry.MaxOutput <= 0:
		return 0
	case c.provider.api == apiOpenAI && c.base != "" && !c.atHome():
		return min(c.entry.MaxOutput, maxOutputCustom)
	}
	return min(c.entry.MaxOutput, maxOutput)
}

// reasons reports whether the model is to be told how to think. Of a model that
// nobody knows, only a user who set an effort and no sampling means that: the
// two exclude each other.
func (c *choice) reasons() bool {
	switch c.entry.Reasoning {
	case catalog.Yes:
		return true
	case catalog.No:
		return false
	}
	effort := c.cfg.ReasoningEffort
	return effort != "" && effort != "none" && c.cfg.Temperature == nil && c.cfg.TopP == nil && c.cfg.TopK == nil
}

// blind reports whether the model gets no images.
func (c *choice) blind() bool {
	if off := c.cfg.DisableVision; off != nil {
		return *off
	}
	return c.entry.Vision == catalog.No
}

// price is the configured one, nothing for what runs on the user's own machines,
// else the catalogue's.
func (c *choice) price() *llm.Price {
	known := c.entry.PriceFor(c.cfg.PromptCacheRetention)
	in, out := c.cfg.InputCost, c.cfg.OutputCost
	switch {
	case in != nil && out != nil:
		p := &llm.Price{Input: *in, CacheRead: *in, CacheWrite: *in, Output: *out}
		if known != nil && known.Input > 0 { // the discounts stay in proportion
			p.CacheRead, p.CacheWrite = *in*known.CacheRead/known.Input, *in*known.CacheWrite/known.Input
		}
		return p
	case c.provider.local && isPrivate(c.address()):
		return &llm.Price{}
	}
	return known
}

// address is where the model is reached.
func (c *choice) address() string {
	if c.base != "" {
		return c.base
	}
	return c.provider.base
}

// atHome reports whether the model is reached at its provider's own address.
func (c *choice) atHome() bool {
	return c.base == "" || c.provider.base != "" && strings.EqualFold(hostOf(c.base), hostOf(c.provider.base))
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}

// isPrivate reports whether an address is on this machine or in a private
// network: an address of one, or a name that only a private resolver knows.
func isPrivate(address string) bool {
	host := hostOf(address)
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsUnspecified()
	}
	for _, zone := range []string{".local", ".localhost", ".internal", ".lan", ".home.arpa"} {
		if strings.HasSuffix(host, zone) {
			return true
		}
	}
	return host != "" && !strings.Contains(host, ".")
}
