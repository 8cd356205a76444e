package factory

import (
	"strings"

	"parley/internal/fault"
	"parley/internal/llm/catalog"
)

// unknown explains an id that does not say where the model is.
func unknown(id, base string, known *catalog.Catalog) error {
	prefix, name, slash := strings.Cut(id, "/")
	e := fault.New(fault.Invalid, "llm_model_without_provider", "The model id %q does not name a provider that Parley knows.", id)
	if slash {
		if meant := nearestProvider(prefix); meant != "" {
			return e.WithHint("Did you mean %s/%s?", meant, name)
		}
	}
	endpoint := "For an OpenAI-compatible endpoint write openai/" + id + " and set its base URL."
	if strings.TrimSpace(base) != "" {
		return e.WithHint("Write openai/%s if the endpoint at the base URL speaks OpenAI's API, litellm_proxy/%s if it is a LiteLLM proxy.", id, id)
	}
	if found := known.Suggest(id); len(found) > 0 {
		return e.WithHint("Did you mean %s? %s", strings.Join(found, " or "), endpoint)
	}
	var prefixes []string
	for _, p := range providers() {
		prefixes = append(prefixes, p.name+"/")
	}
	return e.WithHint("Put one of %s in front of it. %s", strings.Join(prefixes, ", "), endpoint)
}

// nearestProvider is the provider whose name is a typing error away; "" = none.
func nearestProvider(prefix string) string {
	prefix = strings.ToLower(strings.NewReplacer("-", "_", " ", "").Replace(prefix))
	for _, p := range providers() {
		if oneEdit(prefix, p.name) || prefix == strings.ReplaceAll(p.name, "_", "") {
			return p.name
		}
	}
	for word, meant := range map[string]string{"claude": "anthropic", "google_ai": "gemini", "google_ai_studio": "gemini", "aws": "bedrock", "amazon": "bedrock",
		"azure_openai": "azure", "lmstudio": "lm_studio", "lm": "lm_studio", "litellm": "litellm_proxy", "together": "together_ai",
		"fireworks": "fireworks_ai", "vertex": "vertex_ai", "moonshotai": "moonshot", "x_ai": "xai", "z_ai": "zai", "nvidia": "nvidia_nim", "hf": "huggingface"} {
		if prefix == word {
			return meant
		}
	}
	return ""
}

// oneEdit reports whether a is b with at most one letter too many, too few, wrong
// or two exchanged. Short names are too near to each other for that.
func oneEdit(a, b string) bool {
	if len(b) < 5 || len(a) > len(b)+1 || len(b) > len(a)+1 {
		return a == b
	}
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	restA, restB := a[i:], b[i:]
	skip := func(s string) string { return s[min(1, len(s)):] }
	swapped := len(restA) > 1 && len(restB) > 1 && restA[0] == restB[1] && restA[1] == restB[0] && restA[2:] == restB[2:]
	return skip(restA) == skip(restB) || skip(restA) == restB || restA == skip(restB) || swapped
}
