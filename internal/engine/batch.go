package engine

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"parley/internal/agent"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/fleet"
	"parley/internal/sandboxd"
	"parley/internal/tool"
)

// DefaultConcurrency is how many calls of one answer run at a time where the
// conversation does not say; it cannot say more than maxConcurrency.
const (
	DefaultConcurrency = 8
	maxConcurrency     = 64
)

// batch is the open calls of a conversation while they run: side by side where
// their claims allow it, each after the earlier ones that it conflicts with.
// Their answers are recorded in the order of the calls, each as soon as all
// earlier ones are there. Owned by the conversation's goroutine.
type batch struct {
	work    *work
	tools   *toolbox
	calls   []*batchCall
	limit   int
	running int
	closing bool  // no call is started any more
	storing bool  // an answer waits to be stored
	spoilt  error // an answer could not be an event; nil = all could
}

// batchCall is one call of a batch.
type batchCall struct {
	action   *conversation.ActionEvent
	claims   []tool.Claim
	started  bool
	done     bool                   // it will not be waited for
	answer   conversation.Payload   // nil = none: it stays open
	around   []conversation.Payload // stand in front of the answer
	skills   []string               // that the call's path brought in
	finish   bool                   // the answer ends the run
	recorded bool
}

// startBatch runs the open calls.
func (l *live) startBatch() {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(l.e.ctx))
	b := &batch{work: &work{ctx: ctx, cancel: cancel}, tools: l.tools(), limit: l.conv.Options.ToolConcurrency}
	if b.limit <= 0 {
		b.limit = DefaultConcurrency
	}
	for _, a := range l.state.Pending {
		claims, err := guarded(l.e, a.ToolName, func() ([]tool.Claim, error) { return b.tools.claims(a), nil })
		if err != nil {
			claims = everything()
		}
		b.calls = append(b.calls, &batchCall{action: a, claims: claims})
	}
	l.work, l.batch = b.work, b
	l.proceed(b)
}

// proceed records what can be recorded, starts what can be started, and ends the
// batch when nothing is left to do.
func (l *live) proceed(b *batch) {
	if b.storing {
		return
	}
	b.closing = b.closing || l.quit != nil || l.pause || l.held || b.work.ctx.Err() != nil
	for i, c := range b.calls {
		if b.closing || b.running >= b.limit {
			break
		}
		if !c.started && !b.waits(i) {
			l.startCall(b, c)
		}
	}
	if next := b.next(); next != nil && (l.quit == nil || errors.Is(l.quit, ErrLeaving)) {
		l.record(b, next)
		return
	}
	if b.running == 0 {
		l.endBatch(b)
	}
}

// waits reports whether an earlier call has to end before the one at i may start.
func (b *batch) waits(i int) bool {
	for _, earlier := range b.calls[:i] {
		if !earlier.done && tool.Conflict(earlier.claims, b.calls[i].claims) {
			return true
		}
	}
	return false
}

// next returns the call whose answer is to be recorded now. Once nothing runs any
// more and nothing is started, answers behind a call without one are due as well.
func (b *batch) next() *batchCall {
	for _, c := range b.calls {
		switch {
		case c.recorded:
		case c.answer != nil:
			return c
		case b.running > 0 || !c.done && !b.closing:
			return nil
		}
	}
	return nil
}

func (l *live) record(b *batch, c *batchCall) {
	var trigger conversation.Trigger
	events, notes := append(slices.Clone(c.around), c.answer), l.state.Notes
	told := len(notes.Progress)
	if notes = withoutProgress(notes, c.action.ToolCallID); len(c.skills) > 0 || len(notes.Progress) < told {
		notes.PathSkills = slices.Concat(notes.PathSkills, c.skills)
		events = append(events, stateUpdate(conversation.KeyAgentState, notes))
	}
	if c.finish && !l.unseenMessage(c.action) && !l.replays() {
		more := l.refine(c.action.CriticResult, notes)
		if events = append(events, more...); more == nil && !l.ends() {
			trigger = conversation.TrigFinish
		}
	}
	b.storing = true
	err := l.settle(trigger, events)
	switch {
	case err == nil:
		b.storing, c.recorded = false, true
	case quitFor(err) != nil:
		b.storing = false
	case hopeless(err):
		l.e.opt.Logger.Error("result dropped", "conversation", l.id, "tool", c.action.ToolName, "error", l.masker.Mask(err.Error()))
		b.storing, c.recorded, c.answer = false, true, nil
		b.closing, b.spoilt = true, err
	default:
		l.stall(err, func() { l.record(b, c) })
		return
	}
	l.proceed(b)
}

// endBatch hands over to what comes next. An interrupt answers what is open.
func (l *live) endBatch(b *batch) {
	cause := context.Cause(b.work.ctx)
	b.work.cancel(nil)
	if l.batch == b {
		l.work, l.batch = nil, nil
	}
	if b.spoilt != nil {
		l.giveUp(b.spoilt)
		return
	}
	l.stepDone(cause)
}

// startCall runs one call beside the goroutine.
func (l *live) startCall(b *batch, c *batchCall) {
	c.started = true
	b.running++
	conv, wakes, ctx := *l.conv, l.wakes, b.work.ctx
	env, hooks := l.env(), l.hooksAround(c.action.ToolName)
	env.CallID, env.Progress = c.action.ID, l.progress(c.action)
	secrets := commandSecrets(l.conv, l.secrets, string(c.action.Action))
	env.Secrets = func(string) map[string]string { return secrets }
	l.e.jobs.Go(func() {
		o, err := guarded(l.e, c.action.ToolName, func() (outcome, error) { return l.carryOut(ctx, &conv, b.tools, c.action, env, hooks), nil })
		if err != nil {
			o.err = err
		}
		l.post(func(l *live) {
			b.running--
			c.done = true
			l.followBranch(o.branch)
			l.answerCall(c, context.Cause(ctx), o, wakes)
			b.closing = b.closing || c.answer == nil // nothing overtakes a call that stays open
			l.proceed(b)
		})
	})
}

// answerCall decides how a call is answered. One that was interrupted, or did not
// run because its sandbox is paused, stays open. wakes is what l.wakes was when
// the call began: what changed since may have been the sandbox's pause.
func (l *live) answerCall(c *batchCall, cause error, o outcome, wakes int) {
	err := o.err
	c.around = o.hooks
	switch {
	case o.refused != nil:
		c.answer = &conversation.UserRejectObservation{
			Header:   conversation.Head(conversation.KindUserReject, conversation.SourceEnvironment, time.Time{}),
			ToolName: c.action.ToolName, ToolCallID: c.action.ToolCallID, ActionID: c.action.ID,
			RejectionReason: *o.refused, RejectionSource: conversation.SourceHook}
	case err == nil:
		var knowledge []content.Part
		knowledge, c.skills = l.pathKnowledge(c.action)
		c.answer = &conversation.ObservationEvent{
			Header:   conversation.Head(conversation.KindObservation, conversation.SourceEnvironment, time.Time{}),
			ToolName: c.action.ToolName, ToolCallID: c.action.ToolCallID, ActionID: c.action.ID, Observation: o.res.Observation,
			ExtendedContent: append(o.context, knowledge...)}
		c.finish = c.action.ToolName == agent.ToolFinish && !o.res.IsError
	case isLeaving(cause), errors.Is(cause, ErrInterrupted):
	case fault.CodeOf(err) == fleet.CodePaused:
		l.held = l.wakes == wakes
	default:
		l.e.opt.Logger.Warn("tool failed", "conversation", l.id, "tool", c.action.ToolName, "error", l.masker.Mask(err.Error()))
		c.answer = agentError(c.action, toolFailure(err))
	}
}

// env is where the conversation's tools run, but for what one call makes different.
func (l *live) env() *tool.Env {
	env := &tool.Env{ConversationID: string(l.id), WorkingDir: l.conv.Options.WorkingDir, SearchKey: l.searchKey,
		Models: l.desk(), Mask: l.masker.Mask}
	if l.extras != nil {
		env.Skills = &library{skills: l.extras.skills, run: l.skillCommand(), place: l.placeSkill(env.StateDir())}
		env.Agents = &agency{e: l.e, parent: *l.conv, extras: l.extras, tools: l.tools().chosen}
	}
	return env
}

func (l *live) callTool(ctx context.Context, conv *conversation.Conversation, tools *toolbox, a *conversation.ActionEvent, env *tool.Env) (tool.Result, error) {
	t, ok := tools.set.Lookup(a.ToolName)
	if !ok || a.Action == nil {
		return tool.Result{}, fault.New(fault.Unsupported, "tool_missing", "The tool %s is not available any more.", a.ToolName)
	}
	if spec := t.Spec(); !spec.NoHands && !spec.NoConfirm {
		hands, err := l.e.opt.Fleet.Ensure(ctx, conv.Owner, conv.SandboxID, false)
		if err != nil {
			return tool.Result{}, err
		}
		env.Hands = hands
	}
	res, err := t.Run(ctx, env, a.Action)
	if fault.CodeOf(err) == sandboxd.CodeGone {
		l.e.opt.Fleet.AwaitEnd(ctx, conv.SandboxID)
	}
	if err == nil && !json.Valid(res.Observation) {
		err = fault.New(fault.Internal, "bad_observation", "The tool %s gave a result that is no JSON.", a.ToolName)
	}
	return res, err
}

// unseenMessage reports whether the user said something after the model decided on the action.
func (l *live) unseenMessage(a *conversation.ActionEvent) bool {
	if l.seen != "" && l.state.LastUserMsgID != l.seen { // it came while the model thought
		return true
	}
	history := l.history()
	for i := len(history) - 1; i >= 0; i-- {
		switch e := history[i].(type) {
		case *conversation.ActionEvent:
			if e.ID == a.ID {
				return false
			}
		case *conversation.MessageEvent:
			if e.Source == conversation.SourceUser {
				return true
			}
		}
	}
	return false
}

func toolFailure(err error) string {
	if c := fault.CodeOf(err); c == sandboxd.CodeGone || c == sandboxd.CodeClosed {
		return "The sandbox stopped while this ran, so its outcome is unknown. " +
			"The sandbox starts again with the next call: files are kept, running programs and the shell's state are lost."
	}
	if le := asLLMError(err); le != nil {
		return withReason(adviceOn(le.Class)[2], le)
	}
	return fault.PublicText(err)
}

func agentError(a *conversation.ActionEvent, text string) *conversation.AgentErrorEvent {
	return &conversation.AgentErrorEvent{
		Header:   conversation.Head(conversation.KindAgentError, conversation.SourceAgent, time.Time{}),
		ToolName: a.ToolName, ToolCallID: a.ToolCallID, Error: text,
		Classification: &conversation.Classification{Kind: "internal", Retryable: true, UserAction: "retry"}}
}
