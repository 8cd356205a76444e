package v1

import (
	"encoding/json"
	"fmt"
	"net/http"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/api/settingswire"
)

// settingsView is V1 9.1. Secrets are null, whether set or not.
type settingsView struct {
	Language                    *string              `json:"language"`
	RemoteRuntimeResourceFactor *int                 `json:"remote_runtime_resource_factor"`
	SecretsStore                secretsView          `json:"secrets_store"`
	EnableSoundNotifications    bool                 `json:"enable_sound_notifications"`
	EnableProactiveStarters     bool                 `json:"enable_proactive_conversation_starters"`
	UserConsentsToAnalytics     *bool                `json:"user_consents_to_analytics"`
	BaseContainerImage          *string              `json:"sandbox_base_container_image"`
	RuntimeContainerImage       *string              `json:"sandbox_runtime_container_image"`
	SearchAPIKey                *string              `json:"search_api_key"`
	SandboxAPIKey               *string              `json:"sandbox_api_key"`
	MaxBudgetPerTask            *float64             `json:"max_budget_per_task"`
	Email                       *string              `json:"email"`
	EmailVerified               *bool                `json:"email_verified"`
	GitUserName                 *string              `json:"git_user_name"`
	GitUserEmail                *string              `json:"git_user_email"`
	TitleLLMProfile             *string              `json:"title_llm_profile"`
	V1Enabled                   bool                 `json:"v1_enabled"`
	DisabledSkills              []string             `json:"disabled_skills"`
	Agent                       map[string]any       `json:"agent_settings"`
	Conversation                map[string]any       `json:"conversation_settings"`
	Profiles                    settingsProfilesView `json:"llm_profiles"`
	ProviderTokensSet           map[string]*string   `json:"provider_tokens_set"`
	LLMAPIKeySet                bool                 `json:"llm_api_key_set"`
	SearchAPIKeySet             bool                 `json:"search_api_key_set"`
	DefaultSandboxSpec          *string              `json:"default_sandbox_spec_id"`
	AgentProfile                *string              `json:"active_agent_profile_id"`
	AgentProfileRevision        *int                 `json:"active_agent_profile_revision"`
	keptView
}

// keptView are the members that are kept for clients and have no effect.
type keptView struct {
	UserVersion            *int            `json:"user_version"`
	GitFullClone           bool            `json:"git_full_clone"`
	SandboxGrouping        string          `json:"sandbox_grouping_strategy"`
	RegisteredMarketplaces json.RawMessage `json:"registered_marketplaces"`
	InheritedMarketplaces  []any           `json:"inherited_marketplaces"`
}

type secretsView struct {
	ProviderTokens struct{} `json:"provider_tokens"`
}

type settingsProfilesView struct {
	Profiles map[string]map[string]json.RawMessage `json:"profiles"`
	Active   *string                               `json:"active"`
}

func (h *handlers) loadSettings(w http.ResponseWriter, r *httpkit.Request) error {
	s, err := h.Settings.Settings(r.Context(), r.Principal.UserID)
	if err != nil {
		return err
	}
	v, err := viewSettings(s, nil)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, v)
}

// viewSettings renders settings. show renders the secrets, nil shows null for them.
func viewSettings(s *account.Settings, show settingswire.Show) (*settingsView, error) {
	s, kept, err := settingswire.Adopted(s)
	if err != nil {
		return nil, err
	}
	v := &settingsView{
		Language: s.Language, RemoteRuntimeResourceFactor: s.RemoteRuntimeResourceFactor,
		EnableSoundNotifications: s.EnableSoundNotifications, EnableProactiveStarters: s.EnableProactiveConversationStarter,
		UserConsentsToAnalytics: s.UserConsentsToAnalytics, BaseContainerImage: s.SandboxBaseContainerImage,
		RuntimeContainerImage: s.SandboxRuntimeContainerImage, MaxBudgetPerTask: s.MaxBudgetPerTask,
		Email: s.Email, EmailVerified: s.EmailVerified, GitUserName: s.GitUserName, GitUserEmail: s.GitUserEmail,
		TitleLLMProfile: orNull(s.TitleProfile), V1Enabled: s.V1Enabled == nil || *s.V1Enabled, DisabledSkills: s.DisabledSkills,
		Conversation: settingswire.ViewConversation(s, kept), ProviderTokensSet: tokensSet(s.Secrets),
		LLMAPIKeySet: s.LLMAPIKey.IsSet(), SearchAPIKeySet: s.SearchAPIKey.IsSet(), DefaultSandboxSpec: orNull(s.DefaultSandboxSpec),
	}
	if v.Agent, err = settingswire.ViewAgent(s, kept, show); err != nil {
		return nil, err
	}
	if v.Profiles, err = viewProfiles(s, show); err != nil {
		return nil, err
	}
	if show != nil {
		v.SearchAPIKey, v.SandboxAPIKey = shown(s.SearchAPIKey, show), shown(s.SandboxAPIKey, show)
	}
	if p, ok := s.AgentProfileByID(s.ActiveAgentProfile); ok {
		v.AgentProfile, v.AgentProfileRevision = &p.ID, &p.Revision
	}
	v.keptView, err = viewKept(kept)
	v.GitFullClone = s.GitFullClone != nil && *s.GitFullClone
	return v, err
}

// viewKept fills in what is not kept.
func viewKept(k settingswire.Kept) (keptView, error) {
	v := keptView{SandboxGrouping: "NO_GROUPING", RegisteredMarketplaces: json.RawMessage("[]"), InheritedMarketplaces: []any{}}
	raw, err := json.Marshal(k)
	if err != nil {
		return v, fmt.Errorf("kept settings: %w", err)
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, fmt.Errorf("kept settings: %w", err)
	}
	return v, nil
}

func shown(s account.Secret, show settingswire.Show) *string {
	if !s.IsSet() {
		return nil
	}
	text := show(s)
	return &text
}

func viewProfiles(s *account.Settings, show settingswire.Show) (settingsProfilesView, error) {
	v := settingsProfilesView{Profiles: map[string]map[string]json.RawMessage{}, Active: orNull(s.ActiveProfile)}
	for name := range s.Profiles {
		config, err := s.ProfileConfig(name, show)
		if err != nil {
			return v, err
		}
		v.Profiles[name] = config
	}
	return v, nil
}

// tokensSet names the providers that are configured, with their hosts.
func tokensSet(s account.Secrets) map[string]*string {
	set := map[string]*string{}
	for name, t := range s.ProviderTokens {
		if t.Token.IsSet() || orEmpty(t.UserID) != "" {
			set[name] = t.Host
		}
	}
	return set
}

// settingsErrors is the shape of these routes: the text in "error", where their
// clients look, beside what V1 says elsewhere.
func settingsErrors(r *http.Request, p *httpkit.Problem) (int, any) {
	switch p.Status {
	case http.StatusNotFound:
		return p.Status, map[string]any{"error": "Settings not found"}
	case http.StatusUnauthorized:
		return p.Status, map[string]any{"error": "Invalid token", "detail": "Unauthorized"}
	}
	status, body := httpkit.DetailErrors(r, p)
	if m, ok := body.(map[string]any); ok {
		m["error"] = p.Text
	}
	return status, body
}
