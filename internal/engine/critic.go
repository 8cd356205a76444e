package engine

import (
	"context"
	"slices"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/agent"
	"parley/internal/agent/judge"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/store"
	"parley/internal/tool"
)

// judgeTime bounds a call of a judge.
const judgeTime = 5 * time.Minute

// review is what a critic needs to judge an answer, beside the conversation's
// goroutine.
type review struct {
	e       *Engine
	conv    conversation.Conversation
	critic  *conversation.Critic
	choice  account.LLM
	history []conversation.Payload
}

// judge attaches the critic's result to the last event of an answer that it is to
// look at. A critic that cannot be asked is no reason to hold the answer back.
func (r *review) judge(ctx context.Context, turn *agent.Turn) {
	if r.critic == nil || turn.Nudge || !slices.ContainsFunc(turn.Events, func(p conversation.Payload) bool { return judge.Judges(*r.critic, p) }) {
		return
	}
	result, err := guarded(r.e, "critic", func() (conversation.CriticResult, error) { return r.result(ctx, turn) })
	if err != nil {
		r.e.opt.Logger.Warn("critic failed", "conversation", r.conv.ID, "critic", r.critic.Kind, "class", classOf(err))
		return
	}
	turn.Judge(&result)
}

func (r *review) result(ctx context.Context, turn *agent.Turn) (conversation.CriticResult, error) {
	path := slices.Concat(r.history, turn.Events)
	switch r.critic.Kind {
	case conversation.CriticFinished:
		return judge.AgentFinishedCritic(path), nil
	case conversation.CriticEmptyPatch:
		diff, err := r.diff(ctx)
		return judge.EmptyPatchCritic(diff), err
	case conversation.CriticModel:
		return r.ask(ctx, path)
	}
	return judge.PassCritic(), nil
}

// ask lets a model judge what was reached.
func (r *review) ask(ctx context.Context, path []conversation.Payload) (conversation.CriticResult, error) {
	ctx, cancel := context.WithTimeout(ctx, judgeTime)
	defer cancel()
	req := judge.Request(judge.Task(path), path, 0)
	resp, err := r.e.aside(ctx, r.conv.Owner, r.conv.ID, store.UseJudge, quickly(r.choice), req, ModelOptions{})
	if err != nil {
		return conversation.CriticResult{}, err
	}
	v, err := judge.Parse(resp.Message.Text())
	return judge.Result(v), err
}

// diffTime and diffOutput bound the look at what changed.
const (
	diffTime   = 30 * time.Second
	diffOutput = 64 << 10 // bytes
)

// diff is what changed in the repository since the conversation began: files that
// are not committed, and the newest commit if it was made meanwhile.
func (r *review) diff(ctx context.Context) (string, error) {
	hands, err := r.e.opt.Fleet.Ensure(ctx, r.conv.Owner, r.conv.SandboxID, false)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, args := range [][]string{
		{"status", "--porcelain", "--untracked-files=normal"},
		{"rev-list", "--max-count=1", "--since=" + r.conv.CreatedAt.UTC().Format(time.RFC3339), "HEAD"},
	} {
		res, err := hands.Exec(ctx, tool.ExecRequest{Dir: r.conv.Options.WorkingDir, Timeout: diffTime, MaxOutput: diffOutput,
			Argv: append([]string{"git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"}, args...),
			Env:  map[string]string{"GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}})
		if err != nil {
			return "", err
		}
		out.Write(res.Stdout)
	}
	return out.String(), nil
}

// refine sends the agent back to work if its critic is not content with an answer
// that would end the run: nil if it is, or has been asked often enough. notes are
// those that hold with the answer.
func (l *live) refine(result *conversation.CriticResult, notes conversation.AgentNotes) []conversation.Payload {
	critic := l.conv.Options.Critic
	if result == nil || critic == nil || !judge.Again(*critic, *result, notes.Refinements) {
		return nil
	}
	notes.Refinements++
	notes.ProviderFields = nil // told already
	text := judge.Refine(*result, notes.Refinements, judge.Rounds(*critic))
	return []conversation.Payload{userMessage(Message{Parts: []content.Part{content.Text(text)}}),
		stateUpdate(conversation.KeyAgentState, notes)}
}
