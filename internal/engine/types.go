package engine

import (
	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/extension"
	"parley/internal/store"
)

// AgentPlan is the AgentType of an agent that plans and changes nothing but its
// plan.
const AgentPlan = "plan"

// HostDir asks to mount a directory of the server's machine as the working
// directory. The caller proves that it may write there with a file it made.
type HostDir struct {
	Path  string // absolute, canonical
	Proof string // name of a file directly in Path
	Nonce string // the file's content, at least 16 characters
}

// StartRequest starts a conversation. Only Owner and Origin are required.
type StartRequest struct {
	Owner            string
	Origin           conversation.Origin
	ConversationID   conversation.ID             // "" = a new one
	SandboxID        string                      // use this sandbox
	SpecID           string                      // sandbox template; "" = the default
	Network          *conversation.NetworkPolicy // of the sandbox, within the template's; nil = the template's
	ParentID         conversation.ID
	Title            string
	InitialMessage   []content.Part            // always run
	Replay           []conversation.ReplayItem // what happens after it, before the model is asked
	Instructions     string                    // appended to the system prompt
	LLMProfile       string                    // of the owner, in place of the settings' model
	LLMModel         string                    // overrides the settings' or the profile's model
	Repository       string                    // owner/name or URL
	Branch           string
	GitProvider      string
	FullClone        bool // the repository's whole history, whatever the settings say
	Trigger          string
	PRNumbers        []int
	Tags             map[string]string
	Public           *bool
	AgentType        string             // "" = "default"
	MCP              *account.MCPConfig // replaces the settings'
	Secrets          map[string]account.CustomSecret
	HostDir          *HostDir
	ConfirmationMode *bool    // overrides the settings'
	Tools            []string // names of the agent's tools; empty = the default set
	ClientTools      []conversation.ClientTool
	ToolConcurrency  int                              // 0 = the default
	LLM              *account.LLM                     // in place of the settings' model; with its key
	MaxIterations    int                              // 0 = the settings'
	Confirmation     *conversation.ConfirmationPolicy // in place of ConfirmationMode
	Analyzer         *conversation.Analyzer           // in place of the settings'
	Stuck            *conversation.StuckDetection
	Condenser        *conversation.Condenser // nil = as the settings say
	Critic           *conversation.Critic
	NoTitle          bool   // the conversation gets no title by itself
	TitleProfile     string // of the owner; "" = the settings'
	WorkingDir       string // to work in, absolute, inside the sandbox; "" = the engine chooses
	Worktree         bool   // work in a git worktree of its own
	Echo             []byte // the request as JSON, secrets masked, for the task
	Plugins          []conversation.Plugin
	Brought          *extension.Bundle  // skills, hooks and agents of the request; nil = none
	NoProject        bool               // skills of the working directory are not loaded
	ToolFilter       string             // expression that names of tools must begin with; "" = any
	DisabledSkills   []string           // names, beside those of the settings
	UserSuffix       string             // added to each message of the user's, for the model
	Task             *conversation.Task // of a sub-agent
	Keys             []store.StartKey   // by which the same request is known again; none = it is not
	// AgentProfile is the id of the owner's agent profile that says what the request
	// leaves out: its model and servers, and in any case its tools and its loop.
	AgentProfile string

	launched *conversation.LaunchedProfile
}

// ForkRequest copies a conversation's branch into a new one.
type ForkRequest struct {
	ID          conversation.ID   // of the new conversation; "" = a new id
	Title       string            // "" = the source's
	Tags        map[string]string // nil = the source's
	FromEvent   string            // the last event that is copied; "" = all of the branch
	KeepMetrics bool
	CopySandbox bool // it gets a sandbox of its own with what is in the source's now; false = it uses the same one
}

// Message is what a user says in a conversation.
type Message struct {
	ID     string         // of the event; "" = a new one
	Parts  []content.Part // at least one
	Files  []string       // names of files that come with it, for the model
	Sender string
	Run    bool
}

// View is a conversation joined with its sandbox.
type View struct {
	*conversation.Conversation
	Sandbox       *store.Sandbox // nil when it is gone
	SandboxStatus store.SandboxStatus
	Tools         []string // names of its agent's tools, but those that every agent has
	// Calls returns the single model calls by usage id. It may read the log, and
	// lives as long as the context of the look-up. nil in lists.
	Calls func() (map[string]conversation.Calls, error)
}

// Execution returns the state of the agent loop, and false while the sandbox is
// not running: clients of V1 expect null then.
func (v *View) Execution() (conversation.Status, bool) {
	return v.Summary.Status, v.SandboxStatus == store.SandboxRunning
}
