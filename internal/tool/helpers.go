package tool

import "context"

// Skills are the skills of a conversation, for tools.
type Skills interface {
	// Open returns the text of a skill for the model. NotFound, with the names that
	// there are as hint.
	Open(ctx context.Context, name string) (string, error)
}

// Agents give tasks to sub-agents.
type Agents interface {
	// Delegate runs a task in a sub-conversation and returns when that has ended. When
	// ctx ends the sub-agent is interrupted. NotFound for an unknown kind of agent or
	// task, with the known ones as hint; Conflict if the task to resume still runs;
	// Unsupported if agents are nested too deeply.
	Delegate(ctx context.Context, d Delegation) (Delegated, error)
}

// Delegation is a task for a sub-agent.
type Delegation struct {
	CallID      string // of the event that asks for it
	Prompt      string
	Description string // in a few words, for people
	Agent       string // kind of agent; "" = the general one
	Resume      string // id of an earlier task that goes on; "" = a new one
}

// Delegated is how a task ended.
type Delegated struct {
	TaskID string // "task_00000001"
	Agent  string
	Failed bool   // Answer says why
	Answer string // the sub-agent's last words
}
