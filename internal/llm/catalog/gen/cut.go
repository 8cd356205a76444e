package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"parley/internal/lazyre"
	"parley/internal/llm"
	"parley/internal/llm/catalog"
)

// providers translates the source's names to the prefixes of our ids.
var providers = map[string]string{
	"openai": "openai", "anthropic": "anthropic", "gemini": "gemini", "bedrock": "bedrock", "bedrock_converse": "bedrock",
	"azure": "azure", "azure_ai": "azure_ai", "groq": "groq", "deepseek": "deepseek", "mistral": "mistral",
	"together_ai": "together_ai", "fireworks_ai": "fireworks_ai", "xai": "xai", "openrouter": "openrouter", "ollama": "ollama",
	"cerebras": "cerebras", "sambanova": "sambanova", "perplexity": "perplexity", "moonshot": "moonshot", "zai": "zai",
	"minimax": "minimax", "dashscope": "dashscope", "nvidia_nim": "nvidia_nim", "deepinfra": "deepinfra",
}

// model is what is read of an entry of the source. Prices are USD per token.
type model struct {
	Provider   string   `json:"litellm_provider"`
	Mode       string   `json:"mode"`
	MaxInput   *float64 `json:"max_input_tokens"`
	MaxOutput  *float64 `json:"max_output_tokens"`
	Vision     *bool    `json:"supports_vision"`
	Images     *bool    `json:"supports_image_input"`
	Tools      *bool    `json:"supports_function_calling"`
	Reasoning  *bool    `json:"supports_reasoning"`
	Cache      *bool    `json:"supports_prompt_caching"`
	Input      []string `json:"supported_modalities"`
	Output     []string `json:"supported_output_modalities"`
	Deprecated string   `json:"deprecation_date"`

	PerRequest *float64 `json:"input_cost_per_request"`
	PerSecond  *float64 `json:"input_cost_per_second"`
	Tiers      []tier   `json:"tiered_pricing"`

	prices map[string]float64 // all members that are numbers
}

type tier struct {
	Range  []float64 `json:"range"`
	Input  *float64  `json:"input_cost_per_token"`
	Output *float64  `json:"output_cost_per_token"`
	Think  *float64  `json:"output_cost_per_reasoning_token"`
	Read   *float64  `json:"cache_read_input_token_cost"`
	Write  *float64  `json:"cache_creation_input_token_cost"`
}

// cut returns the entries of the table, ordered by id.
func cut(source map[string]json.RawMessage) ([]catalog.Entry, error) {
	kept := map[string]catalog.Entry{}
	names := make([]string, 0, len(source))
	for name := range source {
		names = append(names, name)
	}
	slices.Sort(names) // a name with its provider in front comes after the bare one, and wins
	slices.SortStableFunc(names, func(a, b string) int { return strings.Count(a, "/") - strings.Count(b, "/") })
	for _, name := range names {
		m, err := read(source[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		provider, ok := providers[m.Provider]
		if !ok || m.Mode != "chat" && m.Mode != "responses" || unwanted(name, m) {
			continue
		}
		e := m.entry(provider, name)
		if e.ContextWindow > 0 || e.Price != nil {
			kept[strings.ToLower(e.Model)] = e
		}
	}
	entries := make([]catalog.Entry, 0, len(kept))
	for _, e := range kept {
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b catalog.Entry) int { return strings.Compare(a.Model, b.Model) })
	return entries, nil
}

// read reads an entry; a number may be written as a text.
func read(raw json.RawMessage) (model, error) {
	var any map[string]any
	if err := json.Unmarshal(raw, &any); err != nil {
		return model{}, err
	}
	m := model{prices: map[string]float64{}}
	for key, v := range any {
		switch v := v.(type) {
		case float64:
			m.prices[key] = v
		case string:
			if n, err := strconv.ParseFloat(v, 64); err == nil {
				m.prices[key] = n
				any[key] = n
			} else if strings.HasPrefix(key, "max_") || strings.Contains(key, "cost") {
				delete(any, key) // the source's description of its members
			}
		}
	}
	clean, err := json.Marshal(any)
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(clean, &m)
}

// notText are models of which an agent cannot make use, or names that are no
// models: prices by size, committed throughput, regions of Bedrock, which a
// configuration names beside the model.
var notText = lazyre.MustCompile(`^together-ai-|/\*/|-commitment/|^bedrock/[^/]+/|-guard-|prompt-guard|safeguard` +
	`|lyria|realtime|-audio|-search-preview|-search-api|-image|-tts|transcri|deep-research|computer-use|/container$|embed`)

func unwanted(name string, m model) bool {
	return notText.MatchString(strings.ToLower(name)) || m.PerSecond != nil && m.prices["input_cost_per_token"] == 0 ||
		m.Output != nil && !slices.Contains(m.Output, "text")
}

func (m model) entry(provider, name string) catalog.Entry {
	e := catalog.Entry{Model: id(provider, name), ContextWindow: tokens(m.MaxInput), MaxOutput: tokens(m.MaxOutput),
		Vision: m.vision(), Tools: fact(m.Tools), Reasoning: fact(m.Reasoning), CachePrompt: fact(m.Cache),
		Responses: m.Mode == "responses", Deprecated: m.Deprecated}
	if steps := m.steps(); m.billedByTokens(provider, name, steps) {
		e.Price, e.HourPrice = lists(steps)
	}
	return e
}

// id is the provider's prefix and the name without it.
func id(provider, name string) string {
	return provider + "/" + strings.TrimPrefix(name, provider+"/")
}

func (m model) vision() catalog.Fact {
	switch {
	case m.Vision != nil:
		return fact(m.Vision)
	case m.Images != nil:
		return fact(m.Images)
	case slices.Contains(m.Input, "image"):
		return catalog.Yes
	case len(m.Input) > 0:
		return catalog.No
	}
	return catalog.Unknown
}

// billedByTokens reports whether the prices say what a call costs. A price of
// nothing is known only of models that run on the user's machine; elsewhere it
// is a price that the source does not have, or a free tier that ends. One beyond
// all reason was entered per thousand tokens for per token.
func (m model) billedByTokens(provider, name string, steps []step) bool {
	switch {
	case len(steps) == 0, m.PerRequest != nil, provider == "perplexity" && strings.Contains(name, "sonar"):
		return false
	case steps[0].input == 0 && steps[0].output == 0:
		return provider == "ollama" && !strings.HasSuffix(name, "-cloud")
	}
	const most = 1000e-6 // USD per token
	return !slices.ContainsFunc(steps, func(s step) bool {
		return s.input == 0 || s.output == 0 || s.input > most || s.output > most
	})
}

func tokens(n *float64) int64 {
	if n == nil || *n < 1 || *n > 1<<40 {
		return 0
	}
	return int64(*n)
}

func fact(b *bool) catalog.Fact {
	switch {
	case b == nil:
		return catalog.Unknown
	case *b:
		return catalog.Yes
	}
	return catalog.No
}

// step are the prices of prompts longer than from.
type step struct {
	from                             int64
	input, output, read, write, hour float64 // USD per token; negative = unknown
}

// price makes the prices of a step, with a cache of minutes or of an hour.
func (s step) price(hour bool) *llm.Price {
	p := &llm.Price{Input: s.input, Output: s.output, CacheRead: s.input, CacheWrite: s.input}
	if s.read >= 0 {
		p.CacheRead = s.read
	}
	if s.write >= 0 {
		p.CacheWrite = s.write
	}
	if hour && s.hour >= 0 {
		p.CacheWrite = s.hour
	}
	return p
}

func lists(steps []step) (price, hour *llm.Price) {
	differs := false
	for i := len(steps) - 1; i >= 0; i-- {
		p, h := steps[i].price(false), steps[i].price(true)
		differs = differs || p.CacheWrite != h.CacheWrite
		if i+1 < len(steps) {
			p.Long, p.LongFrom = price, steps[i+1].from
			h.Long, h.LongFrom = hour, steps[i+1].from
		}
		price, hour = p, h
	}
	if !differs {
		hour = nil
	}
	return price, hour
}

var above = lazyre.MustCompile(`^input_cost_per_token_above_(\d+)k_tokens$`)

// steps returns the prices in ascending order of the prompt; none = unknown.
func (m model) steps() []step {
	if len(m.Tiers) > 0 {
		return m.tiered()
	}
	base := m.step("")
	if base.input < 0 || base.output < 0 {
		return nil
	}
	base.output = max(base.output, m.price("output_cost_per_reasoning_token")) // an answer may be all reasoning
	steps := []step{base}
	for key := range m.prices {
		if found := above.FindStringSubmatch(key); found != nil {
			s := m.step("_above_" + found[1] + "k_tokens").completed(base)
			k, _ := strconv.ParseInt(found[1], 10, 64) // digits
			s.from = k * 1000
			steps = append(steps, s)
		}
	}
	slices.SortFunc(steps, func(a, b step) int { return int(a.from - b.from) })
	return steps
}

func (m model) price(key string) float64 {
	if v, ok := m.prices[key]; ok && v >= 0 && !math.IsInf(v, 0) {
		return v
	}
	return -1
}

func (m model) step(suffix string) step {
	s := step{input: m.price("input_cost_per_token" + suffix), output: m.price("output_cost_per_token" + suffix),
		read: m.price("cache_read_input_token_cost" + suffix), write: m.price("cache_creation_input_token_cost" + suffix),
		hour: m.price("cache_creation_input_token_cost_above_1hr" + suffix)}
	if s.write < s.input { // no charge on top, or the price of reading: the tokens cost what input costs
		s.write = -1
	}
	return s
}

// completed fills what the source leaves out of a long step: it relates to the
// price of input as in the first step.
func (s step) completed(base step) step {
	if s.input < 0 {
		s.input = base.input
	}
	if s.output < 0 {
		s.output = base.output
	}
	for _, f := range []struct {
		p    *float64
		base float64
	}{{&s.read, base.read}, {&s.write, base.write}, {&s.hour, base.hour}} {
		if *f.p < 0 && f.base >= 0 && base.input > 0 {
			*f.p = f.base * s.input / base.input
		}
	}
	return s
}

// tiered reads the other form of steps.
func (m model) tiered() []step {
	var steps []step
	for _, t := range m.Tiers {
		s := step{input: value(t.Input), output: max(value(t.Output), value(t.Think)), read: value(t.Read), write: value(t.Write), hour: -1}
		if len(t.Range) != 2 || s.input < 0 || s.output < 0 {
			return nil
		}
		s.from = int64(t.Range[0])
		steps = append(steps, s)
	}
	if steps[0].from != 0 {
		return nil
	}
	return steps
}

func value(p *float64) float64 {
	if p == nil {
		return -1
	}
	return *p
}
