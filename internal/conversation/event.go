package conversation

import (
	"encoding/json"
	"fmt"
	"time"

	"parley/internal/content"
)

// TimeLayout is the layout of an event's timestamp: UTC without a zone, always
// with microseconds, so that string order is time order.
const TimeLayout = "2006-01-02T15:04:05.000000"

// FormatTime renders an event timestamp.
func FormatTime(t time.Time) string { return t.UTC().Format(TimeLayout) }

// Event kinds.
const (
	KindSystemPrompt      = "SystemPromptEvent"
	KindMessage           = "MessageEvent"
	KindAction            = "ActionEvent"
	KindObservation       = "ObservationEvent"
	KindUserReject        = "UserRejectObservation"
	KindAgentError        = "AgentErrorEvent"
	KindConversationError = "ConversationErrorEvent"
	KindServerError       = "ServerErrorEvent" // live only
	KindStateUpdate       = "ConversationStateUpdateEvent"
	KindPause             = "PauseEvent"
	KindInterrupt         = "InterruptEvent"
	KindStreamingDelta    = "StreamingDeltaEvent" // live only
	KindCondensation      = "Condensation"
	KindCondenseRequest   = "CondensationRequest"
	KindCondenseSummary   = "CondensationSummaryEvent" // in a model's view only
	KindHookExecution     = "HookExecutionEvent"
)

// KnownKinds are the kinds of the V1 schema, for filters. The log itself keeps
// unknown kinds verbatim.
var KnownKinds = []string{KindMessage, KindSystemPrompt, KindAction, KindObservation, KindAgentError,
	KindUserReject, KindStateUpdate, KindConversationError, KindServerError, KindPause, KindInterrupt,
	KindCondensation, KindCondenseRequest, KindCondenseSummary, KindHookExecution,
	"ACPToolCallEvent", "LLMCompletionLogEvent", "TokenEvent", KindStreamingDelta}

// Sources of an event.
const (
	SourceUser        = "user"
	SourceAgent       = "agent"
	SourceEnvironment = "environment"
	SourceHook        = "hook"
)

// Event is one entry of the log. Raw is the stored JSON, kept byte for byte;
// the other fields are copies of what is in it, for filters and the fold. Seq
// is not part of the JSON: Python clients reject unknown members.
type Event struct {
	Seq       int64 // 0, 1, 2, ... without gaps; set by the writer
	ID        string
	Kind      string
	Source    string
	Timestamp string // TimeLayout
	Raw       json.RawMessage
}

// Header are the members every event has.
type Header struct {
	Kind      string `json:"kind"`
	ID        string `json:"id"`
	Timestamp string `json:"timestamp"`
	Source    string `json:"source"`
	ParentID  string `json:"parent_id,omitempty"`
}

func (h *Header) header() *Header { return h }

// Payload is a typed event.
type Payload interface{ header() *Header }

// HeaderOf returns the header of a typed event.
func HeaderOf(p Payload) *Header { return p.header() }

// LLMMessage is the message inside a MessageEvent.
type LLMMessage struct {
	Role           string            `json:"role"`
	Content        []content.Part    `json:"content"`
	ThinkingBlocks []json.RawMessage `json:"thinking_blocks"`
	Reasoning      string            `json:"reasoning_content,omitempty"`
}

// MessageEvent is something said by the user, the agent or (nudges) the environment.
type MessageEvent struct {
	Header
	LLMMessage      LLMMessage     `json:"llm_message"`
	LLMResponseID   string         `json:"llm_response_id,omitempty"`
	ActivatedSkills []string       `json:"activated_skills"`
	ExtendedContent []content.Part `json:"extended_content"`
	Sender          string         `json:"sender,omitempty"`
	CriticResult    *CriticResult  `json:"critic_result,omitempty"`
}

// CriticResult is what a critic thinks of an answer.
type CriticResult struct {
	Score    float64        `json:"score"` // 0..1
	Message  string         `json:"message,omitempty"`
	Metadata map[string]any `json:"metadata,omitempty"`
}

// SystemPromptEvent opens the agent's part of a log.
type SystemPromptEvent struct {
	Header
	SystemPrompt content.Part      `json:"system_prompt"`
	Tools        []json.RawMessage `json:"tools"`
}

// ActionEvent is a tool call the agent made. Action is nil if the call cannot be
// executed (unknown tool, bad arguments).
type ActionEvent struct {
	Header
	Thought        []content.Part    `json:"thought"`
	Reasoning      string            `json:"reasoning_content,omitempty"`
	ThinkingBlocks []json.RawMessage `json:"thinking_blocks"`
	Action         json.RawMessage   `json:"action,omitempty"` // object with "kind"
	ToolName       string            `json:"tool_name"`
	ToolCallID     string            `json:"tool_call_id"`
	ToolCall       content.ToolCall  `json:"tool_call"`
	LLMResponseID  string            `json:"llm_response_id"`
	SecurityRisk   string            `json:"security_risk"` // UNKNOWN, LOW, MEDIUM, HIGH
	CriticResult   *CriticResult     `json:"critic_result,omitempty"`
	Summary        string            `json:"summary,omitempty"`
}

// ObservationEvent answers an ActionEvent with a tool's result.
type ObservationEvent struct {
	Header
	ToolName        string          `json:"tool_name"`
	ToolCallID      string          `json:"tool_call_id"`
	ActionID        string          `json:"action_id"`
	Observation     json.RawMessage `json:"observation"` // object with "kind", "content", "is_error"
	ExtendedContent []content.Part  `json:"extended_content"`
}

// UserRejectObservation answers an ActionEvent that the user (or a hook) refused.
type UserRejectObservation struct {
	Header
	ToolName        string `json:"tool_name"`
	ToolCallID      string `json:"tool_call_id"`
	ActionID        string `json:"action_id"`
	RejectionReason string `json:"rejection_reason"`
	RejectionSource string `json:"rejection_source"` // user, hook
}

// Classification says who has to do what about an error (agent protocol §3).
type Classification struct {
	Kind       string `json:"kind"` // auth quota rate_limit config transient agent_action internal unknown
	Retryable  bool   `json:"retryable"`
	UserAction string `json:"user_action"` // none retry settings
}

// How the errors begin of calls that were not carried out, or not to their end.
const (
	CallInterrupted = "The user interrupted "
	CallLost        = "The server "
)

// AgentErrorEvent answers an ActionEvent that could not be run or whose outcome
// is unknown. It is matched by tool call id.
type AgentErrorEvent struct {
	Header
	ToolName       string          `json:"tool_name"`
	ToolCallID     string          `json:"tool_call_id"`
	Error          string          `json:"error"`
	Classification *Classification `json:"classification,omitempty"`
}

// ConversationErrorEvent says why a run ended badly.
type ConversationErrorEvent struct {
	Header
	Code           string          `json:"code"`
	Detail         string          `json:"detail"`
	Classification *Classification `json:"classification,omitempty"`
}

// StateUpdateEvent tells that one member of the conversation's state changed.
type StateUpdateEvent struct {
	Header
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

// Keys of a StateUpdateEvent.
const (
	KeyStatus    = "execution_status"
	KeyStats     = "stats"
	KeyFullState = "full_state" // live only
	// KeyLeaf tells from which event on the conversation goes on: its id, or null for
	// the very start. See Branch.
	KeyLeaf = "leaf_event_id"
	// KeyGoal carries a Goal.
	KeyGoal = "goal"
	// KeyPolicy and KeyAnalyzer tell a ConfirmationPolicy and an Analyzer (or null)
	// that hold from now on.
	KeyPolicy   = "confirmation_policy"
	KeyAnalyzer = "security_analyzer"
	// KeyModel tells which model is asked from now on: the id, "provider/model".
	KeyModel = "current_model_id"
	// KeyAgentState carries an object of notes about the run (AgentNotes). Python
	// clients accept state updates only for members of their state, so what has no
	// key of its own travels here.
	KeyAgentState = "agent_state"
)

// AgentNotes is the value of a KeyAgentState update; each update replaces all.
type AgentNotes struct {
	LLMRetry   *LLMRetry `json:"llm_retry,omitempty"`  // a model call failed and will be tried again
	Recoveries int       `json:"recoveries,omitempty"` // restarts of the server survived since the model last answered
	// Refinements is how often a critic sent the agent back to work since the user
	// last spoke.
	Refinements int `json:"refinements,omitempty"`
	// MissingFallbacks are profiles that the model's configuration names as
	// fallbacks and that the owner does not have.
	MissingFallbacks []string `json:"missing_fallbacks,omitempty"`
	// Servers are the MCP servers that do not offer all they should.
	Servers []ServerNote `json:"mcp_servers,omitempty"`
	// Questions are what the user is asked to trust; until then it does not run.
	Questions []TrustQuestion `json:"trust_questions,omitempty"`
	// Problems are files of skills, hooks and agents that could not be used.
	Problems []string `json:"extension_problems,omitempty"`
	// Progress tells how far calls are that take their time.
	Progress []CallProgress `json:"tool_progress,omitempty"`
	// PathSkills are the skills that paths have brought in.
	PathSkills []string `json:"path_skills,omitempty"`
	// Tasks are those that sub-agents work on.
	Tasks []TaskNote `json:"tasks,omitempty"`
	// Incidents are the limits that the sandbox ran into lately, oldest first.
	Incidents []SandboxIncident `json:"sandbox_incidents,omitempty"`
	// ProviderFields are members of an answer that the provider wants back as they
	// came (signatures), by llm_response_id. Unlike the rest they add up.
	ProviderFields map[string]map[string]json.RawMessage `json:"provider_fields,omitempty"`
}

// Empty reports whether there is nothing to tell.
func (n AgentNotes) Empty() bool {
	return n.LLMRetry == nil && n.Recoveries == 0 && n.Refinements == 0 && len(n.MissingFallbacks) == 0 && len(n.ProviderFields) == 0 &&
		len(n.Servers) == 0 && len(n.Questions) == 0 && len(n.Problems) == 0 && len(n.Tasks) == 0 && len(n.PathSkills) == 0 && len(n.Progress) == 0 && len(n.Incidents) == 0
}

// SandboxIncident is a limit that a sandbox ran into.
type SandboxIncident struct {
	Time string `json:"time"` // RFC 3339
	Kind string `json:"kind"` // "out_of_memory", "process_limit", "disk_full"
	Text string `json:"text"` // what happened and what to do
}

// CallProgress tells how far a call is.
type CallProgress struct {
	ToolCallID string `json:"tool_call_id"`
	Text       string `json:"text"`
}

// ServerNote tells how an MCP server is.
type ServerNote struct {
	Name   string `json:"name"`
	State  string `json:"state"` // tool.ServerStatus
	Tools  int    `json:"tools"`
	Detail string `json:"detail,omitempty"`
}

// TrustQuestion asks the user whether something may run.
type TrustQuestion struct {
	Subject string   `json:"subject"` // "repository https://github.com/o/r"
	Hash    string   `json:"hash"`    // of the content that would run
	Runs    []string `json:"runs"`    // what it would run, for people
}

// TaskNote tells how the task of a sub-agent is.
type TaskNote struct {
	ID             string `json:"id"` // "task_00000001"
	ConversationID ID     `json:"conversation_id"`
	Agent          string `json:"agent"`
	Description    string `json:"description,omitempty"`
	Status         Status `json:"status"` // of the sub-conversation
}

// LLMRetry tells the user what the run waits for.
type LLMRetry struct {
	Attempt     int     `json:"attempt"` // the one that failed, from 1; 0 = none yet, the call waits its turn
	MaxAttempts int     `json:"max_attempts"`
	WaitSeconds float64 `json:"wait_seconds"`
	Code        string  `json:"code"`   // "LLMRateLimitError", ...
	Reason      string  `json:"reason"` // human text
	// Fallback is the model that is asked next instead.
	Fallback string `json:"fallback,omitempty"`
}

// Condensation says that for the model a summary takes the place of some events.
// The log keeps them.
type Condensation struct {
	Header
	ForgottenIDs  []string `json:"forgotten_event_ids"`
	Summary       string   `json:"summary,omitempty"`
	SummaryOffset *int     `json:"summary_offset,omitempty"` // index in the view after the forgetting
	LLMResponseID string   `json:"llm_response_id"`
}

// CondensationRequest asks for a condensation before the next call of the model.
type CondensationRequest struct{ Header }

// CondensationSummaryEvent stands for a condensation's summary in a model's view.
// It is never in a log.
type CondensationSummaryEvent struct {
	Header
	Summary string `json:"summary"`
}

// Goal is the value of a KeyGoal update: an objective that the conversation works
// on over several runs.
type Goal struct {
	Active        bool         `json:"active"`
	Status        GoalStatus   `json:"status"`
	Iteration     int          `json:"iteration"` // runs so far
	MaxIterations int          `json:"max_iterations"`
	Objective     string       `json:"objective"`
	Verdict       *GoalVerdict `json:"verdict,omitempty"` // the last one
}

// GoalStatus is the state of a goal.
type GoalStatus string

// The states of a goal.
const (
	GoalRunning     GoalStatus = "running"
	GoalComplete    GoalStatus = "complete"
	GoalCapped      GoalStatus = "capped" // not complete after MaxIterations
	GoalInterrupted GoalStatus = "interrupted"
)

// GoalVerdict is what the judge thinks of a goal.
type GoalVerdict struct {
	Score    float64 `json:"score"` // 0..1
	Complete bool    `json:"complete"`
	Missing  string  `json:"missing"`
}

// HookExecutionEvent tells that a hook ran. It stands in front of the event that it
// was for.
type HookExecutionEvent struct {
	Header
	EventType string          `json:"hook_event_type"` // package hook
	Command   string          `json:"hook_command"`    // or the hook's name
	ToolName  string          `json:"tool_name,omitempty"`
	Success   bool            `json:"success"`
	Blocked   bool            `json:"blocked"`
	ExitCode  int             `json:"exit_code"`
	Stdout    string          `json:"stdout"`
	Stderr    string          `json:"stderr"`
	Reason    string          `json:"reason,omitempty"` // of a block
	Context   string          `json:"additional_context,omitempty"`
	Error     string          `json:"error,omitempty"` // why it could not run
	ActionID  string          `json:"action_id,omitempty"`
	MessageID string          `json:"message_id,omitempty"`
	Input     json.RawMessage `json:"hook_input,omitempty"`
}

// PauseEvent says that the user paused the run between steps.
type PauseEvent struct{ Header }

// InterruptEvent says that the user stopped the run in the middle of a step.
type InterruptEvent struct{ Header }

// Unknown is an event of a kind this version does not interpret.
type Unknown struct {
	Header
	Raw json.RawMessage `json:"-"`
}

// newPayload maps kinds to types.
var newPayload = map[string]func() Payload{
	KindMessage:           func() Payload { return new(MessageEvent) },
	KindSystemPrompt:      func() Payload { return new(SystemPromptEvent) },
	KindAction:            func() Payload { return new(ActionEvent) },
	KindObservation:       func() Payload { return new(ObservationEvent) },
	KindUserReject:        func() Payload { return new(UserRejectObservation) },
	KindAgentError:        func() Payload { return new(AgentErrorEvent) },
	KindConversationError: func() Payload { return new(ConversationErrorEvent) },
	KindStateUpdate:       func() Payload { return new(StateUpdateEvent) },
	KindPause:             func() Payload { return new(PauseEvent) },
	KindInterrupt:         func() Payload { return new(InterruptEvent) },
	KindCondensation:      func() Payload { return new(Condensation) },
	KindCondenseRequest:   func() Payload { return new(CondensationRequest) },
	KindHookExecution:     func() Payload { return new(HookExecutionEvent) },
}

// Decode reads the typed form of an event. Unknown kinds yield *Unknown.
func Decode(e Event) (Payload, error) {
	make, ok := newPayload[e.Kind]
	if !ok {
		u := &Unknown{Raw: e.Raw}
		if err := json.Unmarshal(e.Raw, u); err != nil {
			return nil, fmt.Errorf("decode event %s: %w", e.ID, err)
		}
		return u, nil
	}
	p := make()
	if err := json.Unmarshal(e.Raw, p); err != nil {
		return nil, fmt.Errorf("decode %s %s: %w", e.Kind, e.ID, err)
	}
	return p, nil
}

// Encode renders a typed event, whose header must be complete. Nil slices that
// clients expect as arrays are written as [].
func Encode(p Payload) (Event, error) {
	fillArrays(p)
	raw, err := content.Marshal(p)
	if err != nil {
		return Event{}, fmt.Errorf("encode %s: %w", p.header().Kind, err)
	}
	h := p.header()
	return Event{ID: h.ID, Kind: h.Kind, Source: h.Source, Timestamp: h.Timestamp, Raw: raw}, nil
}

func fillArrays(p Payload) {
	switch e := p.(type) {
	case *MessageEvent:
		e.ActivatedSkills = orEmpty(e.ActivatedSkills)
		e.ExtendedContent = orEmpty(e.ExtendedContent)
		e.LLMMessage.Content = orEmpty(e.LLMMessage.Content)
		e.LLMMessage.ThinkingBlocks = orEmpty(e.LLMMessage.ThinkingBlocks)
	case *SystemPromptEvent:
		e.Tools = orEmpty(e.Tools)
	case *ActionEvent:
		e.Thought = orEmpty(e.Thought)
		e.ThinkingBlocks = orEmpty(e.ThinkingBlocks)
	case *ObservationEvent:
		e.ExtendedContent = orEmpty(e.ExtendedContent)
	case *Condensation:
		e.ForgottenIDs = orEmpty(e.ForgottenIDs)
	}
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// Head returns a header for a new event at time t.
func Head(kind, source string, t time.Time) Header {
	return Header{Kind: kind, ID: NewEventID(), Timestamp: FormatTime(t), Source: source}
}
