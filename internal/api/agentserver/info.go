package agentserver

import (
	"encoding/json"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/engine"
)

// ConversationInfo is agent protocol §2.2: what GET of a conversation answers and
// what a full_state event carries. All members are always there.
type ConversationInfo struct {
	ID                   string            `json:"id"` // dashed
	Workspace            workspaceInfo     `json:"workspace"`
	PersistenceDir       *string           `json:"persistence_dir"`
	MaxIterations        int               `json:"max_iterations"`
	StuckDetection       bool              `json:"stuck_detection"`
	ExecutionStatus      string            `json:"execution_status"`
	ConfirmationPolicy   policyInfo        `json:"confirmation_policy"`
	SecurityAnalyzer     *kindInfo         `json:"security_analyzer"`
	ActivatedSkills      []string          `json:"activated_knowledge_skills"`
	InvokedSkills        []string          `json:"invoked_skills"`
	BlockedActions       map[string]string `json:"blocked_actions"`
	BlockedMessages      map[string]string `json:"blocked_messages"`
	LastUserMessageID    *string           `json:"last_user_message_id"`
	LeafEventID          *string           `json:"leaf_event_id"`
	Stats                statsInfo         `json:"stats"`
	SecretRegistry       secretRegistry    `json:"secret_registry"`
	AgentState           map[string]any    `json:"agent_state"`
	HookConfig           *json.RawMessage  `json:"hook_config"`
	Title                *string           `json:"title"`
	Metrics              *json.RawMessage  `json:"metrics"` // clients combine stats instead
	CreatedAt            string            `json:"created_at"`
	UpdatedAt            string            `json:"updated_at"`
	ForkedFrom           *string           `json:"forked_from_conversation_id"`
	ForkedFromEvent      *string           `json:"forked_from_event_id"`
	ParentConversationID *string           `json:"parent_conversation_id"`
	SubConversationIDs   []string          `json:"sub_conversation_ids"`
	Tags                 map[string]string `json:"tags"`
	CurrentModelID       *string           `json:"current_model_id"`
	AvailableModels      []string          `json:"available_models"`
	SupportsModelSwitch  bool              `json:"supports_runtime_model_switch"`
	LaunchedAgentProfile *json.RawMessage  `json:"launched_agent_profile"`
	Agent                agentInfo         `json:"agent"`
	ClientTools          []json.RawMessage `json:"client_tools"`
}

type workspaceInfo struct {
	WorkingDir string `json:"working_dir"`
	Kind       string `json:"kind"`
}

type kindInfo struct {
	Kind string `json:"kind"`
}

type policyInfo struct {
	Kind           string `json:"kind"`
	Threshold      string `json:"threshold,omitempty"`
	ConfirmUnknown *bool  `json:"confirm_unknown,omitempty"`
}

type secretRegistry struct {
	SecretSources map[string]secretSource `json:"secret_sources"`
}

type secretSource struct {
	Kind        string         `json:"kind"`
	Value       account.Secret `json:"value"` // masked
	Description *string        `json:"description"`
}

type agentInfo struct {
	Kind                string         `json:"kind"`
	LLM                 llmInfo        `json:"llm"`
	Tools               []toolInfo     `json:"tools"`
	MCPConfig           map[string]any `json:"mcp_config"`
	IncludeDefaultTools []string       `json:"include_default_tools"`
	AgentContext        *contextInfo   `json:"agent_context"`
	ToolConcurrency     int            `json:"tool_concurrency_limit"`
}

type llmInfo struct {
	Model   string         `json:"model"`
	APIKey  account.Secret `json:"api_key"` // masked
	BaseURL *string        `json:"base_url"`
	UsageID string         `json:"usage_id"`
	Stream  bool           `json:"stream"`
}

type toolInfo struct {
	Name   string         `json:"name"`
	Params map[string]any `json:"params"`
}

type contextInfo struct {
	Skills []json.RawMessage `json:"skills"`
	Suffix *string           `json:"system_message_suffix"`
}

// FullState is Info for the live streams of other APIs, which carry the same
// state.
func FullState(v *engine.View) any { return Info(v) }

// Info renders a conversation.
func Info(v *engine.View) *ConversationInfo {
	c := v.Conversation
	o := c.Options
	info := &ConversationInfo{
		ID: c.ID.Dashed(), Workspace: workspaceInfo{o.WorkingDir, "LocalWorkspace"}, MaxIterations: o.MaxIterations,
		ExecutionStatus: string(c.Summary.Status), ConfirmationPolicy: policy(o), SecurityAnalyzer: analyzer(o),
		ActivatedSkills: []string{}, InvokedSkills: []string{}, BlockedActions: map[string]string{},
		BlockedMessages: map[string]string{}, Stats: stats(v), SecretRegistry: secretRegistry{secrets(o)},
		AgentState: map[string]any{}, Title: orNull(c.Title), CreatedAt: httpkit.FormatTime(c.CreatedAt),
		UpdatedAt: httpkit.FormatTime(c.UpdatedAt), SubConversationIDs: []string{}, Tags: c.Tags,
		CurrentModelID: orNull(o.LLM.Model), AvailableModels: []string{}, Agent: agent(v), ClientTools: []json.RawMessage{},
	}
	if c.ParentID != "" {
		info.ParentConversationID = orNull(c.ParentID.Dashed())
	}
	if info.Tags == nil {
		info.Tags = map[string]string{}
	}
	return info
}

func policy(o conversation.Options) policyInfo {
	switch {
	case !o.ConfirmationMode:
		return policyInfo{Kind: "NeverConfirm"}
	case o.SecurityAnalyzer == "llm":
		yes := true
		return policyInfo{Kind: "ConfirmRisky", Threshold: "HIGH", ConfirmUnknown: &yes}
	}
	return policyInfo{Kind: "AlwaysConfirm"}
}

func analyzer(o conversation.Options) *kindInfo {
	if o.SecurityAnalyzer != "llm" {
		return nil
	}
	return &kindInfo{"LLMSecurityAnalyzer"}
}

func secrets(o conversation.Options) map[string]secretSource {
	out := map[string]secretSource{}
	for name, s := range o.Secrets {
		out[name] = secretSource{"StaticSecret", s.Value, orNull(s.Description)}
	}
	return out
}

func agent(v *engine.View) agentInfo {
	o := v.Options
	tools := make([]toolInfo, len(v.Tools))
	for i, name := range v.Tools {
		tools[i] = toolInfo{name, map[string]any{}}
	}
	return agentInfo{
		Kind:  "Agent",
		LLM:   llmInfo{o.LLM.Model, o.LLM.APIKey, orNull(o.LLM.BaseURL), "agent", true},
		Tools: tools, MCPConfig: map[string]any{},
		IncludeDefaultTools: []string{"FinishTool", "ThinkTool"},
		AgentContext:        &contextInfo{[]json.RawMessage{}, orNull(o.SystemSuffix)}, ToolConcurrency: 1,
	}
}

// orNull renders "" as null.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
