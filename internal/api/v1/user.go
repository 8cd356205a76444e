package v1

import (
	"net/http"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/api/settingswire"
	"parley/internal/fault"
	"parley/internal/store"
)

// userInfo is V1 9.4: the settings, who it is, and flat members of an older form that
// clients read.
type userInfo struct {
	*settingsView
	ID          string    `json:"id"`
	OrgID       *string   `json:"org_id"`
	OrgName     *string   `json:"org_name"`
	Role        *string   `json:"role"`
	Permissions []string  `json:"permissions"`
	LLMModel    *string   `json:"llm_model"`
	LLMAPIKey   *string   `json:"llm_api_key"`
	LLMBaseURL  *string   `json:"llm_base_url"`
	MCP         legacyMCP `json:"mcp_config"`
}

// legacyMCP is the form of MCP servers that the legacy API has.
type legacyMCP struct {
	SSE   []legacyServer  `json:"sse_servers"`
	SHTTP []legacyServer  `json:"shttp_servers"`
	Stdio []legacyProgram `json:"stdio_servers"`
}

type legacyServer struct {
	URL    string  `json:"url"`
	APIKey *string `json:"api_key"`
}

type legacyProgram struct {
	Name    string            `json:"name"`
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
}

func maskSecret(account.Secret) string { return account.Mask }

// viewMCP renders the servers that conversations get; show nil masks.
func viewMCP(c *account.MCPConfig, show settingswire.Show) legacyMCP {
	out := legacyMCP{SSE: []legacyServer{}, SHTTP: []legacyServer{}, Stdio: []legacyProgram{}}
	c = c.Enabled()
	if c == nil {
		return out
	}
	if show == nil {
		show = maskSecret
	}
	for _, s := range c.SSE {
		out.SSE = append(out.SSE, legacyServer{s.URL, shown(s.APIKey, show)})
	}
	for _, s := range c.SHTTP {
		out.SHTTP = append(out.SHTTP, legacyServer{s.URL, shown(s.APIKey, show)})
	}
	for _, s := range c.Stdio {
		env := map[string]string{}
		for name, value := range s.Env {
			env[name] = show(value)
		}
		out.Stdio = append(out.Stdio, legacyProgram{s.Name, s.Command, append([]string{}, s.Args...), env})
	}
	return out
}

func (h *handlers) getUser(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		Expose bool `json:"expose_secrets"`
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	var show settingswire.Show
	if q.Expose {
		if err := h.mayExpose(r); err != nil {
			return err
		}
		w.Header().Set("Cache-Control", "no-store")
		show = account.Secret.Reveal
	}
	s, err := h.book().Settings(r)
	if err != nil {
		return err
	}
	view, err := viewSettings(s, show)
	if err != nil {
		return err
	}
	info := userInfo{settingsView: view, ID: r.Principal.UserID, LLMModel: s.LLMModel, LLMBaseURL: s.LLMBaseURL, MCP: viewMCP(s.MCP, show)}
	if show != nil {
		info.LLMAPIKey = shown(s.LLMAPIKey, show)
	}
	return httpkit.JSON(w, http.StatusOK, info)
}

// mayExpose asks for two keys (V1 trap 11): the user's as a bearer, and that of a
// running sandbox of the user's.
func (h *handlers) mayExpose(r *httpkit.Request) error {
	const header = "X-Session-API-Key"
	missing := fault.New(fault.Unauthenticated, "second_key_required", "Secrets are shown to whoever has two keys.").
		WithHint("Send the user's as a bearer token and that of one of the user's running sandboxes in %s.", header)
	if r.Header.Get("Authorization") == "" || r.Header.Get(header) == "" {
		return missing
	}
	box, err := h.Fleet.BySessionKey(r.Context(), r.Header.Get(header))
	switch {
	case fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.NotFound):
		return missing
	case err != nil:
		return err
	case box.Owner != r.Principal.UserID || box.Status != store.SandboxRunning:
		return fault.New(fault.Forbidden, "sandbox_not_active", "The second key is not that of a running sandbox of this user.").
			WithHint("Resume the sandbox, or use the key of another one.")
	}
	return nil
}
