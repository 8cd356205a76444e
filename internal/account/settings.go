package account

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"parley/internal/fault"
)

// Providers are the git hosting providers that settings and conversations may name.
var Providers = []string{"github", "gitlab", "bitbucket", "bitbucket_data_center", "forgejo", "enterprise_sso", "azure_devops"}

// DefaultSettings returns the settings of a user who changed nothing.
func DefaultSettings() *Settings {
	return &Settings{
		EnableDefaultCondenser:             true,
		EnableProactiveConversationStarter: true,
		EnableSolvabilityAnalysis:          true,
	}
}

// SecretChange is what a request says about a stored secret: null, nothing or
// the mask keep it, any other text replaces it, blanks clear it. Surrounding
// space is dropped, because it is never part of a key and often of a paste.
type SecretChange struct {
	set   bool
	value Secret
}

// UnmarshalJSON reads a string or null.
func (c *SecretChange) UnmarshalJSON(b []byte) error {
	var v *string
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*c = SecretChange{}
	if v != nil && *v != Mask {
		*c = SecretChange{set: true, value: NewSecret(strings.TrimSpace(*v))}
	}
	return nil
}

// Apply returns the secret after the change.
func (c SecretChange) Apply(old Secret) Secret {
	if c.set {
		return c.value
	}
	return old
}

// SettingsInput is a request to store settings. It is complete: a member that is
// null or absent is reset to its default. The exceptions, which are kept then,
// are the three secrets, the model, its base URL, the consent and the secrets
// store. What the legacy API has no word for (profiles, the titles' profile, what
// is kept for newer clients) is kept, as far as it fits the model.
type SettingsInput struct {
	Language                           *string         `json:"language"`
	Agent                              *string         `json:"agent"`
	MaxIterations                      *int            `json:"max_iterations"`
	SecurityAnalyzer                   *string         `json:"security_analyzer"`
	ConfirmationMode                   *bool           `json:"confirmation_mode"`
	LLMModel                           *string         `json:"llm_model"`
	LLMAPIKey                          SecretChange    `json:"llm_api_key"`
	LLMBaseURL                         *string         `json:"llm_base_url"`
	RemoteRuntimeResourceFactor        *int            `json:"remote_runtime_resource_factor"`
	EnableDefaultCondenser             *bool           `json:"enable_default_condenser"`
	EnableSoundNotifications           *bool           `json:"enable_sound_notifications"`
	EnableProactiveConversationStarter *bool           `json:"enable_proactive_conversation_starters"`
	EnableSolvabilityAnalysis          *bool           `json:"enable_solvability_analysis"`
	UserConsentsToAnalytics            *bool           `json:"user_consents_to_analytics"`
	SandboxBaseContainerImage          *string         `json:"sandbox_base_container_image"`
	SandboxRuntimeContainerImage       *string         `json:"sandbox_runtime_container_image"`
	MCP                                json.RawMessage `json:"mcp_config"`
	SearchAPIKey                       SecretChange    `json:"search_api_key"`
	SandboxAPIKey                      SecretChange    `json:"sandbox_api_key"`
	MaxBudgetPerTask                   *float64        `json:"max_budget_per_task"`
	CondenserMaxSize                   *int            `json:"condenser_max_size"`
	Email                              *string         `json:"email"`
	EmailVerified                      *bool           `json:"email_verified"`
	GitUserName                        *string         `json:"git_user_name"`
	GitUserEmail                       *string         `json:"git_user_email"`
	V1Enabled                          *bool           `json:"v1_enabled"`
	Secrets                            SecretsInput    `json:"secrets_store"`
}

// MinCondenserSize is the smallest number of events a condenser may keep.
const MinCondenserSize = 20

// SettingsMerge is a validated SettingsInput.
type SettingsMerge struct {
	in      *SettingsInput
	mcp     *MCPConfig
	secrets *secretsChange
}

// Check validates the request. Its error is Invalid with all wrong fields; loc
// is where the settings stand in the request.
func (in *SettingsInput) Check(loc ...any) (*SettingsMerge, error) {
	mcp, fields := ParseMCP(in.MCP, at(loc, "mcp_config")...)
	secrets, more := in.Secrets.check(at(loc, "secrets_store"))
	fields = append(fields, more...)
	if n := in.CondenserMaxSize; n != nil && *n < MinCondenserSize {
		fields = append(fields, fault.Field{Loc: at(loc, "condenser_max_size"), Type: "greater_than_equal",
			Msg: "Input should be greater than or equal to 20", Input: *n, Ctx: map[string]any{"ge": MinCondenserSize}})
	}
	if len(fields) > 0 {
		return nil, Invalid(fields)
	}
	return &SettingsMerge{in: in, mcp: mcp, secrets: secrets}, nil
}

// Invalid makes the fault of a request with wrong fields.
func Invalid(fields []fault.Field) error {
	err := fault.New(fault.Invalid, "validation_error", "The request is not valid.")
	err.Fields = fields
	return err
}

// Apply returns the settings after the merge. old is nil before the first store
// and is not changed.
func (m *SettingsMerge) Apply(old *Settings) *Settings {
	if old == nil {
		old = DefaultSettings()
	}
	in, def := m.in, DefaultSettings()
	next := &Settings{
		Language:                           in.Language,
		Agent:                              in.Agent,
		MaxIterations:                      in.MaxIterations,
		SecurityAnalyzer:                   in.SecurityAnalyzer,
		ConfirmationMode:                   in.ConfirmationMode,
		LLMModel:                           keep(in.LLMModel, old.LLMModel),
		LLMAPIKey:                          in.LLMAPIKey.Apply(old.LLMAPIKey),
		LLMBaseURL:                         keep(in.LLMBaseURL, old.LLMBaseURL),
		RemoteRuntimeResourceFactor:        in.RemoteRuntimeResourceFactor,
		EnableDefaultCondenser:             or(in.EnableDefaultCondenser, def.EnableDefaultCondenser),
		EnableSoundNotifications:           or(in.EnableSoundNotifications, def.EnableSoundNotifications),
		EnableProactiveConversationStarter: or(in.EnableProactiveConversationStarter, def.EnableProactiveConversationStarter),
		EnableSolvabilityAnalysis:          or(in.EnableSolvabilityAnalysis, def.EnableSolvabilityAnalysis),
		UserConsentsToAnalytics:            keep(in.UserConsentsToAnalytics, old.UserConsentsToAnalytics),
		SandboxBaseContainerImage:          in.SandboxBaseContainerImage,
		SandboxRuntimeContainerImage:       in.SandboxRuntimeContainerImage,
		MCP:                                m.mcp,
		SearchAPIKey:                       in.SearchAPIKey.Apply(old.SearchAPIKey),
		SandboxAPIKey:                      in.SandboxAPIKey.Apply(old.SandboxAPIKey),
		MaxBudgetPerTask:                   in.MaxBudgetPerTask,
		CondenserMaxSize:                   in.CondenserMaxSize,
		Email:                              in.Email,
		EmailVerified:                      in.EmailVerified,
		GitUserName:                        in.GitUserName,
		GitUserEmail:                       in.GitUserEmail,
		V1Enabled:                          in.V1Enabled,
		Secrets:                            m.secrets.apply(old.Secrets),
		Tuning:                             old.Tuning,
		Profiles:                           old.Profiles,
		ActiveProfile:                      old.ActiveProfile,
		TitleProfile:                       old.TitleProfile,
		DisabledSkills:                     old.DisabledSkills,
		SubAgents:                          old.SubAgents,
		DefaultSandboxSpec:                 old.DefaultSandboxSpec,
		GitFullClone:                       old.GitFullClone,
		AgentProfiles:                      old.AgentProfiles,
		ActiveAgentProfile:                 old.ActiveAgentProfile,
		Kept:                               old.Kept,
	}
	next.reconsider()
	return next
}

func keep[T any](v, old *T) *T {
	if v == nil {
		return old
	}
	return v
}

func or[T any](v *T, fallback T) T {
	if v == nil {
		return fallback
	}
	return *v
}

// at extends a location without sharing its memory.
func at(loc []any, more ...any) []any {
	return append(slices.Clip(slices.Clone(loc)), more...)
}

// decodeAny reads JSON with exact numbers. Nothing and null yield nil.
func decodeAny(raw json.RawMessage) (any, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("more than one value")
	}
	return v, nil
}
