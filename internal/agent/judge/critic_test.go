package judge_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"parley/internal/agent/judge"
	"parley/internal/conversation"
	"parley/internal/fault"
)

func TestCheck(t *testing.T) {
	refine := func(threshold float64, iterations int) conversation.Critic {
		return conversation.Critic{Kind: conversation.CriticModel, Refinement: &conversation.Refinement{SuccessThreshold: threshold, MaxIterations: iterations}}
	}
	for _, c := range []conversation.Critic{
		{Kind: conversation.CriticPass}, {Kind: conversation.CriticFinished, Mode: judge.ModeFinish},
		{Kind: conversation.CriticEmptyPatch, Mode: judge.ModeAllActions}, {Kind: conversation.CriticModel},
		refine(0, 0), refine(1, 20), refine(0.001, 1),
	} {
		if err := judge.Check(c); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for wrong, c := range map[string]conversation.Critic{
		"kind":                {Kind: "APIBasedCritic"},
		"mode":                {Kind: conversation.CriticPass, Mode: "sometimes"},
		"success_threshold":   refine(1.01, 1),
		"success_threshold ":  refine(math.NaN(), 1),
		"success_threshold  ": refine(-0.1, 1),
		"max_iterations":      refine(0.5, 21),
		"max_iterations ":     refine(0.5, -1),
	} {
		err := judge.Check(c, "body", "critic")
		var f *fault.Error
		if !errors.As(err, &f) || f.Kind != fault.Invalid || len(f.Fields) != 1 {
			t.Errorf("%s: %v", wrong, err)
			continue
		}
		loc := f.Fields[0].Loc
		if loc[0] != "body" || loc[1] != "critic" || loc[len(loc)-1] != strings.TrimSpace(wrong) {
			t.Errorf("%s: at %v", wrong, loc)
		}
	}
	if err := judge.Check(conversation.Critic{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a critic without a kind: %v", err)
	}
}

func TestJudges(t *testing.T) {
	path := map[string]conversation.Payload{"action": action("terminal", "{}"), "finish": action("finish", "{}"), "answer": agent("done"),
		"message": user("x"), "result": observation("finish", "ok", false)}
	for mode, want := range map[string]string{"": "finish answer", judge.ModeFinish: "finish answer", judge.ModeAllActions: "action finish answer"} {
		for name, p := range path {
			if got := judge.Judges(conversation.Critic{Mode: mode}, p); got != strings.Contains(want, name) {
				t.Errorf("mode %q, %s: %v", mode, name, got)
			}
		}
	}
}

func TestAgain(t *testing.T) {
	score := func(s float64) conversation.CriticResult { return conversation.CriticResult{Score: s} }
	bare := conversation.Critic{Kind: conversation.CriticModel}
	standard := conversation.Critic{Refinement: &conversation.Refinement{}}
	own := conversation.Critic{Refinement: &conversation.Refinement{SuccessThreshold: 0.9, MaxIterations: 1}}
	for i, c := range []struct {
		critic conversation.Critic
		score  float64
		done   int
		want   bool
	}{
		{bare, 0, 0, false},
		{standard, 0.59, 0, true}, {standard, 0.6, 0, false}, {standard, 0, 2, true}, {standard, 0, 3, false},
		{own, 0.89, 0, true}, {own, 0.9, 0, false}, {own, 0, 1, false},
	} {
		if got := judge.Again(c.critic, score(c.score), c.done); got != c.want {
			t.Errorf("case %d: %v", i, got)
		}
	}
	if judge.Rounds(bare) != 0 || judge.Rounds(standard) != 3 || judge.Rounds(own) != 1 {
		t.Error("rounds")
	}
}

func TestAgentFinishedCritic(t *testing.T) {
	type path = []conversation.Payload
	unusable := &conversation.ActionEvent{ToolName: "finish", ToolCallID: "c"}
	state := &conversation.StateUpdateEvent{Key: "stats"}
	for name, c := range map[string]struct {
		path path
		want float64
	}{
		"empty":                 {nil, 0},
		"only a message":        {path{user("x")}, 0},
		"finished":              {path{user("x"), action("finish", "{}"), observation("finish", "ok", false)}, 1},
		"before the result":     {path{user("x"), action("finish", "{}")}, 1},
		"after others":          {path{action("t", "{}"), action("finish", "{}"), observation("t", "ok", false), observation("finish", "ok", false)}, 1},
		"with events behind":    {path{action("finish", "{}"), observation("finish", "ok", false), state, condensation("s")}, 1},
		"text answer":           {path{action("finish", "{}"), observation("finish", "ok", false), agent("done")}, 0},
		"asked again":           {path{action("finish", "{}"), observation("finish", "ok", false), user("more")}, 0},
		"other work":            {path{action("finish", "{}"), observation("finish", "ok", false), action("t", "{}"), observation("t", "ok", false)}, 0},
		"rejected":              {path{action("finish", "{}"), reject("finish")}, 0},
		"failed":                {path{action("finish", "{}"), failure("finish", "no")}, 0},
		"an error as result":    {path{action("finish", "{}"), observation("finish", "no", true)}, 0},
		"could not be executed": {path{user("x"), unusable}, 0},
	} {
		got := judge.AgentFinishedCritic(c.path)
		if got.Score != c.want || got.Message == "" || got.Metadata["critic"] != conversation.CriticFinished {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestOtherCritics(t *testing.T) {
	for diff, want := range map[string]float64{"": 0, " \n\t\n": 0, "diff --git a/x b/x\nnew file mode 100644\n": 1} {
		if got := judge.EmptyPatchCritic(diff); got.Score != want || got.Message == "" {
			t.Errorf("diff %q: %+v", diff, got)
		}
	}
	if got := judge.PassCritic(); got.Score != 1 {
		t.Errorf("%+v", got)
	}
}
