// Package vision is the tool with which a model that cannot see asks one that can.
// Finding the image and the model, and paying for it, is up to tool.Models.
package vision

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"parley/internal/content"
	"parley/internal/fault"
	"parley/internal/tool"
)

// Name of the tool.
const Name = "inspect_image_with_vision"

// Bounds, in characters.
const (
	maxQuestion = 10_000
	maxAnswer   = 30_000
)

//go:embed description.md
var description string

// Action is the input of the tool.
type Action struct {
	ImageIndex  int    `json:"image_index" min:"0" max:"100000" desc:"Which image: 0 is the first of the conversation's messages."`
	Question    string `json:"question" desc:"What to find out about the image."`
	ProfileName string `json:"profile_name,omitempty" desc:"Name of the user's profile to ask; the first whose model sees if absent."`
}

// members are the observation's own.
type members struct {
	ImageIndex  int    `json:"image_index"`
	Question    string `json:"question"`
	ProfileName string `json:"profile_name,omitempty"`
	Model       string `json:"model,omitempty"`
	Answer      string `json:"answer,omitempty"`
}

// New makes the tool. One value serves all conversations.
func New() tool.Tool {
	spec := tool.Spec{
		Name: Name, Description: description,
		Kind: "VisionInspectTool", ActionKind: "VisionInspectAction", ObservationKind: "VisionInspectObservation",
		ReadOnly: true, OpenWorld: true, NoHands: true,
	}
	return tool.New(spec, run, tool.WithCheck(check),
		tool.WithClaims(func(Action) []tool.Claim { return []tool.Claim{{Name: "models"}} }))
}

func check(a *Action) error {
	a.ProfileName = strings.TrimSpace(a.ProfileName)
	switch n := utf8.RuneCountInString(strings.TrimSpace(a.Question)); {
	case n == 0:
		return errors.New("question is empty")
	case n > maxQuestion:
		return fmt.Errorf("question is longer than %d characters", maxQuestion)
	}
	return nil
}

func run(ctx context.Context, env *tool.Env, a Action) (tool.Result, error) {
	m := members{ImageIndex: a.ImageIndex, Question: a.Question, ProfileName: a.ProfileName}
	if env.Models == nil {
		return tool.Result{}, fault.New(fault.Unsupported, "no_models", "This conversation has no models that see.")
	}
	look, err := env.Models.Look(ctx, a.ImageIndex, a.Question, a.ProfileName)
	if text, ok := tool.ForModel(err); ok {
		return observe(text, m, true)
	}
	if err != nil {
		return tool.Result{}, err
	}
	m.Model, m.Answer = look.Model, shorten(look.Answer)
	if strings.TrimSpace(m.Answer) == "" {
		return observe("The model "+look.Model+" gave no answer.", m, true)
	}
	return observe(fmt.Sprintf("Answer of %s about image %d:\n%s", m.Model, m.ImageIndex, m.Answer), m, false)
}

func observe(text string, m members, isError bool) (tool.Result, error) {
	return tool.Observation{Kind: "VisionInspectObservation", Content: []content.Part{content.Text(text)}, IsError: isError, Members: m}.Result()
}

// shorten cuts an answer that would fill the reader's window.
func shorten(answer string) string {
	n := 0
	for i := range answer {
		if n++; n > maxAnswer {
			return answer[:i] + "\n[The rest was cut.]"
		}
	}
	return answer
}
