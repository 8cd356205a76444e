// Package switchllm is the tool with which a model hands the conversation over to
// another one of the user's. Which models there are, and what may be switched, is up
// to tool.Models.
package switchllm

import (
	"context"
	_ "embed"
	"errors"
	"strings"

	"parley/internal/content"
	"parley/internal/fault"
	"parley/internal/tool"
)

// Name of the tool.
const Name = "switch_llm"

//go:embed description.md
var description string

// Action is the input of the tool.
type Action struct {
	ProfileName string `json:"profile_name" desc:"Name of the user's profile to go on with."`
	Reason      string `json:"reason" desc:"Why, in one sentence. The user reads it."`
}

// members are the observation's own.
type members struct {
	ProfileName string `json:"profile_name"`
	Reason      string `json:"reason"`
	ActiveModel string `json:"active_model,omitempty"`
}

// New makes the tool. One value serves all conversations.
func New() tool.Tool {
	spec := tool.Spec{
		Name: Name, Description: description,
		Kind: "SwitchLLMTool", ActionKind: "SwitchLLMAction", ObservationKind: "SwitchLLMObservation",
		Idempotent: true, NoHands: true,
	}
	return tool.New(spec, run, tool.WithCheck(check),
		tool.WithClaims(func(Action) []tool.Claim { return []tool.Claim{{Name: "models", Write: true}} }))
}

func check(a *Action) error {
	if a.ProfileName = strings.TrimSpace(a.ProfileName); a.ProfileName == "" {
		return errors.New("profile_name is empty")
	}
	return nil
}

func run(ctx context.Context, env *tool.Env, a Action) (tool.Result, error) {
	m := members{ProfileName: a.ProfileName, Reason: a.Reason}
	if env.Models == nil {
		return tool.Result{}, fault.New(fault.Unsupported, "no_models", "This conversation cannot change its model.")
	}
	model, err := env.Models.Switch(ctx, a.ProfileName)
	if text, ok := tool.ForModel(err); ok {
		return observe(text, m, true)
	}
	if err != nil {
		return tool.Result{}, err
	}
	m.ActiveModel = model
	return observe("The conversation goes on with the profile "+a.ProfileName+" (model "+model+").", m, false)
}

func observe(text string, m members, isError bool) (tool.Result, error) {
	return tool.Observation{Kind: "SwitchLLMObservation", Content: []content.Part{content.Text(text)}, IsError: isError, Members: m}.Result()
}
