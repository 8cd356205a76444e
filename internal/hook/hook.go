// Package hook is the configuration of hooks: commands, prompts and agents that
// run when something happens in a conversation, and may hold it back (agent
// protocol 4.9). It reads and checks configurations and says which hooks an event
// calls. Pure: agent/hookrun runs them.
package hook

// Event is what hooks can be called for.
type Event string

// The events.
const (
	PreToolUse       Event = "PreToolUse"       // before a tool runs; may block it
	PostToolUse      Event = "PostToolUse"      // after a tool ran
	UserPromptSubmit Event = "UserPromptSubmit" // a user's message; may block it
	SessionStart     Event = "SessionStart"     // the conversation begins
	SessionEnd       Event = "SessionEnd"       // the conversation ends
	Stop             Event = "Stop"             // the agent wants to end a run; may send it back to work
)

// Config are the hooks by event.
type Config struct {
	PreToolUse       []Matcher `json:"pre_tool_use,omitempty"`
	PostToolUse      []Matcher `json:"post_tool_use,omitempty"`
	UserPromptSubmit []Matcher `json:"user_prompt_submit,omitempty"`
	SessionStart     []Matcher `json:"session_start,omitempty"`
	SessionEnd       []Matcher `json:"session_end,omitempty"`
	Stop             []Matcher `json:"stop,omitempty"`
}

// Matcher calls hooks for the tools that it matches; for events without a tool it
// always does.
type Matcher struct {
	// Matcher is "*" or "" for all; a regular expression, between slashes or with
	// a character that only expressions have, which must match the whole name; else
	// the name itself.
	Matcher string       `json:"matcher"`
	Hooks   []Definition `json:"hooks"`
}

// Kinds of a Definition.
const (
	TypeCommand = "command"
	TypePrompt  = "prompt"
	TypeAgent   = "agent"
)

// Definition is one hook.
type Definition struct {
	Type          string   `json:"type"` // TypeCommand, TypePrompt or TypeAgent
	Name          string   `json:"name,omitempty"`
	Command       string   `json:"command"` // of a command: what a shell runs inside the sandbox
	Prompt        string   `json:"prompt,omitempty"`
	SystemPrompt  string   `json:"system_prompt,omitempty"`
	Tools         []string `json:"tools"`          // that an agent may use
	Timeout       int      `json:"timeout"`        // seconds, 1..600; 60
	MaxIterations int      `json:"max_iterations"` // of an agent, 1..20; 3
	Async         bool     `json:"async"`          // nobody waits for it, and it blocks nothing
}
