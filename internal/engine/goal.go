package engine

import (
	"context"
	"errors"
	"slices"
	"strings"

	"parley/internal/agent/hookrun"
	"parley/internal/agent/judge"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

// Bounds of goals.
const (
	defaultGoalRuns = 10
	maxGoalRuns     = 100
	maxObjective    = 32 << 10 // bytes
)

// Goal lets a conversation work on an objective over several runs: after each, a
// judge says whether the objective is reached, and what is missing is the next
// message. maxIterations is the number of runs, 0 = 10. Invalid without an objective,
// Conflict during a run or while a goal is active.
func (e *Engine) Goal(ctx context.Context, owner string, id conversation.ID, objective string, maxIterations int) error {
	if maxIterations == 0 {
		maxIterations = defaultGoalRuns
	}
	if strings.TrimSpace(objective) == "" {
		return fault.New(fault.Invalid, "empty_objective", "The goal has no objective.")
	}
	if maxIterations < 1 || maxIterations > maxGoalRuns || len(objective) > maxObjective {
		return fault.New(fault.Invalid, "invalid_goal", "A goal has 1 to %d iterations and an objective of at most %d bytes.", maxGoalRuns, maxObjective)
	}
	goal := conversation.Goal{Active: true, Status: conversation.GoalRunning, Iteration: 1, MaxIterations: maxIterations, Objective: objective}
	v, err := e.judgeObjective(ctx, owner, id, objective)
	if err != nil {
		return err
	}
	return e.pursue(ctx, owner, id, v, func(*live) (conversation.Goal, string, error) { return goal, objective, nil })
}

// judgeObjective lets the hooks that guard messages see an objective: nil if there are
// none, Forbidden if they block it.
func (e *Engine) judgeObjective(ctx context.Context, owner string, id conversation.ID, objective string) (*verdict, error) {
	m := Message{Parts: []content.Part{content.Text(objective)}}
	var guard *hookrun.Runner
	err := e.do(ctx, owner, id, func(l *live) error { guard = l.guardOf(&m); return l.mayPursue() })
	if err != nil || guard == nil {
		return nil, err
	}
	v, err := e.judgeMessage(ctx, guard, m)
	if err != nil || !v.blocked {
		return v, err
	}
	err = e.do(ctx, owner, id, func(l *live) error {
		if err := l.writable(); err != nil {
			return err
		}
		return l.append(v.events()...)
	})
	return nil, errors.Join(err, fault.New(fault.Forbidden, "blocked_by_hook", "A hook blocked the objective: %s", v.outcome.Reason))
}

// ResumeGoal goes on with a goal that was interrupted or came to its last
// iteration, which then is given as many again. Invalid without one.
func (e *Engine) ResumeGoal(ctx context.Context, owner string, id conversation.ID) error {
	return e.pursue(ctx, owner, id, nil, func(l *live) (conversation.Goal, string, error) {
		g := l.state.Goal
		if g == nil || g.Status == conversation.GoalComplete {
			return conversation.Goal{}, "", fault.New(fault.Invalid, "no_resumable_goal", "There is no goal to go on with.")
		}
		next := *g
		next.Active, next.Status = true, conversation.GoalRunning
		if next.Iteration++; next.Iteration > next.MaxIterations {
			next.Iteration = 1
		}
		if g.Verdict == nil || strings.HasPrefix(g.Verdict.Missing, notJudged) {
			return next, g.Objective, nil
		}
		return next, judge.FollowUp(g.Objective, *g.Verdict, g.Iteration, g.MaxIterations), nil
	})
}

// pursue says what a goal wants, and runs. v is what hooks made of it, nil if they
// were not asked.
func (e *Engine) pursue(ctx context.Context, owner string, id conversation.ID, v *verdict, next func(*live) (conversation.Goal, string, error)) error {
	return e.do(ctx, owner, id, func(l *live) error {
		if err := l.mayPursue(); err != nil {
			return err
		}
		goal, text, err := next(l)
		if err != nil {
			return err
		}
		if err := l.refresh(ctx); err != nil {
			return err
		}
		return l.command(goal, text, v)
	})
}

// mayPursue refuses a goal that cannot be worked on now.
func (l *live) mayPursue() error {
	if err := l.room(); err != nil {
		return err
	}
	switch {
	case l.stalled != nil:
		return l.writable()
	case l.goal() != nil:
		return fault.New(fault.Conflict, "goal_active", "The conversation works on a goal already.")
	case l.state.Status == conversation.Running || l.work != nil:
		return fault.New(fault.Conflict, CodeRunning, "The conversation is running already.")
	case l.state.Status == conversation.WaitingConfirmation:
		return fault.New(fault.Conflict, codeWrongState, "Actions of the conversation wait for confirmation.")
	case !l.prepared() || l.opens():
		return errNotReady()
	}
	return nil
}

func errNotReady() error {
	return fault.New(fault.Conflict, "not_ready", "The conversation is still starting.")
}

// command appends a goal's next message and starts a run.
func (l *live) command(goal conversation.Goal, text string, v *verdict) error {
	m := Message{Parts: []content.Part{content.Text(text)}}
	said := userMessage(m)
	l.enrich(said, v)
	events := slices.Concat(l.opening(), v.events(), []conversation.Payload{said, stateUpdate(conversation.KeyGoal, goal)}, l.refinementsAnew())
	if err := l.append(append(events, stateUpdate(conversation.KeyStatus, conversation.Running))...); err != nil {
		return err
	}
	l.titleFrom(m)
	l.runStarted()
	return nil
}

// StopGoal ends the work on a goal; a run ends at the next step. It is no error if
// there is none.
func (e *Engine) StopGoal(ctx context.Context, owner string, id conversation.ID) error {
	return e.do(ctx, owner, id, func(l *live) error {
		if l.goal() == nil {
			return nil
		}
		return l.haltGoal()
	})
}

// haltGoal ends the goal, and what works on it.
func (l *live) haltGoal() error {
	if err := l.storable(); err != nil {
		return err
	}
	if err := l.append(l.stopGoal()...); err != nil {
		return err
	}
	l.pause = l.state.Status == conversation.Running
	l.stopJudge()
	l.e.opt.Hub.Snapshot(l.id, l.state.Head)
	return nil
}

var errGoalStopped = errors.New("the goal was stopped")

// goal is the goal that is worked on, nil if there is none.
func (l *live) goal() *conversation.Goal {
	if g := l.state.Goal; g != nil && g.Active {
		return g
	}
	return nil
}

// stopGoal are the events that end the work on a goal, none if there is none.
func (l *live) stopGoal() []conversation.Payload {
	g := l.goal()
	if g == nil {
		return nil
	}
	ended := *g
	ended.Active, ended.Status = false, conversation.GoalInterrupted
	return []conversation.Payload{stateUpdate(conversation.KeyGoal, ended)}
}

// stopJudge stops the judgement of a goal that was ended.
func (l *live) stopJudge() {
	if l.work != nil && l.work.judges {
		l.work.cancel(errGoalStopped)
	}
}

// stopAsked reports whether the user wants the run to stop: if it ends by itself
// before that takes effect, no other follows.
func (l *live) stopAsked() bool { return l.pause || len(l.interrupts) > 0 }

// endsGoal are the triggers after which nobody works on a goal any more.
var endsGoal = map[conversation.Trigger]bool{conversation.TrigFail: true, conversation.TrigStuck: true,
	conversation.TrigInterrupt: true, conversation.TrigReject: true, conversation.TrigNavigate: true}

// startJudge asks whether the goal of a run that finished is reached.
func (l *live) startJudge() {
	goal, owner, choice, history := *l.goal(), l.conv.Owner, quickly(l.choice), l.history()
	l.start(func(ctx context.Context) func(*live) {
		limit, cancel := context.WithTimeout(ctx, judgeTime)
		defer cancel()
		req := judge.Request(goal.Objective, history, 0)
		resp, err := l.e.aside(limit, owner, l.id, store.UseJudge, choice, req, l.tellRetries())
		var verdict conversation.GoalVerdict
		if err == nil {
			verdict, err = judge.Parse(resp.Message.Text())
		}
		return func(l *live) { l.judged(context.Cause(ctx), goal, verdict, err) }
	})
	l.work.judges = true
}

// judged goes on with a goal or ends it. A judge that cannot be asked ends it: the
// user can resume.
func (l *live) judged(cause error, goal conversation.Goal, verdict conversation.GoalVerdict, err error) {
	if l.goal() == nil || isLeaving(cause) {
		l.boundary()
		return
	}
	switch {
	case errors.Is(cause, ErrInterrupted):
		goal.Status = conversation.GoalInterrupted
	case err != nil:
		goal.Status = conversation.GoalInterrupted
		goal.Verdict = &conversation.GoalVerdict{Missing: notJudged + fault.PublicText(told(err, l.masker))}
	case verdict.Complete:
		goal.Status, goal.Verdict = conversation.GoalComplete, &verdict
	case goal.Iteration >= goal.MaxIterations:
		goal.Status, goal.Verdict = conversation.GoalCapped, &verdict
	default:
		goal.Verdict = &verdict
		l.goOn(goal)
		return
	}
	goal.Active = false
	l.must(func() { l.e.opt.Hub.Snapshot(l.id, l.state.Head); l.boundary() }, "",
		append(l.retryOver(), stateUpdate(conversation.KeyGoal, goal))...)
}

// notJudged begins what a goal's verdict says where there is none.
const notJudged = "The judge could not be asked: "

// goOn is command with an outcome that is kept until the store takes it.
func (l *live) goOn(goal conversation.Goal) {
	text := judge.FollowUp(goal.Objective, *goal.Verdict, goal.Iteration, goal.MaxIterations)
	said := userMessage(Message{Parts: []content.Part{content.Text(text)}})
	goal.Iteration++
	l.must(func() { l.runStarted(); l.boundary() }, "", said,
		stateUpdate(conversation.KeyGoal, goal), stateUpdate(conversation.KeyStatus, conversation.Running))
}
