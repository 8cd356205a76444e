package projection_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"parley/internal/api/v0/projection"
	"parley/internal/content"
	"parley/internal/conversation"
)

// hooks adds the run of a hook.
func (l *log) hooks(h conversation.HookExecutionEvent) {
	l.add(&h, conversation.KindHookExecution, conversation.SourceHook)
}

// activates adds a message that brought skills in, with what a hook said besides.
func (l *log) activates(source, text string, skills ...string) {
	m := &conversation.MessageEvent{LLMMessage: conversation.LLMMessage{Role: "user", Content: []content.Part{content.Text(text)}}, ActivatedSkills: skills}
	for _, name := range skills {
		m.ExtendedContent = append(m.ExtendedContent, content.Text("how to "+name))
	}
	m.ExtendedContent = append(m.ExtendedContent, content.Text("a hook says so"))
	if source == conversation.SourceEnvironment {
		m.LLMMessage.Content, m.ExtendedContent = m.ExtendedContent, nil
	}
	l.add(m, conversation.KindMessage, source)
}

// What a hook refuses was no decision of the user's: it is an error with its reason.
func TestCallThatAHookBlocksFails(t *testing.T) {
	l := running()
	a := l.runs("ls", "")
	l.hooks(conversation.HookExecutionEvent{EventType: "PreToolUse", Command: "guard.sh", Blocked: true, Reason: "no", ActionID: a})
	l.rejects(a, "hook")
	tail(t, l, 8, `8 agent obs error "A hook did not let the action run: no" (cause 7)`)
}

// A confirmed batch whose first call a hook blocks goes on.
func TestConfirmedCallThatAHookBlocks(t *testing.T) {
	l := running()
	a := l.runs("ls", "")
	l.status(conversation.WaitingConfirmation)
	l.status(conversation.Running)
	l.rejects(a, "hook")
	events := l.project()
	last := events[len(events)-1]
	if last.Observation != "agent_state_changed" || !strings.Contains(plain(t, last.Extras), "running") {
		t.Errorf("%s", brief(events))
	}
}

func TestMessageThatAHookBlocks(t *testing.T) {
	l := running()
	l.says("agent", "done")
	l.status(conversation.Finished)
	first := len(l.project())
	id := "e" + string(rune('0'+len(l.events)+1))
	l.hooks(conversation.HookExecutionEvent{EventType: "UserPromptSubmit", Command: "guard.sh", Blocked: true, Reason: "rude", MessageID: id})
	l.says("user", "do it, idiot")
	l.status(conversation.Running)
	l.status(conversation.Finished)
	events := l.project()[first:]
	if got := brief(events); !strings.Contains(got, `agent obs error "A hook did not let the message through: rude"`) || strings.Contains(got, "recall") {
		t.Error(got)
	}
	if events[0].Action != "message" || events[1].Observation != "error" {
		t.Error(brief(events))
	}
}

// Of a message from before the start was through the hook speaks later.
func TestEarlyMessageThatAHookBlocks(t *testing.T) {
	var l log
	l.says("user", "do it")
	l.prompt()
	l.hooks(conversation.HookExecutionEvent{EventType: "UserPromptSubmit", Blocked: true, MessageID: "e0"})
	l.status(conversation.Running)
	l.status(conversation.Finished)
	if got := brief(l.project()); strings.Count(got, `obs error "A hook did not let the message through."`) != 1 {
		t.Error(got)
	}
}

func TestActivatedSkillsAnswerTheRecall(t *testing.T) {
	for _, c := range []struct {
		name, source string
		runs         bool // a run takes the message up
	}{{"of a message", "user", true}, {"of a message before the start was through", "environment", false}} {
		t.Run(c.name, func(t *testing.T) {
			l := running()
			l.says("agent", "done")
			l.status(conversation.Finished)
			l.activates(c.source, "use git", "git", "go")
			if c.runs {
				l.status(conversation.Running)
			}
			events := l.project()
			last := events[len(events)-1]
			got := plain(t, last.Extras)
			if last.Observation != "recall" || !strings.Contains(got, `"recall_type":"knowledge"`) ||
				!strings.Contains(got, `"microagent_knowledge":[{"name":"git","trigger":"","content":"how to git"},{"name":"go","trigger":"","content":"how to go"}]`) {
				t.Error(last.Observation, got)
			}
		})
	}
}

// Tools of MCP servers answer with the JSON of such servers (legacy API 4).
func TestToolsOfServers(t *testing.T) {
	l := running()
	a := l.calls("fetch", `{"kind":"MCPToolAction","data":{"url":"http://x"}}`, "")
	l.observes(a, "fetch", `{"kind":"MCPToolObservation","content":[{"type":"text","text":"<b>"},{"type":"image","image_urls":["data:x"]}],"is_error":true,"tool_name":"fetch"}`)
	events := l.project()[7:]
	if call := events[0]; call.Action != "call_tool_mcp" || plain(t, call.Args) != `{"name":"fetch","arguments":{"url":"http://x"},"thought":"","security_risk":0}` {
		t.Error(call.Action, plain(t, call.Args))
	}
	result := events[1]
	const want = `{"content":[{"type":"text","text":"<b>"},{"type":"text","text":"[image]"}],"isError":true}`
	if result.Observation != "mcp" || *result.Content != want || result.Message != want || plain(t, result.Extras) != `{"arguments":{"url":"http://x"},"name":"fetch"}` {
		t.Error(result.Observation, *result.Content, plain(t, result.Extras))
	}
}

// legacyNames are what clients know (legacy API 9.2 and 9.3).
var legacyNames = strings.Fields("message system run run_ipython read write edit browse browse_interactive call_tool_mcp think finish reject delegate " +
	"recall change_agent_state condensation condensation_request task_tracking loop_recovery null " +
	"mcp agent_state_changed error user_rejected condense success download loop_detection")

// Whatever skills, hooks, servers and sub-agents do, clients see no name that they do
// not know, and every event has one.
func TestExtensionsHaveLegacyNames(t *testing.T) {
	l := running()
	l.hooks(conversation.HookExecutionEvent{EventType: "SessionStart", Success: true, Context: "x"})
	l.activates("user", "use git", "git")
	for tool, kinds := range map[string][2]string{"invoke_skill": {"InvokeSkillAction", "InvokeSkillObservation"},
		"task": {"TaskAction", "TaskObservation"}, "fetch": {"MCPToolAction", "MCPToolObservation"}} {
		a := l.calls(tool, `{"kind":"`+kinds[0]+`","name":"x"}`, "")
		l.hooks(conversation.HookExecutionEvent{EventType: "PreToolUse", Success: true, ActionID: a})
		l.observes(a, tool, `{"kind":"`+kinds[1]+`","content":[{"type":"text","text":"t"}]}`)
		l.hooks(conversation.HookExecutionEvent{EventType: "PostToolUse", Success: false, ActionID: a})
	}
	notes, err := json.Marshal(conversation.AgentNotes{Questions: []conversation.TrustQuestion{{Subject: "repository r", Hash: "h", Runs: []string{"hook x"}}},
		Servers: []conversation.ServerNote{{Name: "s", State: "failed"}}, Tasks: []conversation.TaskNote{{ID: "task_00000001"}}})
	if err != nil {
		t.Fatal(err)
	}
	before := len(l.project())
	l.add(&conversation.StateUpdateEvent{Key: conversation.KeyAgentState, Value: notes}, conversation.KindStateUpdate, "environment")
	events := l.project()
	if len(events) != before {
		t.Errorf("notes are shown: %s", brief(events[before:]))
	}
	for _, e := range events {
		if !slices.Contains(legacyNames, e.Action+e.Observation) {
			t.Errorf("%q is no name that clients know", e.Action+e.Observation)
		}
	}
}

// A restarted server derives the same.
func TestBlockedMessageAcrossARestart(t *testing.T) {
	l := running()
	l.status(conversation.Finished)
	hook := &conversation.HookExecutionEvent{EventType: "UserPromptSubmit", Blocked: true, MessageID: "m"}
	said := &conversation.MessageEvent{Header: conversation.Header{ID: "m", Source: "user"}}
	var s, restarted projection.State
	rows := l.number()
	for _, r := range rows {
		var p conversation.Payload
		if r.seq >= 0 {
			p = l.events[r.seq]
		}
		restarted.Replay(r.seq, p, []projection.Derived{r.derived})
		s.Replay(r.seq, p, []projection.Derived{r.derived})
	}
	seq := int64(len(l.events))
	s.Step(seq, hook, projection.Nothing)
	restarted.Replay(seq, hook, nil)
	want, got := s.Step(seq+1, said, projection.Nothing), restarted.Step(seq+1, said, projection.Nothing)
	if len(want) != 2 || !slices.Equal(want, got) || want[1] != (projection.Derived{Recipe: projection.MessageBlocked, Arg: 1}) {
		t.Errorf("%v, after the restart %v", want, got)
	}
}
