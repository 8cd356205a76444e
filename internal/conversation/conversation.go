package conversation

import (
	"time"

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
	ForkedFrom     ID     // "" = it is no fork
	ForkedAt       string // id of the last event that came from there; "" = none
	// Replay is what a new conversation repeats. Stores keep it beside the record and
	// do not return it with it.
	Replay []ReplayItem
}

// Summary is what lists show of the log.
type Summary struct {
	Status  Status
	Head    int64   // seq the next event gets = number of events
	Metrics Metrics // sum over all uses, with its parts
	Progress
}

// Progress is where a conversation stands.
type Progress struct {
	Leaf        string     `json:"leaf,omitempty"`              // id of the event it goes on from; "" = the start
	UserMessage string     `json:"last_user_message,omitempty"` // id of the user's last message on the branch
	Goal        *Goal      `json:"goal,omitempty"`
	Notes       AgentNotes `json:"notes,omitzero"` // without provider fields
	Activity
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
