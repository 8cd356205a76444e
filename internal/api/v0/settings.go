package v0

import (
	"net/http"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/fault"
)

func (h *handlers) storeSettings(w http.ResponseWriter, r *httpkit.Request) error {
	var in account.SettingsInput
	if err := r.Body(&in); err != nil {
		return err
	}
	merge, err := in.Check("body")
	if err != nil {
		return err
	}
	err = h.settings.UpdateSettings(r.Context(), r.Principal.UserID,
		func(old *account.Settings) (*account.Settings, error) { return merge.Apply(old), nil })
	if err != nil {
		return err
	}
	return ok(w, map[string]string{"message": "Settings stored"})
}

func (h *handlers) loadSettings(w http.ResponseWriter, r *httpkit.Request) error {
	s, err := h.settings.Settings(r.Context(), r.Principal.UserID)
	if err != nil {
		return err
	}
	if !s.Stored() {
		return fault.New(fault.NotFound, "settings_not_found", "Settings not found")
	}
	return ok(w, viewSettings(s))
}

// settingsView is what clients read: all keys, nulls included, in the order they
// have always had. Secrets are null, whether set or not.
type settingsView struct {
	Language                           *string            `json:"language"`
	Agent                              *string            `json:"agent"`
	MaxIterations                      *int               `json:"max_iterations"`
	SecurityAnalyzer                   *string            `json:"security_analyzer"`
	ConfirmationMode                   *bool              `json:"confirmation_mode"`
	LLMModel                           *string            `json:"llm_model"`
	LLMAPIKey                          *string            `json:"llm_api_key"`
	LLMBaseURL                         *string            `json:"llm_base_url"`
	RemoteRuntimeResourceFactor        *int               `json:"remote_runtime_resource_factor"`
	SecretsStore                       secretsView        `json:"secrets_store"`
	EnableDefaultCondenser             bool               `json:"enable_default_condenser"`
	EnableSoundNotifications           bool               `json:"enable_sound_notifications"`
	EnableProactiveConversationStarter bool               `json:"enable_proactive_conversation_starters"`
	EnableSolvabilityAnalysis          bool               `json:"enable_solvability_analysis"`
	UserConsentsToAnalytics            *bool              `json:"user_consents_to_analytics"`
	SandboxBaseContainerImage          *string            `json:"sandbox_base_container_image"`
	SandboxRuntimeContainerImage       *string            `json:"sandbox_runtime_container_image"`
	MCP                                *mcpView           `json:"mcp_config"`
	SearchAPIKey                       *string            `json:"search_api_key"`
	SandboxAPIKey                      *string            `json:"sandbox_api_key"`
	MaxBudgetPerTask                   *float64           `json:"max_budget_per_task"`
	CondenserMaxSize                   *int               `json:"condenser_max_size"`
	Email                              *string            `json:"email"`
	EmailVerified                      *bool              `json:"email_verified"`
	GitUserName                        *string            `json:"git_user_name"`
	GitUserEmail                       *string            `json:"git_user_email"`
	V1Enabled                          *bool              `json:"v1_enabled"`
	ProviderTokensSet                  map[string]*string `json:"provider_tokens_set"`
	LLMAPIKeySet                       bool               `json:"llm_api_key_set"`
	SearchAPIKeySet                    bool               `json:"search_api_key_set"`
}

type secretsView struct {
	ProviderTokens struct{} `json:"provider_tokens"`
}

type mcpView struct {
	SSE   []sseView   `json:"sse_servers"`
	Stdio []stdioView `json:"stdio_servers"`
	SHTTP []shttpView `json:"shttp_servers"`
}

type sseView struct {
	URL    string  `json:"url"`
	APIKey *string `json:"api_key"`
}

type stdioView struct {
	Name    string            `json:"name"`
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
}

type shttpView struct {
	URL     string  `json:"url"`
	APIKey  *string `json:"api_key"`
	Timeout *int    `json:"timeout"`
}

func viewSettings(s *account.Settings) settingsView {
	return settingsView{
		Language:                           s.Language,
		Agent:                              s.Agent,
		MaxIterations:                      s.MaxIterations,
		SecurityAnalyzer:                   s.SecurityAnalyzer,
		ConfirmationMode:                   s.ConfirmationMode,
		LLMModel:                           s.LLMModel,
		LLMBaseURL:                         s.LLMBaseURL,
		RemoteRuntimeResourceFactor:        s.RemoteRuntimeResourceFactor,
		EnableDefaultCondenser:             s.EnableDefaultCondenser,
		EnableSoundNotifications:           s.EnableSoundNotifications,
		EnableProactiveConversationStarter: s.EnableProactiveConversationStarter,
		EnableSolvabilityAnalysis:          s.EnableSolvabilityAnalysis,
		UserConsentsToAnalytics:            s.UserConsentsToAnalytics,
		SandboxBaseContainerImage:          s.SandboxBaseContainerImage,
		SandboxRuntimeContainerImage:       s.SandboxRuntimeContainerImage,
		MCP:                                viewMCP(s.MCP),
		MaxBudgetPerTask:                   s.MaxBudgetPerTask,
		CondenserMaxSize:                   s.CondenserMaxSize,
		Email:                              s.Email,
		EmailVerified:                      s.EmailVerified,
		GitUserName:                        s.GitUserName,
		GitUserEmail:                       s.GitUserEmail,
		V1Enabled:                          s.V1Enabled,
		ProviderTokensSet:                  tokensSet(s.Secrets),
		LLMAPIKeySet:                       s.LLMAPIKey.IsSet(),
		SearchAPIKeySet:                    s.SearchAPIKey.IsSet(),
	}
}

func tokensSet(s account.Secrets) map[string]*string {
	set := map[string]*string{}
	for name, t := range s.ProviderTokens {
		if t.Token.IsSet() || t.UserID != nil && *t.UserID != "" {
			set[name] = t.Host
		}
	}
	return set
}

// viewMCP shows keys and variables as they are: the clients that edit them send
// the whole list back.
func viewMCP(c *account.MCPConfig) *mcpView {
	if c == nil {
		return nil
	}
	v := &mcpView{SSE: []sseView{}, Stdio: []stdioView{}, SHTTP: []shttpView{}}
	for _, s := range c.SSE {
		v.SSE = append(v.SSE, sseView{s.URL, revealed(s.APIKey)})
	}
	for _, s := range c.SHTTP {
		v.SHTTP = append(v.SHTTP, shttpView{s.URL, revealed(s.APIKey), s.Timeout})
	}
	for _, s := range c.Stdio {
		env := make(map[string]string, len(s.Env))
		for name, value := range s.Env {
			env[name] = value.Reveal()
		}
		v.Stdio = append(v.Stdio, stdioView{s.Name, s.Command, append([]string{}, s.Args...), env})
	}
	return v
}

func revealed(s account.Secret) *string {
	if !s.IsSet() {
		return nil
	}
	v := s.Reveal()
	return &v
}
