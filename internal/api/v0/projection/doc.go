// Package projection derives the legacy API's events from the event log.
//
// One event of the log becomes zero or more legacy events. What was derived is
// recorded once, as a Part (a recipe and a number) under the legacy event's
// integer id; from then on the legacy event is rendered from its Part and the
// log. Rules may therefore change in later versions without renumbering or
// rewriting what clients have seen.
//
//   - State decides what the next event of the log becomes. Replaying the
//     recorded parts over the log restores it.
//   - Render turns a recorded part into the legacy JSON.
//
// Both are pure. The package does not read stores, and it promises nothing about
// kinds of events it does not know: they become nothing.
//
// What the legacy API has no words for:
//
//   - Tools of MCP servers, invoke_skill, task and all others without a form of
//     their own are calls of an MCP server's tool (call_tool_mcp, mcp).
//   - Runs of hooks become nothing. A call that a hook blocked ends in an error
//     observation with its reason, and so does a message.
//   - Skills that a message brought in are the knowledge of its recall. Those of a
//     message from before the start was through come later, in a recall of their own.
//   - Commands that the user ran are messages of the environment in the log; they
//     become run actions and observations of the user's.
//   - What waits for the user's trust, MCP servers in trouble and tasks of sub-agents
//     are notes in a state update, which become nothing: the agent goes on without
//     them, so that the state shows nothing either. Questions are answered over V1.
//     A note that a model's provider limits the rate is a state.
package projection

import "parley/internal/conversation"

// Name is what the numbers of this projection are stored under.
const Name = "v0"

// AgentState is the state of the agent as legacy clients know it.
type AgentState string

// The agent states, and the two that only a user's decision enters.
const (
	Loading              AgentState = "loading"
	Running              AgentState = "running"
	AwaitingInput        AgentState = "awaiting_user_input"
	Paused               AgentState = "paused"
	Stopped              AgentState = "stopped"
	Finished             AgentState = "finished"
	Rejected             AgentState = "rejected"
	Error                AgentState = "error"
	AwaitingConfirmation AgentState = "awaiting_user_confirmation"
	UserConfirmed        AgentState = "user_confirmed"
	UserRejected         AgentState = "user_rejected"
	RateLimited          AgentState = "rate_limited"
)

// stateCodes number the states in stored parts: append only.
var stateCodes = [...]AgentState{Loading, Running, AwaitingInput, Paused, Stopped, Finished, Rejected, Error,
	AwaitingConfirmation, UserConfirmed, UserRejected, RateLimited}

func codeOf(s AgentState) int {
	for i, c := range stateCodes {
		if c == s {
			return i
		}
	}
	return 0
}

// Recipe says what a legacy event is made of. The numbers are stored: append only.
type Recipe uint8

// The recipes. "back" is a distance in the log, "cause" a distance in ids.
const (
	System            Recipe = iota + 1 // action system
	Message                             // action message
	RecallWorkspace                     // action recall of the first user message; arg: back to the message
	RecallKnowledge                     // action recall of a later one; arg: back to the message
	WorkspaceRecalled                   // observation recall; arg: cause
	KnowledgeRecalled                   // observation recall or null; arg: cause
	StateChanged                        // observation agent_state_changed; arg: the state
	ChangeState                         // action change_agent_state; arg: the state
	Action                              // a tool call that runs
	ActionAwaiting                      // a tool call that waits for the user; arg: back to the call
	ActionConfirmed                     // the same again, confirmed; arg: back to the call
	ActionRejected                      // the same again, rejected; arg: back to the call
	Observed                            // the result of a call; arg: cause, 0 = none
	CallRejected                        // observation user_rejected; arg: cause, 0 = none
	CallFailed                          // observation error of a call; arg: cause, 0 = none
	RunFailed                           // observation error of the run
	Condensed                           // action condensation; arg: a span, 0 = nothing that was shown
	CondensationAsked                   // action condensation_request
	MessageBlocked                      // observation error of a message that a hook blocked; arg: back to the hook's event, 0 = it is this one
	LifeChanged                         // observation agent_state_changed of no event of the log; arg: its time and the state
	LifeChange                          // action change_agent_state of no event of the log; arg: its time and the state
	UserRan                             // action run of the user
	UserRanResult                       // observation run of the user's; arg: cause, 0 = none
	CallStopped                         // observation error of a call that the user stopped with the run; arg: cause
	CallLost                            // observation error of a call that was given up with the run; arg: cause
)

// Imported is the recipe of an event that another server made (RenderImported); arg: 1
// more than the number of the agent's state that it tells, 0 = none.
const Imported Recipe = 200

// Derived is one legacy event before it has an id.
type Derived struct {
	Recipe Recipe
	Arg    int64
}

const recipeBits = 8

// Part returns what is stored.
func (d Derived) Part() int { return int(d.Arg)<<recipeBits | int(d.Recipe) }

// FromPart reads what Part made.
func FromPart(part int) Derived {
	return Derived{Recipe: Recipe(part & (1<<recipeBits - 1)), Arg: int64(part >> recipeBits)}
}

// IsAction reports whether the recipe shows a tool call.
func (d Derived) IsAction() bool {
	switch d.Recipe {
	case Action, ActionAwaiting, ActionConfirmed, ActionRejected:
		return true
	}
	return false
}

// Back returns how far back in the log the event stands that is shown, 0 if it
// is the event itself.
func (d Derived) Back() int64 {
	switch d.Recipe {
	case RecallWorkspace, RecallKnowledge, ActionAwaiting, ActionConfirmed, ActionRejected, MessageBlocked:
		return d.Arg
	}
	return 0
}

// Cause returns how many ids before this event its cause is, 0 if it has none.
func (d Derived) Cause() int64 {
	switch d.Recipe {
	case WorkspaceRecalled, KnowledgeRecalled, Observed, CallRejected, CallFailed, UserRanResult, CallStopped, CallLost:
		return d.Arg
	}
	return 0
}

// State returns the agent state that a change is to.
func (d Derived) State() AgentState {
	code := d.Arg
	if d.isLife() {
		code &= 1<<lifeStateBits - 1
	}
	if code >= 0 && code < int64(len(stateCodes)) {
		return stateCodes[code]
	}
	return Error
}

func changed(s AgentState) Derived { return Derived{StateChanged, int64(codeOf(s))} }
func change(s AgentState) Derived  { return Derived{ChangeState, int64(codeOf(s))} }

// statusOf returns the execution status an event announces, false if it is none.
func statusOf(p conversation.Payload) (conversation.Status, bool) {
	u, ok := p.(*conversation.StateUpdateEvent)
	if !ok || u.Key != conversation.KeyStatus {
		return "", false
	}
	var s conversation.Status
	return s, decode(u.Value, &s)
}
