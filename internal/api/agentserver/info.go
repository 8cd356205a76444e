package agentserver

import (
	"encoding/json"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/hook"
)

// ConversationInfo is agent protocol §2.2: what GET of a conversation answers and
// what a full_state event carries. All members are always there.
type ConversationInfo struct {
	ID                   string                          `json:"id"` // dashed
	Workspace            workspaceInfo                   `json:"workspace"`
	PersistenceDir       string                          `json:"persistence_dir"`
	MaxIterations        int                             `json:"max_iterations"`
	StuckDetection       bool                            `json:"stuck_detection"`
	ExecutionStatus      string                          `json:"execution_status"`
	ConfirmationPolicy   conversation.ConfirmationPolicy `json:"confirmation_policy"`
	SecurityAnalyzer     *conversation.Analyzer          `json:"security_analyzer"`
	ActivatedSkills      []string                        `json:"activated_knowledge_skills"`
	InvokedSkills        []string                        `json:"invoked_skills"`
	BlockedActions       map[string]string               `json:"blocked_actions"`
	BlockedMessages      map[string]string               `json:"blocked_messages"`
	LastUserMessageID    *string                         `json:"last_user_message_id"`
	LeafEventID          *string                         `json:"leaf_event_id"`
	Stats                statsInfo                       `json:"stats"`
	SecretRegistry       secretRegistry                  `json:"secret_registry"`
	AgentState           any                             `json:"agent_state"`
	HookConfig           *hook.Config                    `json:"hook_config"` // of single conversations only, see Server.hooksOf
	Title                *string                         `json:"title"`
	Metrics              *json.RawMessage                `json:"metrics"` // clients combine stats instead
	CreatedAt            string                          `json:"created_at"`
	UpdatedAt            string                          `json:"updated_at"`
	ForkedFrom           *string                         `json:"forked_from_conversation_id"`
	ForkedFromEvent      *string                         `json:"forked_from_event_id"`
	ParentConversationID *string                         `json:"parent_conversation_id"`
	SubConversationIDs   []string                        `json:"sub_conversation_ids"`
	Tags                 map[string]string               `json:"tags"`
	CurrentModelID       *string                         `json:"current_model_id"`
	AvailableModels      []string                        `json:"available_models"`
	SupportsModelSwitch  bool                            `json:"supports_runtime_model_switch"`
	LaunchedAgentProfile *conversation.LaunchedProfile   `json:"launched_agent_profile"`
	Agent                agentInfo                       `json:"agent"`
	ClientTools          []clientToolInfo                `json:"client_tools"`
}

type workspaceInfo struct {
	WorkingDir string `json:"working_dir"`
	Kind       string `json:"kind"`
}

type secretRegistry struct {
	SecretSources map[string]secretSource `json:"secret_sources"`
}

type secretSource struct {
	Kind        string         `json:"kind"`
	Value       account.Secret `json:"value"` // masked
	Description *string        `json:"description"`
}

// FullState is Info for the live streams of other APIs, which carry the same
// state.
func FullState(v *engine.View) any { return Info(v) }

// Info renders a conversation, without what has to be looked up elsewhere: its
// sub-conversations and its hooks.
func Info(v *engine.View) *ConversationInfo {
	c := v.Conversation
	o := c.Options
	info := &ConversationInfo{
		ID: c.ID.Dashed(), PersistenceDir: persistenceDir(c.ID), Workspace: workspaceInfo{o.WorkingDir, "LocalWorkspace"}, MaxIterations: o.MaxIterations,
		StuckDetection: o.Stuck == nil || !o.Stuck.Off, ExecutionStatus: string(c.Summary.Status),
		ConfirmationPolicy: o.Policy(), SecurityAnalyzer: o.Judge(),
		ActivatedSkills: append([]string{}, c.Summary.Skills...), InvokedSkills: append([]string{}, c.Summary.Invoked...),
		BlockedActions: orNoReasons(c.Summary.BlockedActions), BlockedMessages: orNoReasons(c.Summary.BlockedMessages), Stats: stats(v), SecretRegistry: secretRegistry{secrets(o)},
		LastUserMessageID: orNull(c.Summary.UserMessage), LeafEventID: orNull(c.Summary.Leaf),
		AgentState: c.Summary.Notes, Title: orNull(c.Title), CreatedAt: httpkit.FormatTime(c.CreatedAt),
		UpdatedAt: httpkit.FormatTime(c.UpdatedAt), SubConversationIDs: []string{}, Tags: c.Tags,
		CurrentModelID: orNull(o.LLM.Model), AvailableModels: []string{}, Agent: renderAgent(v), ClientTools: clientTools(o),
		ForkedFromEvent: orNull(c.ForkedAt), LaunchedAgentProfile: o.LaunchedProfile,
	}
	if c.ForkedFrom != "" {
		info.ForkedFrom = orNull(c.ForkedFrom.Dashed())
	}
	if c.ParentID != "" {
		info.ParentConversationID = orNull(c.ParentID.Dashed())
	}
	if info.Tags == nil {
		info.Tags = map[string]string{}
	}
	return info
}

// persistenceDir names where a conversation is kept. Clients fail on null; none of
// them opens it, and there is nothing to open: the log is in the server's store.
func persistenceDir(id conversation.ID) string { return "workspace/conversations/" + string(id) }

func orNoReasons(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func secrets(o conversation.Options) map[string]secretSource {
	out := map[string]secretSource{}
	for name, s := range o.Secrets {
		out[name] = secretSource{"StaticSecret", s.Value, orNull(s.Description)}
	}
	return out
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
