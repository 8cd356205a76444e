package account

import "encoding/json"

// LLM says which model to use and how: what a profile holds, and what a
// conversation keeps of it. Its JSON is the agent protocol's LLM object (2.1).
// Zero fields leave the decision to the model's adapter, the catalogue and the
// server's configuration.
type LLM struct {
	Model   string `json:"model"`    // "provider/model"
	BaseURL string `json:"base_url"` // "" = the provider's default
	APIKey  Secret `json:"api_key"`

	APIVersion string `json:"api_version,omitempty"` // Azure
	APIMode    string `json:"api_mode,omitempty"`    // "", "auto", "chat" or "responses" (OpenAI)

	AWSAccessKeyID     Secret `json:"aws_access_key_id,omitzero"`
	AWSSecretAccessKey Secret `json:"aws_secret_access_key,omitzero"`
	AWSSessionToken    Secret `json:"aws_session_token,omitzero"`
	AWSRegion          string `json:"aws_region_name,omitempty"`
	AWSProfile         string `json:"aws_profile_name,omitempty"` // of the server's shared AWS configuration

	Temperature     *float64 `json:"temperature,omitempty"`
	TopP            *float64 `json:"top_p,omitempty"`
	TopK            *float64 `json:"top_k,omitempty"`
	Seed            *int64   `json:"seed,omitempty"`
	MaxInputTokens  int64    `json:"max_input_tokens,omitempty"`  // 0 = the catalogue's context window
	MaxOutputTokens int64    `json:"max_output_tokens,omitempty"` // 0 = as large as the model allows, within reason

	// ReasoningEffort is "none", "minimal", "low", "medium", "high" or "xhigh"; "" =
	// the model's default. ReasoningBudget is the number of thinking tokens for
	// models that are told one.
	ReasoningEffort  string `json:"reasoning_effort,omitempty"`
	ReasoningSummary string `json:"reasoning_summary,omitempty"` // "auto", "concise", "detailed"
	ReasoningBudget  int64  `json:"extended_thinking_budget,omitempty"`

	NativeToolCalling    *bool  `json:"native_tool_calling,omitempty"` // nil = what the catalogue knows, else true
	CachingPrompt        *bool  `json:"caching_prompt,omitempty"`      // nil = true
	PromptCacheRetention string `json:"prompt_cache_retention,omitempty"`
	DisableVision        *bool  `json:"disable_vision,omitempty"` // nil = what the catalogue knows

	ExtraHeaders map[string]Secret `json:"extra_headers,omitempty"`      // values often are keys
	ExtraBody    json.RawMessage   `json:"litellm_extra_body,omitempty"` // an object, merged into the request's body

	// Prices in USD per token override the catalogue's; both or none.
	InputCost  *float64 `json:"input_cost_per_token,omitempty"`
	OutputCost *float64 `json:"output_cost_per_token,omitempty"`

	// Patience; nil or 0 = the server's configuration.
	Attempts        *int     `json:"num_retries,omitempty"` // in all, >= 1
	RetryMultiplier *float64 `json:"retry_multiplier,omitempty"`
	RetryMin        *float64 `json:"retry_min_wait,omitempty"` // seconds
	RetryMax        *float64 `json:"retry_max_wait,omitempty"` // seconds
	Timeout         *float64 `json:"timeout,omitempty"`        // seconds

	// Fallbacks are names of profiles that are tried in order when this model does
	// not answer. They never contain themselves: a fallback's own are not followed.
	Fallbacks []string `json:"fallback_profiles,omitempty"`

	// CanonicalName is the catalogue's name of the model where Model is an alias.
	CanonicalName string `json:"model_canonical_name,omitempty"`

	// Rest are the members of the protocol that Parley keeps for its clients but
	// does not act on.
	Rest map[string]json.RawMessage `json:"rest,omitempty"`
}

// EachSecret implements Sealable. The map is replaced, not written to: copies of
// an LLM share it.
func (l *LLM) EachSecret(f func(string, *Secret)) {
	f("api_key", &l.APIKey)
	f("aws_access_key_id", &l.AWSAccessKeyID)
	f("aws_secret_access_key", &l.AWSSecretAccessKey)
	f("aws_session_token", &l.AWSSessionToken)
	headers, written := make(map[string]Secret, len(l.ExtraHeaders)), false
	for _, name := range sortedKeys(l.ExtraHeaders) {
		v := l.ExtraHeaders[name]
		written = changed(f, "extra_headers."+name, &v) || written
		headers[name] = v
	}
	if written {
		l.ExtraHeaders = headers
	}
}

// LLM returns the model the settings choose; Model is "" when none is chosen.
// The three fields of the legacy API decide; what a profile brought beyond them
// holds as long as they still name that profile's model and endpoint.
func (s *Settings) LLM() LLM {
	var l LLM
	model, base := deref(s.LLMModel), deref(s.LLMBaseURL)
	if s.Tuning != nil && s.Tuning.Model == model && s.Tuning.BaseURL == base {
		l = *s.Tuning
	}
	l.Model, l.BaseURL, l.APIKey = model, base, s.LLMAPIKey
	return l
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
