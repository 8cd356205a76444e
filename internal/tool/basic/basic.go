// Package basic has the tools every agent gets and that need no sandbox: finish,
// which ends a run, and think, which only leaves a trace. What finish ends is the
// engine's business; here it is an acknowledged message.
package basic

import (
	"context"
	_ "embed"

	"parley/internal/tool"
)

// Names of the tools.
const (
	NameFinish = "finish"
	NameThink  = "think"
)

//go:embed finish.md
var finishDescription string

//go:embed think.md
var thinkDescription string

// FinishAction is the input of finish.
type FinishAction struct {
	Message string `json:"message" desc:"What the user reads: the result, what was not done or not verified, and what to do next."`
}

// ThinkAction is the input of think.
type ThinkAction struct {
	Thought string `json:"thought" desc:"The thought to write down."`
}

// Finish returns the tool that ends a run.
func Finish() tool.Tool {
	spec := tool.Spec{
		Name: NameFinish, Description: finishDescription,
		ReadOnly: true, Idempotent: true, NoConfirm: true,
	}
	return tool.New(spec, func(_ context.Context, _ *tool.Env, in FinishAction) (tool.Result, error) {
		return tool.TextObservation("FinishObservation", in.Message).Result()
	})
}

// Think returns the tool that writes down a thought.
func Think() tool.Tool {
	spec := tool.Spec{
		Name: NameThink, Description: thinkDescription,
		ReadOnly: true, Idempotent: true, NoConfirm: true,
	}
	return tool.New(spec, func(context.Context, *tool.Env, ThinkAction) (tool.Result, error) {
		return tool.TextObservation("ThinkObservation", "The thought is noted.").Result()
	}, tool.WithClaims(func(ThinkAction) []tool.Claim { return nil }))
}
