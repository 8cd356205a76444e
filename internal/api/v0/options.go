package v0

import (
	"net/http"
	"slices"

	"parley/internal/api/httpkit"
)

// optionModels lists ids as users configure them (legacy API: a sorted list
// without doubles).
func (h *handlers) optionModels(w http.ResponseWriter, _ *httpkit.Request) error {
	ids := []string{}
	if h.models != nil {
		for _, o := range h.models() {
			ids = append(ids, o.ID())
		}
	}
	slices.Sort(ids)
	return ok(w, slices.Compact(ids))
}

// optionAgents offers the one agent there is, under the name that clients expect.
func (h *handlers) optionAgents(w http.ResponseWriter, _ *httpkit.Request) error {
	return ok(w, []string{"CodeActAgent"})
}

// optionAnalyzers offers the one analyzer there is. Any other name asks for
// every action.
func (h *handlers) optionAnalyzers(w http.ResponseWriter, _ *httpkit.Request) error {
	return ok(w, []string{"llm"})
}

// optionConfig has upper-case keys; the old web UI does not start without it.
func (h *handlers) optionConfig(w http.ResponseWriter, _ *httpkit.Request) error {
	return ok(w, map[string]any{"APP_MODE": "oss", "GITHUB_CLIENT_ID": "", "POSTHOG_CLIENT_KEY": "",
		"FEATURE_FLAGS": map[string]bool{"ENABLE_BILLING": false, "HIDE_LLM_SETTINGS": false}})
}
