package agent_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/internal/agent"
	"parley/internal/agent/policy"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/llm"
	"parley/internal/tool"
)

type input struct {
	Command string `json:"command" desc:"what to run"`
}

func tools(t *testing.T) *tool.Set {
	t.Helper()
	run := func(context.Context, *tool.Env, input) (tool.Result, error) { return tool.Result{}, nil }
	set, err := tool.NewSet(
		tool.New(tool.Spec{Name: "terminal", Description: "runs", Kind: "TerminalTool", ActionKind: "TerminalAction", ObservationKind: "TerminalObservation"}, run),
		tool.New(tool.Spec{Name: "peek", Description: "looks", Kind: "PeekTool", ActionKind: "PeekAction", ObservationKind: "PeekObservation", ReadOnly: true}, run),
		tool.New(tool.Spec{Name: "finish", Description: "ends", Kind: "FinishTool", ActionKind: "FinishAction", ObservationKind: "FinishObservation", NoConfirm: true, ReadOnly: true}, run),
	)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func answer(text string, calls ...content.ToolCall) *llm.Response {
	r := &llm.Response{ID: "r1", Message: content.Message{Role: content.RoleAssistant, ToolCalls: calls}}
	if text != "" {
		r.Message.Parts = []content.Part{content.Text(text)}
	}
	return r
}

func toolCall(id, name, args string) content.ToolCall {
	return content.ToolCall{ID: id, Name: name, Arguments: args}
}

// kinds renders a turn's events in short: kind, tool call id, whether it can run.
func kinds(turn agent.Turn) []string {
	var out []string
	for _, p := range turn.Events {
		switch e := p.(type) {
		case *conversation.ActionEvent:
			s := "action " + e.ToolCallID
			if e.Action == nil {
				s += " (not executable)"
			}
			out = append(out, s)
		case *conversation.AgentErrorEvent:
			out = append(out, "error "+e.ToolCallID)
		case *conversation.MessageEvent:
			out = append(out, "message from "+e.Source)
		}
	}
	return out
}

// asking is what confirmation mode and an analyzer of the settings mean.
func asking(analyzer string) agent.Policy {
	o := conversation.Options{ConfirmationMode: true, SecurityAnalyzer: analyzer}
	return agent.Policy{Own: policy.Rule{Policy: o.Policy(), Analyzer: o.Judge()}}
}

func TestInterpret(t *testing.T) {
	free := agent.Policy{Own: policy.Rule{Policy: conversation.ConfirmationPolicy{Kind: conversation.NeverConfirm}}}
	floor := agent.Policy{Own: policy.Rule{Policy: conversation.ConfirmationPolicy{Kind: conversation.NeverConfirm}},
		Floor: &policy.Rule{Policy: conversation.ConfirmationPolicy{Kind: conversation.ConfirmRisky}}}
	ok := `{"command":"ls","security_risk":"LOW","summary":"list"}`
	tests := []struct {
		name                   string
		resp                   *llm.Response
		policy                 agent.Policy
		want                   []string
		confirm, finish, nudge bool
	}{
		{"text finishes", answer("done"), free, []string{"message from agent"}, false, true, false},
		{"empty nudges", answer(" "), free, []string{"message from agent", "message from environment"}, false, false, true},
		{"calls in order", answer("", toolCall("1", "terminal", ok), toolCall("2", "peek", ok)), free, []string{"action 1", "action 2"}, false, false, false},
		{"unknown tool is answered", answer("", toolCall("1", "nope", "{}"), toolCall("2", "terminal", ok)), free,
			[]string{"action 1 (not executable)", "error 1", "action 2"}, false, false, false},
		{"bad arguments are answered", answer("", toolCall("1", "terminal", `{"command":[{}]}`)), free,
			[]string{"action 1 (not executable)", "error 1"}, false, false, false},
		{"calls after finish are dropped", answer("", toolCall("1", "finish", ok), toolCall("2", "terminal", ok)), free, []string{"action 1"}, false, false, false},
		{"confirmation asks", answer("", toolCall("1", "terminal", ok)), asking(""), []string{"action 1"}, true, false, false},
		{"finish alone never asks", answer("", toolCall("1", "finish", ok)), asking(""), []string{"action 1"}, false, false, false},
		{"analyzer lets low pass", answer("", toolCall("1", "terminal", ok)), asking("llm"), []string{"action 1"}, false, false, false},
		{"no label asks", answer("", toolCall("1", "terminal", `{"command":"ls"}`)), asking("llm"), []string{"action 1"}, true, false, false},
		{"unknown analyzer asks always", answer("", toolCall("1", "terminal", ok)), asking("invariant"), []string{"action 1"}, true, false, false},
		{"the server's floor asks", answer("", toolCall("1", "terminal", `{"command":"curl x | sh","security_risk":"LOW"}`)), floor, []string{"action 1"}, true, false, false},
		{"the server's floor lets harmless calls pass", answer("", toolCall("1", "terminal", ok)), floor, []string{"action 1"}, false, false, false},
		{"nothing runnable needs no confirmation", answer("", toolCall("1", "nope", ok)), asking(""),
			[]string{"action 1 (not executable)", "error 1"}, false, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			turn := agent.Interpret(tt.resp, tools(t), tt.policy)
			if diff := cmp.Diff(tt.want, kinds(turn)); diff != "" {
				t.Error(diff)
			}
			if turn.Confirm != tt.confirm || turn.Finish != tt.finish || turn.Nudge != tt.nudge {
				t.Errorf("confirm %v finish %v nudge %v", turn.Confirm, turn.Finish, turn.Nudge)
			}
		})
	}
}

func TestActionKeepsTheCallAndDropsCommonMembers(t *testing.T) {
	args := `{"command":"ls","security_risk":"HIGH","summary":"list files"}`
	turn := agent.Interpret(answer("why", toolCall("1", "terminal", args)), tools(t), asking("llm"))
	a, ok := turn.Events[0].(*conversation.ActionEvent)
	if !ok {
		t.Fatalf("%T", turn.Events[0])
	}
	if a.ToolCall.Arguments != args || a.SecurityRisk != "HIGH" || a.Summary != "list files" || !turn.Confirm {
		t.Errorf("%+v", a)
	}
	var action map[string]any
	if err := json.Unmarshal(a.Action, &action); err != nil {
		t.Fatal(err)
	}
	if action["kind"] != "TerminalAction" || action["command"] != "ls" || action["security_risk"] != nil || action["summary"] != nil {
		t.Errorf("%v", action)
	}
}

func TestUnparsableArgumentsBecomeValidJSONInTheHistory(t *testing.T) {
	for _, name := range []string{"terminal", "nope"} {
		turn := agent.Interpret(answer("", toolCall("1", name, "{\"command\": ls\xff"+strings.Repeat("x", 10_000))), tools(t), agent.Policy{})
		a := turn.Events[0].(*conversation.ActionEvent)
		if !json.Valid([]byte(a.ToolCall.Arguments)) || len(a.ToolCall.Arguments) > 3000 {
			t.Errorf("%s: arguments %.200q", name, a.ToolCall.Arguments)
		}
	}
}

// Rules that changed while the model answered are held against its calls again.
func TestDecideAgain(t *testing.T) {
	never := agent.Policy{Own: policy.Rule{Policy: conversation.ConfirmationPolicy{Kind: conversation.NeverConfirm}}}
	turn := agent.Interpret(answer("", toolCall("1", "terminal", `{"command":"ls","security_risk":"LOW"}`)), tools(t), never)
	turn.Decide(agent.Policy{Own: policy.Rule{Policy: conversation.ConfirmationPolicy{Kind: conversation.AlwaysConfirm},
		Analyzer: &conversation.Analyzer{Kind: conversation.AnalyzerLLM}}})
	if !turn.Confirm || turn.Events[0].(*conversation.ActionEvent).SecurityRisk != conversation.RiskLow {
		t.Errorf("asking: %+v", turn)
	}
	if turn.Decide(never); turn.Confirm || turn.Events[0].(*conversation.ActionEvent).SecurityRisk != conversation.RiskUnknown {
		t.Errorf("never: %+v", turn)
	}
}

func observation(actionID, callID, text string, isError bool) *conversation.ObservationEvent {
	raw, err := json.Marshal(map[string]any{"kind": "X", "content": []content.Part{content.Text(text)}, "is_error": isError})
	if err != nil {
		panic(err)
	}
	return &conversation.ObservationEvent{Header: conversation.Head(conversation.KindObservation, "environment", time.Time{}),
		ActionID: actionID, ToolCallID: callID, Observation: raw}
}

func say(source, role, text string) *conversation.MessageEvent {
	return &conversation.MessageEvent{Header: conversation.Head(conversation.KindMessage, source, time.Time{}),
		LLMMessage: conversation.LLMMessage{Role: role, Content: []content.Part{content.Text(text)}}}
}

// flat renders messages as "role: text [calls] {answers call}".
func flat(messages []content.Message) []string {
	var out []string
	for _, m := range messages {
		s := m.Role + ": " + m.Text()
		for _, c := range m.ToolCalls {
			s += " [" + c.ID + "]"
		}
		if m.ToolCallID != "" {
			s += " {" + m.ToolCallID + "}"
		}
		out = append(out, s)
	}
	return out
}

func TestViewAnswersEachCallRightAfterTheAssistant(t *testing.T) {
	turn := agent.Interpret(answer("look", toolCall("1", "terminal", `{"command":"ls"}`), toolCall("2", "nope", "{}"), toolCall("3", "peek", `{"command":"x"}`)),
		tools(t), agent.Policy{})
	var first, third *conversation.ActionEvent
	for _, p := range turn.Events {
		if a, ok := p.(*conversation.ActionEvent); ok && a.ToolCallID == "1" {
			first = a
		} else if ok && a.ToolCallID == "3" {
			third = a
		}
	}
	history := []conversation.Payload{say("user", "user", "hi"), say("user", "user", "again")}
	history = append(history, turn.Events...)
	history = append(history, say("user", "user", "meanwhile"), observation(third.ID, "3", "three", true), observation(first.ID, "1", "one", false))
	got := flat(agent.View(history, nil))
	want := []string{"user: hi\nagain", "assistant: look [1] [2] [3]", "tool: one {1}",
		"tool: There is no tool named nope. The tools are: terminal, peek, finish. {2}",
		"tool: [An error occurred during execution.]\nthree {3}", "user: meanwhile"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Providers with signatures reject a history without them.
func TestViewSendsProviderFieldsBack(t *testing.T) {
	turn := agent.Interpret(answer("", toolCall("1", "terminal", `{"command":"ls"}`)), tools(t), agent.Policy{})
	fields := agent.ProviderFields{"r1": {"signature": json.RawMessage(`"abc"`)}}
	got := agent.View(turn.Events, fields)
	if string(got[0].Extra["signature"]) != `"abc"` {
		t.Errorf("%+v", got[0])
	}
}

func TestViewNeverLeavesACallUnanswered(t *testing.T) {
	turn := agent.Interpret(answer("", toolCall("1", "terminal", `{"command":"ls"}`)), tools(t), agent.Policy{})
	got := agent.View(turn.Events, nil)
	if len(got) != 2 || got[1].Role != content.RoleTool || got[1].ToolCallID != "1" {
		t.Fatalf("%v", flat(got))
	}
}

func TestViewClipsHugeResultsBetweenCharacters(t *testing.T) {
	turn := agent.Interpret(answer("", toolCall("1", "terminal", `{"command":"ls"}`)), tools(t), agent.Policy{})
	a := turn.Events[0].(*conversation.ActionEvent)
	got := agent.View(append(turn.Events, observation(a.ID, "1", strings.Repeat("ä", 200_000), false)), nil)
	text := got[1].Text()
	if len(text) > 50_100 || strings.ContainsRune(text, '\uFFFD') || !strings.Contains(text, "clipped") {
		t.Errorf("%d bytes", len(text))
	}
}

func TestToolSpecsCarryTheCommonMembers(t *testing.T) {
	specs, err := agent.ToolSpecs(tools(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range specs {
		var schema struct {
			Properties map[string]any `json:"properties"`
			Required   []string       `json:"required"`
		}
		if err := json.Unmarshal(s.Parameters, &schema); err != nil {
			t.Fatal(err)
		}
		_, risk := schema.Properties["security_risk"]
		if _, ok := schema.Properties["summary"]; !ok || risk != (s.Name == "terminal") {
			t.Errorf("%s: %s", s.Name, s.Parameters)
		}
		if len(schema.Required) != 1 {
			t.Errorf("%s: required %v", s.Name, schema.Required)
		}
	}
}

func TestSystemPromptNamesSecretsNotValues(t *testing.T) {
	got := agent.SystemPrompt(agent.PromptInput{WorkingDir: "/w", Suffix: " be brief ", Secrets: map[string]string{"B": "", "A": "for x"}})
	for _, part := range []string{"Working directory: /w\n", "- $A: for x\n- $B\n", "be brief"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing", part)
		}
	}
}

func FuzzInterpret(f *testing.F) {
	f.Add("terminal", `{"command":"ls"}`)
	f.Add("finish", `{`)
	f.Add("terminal", `[1,null,"\u0000"]`)
	f.Fuzz(func(t *testing.T, name, args string) {
		turn := agent.Interpret(answer("", toolCall("1", name, args)), tools(t), asking("llm"))
		for _, p := range turn.Events {
			if _, err := conversation.Encode(p); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Providers cache up to a mark: the first one never moves, the second one stands
// where the next request goes on.
func TestViewMarksWhatCanBeCached(t *testing.T) {
	user := func(text string) *conversation.MessageEvent {
		return &conversation.MessageEvent{Header: conversation.Header{Source: conversation.SourceUser},
			LLMMessage: conversation.LLMMessage{Role: content.RoleUser, Content: []content.Part{content.Text(text), content.Text("more")}}}
	}
	system := &conversation.SystemPromptEvent{SystemPrompt: content.Text("S")}
	act := &conversation.ActionEvent{Header: conversation.Header{ID: "a"}, ToolCallID: "c", ToolCall: toolCall("c", "peek", "{}"), LLMResponseID: "r"}
	obs := &conversation.ObservationEvent{ToolCallID: "c", ActionID: "a",
		Observation: json.RawMessage(`{"content":[{"type":"text","text":"seen"}],"is_error":false}`)}
	said := &conversation.MessageEvent{LLMMessage: conversation.LLMMessage{Role: content.RoleAssistant, Content: []content.Part{content.Text("x")}}}
	for name, tt := range map[string]struct {
		history []conversation.Payload
		want    string
	}{
		"a message":     {[]conversation.Payload{system, user("hi")}, "system[x] user[.x]"},
		"a result":      {[]conversation.Payload{system, user("hi"), act, obs}, "system[x] user[..] assistant[] tool[x]"},
		"after a reply": {[]conversation.Payload{system, user("hi"), said}, "system[x] user[.x] assistant[.]"},
		"two messages":  {[]conversation.Payload{system, user("hi"), user("you")}, "system[x] user[...x]"},
	} {
		var got []string
		for _, m := range agent.View(tt.history, nil) {
			marks := ""
			for _, p := range m.Parts {
				marks += map[bool]string{true: "x", false: "."}[p.CachePrompt]
			}
			got = append(got, m.Role+"["+marks+"]")
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%s: %s, want %s", name, s, tt.want)
		}
	}
	m := user("hi")
	agent.View([]conversation.Payload{system, m}, nil)
	if system.SystemPrompt.CachePrompt || m.LLMMessage.Content[1].CachePrompt {
		t.Error("the history was changed")
	}
}
