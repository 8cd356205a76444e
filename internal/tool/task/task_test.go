package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"parley/internal/content"
	"parley/internal/fault"
	"parley/internal/tool"
	"parley/internal/tool/task"
)

// agents answer every task in one way and keep what they were asked.
type agents struct {
	done tool.Delegated
	err  error
	got  tool.Delegation
}

func (a *agents) Delegate(_ context.Context, d tool.Delegation) (tool.Delegated, error) {
	a.got = d
	return a.done, a.err
}

func perform(t *testing.T, env *tool.Env, args string) (tool.Result, error) {
	t.Helper()
	s := task.New()
	action, err := s.Parse(json.RawMessage(args))
	if err != nil {
		t.Fatal(err)
	}
	return s.Run(t.Context(), env, action)
}

func TestWhatTheSubAgentIsTold(t *testing.T) {
	for _, c := range []struct {
		name, args string
		want       tool.Delegation
	}{
		{"the general one where none is named", `{"prompt":"Find it"}`,
			tool.Delegation{CallID: "call-1", Prompt: "Find it", Agent: "general-purpose"}},
		{"all members", `{"prompt":"Find it","description":" find\n it ","subagent_type":" code-explorer ","resume":" task_00000007 "}`,
			tool.Delegation{CallID: "call-1", Prompt: "Find it", Description: "find it", Agent: "code-explorer", Resume: "task_00000007"}},
		{"null is absent", `{"prompt":"Find it","description":null,"subagent_type":null,"resume":null}`,
			tool.Delegation{CallID: "call-1", Prompt: "Find it", Agent: "general-purpose"}},
	} {
		a := &agents{done: tool.Delegated{TaskID: "task_00000001", Agent: "x", Answer: "done"}}
		if _, err := perform(t, &tool.Env{Agents: a, CallID: "call-1"}, c.args); err != nil || a.got != c.want {
			t.Errorf("%s: %+v %v", c.name, a.got, err)
		}
	}
}

func TestWhatTheModelReads(t *testing.T) {
	unknown := fault.New(fault.NotFound, "agent_not_found", "There is no agent %q.", "x").WithHint("The agents are: a, b.")
	for _, c := range []struct {
		name    string
		agents  agents
		members string
		parts   []string
	}{
		{"the last words", agents{done: tool.Delegated{TaskID: "task_00000001", Agent: "bash-runner", Answer: "It is in a.go."}},
			`"is_error":false,"task_id":"task_00000001","subagent":"bash-runner","status":"completed","kind":"TaskObservation"}`, []string{"It is in a.go."}},
		{"how to ask one that said nothing", agents{done: tool.Delegated{TaskID: "task_00000001", Agent: "a", Answer: " \n"}},
			`"is_error":false,"task_id":"task_00000001","subagent":"a","status":"completed","kind":"TaskObservation"}`, []string{"without a word", `resume="task_00000001"`}},
		{"why it failed and how to go on", agents{done: tool.Delegated{TaskID: "task_00000002", Agent: "a", Failed: true, Answer: "The budget is spent."}},
			`"is_error":true,"task_id":"task_00000002","subagent":"a","status":"error","kind":"TaskObservation"}`, []string{"The budget is spent.", `resume="task_00000002"`}},
		{"a failure without a reason", agents{done: tool.Delegated{TaskID: "task_00000002", Agent: "a", Failed: true}},
			`"is_error":true,"task_id":"task_00000002","subagent":"a","status":"error","kind":"TaskObservation"}`, []string{"No reason is known"}},
		{"which kinds there are", agents{err: unknown},
			`"is_error":true,"task_id":"task_00000009","subagent":"x","status":"error","kind":"TaskObservation"}`, []string{`"x"`, "a, b"}},
	} {
		r, err := perform(t, &tool.Env{Agents: &c.agents}, `{"prompt":"p","subagent_type":"x","resume":"task_00000009"}`)
		if err != nil || !strings.HasSuffix(string(r.Observation), c.members) || r.IsError != strings.Contains(c.members, `"is_error":true`) {
			t.Errorf("%s: %s %v", c.name, r.Observation, err)
		}
		for _, part := range c.parts {
			if !strings.Contains(content.JoinText(r.Parts), part) {
				t.Errorf("%s: %q is missing in %s", c.name, part, r.Observation)
			}
		}
	}
}

func TestLongAnswerIsMaskedBeforeItIsCut(t *testing.T) {
	const secret = "s3cr3t-value"
	answer := strings.Repeat("a", 30_000-5) + secret + strings.Repeat("b", 30_000)
	env := &tool.Env{Agents: &agents{done: tool.Delegated{TaskID: "t", Agent: "a", Answer: answer}},
		Mask: func(text string) string { return strings.ReplaceAll(text, secret, "<secret-hidden>") }}
	r, err := perform(t, env, `{"prompt":"p"}`)
	text := content.JoinText(r.Parts)
	if err != nil || strings.Contains(text, secret[:5]) || len(text) > 31_000 || !strings.Contains(text, "The answer goes on") {
		t.Errorf("%d characters, ends in %q: %v", len(text), text[len(text)-120:], err)
	}
}

func TestFails(t *testing.T) {
	if _, err := perform(t, &tool.Env{}, `{"prompt":"p"}`); !fault.Is(err, fault.Unsupported) {
		t.Errorf("without agents: %v", err)
	}
	for _, cause := range []error{tool.ErrDetach, fault.New(fault.Unavailable, "store_down", "The store is down.")} {
		if _, err := perform(t, &tool.Env{Agents: &agents{err: cause}}, `{"prompt":"p"}`); !errors.Is(err, cause) {
			t.Errorf("%v became %v", cause, err)
		}
	}
	long := strings.Repeat("x", 201)
	for _, args := range []string{`{}`, `{"prompt":" "}`, `{"prompt":{}}`, `{"prompt":"` + strings.Repeat("x", 100_001) + `"}`,
		`{"prompt":"p","description":"` + long + `"}`, `{"prompt":"p","subagent_type":"` + long + `"}`, `{"prompt":"p","resume":"` + long + `"}`} {
		if _, err := task.New().Parse(json.RawMessage(args)); !fault.Is(err, fault.Invalid) {
			t.Errorf("%.60s: %v", args, err)
		}
	}
}

func TestSpec(t *testing.T) {
	s := task.New()
	spec := s.Spec()
	if spec.Name != "task" || spec.Kind != "TaskTool" || spec.ActionKind != "TaskAction" || spec.ObservationKind != "TaskObservation" ||
		spec.ReadOnly || !spec.NoHands || !strings.Contains(string(spec.Parameters), `"required":["prompt"]`) {
		t.Errorf("spec %+v", spec)
	}
	action, err := s.Parse(json.RawMessage(`{"prompt":"p"}`))
	if err != nil {
		t.Fatal(err)
	}
	if c := s.Claims(action); tool.Conflict(c, c) || tool.Conflict(c, []tool.Claim{{Write: true}}) {
		t.Errorf("two tasks wait for each other: %v", c)
	}
}
