package projection

import (
	"maps"
	"time"

	"parley/internal/conversation"
)

// Sources of a legacy event.
const (
	sourceAgent       = "agent"
	sourceUser        = "user"
	sourceEnvironment = "environment"
)

// Event is a legacy event. Members that are absent are omitted, never null; a
// cause of 0 is not absent.
type Event struct {
	ID          int64    `json:"id"`
	Timestamp   string   `json:"timestamp"` // UTC without a zone, microseconds
	Source      string   `json:"source"`
	Message     string   `json:"message"`
	Cause       *int64   `json:"cause,omitempty"`
	Action      string   `json:"action,omitempty"`
	Observation string   `json:"observation,omitempty"`
	Metrics     *Metrics `json:"llm_metrics,omitempty"`
	Args        any      `json:"args,omitempty"`
	Timeout     *float64 `json:"timeout,omitempty"` // seconds
	Content     *string  `json:"content,omitempty"`
	Extras      any      `json:"extras,omitempty"`
	Success     *bool    `json:"success,omitempty"`
}

// Metrics are what the conversation has cost so far, on every agent action.
type Metrics struct {
	AccumulatedCost   float64    `json:"accumulated_cost"` // USD
	MaxBudget         *float64   `json:"max_budget_per_task"`
	Usage             TokenUsage `json:"accumulated_token_usage"`
	Costs             []any      `json:"costs"`
	ResponseLatencies []any      `json:"response_latencies"`
	TokenUsages       []any      `json:"token_usages"`
}

// TokenUsage counts tokens.
type TokenUsage struct {
	Model            string `json:"model"`
	PromptTokens     int64  `json:"prompt_tokens"`
	CompletionTokens int64  `json:"completion_tokens"`
	CacheReadTokens  int64  `json:"cache_read_tokens"`
	CacheWriteTokens int64  `json:"cache_write_tokens"`
	ContextWindow    int64  `json:"context_window"`
	PerTurnToken     int64  `json:"per_turn_token"`
	ResponseID       string `json:"response_id"`
}

// MetricsOf returns the metrics that an event announces, nil if it announces none.
func MetricsOf(p conversation.Payload) *Metrics {
	u, ok := p.(*conversation.StateUpdateEvent)
	if !ok || u.Key != conversation.KeyStats {
		return nil
	}
	var v struct {
		Usage map[string]conversation.Metrics `json:"usage_to_metrics"`
	}
	decode(u.Value, &v)
	m, ok := v.Usage["agent"]
	if !ok {
		return nil
	}
	t := m.Usage
	return &Metrics{AccumulatedCost: m.AccumulatedCost, MaxBudget: m.MaxBudget,
		Usage: TokenUsage{Model: t.Model, PromptTokens: t.PromptTokens, CompletionTokens: t.CompletionTokens,
			CacheReadTokens: t.CacheReadTokens, CacheWriteTokens: t.CacheWriteTokens,
			ContextWindow: t.ContextWindow, PerTurnToken: t.PerTurnToken, ResponseID: t.ResponseID},
		Costs: []any{}, ResponseLatencies: []any{}, TokenUsages: []any{}}
}

// Info is what recalls tell about the conversation.
type Info struct {
	Repository   string // owner/name
	Branch       string
	WorkingDir   string
	Instructions string
	Secrets      map[string]string // name to description
	CreatedAt    time.Time
}

// InfoOf collects what recalls tell.
func InfoOf(c *conversation.Conversation) Info {
	secrets := make(map[string]string, len(c.Options.Secrets))
	maps.Copy(secrets, c.Options.SecretNotes)
	for name, s := range c.Options.Secrets {
		secrets[name] = s.Description
	}
	branch := c.Branch
	if c.Options.StartBranch != nil { // what was told once does not change
		branch = *c.Options.StartBranch
	}
	return Info{Repository: c.Repository, Branch: branch, WorkingDir: c.Options.WorkingDir,
		Instructions: c.Options.SystemSuffix, Secrets: secrets, CreatedAt: c.CreatedAt}
}

// Input is all that a legacy event is rendered from.
type Input struct {
	ID      int64
	Derived Derived
	Seq     int64                // of the event it is derived from; -1 = precedes the log
	Payload conversation.Payload // that event; nil if it precedes the log
	// Shown is the event Back() before that one for recalls, for calls that come
	// again and for messages that hooks blocked; for results, the tool call they answer. nil if there is none.
	Shown   conversation.Payload
	Metrics *Metrics // last known before the event; nil = none
	Info    Info
}

// Render makes the legacy event. Input that does not fit together, as from a
// damaged log, renders as a null observation, so that ids have no gaps.
func Render(in Input) *Event {
	e := render(in)
	if e == nil {
		e = observation(sourceEnvironment, "null", "", struct{}{})
		e.Message = "No observation"
	}
	e.ID = in.ID
	e.Timestamp = conversation.FormatTime(in.Info.CreatedAt)
	switch {
	case in.Derived.isLife():
		e.Timestamp = in.Derived.lifeTime()
	case in.Payload != nil:
		e.Timestamp = conversation.HeaderOf(in.Payload).Timestamp
	}
	if back := in.Derived.Cause(); back > 0 {
		cause := in.ID - back
		e.Cause = &cause
	}
	if e.Action != "" && e.Source == sourceAgent && in.Derived.Recipe != System {
		e.Metrics = in.Metrics
	}
	return e
}

func render(in Input) *Event {
	if in.Payload == nil && in.Seq >= 0 {
		return nil
	}
	switch in.Derived.Recipe {
	case StateChanged, LifeChanged:
		return stateChanged(in)
	case ChangeState, LifeChange:
		return changeState(in.Derived.State())
	case RecallWorkspace, RecallKnowledge:
		return recallAction(in)
	case WorkspaceRecalled, KnowledgeRecalled:
		return recalled(in)
	case Action, ActionAwaiting, ActionConfirmed, ActionRejected:
		return toolCall(in)
	case MessageBlocked:
		return messageBlocked(in)
	case CallStopped:
		return failure("Stop button pressed. The action has not been executed.", "AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED_STOPPED")
	case UserRan, UserRanResult:
		return userCommand(in)
	case Condensed:
		return condensed(in)
	case CondensationAsked:
		return action(sourceAgent, "condensation_request", "Requesting a condensation of the conversation history.", struct{}{})
	case CallRejected:
		const text = "Action has been rejected by the user! Waiting for further user input."
		return observation(sourceAgent, "user_rejected", text, struct{}{})
	}
	switch p := in.Payload.(type) {
	case *conversation.SystemPromptEvent:
		return system(p)
	case *conversation.MessageEvent:
		return message(p)
	case *conversation.ObservationEvent:
		return toolResult(p, in.Shown)
	case *conversation.AgentErrorEvent:
		if in.Derived.Recipe == CallLost {
			return failure(p.Error, "AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED_ERROR")
		}
		return failure(p.Error, "")
	case *conversation.UserRejectObservation: // of a hook
		return failure(because("A hook did not let the action run", p.RejectionReason), "")
	case *conversation.ConversationErrorEvent:
		return failure(p.Detail, errorID(p))
	}
	return nil
}

func action(source, kind, message string, args any) *Event {
	return &Event{Source: source, Message: message, Action: kind, Args: args}
}

// observation makes an observation whose message is its content.
func observation(source, kind, content string, extras any) *Event {
	return &Event{Source: source, Message: content, Observation: kind, Content: &content, Extras: extras}
}

func failure(text, id string) *Event {
	return observation(sourceAgent, "error", text, map[string]any{"error_id": id})
}

func messageBlocked(in Input) *Event {
	hook, ok := in.Shown.(*conversation.HookExecutionEvent)
	if !ok {
		if hook, ok = in.Payload.(*conversation.HookExecutionEvent); !ok {
			return nil
		}
	}
	return failure(because("A hook did not let the message through", hook.Reason), "")
}

func because(what, reason string) string {
	if reason == "" {
		return what + "."
	}
	return what + ": " + reason
}

type stateExtras struct {
	AgentState AgentState `json:"agent_state"`
	Reason     string     `json:"reason"`
}

func stateChanged(in Input) *Event {
	state := in.Derived.State()
	extras := stateExtras{AgentState: state}
	if state == Error {
		extras.Reason = reasonOf(in.Payload, in.Metrics)
	}
	return observation(sourceEnvironment, "agent_state_changed", "", extras)
}

type changeArgs struct {
	AgentState AgentState `json:"agent_state"`
	Thought    string     `json:"thought"`
}

// changeState shows who wanted a state: the user decides on calls, the server on
// all else.
func changeState(state AgentState) *Event {
	source := sourceEnvironment
	if state == UserConfirmed || state == UserRejected {
		source = sourceUser
	}
	return action(source, "change_agent_state", "Agent state changed to "+string(state), changeArgs{AgentState: state})
}
