package imports

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/lazyre"
	"parley/internal/legacy"
)

// noResult answers calls that the source has no result of.
const noResult = "It is not recorded what came of this call: it may not have run. Look before you rely on it."

// kinds are the names of actions and observations of the tools that legacy actions
// become.
var kinds = map[string][2]string{
	legacy.ToolTerminal:    {"TerminalAction", "TerminalObservation"},
	legacy.ToolEditor:      {"FileEditorAction", "FileEditorObservation"},
	legacy.ToolThink:       {"ThinkAction", "ThinkObservation"},
	legacy.ToolFinish:      {"FinishAction", "FinishObservation"},
	legacy.ToolTaskTracker: {"TaskTrackerAction", "TaskTrackerObservation"},
}

// translator makes a log of legacy events.
type translator struct {
	id   conversation.ID
	last string // timestamp of the last event
	now  time.Time
	log  []conversation.Payload
	open map[int64]*call                    // calls without a result, by the legacy id
	user map[int64]conversation.UserCommand // commands of the user's without a result
	// state is the last state of the agent that was told.
	state string
	cost  float64
}

type call struct {
	*conversation.ActionEvent
	legacy *legacy.Call
}

func newTranslator(id conversation.ID, created time.Time) *translator {
	return &translator{id: id, now: created, open: map[int64]*call{}, user: map[int64]conversation.UserCommand{}}
}

// head makes the header of the next event.
func (t *translator) head(kind, source string) conversation.Header {
	stamp := conversation.FormatTime(t.now)
	if stamp <= t.last {
		if at, err := time.Parse(conversation.TimeLayout, t.last); err == nil {
			stamp = conversation.FormatTime(at.Add(time.Microsecond))
		}
	}
	t.last = stamp
	return conversation.Header{Kind: kind, ID: eventID(t.id, len(t.log)), Timestamp: stamp, Source: source}
}

func (t *translator) add(p conversation.Payload) { t.log = append(t.log, p) }

func (t *translator) say(source, role string, parts []content.Part) {
	t.add(&conversation.MessageEvent{Header: t.head(conversation.KindMessage, source),
		LLMMessage: conversation.LLMMessage{Role: role, Content: parts}})
}

// take adds what an event becomes.
func (t *translator) take(n int64, e *legacy.Event) {
	if at, ok := parseTime(e.Timestamp, time.Local); ok {
		t.now = at
	}
	t.cost = max(t.cost, e.Cost)
	switch {
	case e.Action == legacy.ActionMessage:
		t.message(e)
	case e.Action != "":
		t.action(n, e)
	case e.Observation == legacy.ObservationState:
		t.stateChanged(e)
	default:
		t.observation(e)
	}
}

func (t *translator) message(e *legacy.Event) {
	parts := e.Parts()
	switch {
	case len(parts) == 0:
	case e.Source == legacy.SourceAgent:
		t.say(conversation.SourceAgent, content.RoleAssistant, parts)
	case e.Source == legacy.SourceUser:
		t.say(conversation.SourceUser, content.RoleUser, parts)
	default:
		t.say(conversation.SourceEnvironment, content.RoleUser, parts)
	}
}

// told are the actions that only tell something, which the log tells otherwise.
var told = []string{legacy.ActionSystem, legacy.ActionRecall, legacy.ActionNull, legacy.ActionState,
	legacy.ActionCondensation, legacy.ActionCondense, legacy.ActionLoopRecovery}

func (t *translator) action(n int64, e *legacy.Event) {
	waits, _ := e.Args["confirmation_state"].(string)
	switch {
	case slices.Contains(told, e.Action), waits == "awaiting_confirmation": // it comes again, decided
		return
	case e.Source == legacy.SourceUser:
		t.command(n, e)
		return
	}
	c, err := e.Call()
	if err != nil {
		c = foreign(e)
	}
	args, err := content.Marshal(c.Args)
	if err != nil {
		return
	}
	made := &call{legacy: c, ActionEvent: &conversation.ActionEvent{Header: t.head(conversation.KindAction, conversation.SourceAgent),
		Action: actionOf(c), ToolName: c.Tool, ToolCallID: fmt.Sprintf("import_%d", n),
		LLMResponseID: fmt.Sprintf("import_%d", n), SecurityRisk: conversation.RiskUnknown}}
	if c.Risk != "" {
		made.SecurityRisk = c.Risk
	}
	if c.Thought != "" {
		made.Thought = []content.Part{content.Text(c.Thought)}
	}
	made.ToolCall = content.ToolCall{ID: made.ToolCallID, Name: c.Tool, Arguments: string(args), Origin: "completion"}
	t.add(made.ActionEvent)
	if c.Tool == legacy.ToolFinish {
		message, _ := c.Args["message"].(string)
		t.answer(made, map[string]any{"kind": kinds[c.Tool][1], "content": textParts(message), "is_error": false})
		return
	}
	t.open[n] = made
}

// command keeps a command that the user ran.
func (t *translator) command(n int64, e *legacy.Event) {
	command, _ := e.Args["command"].(string)
	if e.Action != "run" {
		return
	}
	c := conversation.UserCommand{Command: strings.ToValidUTF8(command, "?"), Hidden: e.Args["hidden"] == true}
	t.user[n] = conversation.UserCommand{Hidden: c.Hidden, Answers: t.tell(c)}
}

// tell adds the message of a command and returns its id.
func (t *translator) tell(c conversation.UserCommand) string {
	m := c.Message()
	m.Header = t.head(conversation.KindMessage, conversation.SourceEnvironment)
	t.add(m)
	return m.ID
}

// exitCode is that of a command, -1 if it is not known.
func exitCode(e *legacy.Event) int {
	meta, _ := e.Extras["metadata"].(map[string]any)
	code, ok := meta["exit_code"].(float64)
	if !ok || code < -1 || code > 255 {
		return -1
	}
	return int(code)
}

var notInName = lazyre.MustCompile(`[^a-zA-Z0-9_-]`)

// foreign is an action that no tool does here: the model reads its name and members.
func foreign(e *legacy.Event) *legacy.Call {
	args := map[string]any{}
	for k, v := range e.Args {
		if k != "thought" && k != "security_risk" && k != "confirmation_state" {
			args[k] = v
		}
	}
	thought, _ := e.Args["thought"].(string)
	return &legacy.Call{Tool: e.Action, Args: args, Thought: strings.ToValidUTF8(thought, "?")}
}

func actionOf(c *legacy.Call) json.RawMessage {
	c.Tool = content.Head(notInName.ReplaceAllString(c.Tool, "_"), 64)
	members := map[string]any{"kind": "MCPToolAction", "data": c.Args}
	if k, ok := kinds[c.Tool]; ok {
		members = map[string]any{"kind": k[0]}
		for name, v := range c.Args {
			members[name] = v
		}
	}
	raw, err := content.Marshal(members)
	if err != nil {
		return nil
	}
	return raw
}

func textParts(s string) []content.Part {
	return []content.Part{content.Text(strings.ToValidUTF8(s, "\uFFFD"))}
}

// stateChanged keeps the state, and why the agent failed.
func (t *translator) stateChanged(e *legacy.Event) {
	t.state, _ = e.Extras["agent_state"].(string)
	reason, _ := e.Extras["reason"].(string)
	if t.state == "error" && reason != "" {
		t.add(&conversation.ConversationErrorEvent{Header: t.head(conversation.KindConversationError, conversation.SourceEnvironment),
			Code: "ImportedError", Detail: strings.ToValidUTF8(reason, "?"),
			Classification: &conversation.Classification{Kind: "unknown", UserAction: "none"}})
	}
}

func (t *translator) observation(e *legacy.Event) {
	if command, ok := t.user[e.Cause]; ok && e.Cause >= 0 {
		delete(t.user, e.Cause)
		command.Output, command.ExitCode = strings.ToValidUTF8(e.Content, "\uFFFD"), exitCode(e)
		t.tell(command)
		return
	}
	c := t.open[e.Cause]
	if c == nil || e.Cause < 0 {
		return
	}
	delete(t.open, e.Cause)
	switch e.Observation {
	case legacy.ObservationError:
		t.failed(c, e.Content)
	case legacy.ObservationRejected:
		t.add(&conversation.UserRejectObservation{Header: t.head(conversation.KindUserReject, conversation.SourceEnvironment),
			ToolName: c.ToolName, ToolCallID: c.ToolCallID, ActionID: c.ID,
			RejectionReason: "User rejected the action.", RejectionSource: "user"})
	default:
		t.answer(c, resultOf(c, e))
	}
}

func (t *translator) answer(c *call, observation map[string]any) {
	raw, err := content.Marshal(observation)
	if err != nil {
		t.failed(c, noResult)
		return
	}
	t.add(&conversation.ObservationEvent{Header: t.head(conversation.KindObservation, conversation.SourceEnvironment),
		ToolName: c.ToolName, ToolCallID: c.ToolCallID, ActionID: c.ID, Observation: raw})
}

func (t *translator) failed(c *call, text string) {
	t.add(&conversation.AgentErrorEvent{Header: t.head(conversation.KindAgentError, conversation.SourceAgent),
		ToolName: c.ToolName, ToolCallID: c.ToolCallID, Error: strings.ToValidUTF8(text, "\uFFFD"),
		Classification: &conversation.Classification{Kind: "agent_action", UserAction: "none"}})
}

// resultOf is the observation of a tool.
func resultOf(c *call, e *legacy.Event) map[string]any {
	o := map[string]any{"kind": "MCPToolObservation", "content": textParts(e.Content), "is_error": false}
	k, ok := kinds[c.legacy.Tool]
	if !ok {
		o["tool_name"] = c.ToolName
		return o
	}
	o["kind"] = k[1]
	switch c.legacy.Tool {
	case legacy.ToolTerminal:
		o["command"], o["timeout"] = c.legacy.Args["command"], false
		if meta, ok := e.Extras["metadata"].(map[string]any); ok {
			o["exit_code"] = meta["exit_code"]
			o["metadata"] = pick(meta, "exit_code", "pid", "username", "hostname", "working_dir", "py_interpreter_path", "prefix", "suffix")
		} else if code, ok := e.Extras["exit_code"]; ok { // of old versions
			o["exit_code"] = code
		}
	case legacy.ToolEditor:
		o["command"], o["path"] = c.legacy.Args["command"], c.legacy.Args["path"]
		for name, v := range pick(e.Extras, "prev_exist", "old_content", "new_content") {
			o[name] = v
		}
	case legacy.ToolTaskTracker:
		o["command"], o["task_list"] = c.legacy.Args["command"], []any{}
		if list, ok := c.legacy.Args["task_list"]; ok && list != nil {
			o["task_list"] = list
		}
	}
	return o
}

// pick are the members with some names that are not null.
func pick(m map[string]any, names ...string) map[string]any {
	out := map[string]any{}
	for _, name := range names {
		if v := m[name]; v != nil {
			out[name] = v
		}
	}
	return out
}

// end answers what is open and records the costs.
func (t *translator) end(model string, use conversation.Usage, cost float64) {
	for _, n := range slices.Sorted(maps.Keys(t.open)) {
		t.failed(t.open[n], noResult)
	}
	for _, n := range slices.Sorted(maps.Keys(t.user)) {
		command := t.user[n]
		command.Output, command.ExitCode = "What came of it is not recorded.", -1
		t.tell(command)
	}
	if cost = max(cost, t.cost); cost == 0 && use.PromptTokens == 0 && use.CompletionTokens == 0 {
		return
	}
	use.Model = model
	raw, err := json.Marshal(conversation.StatsUpdate{Usage: conversation.Stats{conversation.UseAgent: {
		ModelName: model, AccumulatedCost: cost, Usage: use}}})
	if err != nil {
		return
	}
	t.add(&conversation.StateUpdateEvent{Header: t.head(conversation.KindStateUpdate, conversation.SourceEnvironment),
		Key: conversation.KeyStats, Value: raw})
}
