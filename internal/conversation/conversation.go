package conversation

import (
	"time"

	"parley/internal/account"
	"parley/internal/content"
)

// Origin is the API a conversation was made with.
type Origin string

// Origins.
const (
	OriginV0    Origin = "v0"
	OriginV1    Origin = "v1"
	OriginAgent Origin = "agent"
)

// Conversation is the record beside the log. Summary is a cache of the fold,
// written in the same transaction as the events it summarises.
type Conversation struct {
	ID             ID
	Owner          string // user id
	Origin         Origin
	Title          string
	TitleByUser    bool // a user's title is never overwritten
	SandboxID      string
	ParentID       ID // "" = none
	Repository     string
	Branch         string
	GitProvider    string
	Trigger        string // "gui", "openhands_api", ...; "" = unknown
	PRNumbers      []int
	AgentKind      string // "openhands"
	AgentType      string // "default" or "plan"
	Public         *bool
	Tags           map[string]string
	Options        Options
	Summary        Summary
	LeaseHolder    string // "" = not live anywhere
	LeaseUntil     time.Time
	Generation     int64 // bumped at each lease take-over
	CreatedAt      time.Time
	UpdatedAt      time.Time
	LastEventAt    time.Time // zero = no event yet
	InitialMessage []content.Part
}

// Options say how the agent runs. They are fixed when the conversation starts,
// but for the model, which can be switched. They hold secrets and are stored
// sealed.
type Options struct {
	LLM account.LLM `json:"llm"`
	// LLMProfile names the profile that LLM is a copy of; "" = none. As long as
	// the owner has it, the profile counts, not the copy.
	LLMProfile string `json:"llm_profile,omitempty"`
	// OwnKey says that the key came with LLM: one in the settings does not replace it.
	OwnKey           bool                            `json:"llm_own_key,omitempty"`
	MaxIterations    int                             `json:"max_iterations"` // steps per run, >= 1
	MaxBudget        *float64                        `json:"max_budget"`     // USD, nil = no ceiling; of the settings at the start
	ConfirmationMode bool                            `json:"confirmation_mode"`
	SecurityAnalyzer string                          `json:"security_analyzer"`
	Tools            []string                        `json:"tools,omitempty"` // names; empty = the server's default set
	SystemSuffix     string                          `json:"system_suffix"`   // appended to the system prompt
	WorkingDir       string                          `json:"working_dir"`     // inside the sandbox
	MCP              *account.MCPConfig              `json:"mcp"`
	Secrets          map[string]account.CustomSecret `json:"secrets"`
	GitUserName      string                          `json:"git_user_name"`
	GitUserEmail     string                          `json:"git_user_email"`
	Demo             bool                            `json:"demo"`     // driven by the scripted model
	SpecID           string                          `json:"spec_id"`  // sandbox template asked for
	HostDir          string                          `json:"host_dir"` // directory of the server's machine to work in
}

// EachSecret implements account.Sealable.
func (o *Options) EachSecret(f func(string, *account.Secret)) {
	o.LLM.EachSecret(func(p string, s *account.Secret) { f("llm."+p, s) })
	if o.MCP != nil {
		o.MCP.EachSecret(func(p string, s *account.Secret) { f("mcp."+p, s) })
	}
	custom := account.Secrets{Custom: o.Secrets}
	custom.EachSecret(func(p string, s *account.Secret) { f("secrets."+p, s) })
}

// Summary is what lists show of the log.
type Summary struct {
	Status  Status
	Head    int64   // seq the next event gets = number of events
	Metrics Metrics // sum over all uses, with its parts
}

// TaskStatus is the state of a start task (V1 §2.2), in order of progress.
type TaskStatus string

// The start task states.
const (
	TaskWorking      TaskStatus = "WORKING"
	TaskSandbox      TaskStatus = "WAITING_FOR_SANDBOX"
	TaskRepository   TaskStatus = "PREPARING_REPOSITORY"
	TaskSetupScript  TaskStatus = "RUNNING_SETUP_SCRIPT"
	TaskGitHooks     TaskStatus = "SETTING_UP_GIT_HOOKS"
	TaskSkills       TaskStatus = "SETTING_UP_SKILLS"
	TaskConversation TaskStatus = "STARTING_CONVERSATION"
	TaskReady        TaskStatus = "READY"
	TaskError        TaskStatus = "ERROR"
)

// Done reports whether the task will not move any more.
func (s TaskStatus) Done() bool { return s == TaskReady || s == TaskError }

// StartTask is the progress of one start. ConversationID is fixed when the task
// is made; APIs show it only once the task is READY, because clients take its
// presence for readiness.
type StartTask struct {
	ID             string // 32 hex
	Owner          string
	ConversationID ID
	SandboxID      string
	Status         TaskStatus
	Detail         string // why it failed; "" unless ERROR
	Request        []byte // JSON echo of the request, secrets masked
	CreatedAt      time.Time
	UpdatedAt      time.Time
}
