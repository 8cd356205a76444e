package account

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"parley/internal/fault"
)

// llmRest are the members of the protocol's LLM object that are kept and given
// back without an effect, with the kind of their values.
var llmRest = map[string]string{
	"auth_type": "string", "aws_bedrock_runtime_endpoint": "string", "aws_role_name": "string", "aws_session_name": "string",
	"capability_overrides": "object", "custom_tokenizer": "string", "disable_stop_word": "bool", "drop_params": "bool",
	"enable_encrypted_reasoning": "bool", "fallback_strategy": "any", "force_string_serializer": "bool",
	"inline_image_urls": "bool", "log_completions": "bool", "log_completions_folder": "string",
	"max_message_chars": "count", "modify_params": "bool", "ollama_base_url": "string", "openrouter_app_name": "string",
	"openrouter_site_url": "string", "provider_connection_id": "string", "safety_settings": "any", "schema_version": "count",
	"stream": "bool", "subscription_vendor": "string", "usage_id": "string",
}

// llmComputed are members that the protocol shows and nobody sets.
var llmComputed = map[string]bool{"is_subscription": true}

// Choices of members with a fixed set of values.
var (
	reasoningEfforts   = []string{"none", "minimal", "low", "medium", "high", "xhigh"}
	reasoningSummaries = []string{"auto", "concise", "detailed"}
	apiModes           = []string{"auto", "chat", "responses"}
)

// LLMInput is an LLM object of a request. Secrets that it leaves to what is
// stored are filled in by Over.
type LLMInput struct {
	llm  LLM
	keep map[string]bool // paths of EachSecret, or "extra_headers.<name>": the mask was sent
	none map[string]bool // paths that were absent or null
}

// ParseLLM reads the agent protocol's LLM object (2.1). It is strict: unknown
// members, wrong types and values out of range are Invalid with all of them
// named; loc is where the object stands in the request.
func ParseLLM(raw json.RawMessage, loc ...any) (*LLMInput, error) {
	v, err := decodeAny(raw)
	m, ok := v.(map[string]any)
	if err != nil || !ok {
		return nil, Invalid([]fault.Field{notAnObject(loc)})
	}
	p := &llmParser{reader: reader{m: m, loc: loc}, seen: map[string]bool{},
		in: &LLMInput{keep: map[string]bool{}, none: map[string]bool{}}}
	p.read()
	p.others()
	if len(p.fields) > 0 {
		return nil, Invalid(p.fields)
	}
	return p.in, nil
}

// Over returns the LLM of the request, with the secrets that it keeps: those
// that were sent as the mask, and with preserve also those that were left out.
// stored is nil if there is nothing to keep them from. Keeping a secret for
// another endpoint than it was stored for is Invalid.
func (in *LLMInput) Over(stored *LLM, preserve bool, loc ...any) (LLM, error) {
	l := in.llm
	if stored == nil {
		stored = &LLM{}
	}
	old := map[string]Secret{}
	stored.EachSecret(func(path string, s *Secret) { old[path] = *s })
	var refused []fault.Field
	l.EachSecret(func(path string, s *Secret) {
		if kept := old[path]; kept.IsSet() && (in.keep[path] || preserve && in.none[path]) {
			*s = kept
			refused = append(refused, fault.Field{Loc: at(loc, path), Type: "value_error", Ctx: map[string]any{"error": map[string]any{}},
				Msg: "Value error, The stored value belongs to another endpoint: send it again, or an empty text to drop it"})
		}
	})
	if preserve && l.ExtraHeaders == nil && in.none["extra_headers"] && l.SameEndpoint(stored) {
		l.ExtraHeaders = stored.ExtraHeaders
	}
	if len(refused) > 0 && !l.SameEndpoint(stored) {
		return LLM{}, Invalid(refused)
	}
	for name, value := range l.ExtraHeaders { // the map is a copy of our own
		if in.keep["extra_headers."+name] && !value.IsSet() {
			delete(l.ExtraHeaders, name) // a mask with nothing behind it
		}
	}
	return l, nil
}

type llmParser struct {
	reader
	seen map[string]bool
	in   *LLMInput
}

func (p *llmParser) read() {
	l := &p.in.llm
	p.model(&l.Model)
	p.str("base_url", &l.BaseURL)
	p.key("api_key", &l.APIKey)
	p.str("api_version", &l.APIVersion)
	p.choice("api_mode", &l.APIMode, apiModes)
	p.key("aws_access_key_id", &l.AWSAccessKeyID)
	p.key("aws_secret_access_key", &l.AWSSecretAccessKey)
	p.key("aws_session_token", &l.AWSSessionToken)
	p.str("aws_region_name", &l.AWSRegion)
	p.str("aws_profile_name", &l.AWSProfile)
	p.float("temperature", &l.Temperature, 2)
	p.float("top_p", &l.TopP, 1)
	p.float("top_k", &l.TopK, noLimit)
	l.Seed = p.integer("seed", -maxInteger)
	l.MaxInputTokens = or(p.integer("max_input_tokens", 1), 0)
	l.MaxOutputTokens = or(p.integer("max_output_tokens", 1), 0)
	p.choice("reasoning_effort", &l.ReasoningEffort, reasoningEfforts)
	p.choice("reasoning_summary", &l.ReasoningSummary, reasoningSummaries)
	l.ReasoningBudget = or(p.integer("extended_thinking_budget", 0), 0)
	l.NativeToolCalling = p.boolean("native_tool_calling")
	l.CachingPrompt = p.boolean("caching_prompt")
	p.str("prompt_cache_retention", &l.PromptCacheRetention)
	l.DisableVision = p.boolean("disable_vision")
	p.headers()
	p.extraBody()
	p.prices()
	p.patience()
	p.fallbacks()
	p.str("model_canonical_name", &l.CanonicalName)
}

const (
	noLimit    = 1e18
	maxInteger = int64(1) << 53 // what every JSON reader keeps exactly
)

// get returns a member; nil for null and absent ones.
func (p *llmParser) get(name string) any {
	p.seen[name] = true
	return p.m[name]
}

func (p *llmParser) model(to *string) {
	p.seen["model"] = true
	if text, ok := p.required("model"); ok {
		if *to = text; text == "" {
			p.rule("model", "model must be specified in LLM", text)
		}
	}
}

func (p *llmParser) str(name string, to *string) {
	p.seen[name] = true
	*to = strings.TrimSpace(or(p.text(name), ""))
}

// key reads a secret, which is never echoed.
func (p *llmParser) key(name string, to *Secret) {
	p.seen[name] = true
	c := p.secret(name)
	*to = c.value
	p.in.keep[name] = p.m[name] == Mask
	p.in.none[name] = p.m[name] == nil
}

func (p *llmParser) choice(name string, to *string, choices []string) {
	p.str(name, to)
	if *to != "" && !slices.Contains(choices, *to) {
		p.fail(name, "literal_error", "Input should be one of: "+strings.Join(choices, ", "), *to)
	}
}

// number reads a number from 0 to limit.
func (p *llmParser) number(name string, limit float64) *float64 {
	v := p.get(name)
	if v == nil {
		return nil
	}
	n, ok := v.(json.Number)
	f, err := n.Float64()
	switch {
	case !ok || err != nil:
		p.fail(name, "float_type", "Input should be a valid number", v)
	case f < 0:
		p.fail(name, "greater_than_equal", "Input should be greater than or equal to 0", v)
	case f > limit:
		p.fail(name, "less_than_equal", "Input should be less than or equal to "+trimFloat(limit), v)
	}
	return &f
}

func trimFloat(f float64) string {
	raw, err := json.Marshal(f)
	if err != nil {
		return "the limit"
	}
	return string(raw)
}

func (p *llmParser) float(name string, to **float64, limit float64) { *to = p.number(name, limit) }

// integer reads a whole number of at least low.
func (p *llmParser) integer(name string, low int64) *int64 {
	v := p.get(name)
	if v == nil {
		return nil
	}
	n, ok := v.(json.Number)
	i, err := n.Int64()
	if f, floatErr := n.Float64(); err != nil && floatErr == nil && f == float64(int64(f)) {
		i, err = int64(f), nil // 30.0 is whole
	}
	switch {
	case !ok || err != nil || i > maxInteger || i < -maxInteger:
		p.fail(name, "int_type", "Input should be a valid integer", v)
	case i < low:
		p.fail(name, "greater_than_equal", "Input should be greater than or equal to "+json.Number(trimFloat(float64(low))).String(), v)
	}
	return &i
}

func (p *llmParser) boolean(name string) *bool {
	v := p.get(name)
	if v == nil {
		return nil
	}
	b, ok := v.(bool)
	if !ok {
		p.fail(name, "bool_type", "Input should be a valid boolean", v)
	}
	return &b
}

// headers reads names with values; values are never echoed.
func (p *llmParser) headers() {
	v := p.get("extra_headers")
	if p.in.none["extra_headers"] = v == nil; v == nil {
		return
	}
	m, ok := v.(map[string]any)
	if !ok {
		p.fail("extra_headers", "dict_type", "Input should be a valid dictionary", nil)
		return
	}
	h := map[string]Secret{}
	for _, name := range sortedKeys(m) {
		text, ok := m[name].(string)
		if !ok {
			p.fields = append(p.fields, fault.Field{Loc: at(p.loc, "extra_headers", name), Type: "string_type",
				Msg: "Input should be a valid string"})
			continue
		}
		if text == Mask {
			p.in.keep["extra_headers."+name], text = true, ""
		}
		h[name] = NewSecret(text)
	}
	if len(h) > 0 {
		p.in.llm.ExtraHeaders = h
	}
}

func (p *llmParser) extraBody() {
	v := p.get("litellm_extra_body")
	m, ok := v.(map[string]any)
	switch {
	case v == nil || ok && len(m) == 0:
		return
	case !ok:
		p.fail("litellm_extra_body", "dict_type", "Input should be a valid dictionary", nil)
		return
	}
	raw, err := json.Marshal(m)
	if err != nil {
		p.fail("litellm_extra_body", "dict_type", "Input should be a valid dictionary", nil)
		return
	}
	p.in.llm.ExtraBody = raw
}

// prices reads the prices of a token, in USD: both or none.
func (p *llmParser) prices() {
	const dear = 1000 // USD for one token: whoever means a million tokens notices
	in, out := p.number("input_cost_per_token", dear), p.number("output_cost_per_token", dear)
	if (in == nil) != (out == nil) {
		name := "output_cost_per_token"
		if in == nil {
			name = "input_cost_per_token"
		}
		p.rule(name, "Both input_cost_per_token and output_cost_per_token are needed, or none", nil)
	}
	p.in.llm.InputCost, p.in.llm.OutputCost = in, out
}

// patience reads how often and how long to try. Clients that want no retries
// send 0 for what counts one try as 1.
func (p *llmParser) patience() {
	const day = 86400 // seconds
	l := &p.in.llm
	if n := p.integer("num_retries", 0); n != nil {
		attempts := int(min(max(*n, 1), 100))
		l.Attempts = &attempts
	}
	p.float("retry_multiplier", &l.RetryMultiplier, day)
	p.float("retry_min_wait", &l.RetryMin, day)
	p.float("retry_max_wait", &l.RetryMax, day)
	p.float("timeout", &l.Timeout, day)
}

func (p *llmParser) fallbacks() {
	v := p.get("fallback_profiles")
	if v == nil {
		return
	}
	items, ok := v.([]any)
	if !ok {
		p.fail("fallback_profiles", "list_type", "Input should be a valid list", v)
		return
	}
	for i, item := range items {
		name, ok := item.(string)
		if !ok || !profileName.MatchString(name) {
			p.fields = append(p.fields, fault.Field{Loc: at(p.loc, "fallback_profiles", i), Type: "string_pattern_mismatch",
				Msg: "Input should be the name of a profile", Input: item})
			continue
		}
		p.in.llm.Fallbacks = append(p.in.llm.Fallbacks, name)
	}
}

// others keeps the members without an effect and refuses unknown ones.
func (p *llmParser) others() {
	for _, name := range sortedKeys(p.m) {
		kind, known := llmRest[name]
		switch {
		case p.seen[name] || llmComputed[name]:
		case !known:
			p.fail(name, "extra_forbidden", "Extra inputs are not permitted", nil)
		case p.m[name] == nil:
		case !isKind(p.m[name], kind):
			p.fail(name, kind+"_type", "Input should be a valid "+kind, p.m[name])
		default:
			p.keepRest(name)
		}
	}
}

func isKind(v any, kind string) bool {
	ok := true
	switch kind {
	case "string":
		_, ok = v.(string)
	case "bool":
		_, ok = v.(bool)
	case "object":
		_, ok = v.(map[string]any)
	case "number":
		_, ok = v.(json.Number)
	case "count":
		n, isNumber := v.(json.Number)
		i, err := n.Int64()
		ok = isNumber && err == nil && i >= 0
	}
	return ok
}

func (p *llmParser) keepRest(name string) {
	raw, err := json.Marshal(p.m[name])
	if err != nil {
		return
	}
	rest := maps.Clone(p.in.llm.Rest)
	if rest == nil {
		rest = map[string]json.RawMessage{}
	}
	rest[name] = raw
	p.in.llm.Rest = rest
}

// Render returns the LLM as the agent protocol's object. show renders a secret
// that is set; nil shows null for it. Headers, which clients expect as texts, are
// masked where secrets are null.
func (l LLM) Render(show func(Secret) string) (map[string]json.RawMessage, error) {
	type plain LLM // its JSON has masks for secrets
	raw, err := json.Marshal(plain(l))
	if err != nil {
		return nil, err
	}
	out := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, err
	}
	delete(out, "rest")
	if l.BaseURL == "" {
		out["base_url"] = json.RawMessage("null")
	}
	headers := map[string]string{}
	l.EachSecret(func(path string, s *Secret) {
		if name, ok := strings.CutPrefix(path, "extra_headers."); ok {
			headers[name] = shownSecret(*s, show)
			return
		}
		switch {
		case !s.IsSet() && path != "api_key":
			delete(out, path)
		case !s.IsSet() || show == nil:
			out[path] = json.RawMessage("null")
		default:
			out[path] = quoted(show(*s))
		}
	})
	if len(headers) > 0 {
		if out["extra_headers"], err = json.Marshal(headers); err != nil {
			return nil, err
		}
	}
	maps.Copy(out, l.Rest)
	return out, nil
}

func shownSecret(s Secret, show func(Secret) string) string {
	if show == nil {
		return s.String()
	}
	return show(s)
}

func quoted(s string) json.RawMessage {
	raw, err := json.Marshal(s)
	if err != nil {
		return json.RawMessage("null")
	}
	return raw
}
