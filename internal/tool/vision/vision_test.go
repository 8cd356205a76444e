package vision_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"parley/internal/content"
	"parley/internal/fault"
	"parley/internal/tool"
	"parley/internal/tool/vision"
)

// models has one that sees two images.
type models struct {
	asked  string
	answer string
	err    error
}

func (m *models) Switch(context.Context, string) (string, error) {
	return "", errors.New("not asked for")
}

func (m *models) Look(_ context.Context, image int, question, profile string) (tool.Look, error) {
	m.asked = fmt.Sprintf("%d %s %s", image, question, profile)
	switch {
	case m.err != nil:
		return tool.Look{}, m.err
	case image > 1:
		return tool.Look{}, fault.New(fault.NotFound, "image_not_found", "There is no image %d.", image).WithHint("There are 2.")
	case profile == "blind":
		return tool.Look{}, fault.New(fault.Unsupported, "no_vision", "The model of blind does not see.")
	}
	return tool.Look{Model: "provider/eye", Answer: m.answer}, nil
}

func TestLook(t *testing.T) {
	m := &models{answer: "A red <cat>."}
	v := vision.New()
	for _, c := range []struct {
		args, asked, observation, part string
		isError                        bool
	}{
		{`{"image_index":"1","question":"What?"}`, "1 What? ",
			`"is_error":false,"image_index":1,"question":"What?","model":"provider/eye","answer":"A red <cat>.","kind":"VisionInspectObservation"}`, "provider/eye about image 1:\nA red <cat>.", false},
		{`{"image_index":0,"question":"What?","profile_name":" p "}`, "0 What? p", `"profile_name":"p","model":"provider/eye","answer":"A red <cat>.","kind":"VisionInspectObservation"}`, "cat", false},
		{`{"image_index":2,"question":"What?"}`, "2 What? ", `"is_error":true,"image_index":2,"question":"What?","kind":"VisionInspectObservation"}`, "There are 2.", true},
		{`{"image_index":0,"question":"What?","profile_name":"blind"}`, "0 What? blind", `"profile_name":"blind","kind":"VisionInspectObservation"}`, "does not see", true},
	} {
		action, err := v.Parse(json.RawMessage(c.args))
		if err != nil {
			t.Fatal(err)
		}
		r, err := v.Run(t.Context(), &tool.Env{Models: m}, action)
		if err != nil || r.IsError != c.isError || m.asked != c.asked || !strings.HasSuffix(string(r.Observation), c.observation) ||
			!strings.Contains(content.JoinText(r.Parts), c.part) {
			t.Errorf("%s: asked %q, %s %v", c.args, m.asked, r.Observation, err)
		}
	}
	for answer, part := range map[string]string{" \n": "gave no answer", strings.Repeat("\u00fc", 50_000): "\n[The rest was cut.]"} {
		m.answer = answer
		r, err := v.Run(t.Context(), &tool.Env{Models: m}, json.RawMessage(`{"image_index":0,"question":"What?"}`))
		if text := content.JoinText(r.Parts); err != nil || len([]rune(text)) > 31_000 || !strings.Contains(text, part) || r.IsError != (len(answer) < 3) {
			t.Errorf("%d characters, %v", len([]rune(text)), err)
		}
	}
}

func TestFails(t *testing.T) {
	v := vision.New()
	action := json.RawMessage(`{"image_index":0,"question":"What?"}`)
	if _, err := v.Run(t.Context(), &tool.Env{}, action); !fault.Is(err, fault.Unsupported) {
		t.Errorf("error %v", err)
	}
	poor := fault.New(fault.RateLimited, "budget", "The budget is spent.")
	if _, err := v.Run(t.Context(), &tool.Env{Models: &models{err: poor}}, action); !errors.Is(err, poor) {
		t.Errorf("error %v", err)
	}
	for _, args := range []string{`{}`, `{"image_index":0}`, `{"image_index":-1,"question":"a"}`, `{"image_index":0.5,"question":"a"}`,
		`{"image_index":0,"question":" "}`, `{"image_index":0,"question":"` + strings.Repeat("a", 10_001) + `"}`} {
		if _, err := v.Parse(json.RawMessage(args)); !fault.Is(err, fault.Invalid) {
			t.Errorf("%.60s: %v", args, err)
		}
	}
}

func TestSpec(t *testing.T) {
	s := vision.New().Spec()
	if s.Name != "inspect_image_with_vision" || s.Kind != "VisionInspectTool" || s.ActionKind != "VisionInspectAction" ||
		s.ObservationKind != "VisionInspectObservation" || !s.ReadOnly || !s.NoHands ||
		!strings.Contains(string(s.Parameters), `"required":["image_index","question"]`) {
		t.Errorf("spec %+v", s)
	}
}
