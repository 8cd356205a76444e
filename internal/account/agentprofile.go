package account

import (
	"maps"
	"slices"

	"github.com/google/uuid"

	"parley/internal/fault"
	"parley/internal/lazyre"
)

// MaxAgentProfiles bounds the agent profiles of a user.
const MaxAgentProfiles = 50

// Codes of the faults of agent profiles.
const (
	CodeAgentProfileLimit    = "agent_profile_limit"
	CodeAgentProfileExists   = "agent_profile_exists"
	CodeAgentProfileNotFound = "agent_profile_not_found"
	CodeProfileInUse         = "profile_in_use"
)

// Kinds of agents that a profile describes.
const (
	AgentOpenHands = "openhands"
	AgentACP       = "acp"
)

const agentProfileSchema = 2

// AgentProfile is an agent under a name: what a conversation can be started with. It
// holds no secrets, only names of what has some. Its JSON is that of the wire. One of
// the two parts is set, by Kind.
type AgentProfile struct {
	SchemaVersion int    `json:"schema_version"`
	ID            string `json:"id"` // a dashed UUID; stays through renames and edits
	Name          string `json:"name"`
	Revision      int    `json:"revision"` // 0, one more with each edit
	Kind          string `json:"agent_kind"`
	// Servers are the names of the user's MCP servers that the agent gets; nil = all.
	Servers []string `json:"mcp_server_refs"`
	*OpenHandsAgent
	*ACPAgent
}

// OpenHandsAgent is Parley's own agent as a profile describes it.
type OpenHandsAgent struct {
	LLMProfile     string              `json:"llm_profile_ref"` // the name of an LLM profile
	Agent          string              `json:"agent"`
	Tools          []AgentTool         `json:"tools"` // nil = the default set, none = a bare agent
	Suffix         *string             `json:"system_message_suffix"`
	DisabledSkills []string            `json:"disabled_skills"`
	Condenser      AgentCondenser      `json:"condenser"`
	Verification   ProfileVerification `json:"verification"`
	SubAgents      bool                `json:"enable_sub_agents"`
	SwitchLLM      bool                `json:"enable_switch_llm_tool"`
	Concurrency    int                 `json:"tool_concurrency_limit"` // >= 1
}

// AgentTool names a tool.
type AgentTool struct {
	Name   string         `json:"name"`
	Params map[string]any `json:"params"`
}

// Kinds of an AgentCondenser.
const (
	CondenserSummarizing = "llm_summarizing"
	CondenserNoOp        = "no_op"
)

// AgentCondenser is how a profile's agent shortens its history. The members below
// Kind have no meaning for CondenserNoOp.
type AgentCondenser struct {
	Enabled         bool    `json:"enabled"`
	Kind            string  `json:"condenser_kind"`
	MaxSize         int     `json:"max_size,omitempty"`
	MaxTokens       *int64  `json:"max_tokens,omitempty"`
	KeepFirst       *int    `json:"keep_first,omitempty"`
	MinimumProgress float64 `json:"minimum_progress,omitempty"`
	ResetRetries    int     `json:"hard_context_reset_max_retries,omitempty"`
	ResetScaling    float64 `json:"hard_context_reset_context_scaling,omitempty"`
}

// ProfileVerification is the critic of a profile's agent.
type ProfileVerification struct {
	Critic       bool    `json:"critic_enabled"`
	Mode         string  `json:"critic_mode"` // "finish_and_message" or "all_actions"
	Refine       bool    `json:"enable_iterative_refinement"`
	Threshold    float64 `json:"critic_threshold"` // 0..1
	Iterations   int     `json:"max_refinement_iterations"`
	CriticServer *string `json:"critic_server_url"`
	CriticModel  *string `json:"critic_model_name"`
}

// ACPAgent is another program that speaks the Agent Client Protocol.
type ACPAgent struct {
	Server         string   `json:"acp_server"` // claude-code, codex, gemini-cli or custom
	Model          *string  `json:"acp_model"`
	SessionMode    *string  `json:"acp_session_mode"`
	PromptTimeout  float64  `json:"acp_prompt_timeout"`  // seconds
	StartupTimeout float64  `json:"acp_startup_timeout"` // seconds
	Command        *string  `json:"acp_command"`
	Args           []string `json:"acp_args"`
}

var agentProfileName = lazyre.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func checkAgentProfileName(name string, loc ...any) error {
	if agentProfileName.MatchString(name) {
		return nil
	}
	return Invalid([]fault.Field{{Loc: loc, Type: "string_pattern_mismatch", Input: name,
		Msg: "String should match pattern '" + agentProfileName.String() + "'", Ctx: map[string]any{"pattern": agentProfileName.String()}}})
}

// AgentProfile returns a profile, or NotFound.
func (s *Settings) AgentProfile(name string) (AgentProfile, error) {
	p, ok := s.AgentProfiles[name]
	if !ok {
		return p, noAgentProfile(name)
	}
	return p, nil
}

func noAgentProfile(key string) error {
	return fault.New(fault.NotFound, CodeAgentProfileNotFound, "Agent profile not found: %.100s", key)
}

// AgentProfileByID looks a profile up by its id, in any spelling of a UUID.
func (s *Settings) AgentProfileByID(id string) (AgentProfile, bool) {
	if parsed, err := uuid.Parse(id); err == nil {
		id = parsed.String()
	}
	for _, p := range s.AgentProfiles {
		if p.ID == id {
			return p, true
		}
	}
	return AgentProfile{}, false
}

// SaveAgentProfile stores a profile under a name. One that has the name keeps its id
// and becomes its next revision. Errors are Invalid and Conflict
// (CodeAgentProfileLimit); nothing is changed then.
func (s *Settings) SaveAgentProfile(name string, p AgentProfile) error {
	if err := checkAgentProfileName(name, "path", "name"); err != nil {
		return err
	}
	old, exists := s.AgentProfiles[name]
	if !exists && len(s.AgentProfiles) >= MaxAgentProfiles {
		return fault.New(fault.Conflict, CodeAgentProfileLimit, "There are %d agent profiles, the most a user can have.", MaxAgentProfiles).
			WithHint("Delete one first.")
	}
	p.SchemaVersion, p.Name, p.ID, p.Revision = agentProfileSchema, name, uuid.NewString(), 0
	if exists {
		p.ID, p.Revision = old.ID, old.Revision+1
	}
	s.putAgentProfile(name, p)
	return nil
}

// putAgentProfile writes to a copy: settings share their maps.
func (s *Settings) putAgentProfile(name string, p AgentProfile) {
	next := maps.Clone(s.AgentProfiles)
	if next == nil {
		next = map[string]AgentProfile{}
	}
	next[name] = p
	s.AgentProfiles = next
}

// DeleteAgentProfile removes a profile, and the choice of it. It is not an error if
// there is none.
func (s *Settings) DeleteAgentProfile(name string) {
	p, ok := s.AgentProfiles[name]
	if !ok {
		return
	}
	s.AgentProfiles = maps.Clone(s.AgentProfiles)
	delete(s.AgentProfiles, name)
	if s.ActiveAgentProfile == p.ID {
		s.ActiveAgentProfile = ""
	}
}

// RenameAgentProfile gives a profile another name; its id and its revision stay.
// Errors are Invalid, NotFound and Conflict (CodeAgentProfileExists).
func (s *Settings) RenameAgentProfile(from, to string) error {
	if err := checkAgentProfileName(to, "body", "new_name"); err != nil {
		return err
	}
	p, err := s.AgentProfile(from)
	if err != nil || from == to {
		return err
	}
	if _, taken := s.AgentProfiles[to]; taken {
		return fault.New(fault.Conflict, CodeAgentProfileExists, "There is an agent profile named %q already.", to)
	}
	p.Name = to
	s.putAgentProfile(to, p)
	delete(s.AgentProfiles, from)
	return nil
}

// ActivateAgentProfile notes the profile that clients offer first. NotFound if there
// is none of that id.
func (s *Settings) ActivateAgentProfile(id string) error {
	p, ok := s.AgentProfileByID(id)
	if !ok {
		return noAgentProfile(id)
	}
	s.ActiveAgentProfile = p.ID
	return nil
}

// ChooseAgentProfile is ActivateAgentProfile for settings, where "" chooses none and
// an unknown one is Invalid. loc is where the id stands in the request.
func (s *Settings) ChooseAgentProfile(id string, loc ...any) error {
	if id == "" {
		s.ActiveAgentProfile = ""
		return nil
	}
	if err := s.ActivateAgentProfile(id); err != nil {
		return Invalid([]fault.Field{{Loc: loc, Type: "value_error", Input: id, Ctx: map[string]any{"error": map[string]any{}},
			Msg: "Value error, There is no agent profile of that id"}})
	}
	return nil
}

// referToProfile lets agent profiles follow an LLM profile that is renamed.
func (s *Settings) referToProfile(from, to string) {
	for name, p := range s.AgentProfiles {
		if p.OpenHandsAgent == nil || p.LLMProfile != from {
			continue
		}
		agent := *p.OpenHandsAgent
		agent.LLMProfile = to
		p.OpenHandsAgent = &agent
		s.putAgentProfile(name, p)
	}
}

// usersOfProfile names the agent profiles that need an LLM profile, sorted.
func (s *Settings) usersOfProfile(name string) []string {
	var users []string
	for _, p := range s.AgentProfiles {
		if p.OpenHandsAgent != nil && p.LLMProfile == name {
			users = append(users, p.Name)
		}
	}
	slices.Sort(users)
	return users
}

// PickServers returns the servers that a profile names, and the names that none has.
// A profile that names nothing gets all.
func (c *MCPConfig) PickServers(names []string) (picked *MCPConfig, missing []string) {
	if names == nil {
		return c, nil
	}
	all := c.named()
	picked = &MCPConfig{SSE: []MCPHTTPServer{}, Stdio: []MCPStdioServer{}, SHTTP: []MCPHTTPServer{}}
	taken := map[string]bool{}
	for _, name := range names {
		server, ok := all[name]
		switch {
		case taken[name]:
		case !ok:
			missing = append(missing, name)
		case server.stdio != nil:
			picked.Stdio = append(picked.Stdio, *server.stdio)
		case server.sse:
			picked.SSE = append(picked.SSE, *server.http)
		default:
			picked.SHTTP = append(picked.SHTTP, *server.http)
		}
		taken[name] = true
	}
	return picked, missing
}
