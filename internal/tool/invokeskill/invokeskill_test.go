package invokeskill_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"parley/internal/content"
	"parley/internal/fault"
	"parley/internal/tool"
	"parley/internal/tool/invokeskill"
)

// skills are those of a conversation.
type skills struct {
	known map[string]string
	err   error
}

func (s skills) Open(_ context.Context, name string) (string, error) {
	if s.err != nil {
		return "", s.err
	}
	text, ok := s.known[name]
	if !ok {
		return "", fault.New(fault.NotFound, "skill_not_found", "There is no skill %q.", name).WithHint("The skills are: pdf, review.")
	}
	return text, nil
}

func TestInvoke(t *testing.T) {
	env := &tool.Env{Skills: skills{known: map[string]string{"pdf": "How to make a <b>PDF</b>."}}}
	s := invokeskill.New()
	for _, c := range []struct {
		args, observation string
		parts             []string
		isError           bool
	}{
		{`{"name":" pdf "}`, `"is_error":false,"skill_name":"pdf","kind":"InvokeSkillObservation"}`, []string{"How to make a <b>PDF</b>."}, false},
		{`{"name":"pfd"}`, `"is_error":true,"skill_name":"pfd","kind":"InvokeSkillObservation"}`, []string{`"pfd"`, "pdf, review"}, true},
	} {
		action, err := s.Parse(json.RawMessage(c.args))
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Run(t.Context(), env, action)
		if err != nil || r.IsError != c.isError || !strings.HasSuffix(string(r.Observation), c.observation) {
			t.Errorf("%s: %s %v", c.args, r.Observation, err)
		}
		for _, part := range c.parts {
			if !strings.Contains(content.JoinText(r.Parts), part) {
				t.Errorf("%q is missing in %s", part, r.Observation)
			}
		}
	}
}

func TestFails(t *testing.T) {
	s := invokeskill.New()
	action, err := s.Parse(json.RawMessage(`{"name":"a"}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(t.Context(), &tool.Env{}, action); !fault.Is(err, fault.Unsupported) {
		t.Errorf("error %v", err)
	}
	down := fault.New(fault.Unavailable, "sandbox_down", "The sandbox is down.")
	if _, err := s.Run(t.Context(), &tool.Env{Skills: skills{err: down}}, action); !errors.Is(err, down) {
		t.Errorf("error %v", err)
	}
	for _, args := range []string{`{}`, `{"name":""}`, `{"name":" "}`, `{"name":null}`, `{"name":{}}`} {
		if _, err := s.Parse(json.RawMessage(args)); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestSpec(t *testing.T) {
	s := invokeskill.New()
	spec := s.Spec()
	if spec.Name != "invoke_skill" || spec.Kind != "InvokeSkillTool" || spec.ActionKind != "InvokeSkillAction" ||
		spec.ObservationKind != "InvokeSkillObservation" || !spec.ReadOnly || !spec.NoHands ||
		!strings.Contains(string(spec.Parameters), `"required":["name"]`) {
		t.Errorf("spec %+v", spec)
	}
	action, err := s.Parse(json.RawMessage(`{"name":"pdf"}`))
	if err != nil || string(action) != `{"name":"pdf","kind":"InvokeSkillAction"}` {
		t.Fatalf("action %s %v", action, err)
	}
	claims := s.Claims(action)
	if tool.Conflict(claims, claims) || tool.Conflict(claims, []tool.Claim{tool.ClaimFile("/", true)}) {
		t.Error("reading a skill blocks others")
	}
}
