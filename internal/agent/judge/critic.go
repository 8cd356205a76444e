package judge

import (
	"cmp"
	"slices"
	"strings"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/fault"
)

// Modes of a critic: when it is asked.
const (
	ModeFinish     = "finish_and_message" // when the agent finishes or says something
	ModeAllActions = "all_actions"        // after every action, too
)

// What holds where a refinement says nothing (agent protocol 4.7), and what may be
// asked for.
const (
	defaultThreshold  = 0.6
	defaultIterations = 3
	maxIterations     = 20
)

const toolFinish = "finish"

var (
	kinds = []string{conversation.CriticPass, conversation.CriticFinished, conversation.CriticEmptyPatch, conversation.CriticModel}
	modes = []string{"", ModeFinish, ModeAllActions}
)

// Check says what is wrong with a critic: an Invalid fault that names the members.
// loc is where the critic stands in the request. Members that are zero are the
// defaults.
func Check(c conversation.Critic, loc ...any) error {
	var fields []fault.Field
	check := func(ok bool, input any, msg string, name ...any) {
		if !ok {
			fields = append(fields, fault.Field{Loc: slices.Concat(loc, name), Type: "value_error", Msg: msg, Input: input,
				Ctx: map[string]any{"error": map[string]any{}}})
		}
	}
	check(slices.Contains(kinds, c.Kind), c.Kind, "Value error, Unknown kind of critic; known are "+list(kinds), "kind")
	check(slices.Contains(modes, c.Mode), c.Mode, "Value error, Unknown mode of a critic; known are "+list(modes[1:]), "mode")
	if r := c.Refinement; r != nil {
		const member = "iterative_refinement"
		check(r.SuccessThreshold >= 0 && r.SuccessThreshold <= 1, r.SuccessThreshold, // NaN is neither
			"Input should be greater than or equal to 0 and less than or equal to 1", member, "success_threshold")
		check(r.MaxIterations >= 0 && r.MaxIterations <= maxIterations, r.MaxIterations,
			"Input should be greater than 0 and at most 20", member, "max_iterations")
	}
	if len(fields) > 0 {
		return account.Invalid(fields)
	}
	return nil
}

func list(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// Judges reports whether a critic is asked about an event.
func Judges(c conversation.Critic, p conversation.Payload) bool {
	switch e := p.(type) {
	case *conversation.ActionEvent:
		return c.Mode == ModeAllActions || e.ToolName == toolFinish
	case *conversation.MessageEvent:
		return e.Source == conversation.SourceAgent
	}
	return false
}

// Again reports whether the agent is to go on because of a result, after it has been
// sent back so many times since the user last spoke.
func Again(c conversation.Critic, r conversation.CriticResult, refinements int) bool {
	return c.Refinement != nil && r.Score < cmp.Or(c.Refinement.SuccessThreshold, defaultThreshold) && refinements < Rounds(c)
}

// Rounds returns how often the agent is sent back at most, 0 if never.
func Rounds(c conversation.Critic) int {
	if c.Refinement == nil {
		return 0
	}
	return cmp.Or(c.Refinement.MaxIterations, defaultIterations)
}

// PassCritic is content with everything.
func PassCritic() conversation.CriticResult {
	return result(conversation.CriticPass, true, "Every result is accepted.", "")
}

// AgentFinishedCritic wants the run to end with a call of finish: the last thing on
// the branch that the agent did since somebody else spoke to it. A call that was
// rejected or could not be run is none.
func AgentFinishedCritic(path []conversation.Payload) conversation.CriticResult {
	return result(conversation.CriticFinished, finished(path), "The agent called finish.",
		"The run ended without a call of finish.")
}

func finished(path []conversation.Payload) bool {
	for _, p := range slices.Backward(path) {
		switch e := p.(type) {
		case *conversation.ActionEvent:
			return e.ToolName == toolFinish && len(e.Action) > 0
		case *conversation.ObservationEvent:
			return e.ToolName == toolFinish && !isError(e.Observation)
		case *conversation.MessageEvent, *conversation.UserRejectObservation, *conversation.AgentErrorEvent:
			return false
		}
	}
	return false
}

// EmptyPatchCritic wants a change. diff is what git says about the difference to
// where the work began, new files included.
func EmptyPatchCritic(diff string) conversation.CriticResult {
	return result(conversation.CriticEmptyPatch, strings.TrimSpace(diff) != "", "The repository was changed.",
		"Nothing in the repository was changed.")
}

func result(kind string, good bool, yes, no string) conversation.CriticResult {
	r := conversation.CriticResult{Message: no, Metadata: map[string]any{"critic": kind}}
	if good {
		r.Score, r.Message = 1, yes
	}
	return r
}
