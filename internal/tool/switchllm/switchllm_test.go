package switchllm_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"parley/internal/content"
	"parley/internal/fault"
	"parley/internal/tool"
	"parley/internal/tool/switchllm"
)

// models are the profiles of a user.
type models struct {
	known map[string]string
	err   error
	at    string
}

func (m *models) Switch(_ context.Context, profile string) (string, error) {
	if m.err != nil {
		return "", m.err
	}
	model, ok := m.known[profile]
	if !ok {
		return "", fault.New(fault.NotFound, "profile_not_found", "There is no profile %q.", profile).WithHint("The profiles are: fast, big.")
	}
	m.at = profile
	return model, nil
}

func (m *models) Look(context.Context, int, string, string) (tool.Look, error) {
	return tool.Look{}, errors.New("not asked for")
}

func TestSwitch(t *testing.T) {
	m := &models{known: map[string]string{"big": "provider/big-1"}}
	env := &tool.Env{Models: m}
	s := switchllm.New()
	for _, c := range []struct {
		args, observation string
		parts             []string
		isError           bool
	}{
		{`{"profile_name":" big ","reason":"hard"}`,
			`"is_error":false,"profile_name":"big","reason":"hard","active_model":"provider/big-1","kind":"SwitchLLMObservation"}`, []string{"provider/big-1"}, false},
		{`{"profile_name":"huge","reason":"hard"}`,
			`"is_error":true,"profile_name":"huge","reason":"hard","kind":"SwitchLLMObservation"}`, []string{`"huge"`, "fast, big"}, true},
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
	if m.at != "big" {
		t.Errorf("at %q", m.at)
	}
}

func TestFails(t *testing.T) {
	s := switchllm.New()
	action, err := s.Parse(json.RawMessage(`{"profile_name":"a","reason":""}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(t.Context(), &tool.Env{}, action); !fault.Is(err, fault.Unsupported) {
		t.Errorf("error %v", err)
	}
	down := fault.New(fault.Unavailable, "store_down", "The store is down.")
	if _, err := s.Run(t.Context(), &tool.Env{Models: &models{err: down}}, action); !errors.Is(err, down) {
		t.Errorf("error %v", err)
	}
	for _, args := range []string{`{}`, `{"profile_name":"a"}`, `{"reason":"a"}`, `{"profile_name":" ","reason":"a"}`} {
		if _, err := s.Parse(json.RawMessage(args)); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestSpec(t *testing.T) {
	s := switchllm.New()
	spec := s.Spec()
	if spec.Name != "switch_llm" || spec.Kind != "SwitchLLMTool" || spec.ActionKind != "SwitchLLMAction" || spec.ObservationKind != "SwitchLLMObservation" ||
		spec.ReadOnly || !spec.NoHands || !strings.Contains(string(spec.Parameters), `"required":["profile_name","reason"]`) {
		t.Errorf("spec %+v", spec)
	}
	if c := s.Claims(nil); !tool.Conflict(c, c) {
		t.Error("two switches may overlap")
	}
}
