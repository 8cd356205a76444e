package settingswire

import (
	"encoding/json"
	"errors"

	"parley/internal/account"
	"parley/internal/fault"
)

// Member is a member of a request that may be left out, or be null.
type Member[T any] struct {
	Sent  bool
	Value *T // nil = null
}

// UnmarshalJSON is called for null too.
func (m *Member[T]) UnmarshalJSON(b []byte) error {
	m.Sent, m.Value = true, nil
	return json.Unmarshal(b, &m.Value)
}

// Set replaces what was stored, if there is something in the request.
func (m Member[T]) Set(to **T) {
	if m.Sent {
		*to = m.Value
	}
}

// SetOr does, with what null stands for.
func (m Member[T]) SetOr(to *T, null T) {
	switch {
	case m.Value != nil:
		*to = *m.Value
	case m.Sent:
		*to = null
	}
}

// Names of the members of a request that a Change is read from.
const (
	AgentDiff        = AgentSettings + "_diff"
	ConversationDiff = ConversationSettings + "_diff"
)

// Change is what a request says about the two objects. What it leaves out stays;
// null resets, except keys.
type Change struct {
	Agent        AgentChange        `json:"agent_settings_diff"`
	Conversation ConversationChange `json:"conversation_settings_diff"`
}

// AgentChange is a change of agent_settings.
type AgentChange struct {
	Agent     Member[string]  `json:"agent"`
	LLM       json.RawMessage `json:"llm"`
	MCP       json.RawMessage `json:"mcp_config"`
	SubAgents Member[bool]    `json:"enable_sub_agents"`
	Condenser Member[struct {
		Enabled Member[bool] `json:"enabled"`
		MaxSize Member[int]  `json:"max_size"`
	}] `json:"condenser"`
}

// ConversationChange is a change of conversation_settings.
type ConversationChange struct {
	MaxIterations    Member[int]    `json:"max_iterations"`
	ConfirmationMode Member[bool]   `json:"confirmation_mode"`
	SecurityAnalyzer Member[string] `json:"security_analyzer"`
}

// Members that Parley acts on, or shows as they must be; the others are kept.
var (
	agentMembers        = []string{"schema_version", "agent_kind", "agent", "llm", "mcp_config", "enable_sub_agents"}
	condenserMembers    = []string{"enabled", "max_size"}
	conversationMembers = []string{"schema_version", "max_iterations", "confirmation_mode", "security_analyzer"}
)

// ApplyPlain changes what needs no checking.
func (c *Change) ApplyPlain(s *account.Settings) {
	def := account.DefaultSettings()
	c.Agent.Agent.Set(&s.Agent)
	if condenser := c.Agent.Condenser; condenser.Value != nil {
		condenser.Value.Enabled.SetOr(&s.EnableDefaultCondenser, def.EnableDefaultCondenser)
		condenser.Value.MaxSize.Set(&s.CondenserMaxSize)
	} else if condenser.Sent {
		s.EnableDefaultCondenser, s.CondenserMaxSize = def.EnableDefaultCondenser, nil
	}
	c.Agent.SubAgents.Set(&s.SubAgents)
	c.Conversation.MaxIterations.Set(&s.MaxIterations)
	c.Conversation.ConfirmationMode.Set(&s.ConfirmationMode)
	c.Conversation.SecurityAnalyzer.Set(&s.SecurityAnalyzer)
}

// ApplyLLM changes the model. Its error is Invalid with all wrong fields.
func (c *Change) ApplyLLM(s *account.Settings) error {
	return s.ChangeLLM(c.Agent.LLM, "body", AgentDiff, "llm")
}

// ReplaceMCP replaces the MCP servers, if the request has some. It returns what is
// wrong with them.
func (c *Change) ReplaceMCP(s *account.Settings) []fault.Field {
	if c.Agent.MCP == nil {
		return nil
	}
	mcp, fields := account.ParseMCPServers(c.Agent.MCP, s.MCP, "body", AgentDiff, "mcp_config")
	s.MCP = mcp
	return fields
}

// MergeMCP merges the MCP servers into those that are stored: null removes one, or a
// member of one. It returns what is wrong with the result.
func (c *Change) MergeMCP(s *account.Settings) ([]fault.Field, error) {
	var change any
	if len(c.Agent.MCP) == 0 {
		return nil, nil
	}
	if err := decode(c.Agent.MCP, &change); err != nil {
		return nil, err
	}
	diff, ok := change.(map[string]any)
	if !ok {
		return c.ReplaceMCP(s), nil // null, or no object, which is said there
	}
	raw, err := json.Marshal(account.MergeDiff(plainObject(s.MCP.RenderServers()), diff))
	if err != nil {
		return nil, err
	}
	mcp, fields := account.ParseMCPServers(raw, s.MCP, "body", AgentDiff, "mcp_config")
	s.MCP = mcp
	return fields, nil
}

// plainObject is an object as decoding its JSON yields it.
func plainObject(v map[string]any) map[string]any {
	out := map[string]any{}
	if raw, err := json.Marshal(v); err == nil {
		_ = decode(raw, &out) // it was encoded just now
	}
	return out
}

// Keep keeps what else the two objects of a request have. body is all of it.
func (c *Change) Keep(kept Kept, body map[string]any) {
	agent := restOf(body[AgentDiff], agentMembers)
	if condenser, ok := agent["condenser"]; ok && condenser != nil {
		agent["condenser"] = restOf(condenser, condenserMembers)
	}
	kept[AgentSettings] = account.MergeDiff(kept.Object(AgentSettings), agent)
	kept[ConversationSettings] = account.MergeDiff(kept.Object(ConversationSettings), restOf(body[ConversationDiff], conversationMembers))
}

// restOf returns what of an object is kept, but for some members.
func restOf(v any, but []string) map[string]any {
	kept, _ := Keepable("", v)
	m, _ := kept.(map[string]any)
	for _, name := range but {
		delete(m, name)
	}
	return m
}

// Collect adds the wrong fields of an error to others; an error without fields is
// returned.
func Collect(fields *[]fault.Field, err error) error {
	var f *fault.Error
	if !errors.As(err, &f) || len(f.Fields) == 0 {
		return err
	}
	*fields = append(*fields, f.Fields...)
	return nil
}
