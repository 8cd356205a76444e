package projection_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/internal/api/v0/projection"
	"parley/internal/content"
	"parley/internal/conversation"
)

// extras are the extras of the last event of a log.
func extras(t *testing.T, l *log) map[string]any {
	t.Helper()
	events := l.project()
	raw, err := json.Marshal(events[len(events)-1].Extras)
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// errorIDs are the ids of a log's error observations, in order.
func errorIDs(l *log) (ids []string) {
	for _, e := range l.project() {
		if e.Observation == "error" {
			ids = append(ids, fmt.Sprint(e.Extras.(map[string]any)["error_id"]))
		}
	}
	return ids
}

// TestCallsWithoutAResult: which error a call gets that the run's end leaves open.
func TestCallsWithoutAResult(t *testing.T) {
	for name, c := range map[string]struct {
		text, want string
	}{
		"stopped":         {"The user interrupted this call; it may have run in part.", "AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED_STOPPED"},
		"stopped waiting": {"The user interrupted the conversation while this call waited for confirmation: it did not run.", "AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED_STOPPED"},
		"lost":            {"The server was restarted while this ran, so its outcome is unknown.", "AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED_ERROR"},
		"given up":        {"The server could not record the result of this call.", "AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED_ERROR"},
		"failed":          {"No such file.", ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := running()
			a, b := l.runs("one", ""), l.runs("two", "")
			l.callFails(a, c.text)
			l.callFails(b, c.text)
			l.callFails("e99", c.text) // of a call that was never shown
			if d := cmp.Diff([]string{c.want, c.want, ""}, errorIDs(l)); d != "" {
				t.Error(d)
			}
		})
	}
}

func (l *log) retries(code string) {
	value := `{}`
	if code != "" {
		value = fmt.Sprintf(`{"llm_retry":{"attempt":1,"max_attempts":5,"wait_seconds":1,"code":%q,"reason":"r"}}`, code)
	}
	l.updates(conversation.KeyAgentState, value)
}

// TestRateLimited: the run waits, and goes on or fails.
func TestRateLimited(t *testing.T) {
	l := running()
	l.retries("LLMTimeoutError") // another reason is no state
	l.retries("LLMRateLimitError")
	l.retries("LLMRateLimitError")
	l.retries("")
	l.retries("LLMRateLimitError")
	l.retries("")
	l.fails("LLMRateLimitError", "d", "rate_limit")
	l.status(conversation.Error)
	tail(t, l, 7, "7 env obs agent_state_changed rate_limited", "8 env obs agent_state_changed running",
		"9 env obs agent_state_changed rate_limited", `10 agent obs error "d"`,
		"11 env obs agent_state_changed error CHAT_INTERFACE$AGENT_RATE_LIMITED_STOPPED_MESSAGE")
}

// TestReasons are byte-exact: clients translate some and parse others.
func TestReasons(t *testing.T) {
	for detail, want := range map[[3]string]string{
		{"MaxIterationsReached", "The run made 2 steps, the limit of this conversation. Send a message to go on.", "agent_action"}: "RuntimeError: Agent reached maximum iteration. Current iteration: 2, max iteration: 2",
		{"AgentStuck", "d", "agent_action"}:              "AgentStuckInLoopError: Agent got stuck in a loop",
		{"InternalError", "d", "internal"}:               "RuntimeError: There was an unexpected error while running the agent: InternalError. You can refresh the page or ask the agent to try again.",
		{"SandboxGone", "It is gone.", "x"}:              "SandboxGone: It is gone.",
		{"LLMAuthenticationError", "d", "auth"}:          "STATUS$ERROR_LLM_AUTHENTICATION",
		{"LLMAuthenticationError", "d", "quota"}:         "STATUS$ERROR_LLM_OUT_OF_CREDITS",
		{"LLMServiceUnavailableError", "d", "transient"}: "STATUS$ERROR_LLM_SERVICE_UNAVAILABLE",
		{"LLMContentPolicyViolationError", "d", ""}:      "STATUS$ERROR_LLM_CONTENT_POLICY_VIOLATION",
		{"LLMBadRequestError", "d", "internal"}:          "STATUS$ERROR_LLM_INTERNAL_SERVER_ERROR",
	} {
		l := running()
		l.fails(detail[0], detail[1], detail[2])
		if got := extras(t, l)["reason"]; got != want {
			t.Errorf("%s: %q", detail[0], got)
		}
	}
}

func TestReasonOfTheBudget(t *testing.T) {
	limit := 10.0
	e := projection.Render(projection.Input{Derived: projection.Derived{Recipe: projection.StateChanged, Arg: 7},
		Payload: &conversation.ConversationErrorEvent{Code: "MaxBudgetReached", Detail: "d"}, Metrics: &projection.Metrics{AccumulatedCost: 10.2, MaxBudget: &limit}})
	state, reason, ok := e.StateChange()
	if !ok || state != projection.Error || reason != "RuntimeError: Agent reached maximum budget for conversation.Current budget: 10.20, max budget: 10.00" {
		t.Errorf("%s %q", state, reason)
	}
}

func (l *log) typed(c conversation.UserCommand) string {
	return l.add(c.Message(), conversation.KindMessage, conversation.SourceEnvironment)
}

// TestUserCommands: what the user ran, also while another one runs, and what came of it.
func TestUserCommands(t *testing.T) {
	l := running()
	one := l.typed(conversation.UserCommand{Command: "ls -l $ x"})
	two := l.typed(conversation.UserCommand{Command: "secret", Hidden: true})
	l.typed(conversation.UserCommand{Answers: two, Output: "h", ExitCode: 3, Hidden: true})
	l.typed(conversation.UserCommand{Answers: one, Output: "files\n"})
	l.typed(conversation.UserCommand{Answers: "nobody", Output: "x", ExitCode: -1})
	tail(t, l, 7, "7 user run ls -l $ x", "8 user run secret", "9 user obs run secret (cause 8)", "10 user obs run ls -l $ x (cause 7)", "11 user obs run")
	events := l.project()
	raw, _ := json.Marshal(events[10])
	const want = `{"id":10,"timestamp":"2025-11-20T10:00:06.123456","source":"user","message":"Command ` + "`ls -l $ x`" + ` executed with exit code 0.","cause":7,` +
		`"observation":"run","content":"files\n","extras":{"command":"ls -l $ x","metadata":{"exit_code":0,"pid":-1,"username":null,"hostname":null,` +
		`"working_dir":"/workspace/repo","py_interpreter_path":null,"prefix":"","suffix":""},"hidden":false},"success":true}`
	if string(raw) != want {
		t.Errorf("%s\n%s", raw, want)
	}
	raw, _ = json.Marshal(events[8])
	const run = `{"id":8,"timestamp":"2025-11-20T10:00:04.123456","source":"user","message":"Running command: secret","action":"run",` +
		`"args":{"command":"secret","is_input":false,"thought":"","blocking":false,"is_static":false,"cwd":null,"hidden":true,"confirmation_state":"confirmed","security_risk":-1},"timeout":120}`
	if string(raw) != run {
		t.Errorf("%s", raw)
	}
}

func TestAttachedFiles(t *testing.T) {
	said := &conversation.MessageEvent{LLMMessage: conversation.LLMMessage{Role: "user", Content: []content.Part{content.Text("see")}}}
	conversation.AttachFiles(said, []string{"/workspace/a b.txt", "x\ny", " "})
	l := &log{}
	l.add(said, conversation.KindMessage, "user")
	raw, _ := json.Marshal(l.project()[1].Args)
	if want := `{"content":"see","file_urls":["/workspace/a b.txt","x y"],"image_urls":null,"wait_for_response":false,"security_risk":-1}`; string(raw) != want {
		t.Errorf("%s", raw)
	}
}

// TestGoldenNoFirstMessageAfterThePrompt is the trace of a conversation that waits for
// its first message.
func TestGoldenNoFirstMessageAfterThePrompt(t *testing.T) {
	l := &log{greets: true}
	l.prompt()
	l.says("user", "hi")
	l.status(conversation.Running)
	want(t, l, `0 env obs agent_state_changed loading
		1 agent system
		2 env change_agent_state awaiting_user_input
		3 env obs agent_state_changed awaiting_user_input
		4 user message "hi" wait=false
		5 user recall workspace_context
		6 env obs agent_state_changed running
		7 env obs recall workspace_context (cause 5)`)
	early := &log{greets: true} // the user was faster than the start
	early.says("user", "hi")
	early.prompt()
	early.status(conversation.Running)
	want(t, early, `0 env obs agent_state_changed loading
		1 user message "hi" wait=false
		2 agent system
		3 env change_agent_state running
		4 user recall workspace_context
		5 env obs agent_state_changed running
		6 env obs recall workspace_context (cause 4)`)
}

// TestLife: a session that was stopped and started; its state is the same after it was
// restored, and its events carry their own times.
func TestLife(t *testing.T) {
	l := running()
	l.says("agent", "done")
	l.status(conversation.Finished)
	at := time.Date(2031, 5, 6, 7, 8, 9, 123456000, time.UTC)
	var s, restored projection.State
	parts := [][]projection.Derived{s.Open()}
	if s.Halt(at); s.NextID != 2 {
		t.Error("a session that only loads can be stopped")
	}
	s = projection.State{}
	s.Open()
	for i, p := range l.events {
		parts = append(parts, s.Step(int64(i), p, projection.Nothing))
	}
	life := append(s.Halt(at), s.Halt(at)...)
	life = append(life, s.Revive(at.Add(time.Second))...)
	parts[len(parts)-1] = append(parts[len(parts)-1], life...)
	restored.Replay(-1, nil, parts[0])
	for i, p := range l.events {
		stored := make([]projection.Derived, len(parts[i+1]))
		for k, d := range parts[i+1] {
			stored[k] = projection.FromPart(d.Part())
		}
		restored.Replay(int64(i), p, stored)
	}
	if restored.NextID != s.NextID {
		t.Errorf("%d, was %d", restored.NextID, s.NextID)
	}
	next := &conversation.Condensation{Header: conversation.Header{ID: "c"}, ForgottenIDs: []string{conversation.HeaderOf(l.events[3]).ID}}
	if a, b := s.Step(9, next, projection.Nothing), restored.Step(9, next, projection.Nothing); !cmp.Equal(a, b) {
		t.Errorf("%v, after the restart %v", a, b)
	}
	var got []string
	for i, d := range life {
		e := projection.Render(projection.Input{ID: int64(i), Derived: projection.FromPart(d.Part()), Payload: l.events[4], Seq: 4})
		raw, _ := json.Marshal(e)
		got = append(got, string(raw))
	}
	want := []string{
		`{"id":0,"timestamp":"2031-05-06T07:08:09.123456","source":"environment","message":"","observation":"agent_state_changed","content":"","extras":{"agent_state":"stopped","reason":""}}`,
		`{"id":1,"timestamp":"2031-05-06T07:08:10.123456","source":"environment","message":"","observation":"agent_state_changed","content":"","extras":{"agent_state":"loading","reason":""}}`,
		`{"id":2,"timestamp":"2031-05-06T07:08:10.123456","source":"environment","message":"Agent state changed to awaiting_user_input","action":"change_agent_state","args":{"agent_state":"awaiting_user_input","thought":""}}`,
		`{"id":3,"timestamp":"2031-05-06T07:08:10.123456","source":"environment","message":"","observation":"agent_state_changed","content":"","extras":{"agent_state":"awaiting_user_input","reason":""}}`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestTasks: the agent's list of tasks has a form of its own.
func TestTasks(t *testing.T) {
	for action, want := range map[string]string{
		`{"kind":"TaskTrackerAction","command":"plan","task_list":[{"title":"x","notes":"","status":"todo"}]}`: `Managing 1 task item. {"command":"plan","task_list":[{"id":"1","title":"x","status":"todo"}],"thought":"t"}`,
		`{"kind":"TaskTrackerAction","command":"plan","task_list":[{"title":"x","notes":"n","status":"done"},{"title":"y","status":"todo"}]}`: `Managing 2 task items. {"command":"plan","task_list":[{"id":"1","title":"x","status":"done","notes":"n"},` +
			`{"id":"2","title":"y","status":"todo"}],"thought":"t"}`,
		`{"kind":"TaskTrackerAction","command":"view"}`: `Clearing the task list. {"command":"view","task_list":[],"thought":"t"}`,
	} {
		l := running()
		a := l.calls("task_tracker", action, "t")
		l.observes(a, "task_tracker", `{"kind":"TaskTrackerObservation","content":[{"type":"text","text":"r"}],"is_error":false,"command":"plan","task_list":[{"title":"x","notes":"","status":"todo"}]}`)
		events := l.project()
		e, o := events[len(events)-2], events[len(events)-1]
		args, _ := json.Marshal(e.Args)
		extras, _ := json.Marshal(o.Extras)
		if got := e.Message + " " + string(args); e.Action != "task_tracking" || got != want {
			t.Errorf("%s", got)
		}
		if o.Observation != "task_tracking" || o.Message != "r" || *o.Content != "r" || string(extras) != `{"command":"plan","task_list":[{"id":"1","title":"x","status":"todo"}]}` {
			t.Errorf("%+v %s", o, extras)
		}
	}
}
