package projection_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"parley/internal/api/v0/projection"
	"parley/internal/content"
	"parley/internal/conversation"
)

// log builds an event log.
type log struct {
	events []conversation.Payload
	greets bool // the conversation has no first message
}

var start = time.Date(2025, 11, 20, 10, 0, 0, 123456000, time.UTC)

func (l *log) add(p conversation.Payload, kind, source string) string {
	h := conversation.HeaderOf(p)
	*h = conversation.Header{Kind: kind, ID: fmt.Sprintf("e%d", len(l.events)), Source: source,
		Timestamp: conversation.FormatTime(start.Add(time.Duration(len(l.events)) * time.Second))}
	l.events = append(l.events, p)
	return h.ID
}

func (l *log) prompt() {
	l.add(&conversation.SystemPromptEvent{SystemPrompt: content.Text("sys"), Tools: []json.RawMessage{
		json.RawMessage(`{"title":"terminal","description":"d","kind":"TerminalTool"}`)}}, conversation.KindSystemPrompt, "agent")
}

func (l *log) says(source, text string, images ...string) {
	role, parts := "user", []content.Part{content.Text(text)}
	if source == "agent" {
		role = "assistant"
	}
	if len(images) > 0 {
		parts = append(parts, content.Image(images...))
	}
	l.add(&conversation.MessageEvent{LLMMessage: conversation.LLMMessage{Role: role, Content: parts}}, conversation.KindMessage, source)
}

func (l *log) status(s conversation.Status) {
	raw, _ := json.Marshal(s)
	l.add(&conversation.StateUpdateEvent{Key: conversation.KeyStatus, Value: raw}, conversation.KindStateUpdate, "environment")
}

func (l *log) stats(cost float64) {
	l.add(&conversation.StateUpdateEvent{Key: conversation.KeyStats, Value: json.RawMessage(fmt.Sprintf(
		`{"usage_to_metrics":{"agent":{"model_name":"p/m","accumulated_cost":%g,"accumulated_token_usage":{"model":"p/m","prompt_tokens":5}}}}`, cost))},
		conversation.KindStateUpdate, "environment")
}

func (l *log) calls(tool, action, thought string) string {
	a := &conversation.ActionEvent{ToolName: tool, ToolCallID: fmt.Sprintf("c%d", len(l.events)), SecurityRisk: "LOW"}
	if action != "" {
		a.Action = json.RawMessage(action)
	}
	if thought != "" {
		a.Thought = []content.Part{content.Text(thought)}
	}
	return l.add(a, conversation.KindAction, "agent")
}

func (l *log) runs(command, thought string) string {
	raw, _ := json.Marshal(command)
	return l.calls("terminal", `{"kind":"TerminalAction","command":`+string(raw)+`,"is_input":false,"reset":false}`, thought)
}

func (l *log) finishes(message string) string {
	raw, _ := json.Marshal(message)
	return l.calls("finish", `{"kind":"FinishAction","message":`+string(raw)+`}`, "")
}

func (l *log) observes(actionID, tool, observation string) {
	l.add(&conversation.ObservationEvent{ToolName: tool, ToolCallID: "c" + actionID[1:], ActionID: actionID,
		Observation: json.RawMessage(observation)}, conversation.KindObservation, "environment")
}

func (l *log) ran(actionID, command, output string, code int) {
	l.observes(actionID, "terminal", fmt.Sprintf(`{"kind":"TerminalObservation","content":[{"type":"text","text":%q}],"is_error":false,
		"command":%q,"exit_code":%d,"timeout":false,"metadata":{"exit_code":%d,"pid":3,"working_dir":"/workspace"}}`, output, command, code, code))
}

func (l *log) finished(actionID string) {
	l.observes(actionID, "finish", `{"kind":"FinishObservation","content":[],"is_error":false}`)
}

func (l *log) callFails(actionID, text string) {
	l.add(&conversation.AgentErrorEvent{ToolName: "terminal", ToolCallID: "c" + actionID[1:], Error: text}, conversation.KindAgentError, "agent")
}

func (l *log) rejects(actionID, source string) {
	l.add(&conversation.UserRejectObservation{ToolName: "terminal", ToolCallID: "c" + actionID[1:], ActionID: actionID,
		RejectionReason: "no", RejectionSource: source}, conversation.KindUserReject, "environment")
}

func (l *log) fails(code, detail, kind string) {
	l.add(&conversation.ConversationErrorEvent{Code: code, Detail: detail,
		Classification: &conversation.Classification{Kind: kind}}, conversation.KindConversationError, "environment")
}

func (l *log) pauses()     { l.add(&conversation.PauseEvent{}, conversation.KindPause, "user") }
func (l *log) interrupts() { l.add(&conversation.InterruptEvent{}, conversation.KindInterrupt, "user") }

// row is an entry of the numbered projection.
type row struct {
	derived projection.Derived
	seq     int64
}

// number derives everything of a log at once.
func (l *log) number() []row {
	var s projection.State
	var rows []row
	take := func(seq int64, derived []projection.Derived) {
		for _, d := range derived {
			rows = append(rows, row{d, seq})
		}
	}
	take(-1, s.Open())
	if len(l.events) == 0 {
		take(-1, s.Ready())
	}
	for i, p := range l.events {
		next, _ := projection.LookAhead(l.events[i:], l.greets)
		take(int64(i), s.Step(int64(i), p, next))
	}
	return rows
}

func (l *log) project() []*projection.Event {
	rows := l.number()
	info := projection.Info{Repository: "own/repo", Branch: "main", WorkingDir: "/workspace/repo", Instructions: "be kind",
		Secrets: map[string]string{"TOKEN": "a token"}, CreatedAt: start}
	out := make([]*projection.Event, len(rows))
	for i, r := range rows {
		in := projection.Input{ID: int64(i), Derived: r.derived, Seq: r.seq, Info: info}
		if r.seq >= 0 {
			in.Payload = l.events[r.seq]
		}
		switch {
		case r.derived.Cause() > 0:
			cause := rows[int64(i)-r.derived.Cause()]
			in.Shown = l.events[cause.seq-cause.derived.Back()]
		case r.derived.Back() > 0:
			in.Shown = l.events[r.seq-r.derived.Back()]
		}
		out[i] = projection.Render(in)
	}
	return out
}

// brief renders events as "id source kind detail [cause]".
func brief(events []*projection.Event) string {
	var b strings.Builder
	for _, e := range events {
		raw, _ := json.Marshal(e)
		var v struct {
			Args   map[string]any `json:"args"`
			Extras map[string]any `json:"extras"`
		}
		_ = json.Unmarshal(raw, &v)
		source := map[string]string{"environment": "env"}[e.Source]
		if source == "" {
			source = e.Source
		}
		fmt.Fprintf(&b, "%d %s ", e.ID, source)
		if e.Observation != "" {
			fmt.Fprintf(&b, "obs %s", e.Observation)
		} else {
			b.WriteString(e.Action)
		}
		for _, m := range []map[string]any{v.Args, v.Extras} {
			for _, key := range []string{"agent_state", "recall_type", "command", "confirmation_state", "reason"} {
				if s, ok := m[key].(string); ok && s != "" && s != "confirmed" {
					b.WriteString(" " + s)
				}
			}
		}
		if e.Action == "message" {
			fmt.Fprintf(&b, " %q wait=%v", e.Message, v.Args["wait_for_response"])
		}
		if e.Observation == "error" {
			fmt.Fprintf(&b, " %q", e.Message)
		}
		if e.Cause != nil {
			fmt.Fprintf(&b, " (cause %d)", *e.Cause)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func want(t *testing.T, l *log, golden string) {
	t.Helper()
	if diff := cmp.Diff(strings.Split(strings.TrimSpace(strings.ReplaceAll(golden, "\t", "")), "\n"),
		strings.Split(strings.TrimSpace(brief(l.project())), "\n")); diff != "" {
		t.Error(diff)
	}
}

func TestGoldenMessageCommandQuestionAnswerFinish(t *testing.T) {
	l := &log{}
	l.prompt()
	l.says("user", "hi")
	l.status(conversation.Running)
	a := l.runs("ls", "look")
	l.stats(0.1)
	l.ran(a, "ls", "x", 0)
	l.says("agent", "and now?")
	l.stats(0.2)
	l.status(conversation.Finished)
	l.says("user", "finish")
	l.status(conversation.Running)
	f := l.finishes("bye")
	l.stats(0.3)
	l.finished(f)
	l.status(conversation.Finished)
	want(t, l, `0 env obs agent_state_changed loading
		1 agent system
		2 user message "hi" wait=false
		3 env change_agent_state running
		4 user recall workspace_context
		5 env obs agent_state_changed running
		6 env obs recall workspace_context (cause 4)
		7 agent run ls
		8 agent obs run ls (cause 7)
		9 agent message "and now?" wait=true
		10 env obs agent_state_changed awaiting_user_input
		11 user message "finish" wait=false
		12 user recall knowledge
		13 env obs agent_state_changed running
		14 env obs null (cause 12)
		15 agent finish
		16 env obs agent_state_changed finished`)
}

// TestGoldenFinishedThenIdle: the engine goes to idle with a message that starts
// no run; clients see no state in between.
func TestGoldenFinishedThenIdle(t *testing.T) {
	l := &log{}
	l.prompt()
	l.says("user", "hi")
	l.status(conversation.Running)
	l.finished(l.finishes("x"))
	l.status(conversation.Finished)
	l.says("user", "later")
	l.status(conversation.Idle)
	l.says("user", "now")
	l.status(conversation.Running)
	want(t, l, `0 env obs agent_state_changed loading
		1 agent system
		2 user message "hi" wait=false
		3 env change_agent_state running
		4 user recall workspace_context
		5 env obs agent_state_changed running
		6 env obs recall workspace_context (cause 4)
		7 agent finish
		8 env obs agent_state_changed finished
		9 user message "later" wait=false
		10 user message "now" wait=false
		11 user recall knowledge
		12 user recall knowledge
		13 env obs agent_state_changed running
		14 env obs null (cause 11)
		15 env obs null (cause 12)`)
}

func TestGoldenNoFirstMessage(t *testing.T) {
	want(t, &log{}, `0 env obs agent_state_changed loading
		1 env change_agent_state awaiting_user_input
		2 env obs agent_state_changed awaiting_user_input`)
}

// TestTrap13ConfirmationOrder: the state comes before the action; a confirmed
// action comes again as a new event, which is the cause of the result.
func TestTrap13ConfirmationOrder(t *testing.T) {
	l := &log{}
	l.prompt()
	l.says("user", "hi")
	l.status(conversation.Running)
	a := l.runs("rm x", "why not")
	l.stats(0.1)
	l.status(conversation.WaitingConfirmation)
	l.status(conversation.Running)
	l.ran(a, "rm x", "", 0)
	want(t, l, `0 env obs agent_state_changed loading
		1 agent system
		2 user message "hi" wait=false
		3 env change_agent_state running
		4 user recall workspace_context
		5 env obs agent_state_changed running
		6 env obs recall workspace_context (cause 4)
		7 env obs agent_state_changed awaiting_user_confirmation
		8 agent run rm x awaiting_confirmation
		9 user change_agent_state user_confirmed
		10 agent run rm x
		11 env obs agent_state_changed user_confirmed
		12 agent obs run rm x (cause 10)
		13 env obs agent_state_changed running`)
	events := l.project()
	if thought := argsOf(t, events[8])["thought"]; thought != "why not" {
		t.Errorf("thought of the waiting action: %v", thought)
	}
	if thought := argsOf(t, events[10])["thought"]; thought != "" {
		t.Errorf("thought of the confirmed action: %v", thought)
	}
}

func TestGoldenRejection(t *testing.T) {
	l := &log{}
	l.prompt()
	l.says("user", "hi")
	l.status(conversation.Running)
	a, b := l.runs("rm x", ""), l.runs("rm y", "")
	l.stats(0.1)
	l.status(conversation.WaitingConfirmation)
	l.rejects(a, "user")
	l.rejects(b, "user")
	l.status(conversation.Idle)
	got := brief(l.project())
	_, got, _ = strings.Cut(got, "\n6 ")
	_, got, _ = strings.Cut(got, "\n")
	if diff := cmp.Diff(`7 env obs agent_state_changed awaiting_user_confirmation
8 agent run rm x awaiting_confirmation
9 agent run rm y awaiting_confirmation
10 user change_agent_state user_rejected
11 agent run rm x rejected
12 agent run rm y rejected
13 env obs agent_state_changed user_rejected
14 agent obs user_rejected (cause 11)
15 agent obs user_rejected (cause 12)
16 env obs agent_state_changed awaiting_user_input
`, got); diff != "" {
		t.Error(diff)
	}
}

// TestConfirmationLearnedLate: the calls were numbered before their state was known.
func TestConfirmationLearnedLate(t *testing.T) {
	l := &log{}
	l.status(conversation.Running)
	a := l.runs("rm x", "")
	var s projection.State
	s.Open()
	s.Step(0, l.events[0], projection.Nothing)
	s.Step(1, l.events[1], projection.Nothing)
	l.status(conversation.WaitingConfirmation)
	got := s.Step(2, l.events[2], projection.Nothing)
	if len(got) != 2 || got[0].State() != projection.AwaitingConfirmation || got[1] != (projection.Derived{Recipe: projection.ActionAwaiting, Arg: 1}) {
		t.Fatalf("got %v", got)
	}
	l.status(conversation.Running)
	confirmed := s.Step(3, l.events[3], projection.Nothing)
	if len(confirmed) != 3 || confirmed[1] != (projection.Derived{Recipe: projection.ActionConfirmed, Arg: 2}) {
		t.Fatalf("got %v", confirmed)
	}
	l.ran(a, "rm x", "", 0)
	if obs := s.Step(4, l.events[4], projection.Nothing); obs[0].Cause() != 2 {
		t.Errorf("cause is %d back", obs[0].Cause())
	}
}

func tail(t *testing.T, l *log, from int, golden ...string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(brief(l.project())), "\n")
	if from > len(lines) {
		t.Fatalf("only %q", lines)
	}
	if diff := cmp.Diff(golden, lines[from:], cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

func running() *log {
	l := &log{}
	l.prompt()
	l.says("user", "hi")
	l.status(conversation.Running) // the next event is number 7
	return l
}

func TestStopAnswersTheOpenCallFirst(t *testing.T) {
	l := running()
	a := l.runs("sleep 9", "")
	l.callFails(a, conversation.CallInterrupted+"this call; it may have run in part.")
	l.interrupts()
	l.status(conversation.Paused)
	l.says("user", "go on")
	l.status(conversation.Running)
	tail(t, l, 7, "7 agent run sleep 9", `8 agent obs error "Stop button pressed. The action has not been executed." (cause 7)`,
		"9 env obs agent_state_changed stopped", `10 user message "go on" wait=false`, "11 user recall knowledge",
		"12 env obs agent_state_changed running", "13 env obs null (cause 11)")
}

func TestPause(t *testing.T) {
	l := running()
	l.pauses()
	l.status(conversation.Paused)
	l.interrupts() // stop, while paused
	l.status(conversation.Running)
	l.pauses()
	l.status(conversation.Paused)
	tail(t, l, 7, "7 env obs agent_state_changed paused", "8 env obs agent_state_changed stopped",
		"9 env obs agent_state_changed running", "10 env obs agent_state_changed paused")
}

// TestTrap12InterruptOfIdleIsNoStop: nothing ran, so nothing was stopped, and a
// later pause is a pause.
func TestTrap12InterruptOfIdleIsNoStop(t *testing.T) {
	l := running()
	l.says("agent", "done")
	l.status(conversation.Finished)
	l.interrupts()
	l.status(conversation.Running)
	l.pauses()
	l.status(conversation.Paused)
	tail(t, l, 8, "8 env obs agent_state_changed awaiting_user_input", "9 env obs agent_state_changed running",
		"10 env obs agent_state_changed paused")
}

func TestMessageDuringTheRun(t *testing.T) {
	l := running()
	l.says("user", "wait")
	tail(t, l, 7, `7 user message "wait" wait=false`, "8 user recall knowledge", "9 env obs null (cause 8)")
}

func TestErrors(t *testing.T) {
	for _, c := range []struct{ code, detail, kind, reason string }{
		{"LLMAuthenticationError", "bad key", "auth", "STATUS$ERROR_LLM_AUTHENTICATION"},
		{"LLMAuthenticationError", "no money", "quota", "STATUS$ERROR_LLM_OUT_OF_CREDITS"},
		{"LLMServiceUnavailableError", "down", "transient", "STATUS$ERROR_LLM_SERVICE_UNAVAILABLE"},
		{"LLMTimeoutError", "slow", "", "STATUS$ERROR_LLM_SERVICE_UNAVAILABLE"},
		{"LLMMalformedConversationHistoryError", "x", "internal", "STATUS$ERROR_LLM_INTERNAL_SERVER_ERROR"},
		{"LLMContentPolicyViolationError", "x", "agent_action", "STATUS$ERROR_LLM_CONTENT_POLICY_VIOLATION"},
		{"LLMRateLimitError", "x", "rate_limit", "CHAT_INTERFACE$AGENT_RATE_LIMITED_STOPPED_MESSAGE"},
		{"LLMContextWindowExceedError", "too long", "config", "LLMContextWindowExceedError: too long"},
		{"MaxIterationsReached", "2 steps", "agent_action", "RuntimeError: Agent reached maximum iteration. 2 steps"},
		{"MaxBudgetReached", "10 USD", "quota", "RuntimeError: Agent reached maximum budget for conversation. 10 USD"},
		{"sandbox_failed", "no disk", "internal", "sandbox_failed: no disk"},
	} {
		l := running()
		l.fails(c.code, c.detail, c.kind)
		l.status(conversation.Error)
		tail(t, l, 7, fmt.Sprintf("7 agent obs error %q", c.detail), "8 env obs agent_state_changed error "+c.reason)
	}
}

func TestStuck(t *testing.T) {
	l := running()
	l.status(conversation.Stuck)
	tail(t, l, 7, "7 env obs agent_state_changed error AgentStuckInLoopError: Agent got stuck in a loop")
}

func TestUnknownToolIsAnErrorWithoutAction(t *testing.T) {
	l := running()
	a := l.calls("nonsense", "", "")
	l.callFails(a, "There is no tool named nonsense.")
	tail(t, l, 7, `7 agent obs error "There is no tool named nonsense."`)
}

func TestWhatIsNotShown(t *testing.T) {
	l := running()
	l.stats(1)
	l.add(&conversation.Unknown{}, "Condensation", "environment")
	l.add(&conversation.StateUpdateEvent{Key: "agent_state", Value: json.RawMessage(`{}`)}, conversation.KindStateUpdate, "environment")
	l.says("agent", "   ")
	tail(t, l, 7)
}

func argsOf(t *testing.T, e *projection.Event) map[string]any {
	t.Helper()
	raw, err := json.Marshal(e.Args)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestTrap7Envelope compares whole events: absent members are omitted, defaults
// are there, causes of 0 and risks as numbers included.
func TestTrap7Envelope(t *testing.T) {
	l := &log{}
	l.prompt()
	l.says("user", "hi <&>", "data:image/png;base64,x")
	l.status(conversation.Running)
	r := l.runs("ls", "")
	l.ran(r, "ls", "x", 1)
	v := l.calls("file_editor", `{"kind":"FileEditorAction","command":"view","path":"/a"}`, "")
	l.observes(v, "file_editor", `{"kind":"FileEditorObservation","content":[{"type":"text","text":"c"}],"is_error":false,"command":"view","path":"/a"}`)
	e := l.calls("file_editor", `{"kind":"FileEditorAction","command":"str_replace","path":"/a","old_str":"a","new_str":"b"}`, "")
	l.observes(e, "file_editor", `{"kind":"FileEditorObservation","content":[{"type":"text","text":"edited"}],"is_error":false,
		"command":"str_replace","path":"/a","prev_exist":true,"old_content":"a\n","new_content":"b\n"}`)
	x := l.calls("file_editor", `{"kind":"FileEditorAction","command":"view","path":"/no"}`, "")
	l.observes(x, "file_editor", `{"kind":"FileEditorObservation","content":[{"type":"text","text":"no such file"}],"is_error":true,"command":"view","path":"/no"}`)
	k := l.calls("think", `{"kind":"ThinkAction","thought":"t"}`, "")
	l.observes(k, "think", `{"kind":"ThinkObservation","content":[{"type":"text","text":"ok"}],"is_error":false}`)
	m := l.calls("fetch", `{"kind":"MCPToolAction","data":{"u":1}}`, "")
	l.observes(m, "fetch", `{"kind":"MCPToolObservation","content":[{"type":"text","text":"{}"}],"is_error":false}`)
	l.finishes("done")
	events := l.project()
	for id, golden := range map[int]string{
		0:  `{"id":0,"timestamp":"2025-11-20T10:00:00.123456","source":"environment","message":"","observation":"agent_state_changed","content":"","extras":{"agent_state":"loading","reason":""}}`,
		1:  `{"id":1,"timestamp":"2025-11-20T10:00:00.123456","source":"agent","message":"sys","action":"system","args":{"content":"sys","tools":[{"function":{"description":"d","name":"terminal"},"type":"function"}],"openhands_version":"0.62.0","agent_class":"CodeActAgent"}}`,
		2:  `{"id":2,"timestamp":"2025-11-20T10:00:01.123456","source":"user","message":"hi <&>","action":"message","args":{"content":"hi <&>","file_urls":null,"image_urls":["data:image/png;base64,x"],"wait_for_response":false,"security_risk":-1}}`,
		3:  `{"id":3,"timestamp":"2025-11-20T10:00:02.123456","source":"environment","message":"Agent state changed to running","action":"change_agent_state","args":{"agent_state":"running","thought":""}}`,
		4:  `{"id":4,"timestamp":"2025-11-20T10:00:02.123456","source":"user","message":"Retrieving content for: hi <&>","action":"recall","args":{"recall_type":"workspace_context","query":"hi <&>","thought":""}}`,
		6:  `{"id":6,"timestamp":"2025-11-20T10:00:02.123456","source":"environment","message":"Added workspace context","cause":4,"observation":"recall","content":"Added workspace context","extras":{"recall_type":"workspace_context","repo_name":"own/repo","repo_directory":"repo","repo_branch":"main","repo_instructions":"","runtime_hosts":{},"additional_agent_instructions":"","date":"2025-11-20","custom_secrets_descriptions":{"TOKEN":"a token"},"conversation_instructions":"be kind","working_dir":"/workspace/repo","microagent_knowledge":[]}}`,
		7:  `{"id":7,"timestamp":"2025-11-20T10:00:03.123456","source":"agent","message":"Running command: ls","action":"run","args":{"command":"ls","is_input":false,"thought":"","blocking":false,"is_static":false,"cwd":null,"hidden":false,"confirmation_state":"confirmed","security_risk":0},"timeout":120}`,
		8:  `{"id":8,"timestamp":"2025-11-20T10:00:04.123456","source":"agent","message":"Command ` + "`ls`" + ` executed with exit code 1.","cause":7,"observation":"run","content":"x","extras":{"command":"ls","metadata":{"exit_code":1,"pid":3,"username":null,"hostname":null,"working_dir":"/workspace","py_interpreter_path":null,"prefix":"","suffix":""},"hidden":false},"success":false}`,
		9:  `{"id":9,"timestamp":"2025-11-20T10:00:05.123456","source":"agent","message":"Reading file: /a","action":"read","args":{"path":"/a","start":0,"end":-1,"thought":"","security_risk":0,"impl_source":"oh_aci","view_range":null}}`,
		10: `{"id":10,"timestamp":"2025-11-20T10:00:06.123456","source":"agent","message":"I read the file /a.","cause":9,"observation":"read","content":"c","extras":{"impl_source":"oh_aci","path":"/a"}}`,
		11: `{"id":11,"timestamp":"2025-11-20T10:00:07.123456","source":"agent","message":"","action":"edit","args":{"path":"/a","command":"str_replace","file_text":null,"old_str":"a","new_str":"b","insert_line":null,"content":"","start":1,"end":-1,"thought":"","security_risk":0,"impl_source":"oh_aci"}}`,
		12: `{"id":12,"timestamp":"2025-11-20T10:00:08.123456","source":"agent","message":"I edited the file /a.","cause":11,"observation":"edit","content":"edited","extras":{"path":"/a","prev_exist":true,"old_content":"a\n","new_content":"b\n","impl_source":"oh_aci","diff":"--- /a\n+++ /a\n@@ -1 +1 @@\n-a\n+b\n","_diff_cache":null}}`,
		14: `{"id":14,"timestamp":"2025-11-20T10:00:10.123456","source":"agent","message":"no such file","cause":13,"observation":"error","content":"no such file","extras":{"error_id":""}}`,
		15: `{"id":15,"timestamp":"2025-11-20T10:00:11.123456","source":"agent","message":"I am thinking...: t","action":"think","args":{"thought":"t"}}`,
		16: `{"id":16,"timestamp":"2025-11-20T10:00:12.123456","source":"agent","message":"Your thought has been logged.","cause":15,"observation":"think","content":"ok","extras":{}}`,
		17: `{"id":17,"timestamp":"2025-11-20T10:00:13.123456","source":"agent","message":"I am interacting with the MCP server with name:\n` + "```\\nfetch\\n```\\nand arguments:\\n```\\n{\\\"u\\\":1}\\n```" + `","action":"call_tool_mcp","args":{"name":"fetch","arguments":{"u":1},"thought":"","security_risk":0}}`,
		18: `{"id":18,"timestamp":"2025-11-20T10:00:14.123456","source":"agent","message":"{\"content\":[{\"type\":\"text\",\"text\":\"{}\"}],\"isError\":false}","cause":17,"observation":"mcp","content":"{\"content\":[{\"type\":\"text\",\"text\":\"{}\"}],\"isError\":false}","extras":{"arguments":{"u":1},"name":"fetch"}}`,
		19: `{"id":19,"timestamp":"2025-11-20T10:00:15.123456","source":"agent","message":"All done! What's next on the agenda?","action":"finish","args":{"final_thought":"done","outputs":{},"thought":""}}`,
	} {
		if diff := cmp.Diff(golden, plain(t, events[id])); diff != "" {
			t.Errorf("event %d: %s", id, diff)
		}
	}
}

func plain(t *testing.T, v any) string {
	t.Helper()
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}

// TestTrap7CauseZero: a cause of 0 is written. (This server's event 0 is never a
// cause, but ids of the envelope must not depend on that.)
func TestTrap7CauseZero(t *testing.T) {
	l := &log{}
	l.says("user", "x")
	e := projection.Render(projection.Input{ID: 1, Derived: projection.Derived{Recipe: projection.KnowledgeRecalled, Arg: 1},
		Payload: l.events[0]})
	if got := plain(t, e); !strings.Contains(got, `"cause":0,`) {
		t.Error(got)
	}
}

func TestLongOutputIsCutInTheMiddle(t *testing.T) {
	l := running()
	l.ran(l.runs("yes", ""), "yes", strings.Repeat("a", 20000)+strings.Repeat("\u00fc", 20000), 0)
	text := *l.project()[8].Content
	if n := len([]rune(text)); n < 30000 || n > 30100 || !strings.HasPrefix(text, "aaa") || !strings.HasSuffix(text, "\u00fc") {
		t.Errorf("%d characters", n)
	}
}

func TestPartsAreStable(t *testing.T) {
	// Stored in databases: these numbers must never change.
	for part, d := range map[int]projection.Derived{
		1: {Recipe: projection.System}, 2: {Recipe: projection.Message}, 3 | 5<<8: {Recipe: projection.RecallWorkspace, Arg: 5},
		7: {Recipe: projection.StateChanged}, 7 | 8<<8: {Recipe: projection.StateChanged, Arg: 8}, 9: {Recipe: projection.Action},
		13 | 1<<8: {Recipe: projection.Observed, Arg: 1}, 16: {Recipe: projection.RunFailed}, 19 | 2<<8: {Recipe: projection.MessageBlocked, Arg: 2},
	} {
		if d.Part() != part || projection.FromPart(part) != d {
			t.Errorf("part %d is %v, of which the part is %d", part, projection.FromPart(part), d.Part())
		}
	}
	if s := (projection.Derived{Recipe: projection.StateChanged, Arg: 8}).State(); s != projection.AwaitingConfirmation {
		t.Errorf("state 8 is %s", s)
	}
}

// FuzzProject: events of any content are numbered and rendered as valid JSON.
func FuzzProject(f *testing.F) {
	l := running()
	l.ran(l.runs("ls", "t"), "ls", "x", 0)
	l.finishes("x")
	l.fails("LLMTimeoutError", "x", "")
	l.rejects("e3", "user")
	l.condenses("s", "e1", "e3")
	l.updates(conversation.KeyLeaf, `"e1"`)
	for _, p := range l.events {
		raw, err := json.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(raw), "running")
	}
	f.Fuzz(func(t *testing.T, raw, status string) {
		var h conversation.Header
		if json.Unmarshal([]byte(raw), &h) != nil {
			return
		}
		p, err := conversation.Decode(conversation.Event{Kind: h.Kind, Raw: json.RawMessage(raw)})
		if err != nil {
			return
		}
		l := running()
		l.runs("ls", "")
		l.status(conversation.Status(status))
		l.events = append(l.events, p)
		l.status(conversation.Status(status))
		for i, e := range l.project() {
			if out := plain(t, e); !json.Valid([]byte(out)) || e.ID != int64(i) || e.Action == "" && e.Observation == "" {
				t.Errorf("event %d: %s", i, out)
			}
		}
	})
}

func TestMetricsCarryTheCeiling(t *testing.T) {
	m := projection.MetricsOf(&conversation.StateUpdateEvent{Key: conversation.KeyStats, Value: json.RawMessage(
		`{"usage_to_metrics":{"agent":{"model_name":"p/m","accumulated_cost":0.5,"max_budget_per_task":2.5,"accumulated_token_usage":{}}}}`)})
	if m == nil || m.MaxBudget == nil || *m.MaxBudget != 2.5 || m.AccumulatedCost != 0.5 {
		t.Errorf("%+v", m)
	}
}
