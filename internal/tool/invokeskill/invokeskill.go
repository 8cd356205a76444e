// Package invokeskill is the tool with which a model reads a skill that it knows by
// name and description only (agent protocol 4.10). Which skills there are, and what
// their text is, is up to tool.Skills.
package invokeskill

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
const Name = "invoke_skill"

//go:embed description.md
var description string

// Action is the input of the tool.
type Action struct {
	Name string `json:"name" desc:"Name of the skill to read."`
}

// members are the observation's own.
type members struct {
	SkillName string `json:"skill_name"`
}

// New makes the tool. One value serves all conversations.
func New() tool.Tool {
	spec := tool.Spec{Name: Name, Description: description, ReadOnly: true, Idempotent: true, NoHands: true}
	return tool.New(spec, run, tool.WithCheck(check),
		tool.WithClaims(func(Action) []tool.Claim { return []tool.Claim{{Name: "skills"}} }))
}

func check(a *Action) error {
	if a.Name = strings.TrimSpace(a.Name); a.Name == "" {
		return errors.New("name is empty")
	}
	return nil
}

func run(ctx context.Context, env *tool.Env, a Action) (tool.Result, error) {
	if env.Skills == nil {
		return tool.Result{}, fault.New(fault.Unsupported, "no_skills", "This conversation has no skills.")
	}
	text, err := env.Skills.Open(ctx, a.Name)
	problem, isError := tool.ForModel(err)
	switch {
	case isError:
		text = problem
	case err != nil:
		return tool.Result{}, err
	}
	return tool.Observation{
		Kind: "InvokeSkillObservation", Content: []content.Part{content.Text(text)}, IsError: isError, Members: members{a.Name},
	}.Result()
}
