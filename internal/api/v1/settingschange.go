package v1

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/fault"
)

// member is a member of a request that may be left out, or be null.
type member[T any] struct {
	sent  bool
	value *T // nil = null
}

// UnmarshalJSON is called for null too.
func (m *member[T]) UnmarshalJSON(b []byte) error {
	m.sent, m.value = true, nil
	return json.Unmarshal(b, &m.value)
}

// set replaces what was stored, if there is something in the request.
func (m member[T]) set(to **T) {
	if m.sent {
		*to = m.value
	}
}

// setOr does, with what null stands for.
func (m member[T]) setOr(to *T, null T) {
	switch {
	case m.value != nil:
		*to = *m.value
	case m.sent:
		*to = null
	}
}

// settingsChange is a request to change settings (V1 9.1). What it leaves out
// stays; null resets, except keys.
type settingsChange struct {
	Language                    member[string]        `json:"language"`
	RemoteRuntimeResourceFactor member[int]           `json:"remote_runtime_resource_factor"`
	DefaultSandboxSpec          member[string]        `json:"default_sandbox_spec_id"`
	EnableSoundNotifications    member[bool]          `json:"enable_sound_notifications"`
	EnableProactiveStarters     member[bool]          `json:"enable_proactive_conversation_starters"`
	UserConsentsToAnalytics     member[bool]          `json:"user_consents_to_analytics"`
	BaseContainerImage          member[string]        `json:"sandbox_base_container_image"`
	RuntimeContainerImage       member[string]        `json:"sandbox_runtime_container_image"`
	SearchAPIKey                account.SecretChange  `json:"search_api_key"`
	SandboxAPIKey               account.SecretChange  `json:"sandbox_api_key"`
	MaxBudgetPerTask            member[float64]       `json:"max_budget_per_task"`
	Email                       member[string]        `json:"email"`
	EmailVerified               member[bool]          `json:"email_verified"`
	GitUserName                 member[string]        `json:"git_user_name"`
	GitUserEmail                member[string]        `json:"git_user_email"`
	TitleLLMProfile             member[string]        `json:"title_llm_profile"`
	V1Enabled                   member[bool]          `json:"v1_enabled"`
	DisabledSkills              member[[]string]      `json:"disabled_skills"`
	Secrets                     account.SecretsInput  `json:"secrets_store"`
	Agent                       agentSettingsChange   `json:"agent_settings_diff"`
	Conversation                conversationSetChange `json:"conversation_settings_diff"`

	all map[string]any // the whole request
}

type agentSettingsChange struct {
	Agent     member[string]  `json:"agent"`
	LLM       json.RawMessage `json:"llm"`
	MCP       json.RawMessage `json:"mcp_config"` // replaced whole: its members have names
	SubAgents member[bool]    `json:"enable_sub_agents"`
	Condenser member[struct {
		Enabled member[bool] `json:"enabled"`
		MaxSize member[int]  `json:"max_size"`
	}] `json:"condenser"`
}

type conversationSetChange struct {
	MaxIterations    member[int]    `json:"max_iterations"`
	ConfirmationMode member[bool]   `json:"confirmation_mode"`
	SecurityAnalyzer member[string] `json:"security_analyzer"`
}

// Members that Parley acts on, or shows as they must be; the others are kept.
var (
	agentMembers        = []string{"schema_version", "agent_kind", "agent", "llm", "mcp_config", "enable_sub_agents"}
	condenserMembers    = []string{"enabled", "max_size"}
	conversationMembers = []string{"schema_version", "max_iterations", "confirmation_mode", "security_analyzer"}
)

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
	for _, name := range []string{keptAgent, keptConversation} {
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
	wrong := func(err error) error {
		var f *fault.Error
		if !errors.As(err, &f) || len(f.Fields) == 0 {
			return err
		}
		fields = append(fields, f.Fields...)
		return nil
	}
	if err := adoptKept(s); err != nil {
		return err
	}
	c.applyPlain(s)
	if err := wrong(c.applyProfile(s)); err != nil {
		return err
	}
	if err := wrong(s.ChangeLLM(c.Agent.LLM, "body", "agent_settings_diff", "llm")); err != nil {
		return err
	}
	if err := wrong(s.AddSecrets(c.Secrets, "body", "secrets_store")); err != nil {
		return err
	}
	if c.Agent.MCP != nil {
		mcp, more := account.ParseMCPServers(c.Agent.MCP, s.MCP, "body", "agent_settings_diff", "mcp_config")
		s.MCP, fields = mcp, append(fields, more...)
	}
	if len(fields) > 0 {
		return account.Invalid(fields)
	}
	return c.applyKept(s)
}

func (c *settingsChange) applyProfile(s *account.Settings) error {
	if !c.TitleLLMProfile.sent {
		return nil
	}
	return s.ChooseTitleProfile(orEmpty(c.TitleLLMProfile.value), "body", "title_llm_profile")
}

func (c *settingsChange) applyPlain(s *account.Settings) {
	def := account.DefaultSettings()
	c.Language.set(&s.Language)
	c.RemoteRuntimeResourceFactor.set(&s.RemoteRuntimeResourceFactor)
	c.EnableSoundNotifications.setOr(&s.EnableSoundNotifications, def.EnableSoundNotifications)
	c.EnableProactiveStarters.setOr(&s.EnableProactiveConversationStarter, def.EnableProactiveConversationStarter)
	c.UserConsentsToAnalytics.set(&s.UserConsentsToAnalytics)
	c.BaseContainerImage.set(&s.SandboxBaseContainerImage)
	c.RuntimeContainerImage.set(&s.SandboxRuntimeContainerImage)
	s.SearchAPIKey = c.SearchAPIKey.Apply(s.SearchAPIKey)
	s.SandboxAPIKey = c.SandboxAPIKey.Apply(s.SandboxAPIKey)
	c.MaxBudgetPerTask.set(&s.MaxBudgetPerTask)
	c.Email.set(&s.Email)
	c.EmailVerified.set(&s.EmailVerified)
	c.GitUserName.set(&s.GitUserName)
	c.GitUserEmail.set(&s.GitUserEmail)
	c.V1Enabled.set(&s.V1Enabled)
	c.Agent.Agent.set(&s.Agent)
	if condenser := c.Agent.Condenser; condenser.value != nil {
		condenser.value.Enabled.setOr(&s.EnableDefaultCondenser, def.EnableDefaultCondenser)
		condenser.value.MaxSize.set(&s.CondenserMaxSize)
	} else if condenser.sent {
		s.EnableDefaultCondenser, s.CondenserMaxSize = def.EnableDefaultCondenser, nil
	}
	c.DefaultSandboxSpec.setOr(&s.DefaultSandboxSpec, "")
	c.DisabledSkills.setOr(&s.DisabledSkills, nil)
	c.Agent.SubAgents.set(&s.SubAgents)
	c.Conversation.MaxIterations.set(&s.MaxIterations)
	c.Conversation.ConfirmationMode.set(&s.ConfirmationMode)
	c.Conversation.SecurityAnalyzer.set(&s.SecurityAnalyzer)
}

// applyKept keeps what else the request has.
func (c *settingsChange) applyKept(s *account.Settings) error {
	kept, err := readKept(s)
	if err != nil {
		return err
	}
	for _, name := range keptMembers {
		if v, sent := c.all[name]; sent {
			kept[name], _ = keepable("", v)
		}
	}
	agent := restOf(c.all["agent_settings_diff"], agentMembers)
	if condenser, ok := agent["condenser"]; ok && condenser != nil {
		agent["condenser"] = restOf(condenser, condenserMembers)
	}
	kept[keptAgent] = account.MergeDiff(kept.object(keptAgent), agent)
	kept[keptConversation] = account.MergeDiff(kept.object(keptConversation),
		restOf(c.all["conversation_settings_diff"], conversationMembers))
	return kept.store(s)
}

// restOf returns what of an object is kept, but for some members.
func restOf(v any, but []string) map[string]any {
	kept, _ := keepable("", v)
	m, _ := kept.(map[string]any)
	for _, name := range but {
		delete(m, name)
	}
	return m
}
