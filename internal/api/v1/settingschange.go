package v1

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/api/settingswire"
	"parley/internal/fault"
)

// member is a member of a request that may be left out, or be null.
type member[T any] = settingswire.Member[T]

// settingsChange is a request to change settings (V1 9.1). What it leaves out
// stays; null resets, except keys.
type settingsChange struct {
	Language                    member[string]       `json:"language"`
	RemoteRuntimeResourceFactor member[int]          `json:"remote_runtime_resource_factor"`
	DefaultSandboxSpec          member[string]       `json:"default_sandbox_spec_id"`
	GitFullClone                member[bool]         `json:"git_full_clone"`
	EnableSoundNotifications    member[bool]         `json:"enable_sound_notifications"`
	EnableProactiveStarters     member[bool]         `json:"enable_proactive_conversation_starters"`
	UserConsentsToAnalytics     member[bool]         `json:"user_consents_to_analytics"`
	BaseContainerImage          member[string]       `json:"sandbox_base_container_image"`
	RuntimeContainerImage       member[string]       `json:"sandbox_runtime_container_image"`
	SearchAPIKey                account.SecretChange `json:"search_api_key"`
	SandboxAPIKey               account.SecretChange `json:"sandbox_api_key"`
	MaxBudgetPerTask            member[float64]      `json:"max_budget_per_task"`
	Email                       member[string]       `json:"email"`
	EmailVerified               member[bool]         `json:"email_verified"`
	GitUserName                 member[string]       `json:"git_user_name"`
	GitUserEmail                member[string]       `json:"git_user_email"`
	TitleLLMProfile             member[string]       `json:"title_llm_profile"`
	V1Enabled                   member[bool]         `json:"v1_enabled"`
	DisabledSkills              member[[]string]     `json:"disabled_skills"`
	Secrets                     account.SecretsInput `json:"secrets_store"`
	AgentProfile                member[string]       `json:"active_agent_profile_id"`
	settingswire.Change

	all map[string]any // the whole request
}

func (h *handlers) storeSettings(w http.ResponseWriter, r *httpkit.Request) error {
	c, err := readSettingsChange(r)
	if err != nil {
		return err
	}
	if err := h.book().Change(r, c.apply); err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, map[string]string{"message": "Settings stored"})
}

func readSettingsChange(r *httpkit.Request) (*settingsChange, error) {
	var raw json.RawMessage
	c := &settingsChange{}
	if err := errors.Join(r.Body(&raw), r.Body(c)); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&c.all); err != nil {
		return nil, err
	}
	var legacy []fault.Field
	for _, name := range []string{settingswire.AgentSettings, settingswire.ConversationSettings} {
		if _, sent := c.all[name]; sent {
			legacy = append(legacy, fault.Field{Loc: []any{"body", name}, Type: "extra_forbidden",
				Msg: "Send the changes as " + name + "_diff instead"})
		}
	}
	if len(legacy) > 0 {
		return nil, account.Invalid(legacy)
	}
	return c, nil
}

// apply changes settings, or returns Invalid with all that is wrong.
func (c *settingsChange) apply(s *account.Settings) error {
	var fields []fault.Field
	if err := settingswire.AdoptKept(s); err != nil {
		return err
	}
	c.applyPlain(s)
	for _, step := range []func(*account.Settings) error{c.applyProfile, c.applyAgentProfile, c.ApplyLLM,
		func(s *account.Settings) error { return s.AddSecrets(c.Secrets, "body", "secrets_store") }} {
		if err := settingswire.Collect(&fields, step(s)); err != nil {
			return err
		}
	}
	fields = append(fields, c.ReplaceMCP(s)...)
	if len(fields) > 0 {
		return account.Invalid(fields)
	}
	return c.applyKept(s)
}

func (c *settingsChange) applyProfile(s *account.Settings) error {
	if !c.TitleLLMProfile.Sent {
		return nil
	}
	return s.ChooseTitleProfile(orEmpty(c.TitleLLMProfile.Value), "body", "title_llm_profile")
}

func (c *settingsChange) applyAgentProfile(s *account.Settings) error {
	if !c.AgentProfile.Sent {
		return nil
	}
	return s.ChooseAgentProfile(orEmpty(c.AgentProfile.Value), "body", "active_agent_profile_id")
}

func (c *settingsChange) applyPlain(s *account.Settings) {
	def := account.DefaultSettings()
	c.Language.Set(&s.Language)
	c.RemoteRuntimeResourceFactor.Set(&s.RemoteRuntimeResourceFactor)
	c.EnableSoundNotifications.SetOr(&s.EnableSoundNotifications, def.EnableSoundNotifications)
	c.EnableProactiveStarters.SetOr(&s.EnableProactiveConversationStarter, def.EnableProactiveConversationStarter)
	c.UserConsentsToAnalytics.Set(&s.UserConsentsToAnalytics)
	c.BaseContainerImage.Set(&s.SandboxBaseContainerImage)
	c.RuntimeContainerImage.Set(&s.SandboxRuntimeContainerImage)
	s.SearchAPIKey = c.SearchAPIKey.Apply(s.SearchAPIKey)
	s.SandboxAPIKey = c.SandboxAPIKey.Apply(s.SandboxAPIKey)
	c.MaxBudgetPerTask.Set(&s.MaxBudgetPerTask)
	c.Email.Set(&s.Email)
	c.EmailVerified.Set(&s.EmailVerified)
	c.GitUserName.Set(&s.GitUserName)
	c.GitUserEmail.Set(&s.GitUserEmail)
	c.V1Enabled.Set(&s.V1Enabled)
	c.DefaultSandboxSpec.SetOr(&s.DefaultSandboxSpec, "")
	c.GitFullClone.Set(&s.GitFullClone)
	c.DisabledSkills.SetOr(&s.DisabledSkills, nil)
	c.ApplyPlain(s)
}

// applyKept keeps what else the request has.
func (c *settingsChange) applyKept(s *account.Settings) error {
	kept, err := settingswire.ReadKept(s)
	if err != nil {
		return err
	}
	for _, name := range settingswire.KeptMembers {
		if v, sent := c.all[name]; sent {
			kept[name], _ = settingswire.Keepable("", v)
		}
	}
	c.Keep(kept, c.all)
	return kept.Store(s)
}
