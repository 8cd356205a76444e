package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"parley/internal/agent/condense"
	"parley/internal/agent/stuck"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/spend"
)

// advance starts the next piece of work, if there is any and nothing is under way.
// What was done at once instead (a pause, a hint) may have made room for more.
func (l *live) advance() {
	for before := int64(-1); before != l.state.Head; {
		before = l.state.Head
		l.next()
	}
}

// next starts the next piece of work, or does at once what needs none.
func (l *live) next() {
	if l.work != nil || l.stalled != nil || l.quit != nil || l.e.ctx.Err() != nil {
		return
	}
	if l.state.Status != conversation.Running {
		l.advanceAside()
		return
	}
	if l.pause {
		l.must(l.boundary, conversation.TrigPause, pauseEvent())
		return
	}
	if l.held {
		return
	}
	if len(l.state.Pending) > 0 {
		l.startBatch()
		return
	}
	if l.ending {
		l.startStop()
		return
	}
	if over := l.overLimit(); over != nil {
		l.must(l.boundary, conversation.TrigFail, over)
		return
	}
	if i, ok := l.recorded(); ok {
		if !l.awaitServers() {
			l.repeat(i)
		}
		return
	}
	if l.repeats() || l.awaitServers() {
		return
	}
	l.startModel()
}

// repeats stops an agent that does the same over and over, or tells it. False if
// there is nothing to say.
func (l *live) repeats() bool {
	var thresholds conversation.StuckDetection
	if own := l.conv.Options.Stuck; own != nil {
		thresholds = *own
	}
	v, err := guarded(l.e, "stuck", func() (stuck.Verdict, error) { return stuck.Detect(l.ownDoing(l.history()), thresholds), nil })
	switch {
	case err != nil: // the limits of a run's steps and costs hold in any case
	case v.Stuck:
		l.e.opt.Logger.Info("agent stuck", "conversation", l.id, "pattern", v.Pattern)
		l.must(l.boundary, conversation.TrigStuck, conversationError(stuck.CodeStuck,
			v.Detail+" Send a message that says what to do differently, or run the conversation on.", "agent_action", "retry"))
	case v.Nudge:
		l.must(l.boundary, "", nudge(stuck.NudgeText()))
	}
	return v.Stuck || v.Nudge
}

// advanceAside starts what is done without a run: a condensation that the user waits
// for, the judgement of a goal.
func (l *live) advanceAside() {
	if len(l.memory.waiting) > 0 {
		l.condenseNow()
	}
	if l.work == nil && l.goal() != nil && l.state.Status == conversation.Finished {
		l.startJudge()
	}
}

// overLimit returns why the run must not go on.
func (l *live) overLimit() conversation.Payload {
	if err := l.room(); err != nil {
		return fullError(err)
	}
	if n := l.conv.Options.MaxIterations; l.steps >= n {
		return conversationError("MaxIterationsReached", fmt.Sprintf(
			"The run made %d steps, the limit of this conversation. Send a message to go on.", n), "agent_action", "retry")
	}
	return nil
}

func conversationError(code, detail, kind, action string) *conversation.ConversationErrorEvent {
	return &conversation.ConversationErrorEvent{
		Header: conversation.Head(conversation.KindConversationError, conversation.SourceEnvironment, time.Time{}),
		Code:   code, Detail: detail,
		Classification: &conversation.Classification{Kind: kind, Retryable: action == "retry", UserAction: action}}
}

// start runs f beside the goroutine; what f returns runs in it. A defect of f ends
// the run.
func (l *live) start(f func(ctx context.Context) func(*live)) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(l.e.ctx))
	l.work = &work{ctx: ctx, cancel: cancel}
	l.e.jobs.Go(func() {
		outcome, err := guarded(l.e, "work", func() (func(*live), error) { return f(ctx), nil })
		if err != nil {
			outcome = func(l *live) { l.memory.condensed(err); l.fail(err) }
		}
		l.post(func(l *live) {
			l.work = nil
			cancel(nil)
			outcome(l)
		})
	})
}

// post runs f in the conversation's goroutine. False if that has ended, and f does
// not run.
func (l *live) post(f func(*live)) bool {
	select {
	case l.posts <- f:
		return true
	case <-l.closed:
		return false
	}
}

// guarded turns a panic into an error: a defect of one tool or model must not
// take the server down with all its conversations. The panic's value may hold
// anything, secrets included, and is not logged.
func guarded[T any](e *Engine, what string, f func() (T, error)) (out T, err error) {
	defer func() {
		if r := recover(); r != nil {
			e.opt.Logger.Error("defect", "in", what, "panic", fmt.Sprintf("%T", r), "stack", string(debug.Stack()))
			err = fault.New(fault.Internal, "defect", "A defect of the server stopped this. Its log has the details.")
		}
	}()
	return f()
}

// stepDone carries out an interrupt that came in the middle of the step.
func (l *live) stepDone(cause error) {
	if errors.Is(cause, ErrInterrupted) || len(l.interrupts) > 0 {
		l.interrupted()
	}
}

// boundary is a step boundary without anything to record.
func (l *live) boundary() { l.stepDone(nil) }

func nudge(text string) *conversation.MessageEvent {
	return &conversation.MessageEvent{
		Header:     conversation.Head(conversation.KindMessage, conversation.SourceEnvironment, time.Time{}),
		LLMMessage: conversation.LLMMessage{Role: content.RoleUser, Content: []content.Part{content.Text(text)}}}
}

// fail ends the run with the reason.
func (l *live) fail(err error) {
	l.e.opt.Logger.Warn("run failed", "conversation", l.id, "error", l.masker.Mask(err.Error()))
	l.must(l.boundary, conversation.TrigFail, append(l.retryOver(), errorEvent(err))...)
}

// errorEvent says what went wrong in words for the user.
func errorEvent(err error) *conversation.ConversationErrorEvent {
	var over *spend.Exceeded
	if errors.As(err, &over) {
		return conversationError("MaxBudgetReached", fault.PublicText(over), "quota", "settings")
	}
	if le := asLLMError(err); le != nil {
		a := adviceOn(le.Class)
		return conversationError(le.Class.Code(), withReason(a[2], le), a[0], a[1])
	}
	code := fault.CodeOf(err)
	switch code {
	case "":
		code = "InternalError"
	case condense.CodeTooLong:
		code = llm.ClassContext.Code() // what clients know it by
	}
	action, kind := "retry", "internal"
	if k := fault.KindOf(err); k == fault.Invalid || k == fault.Unsupported || k == fault.NotFound {
		action, kind = "settings", "config"
	}
	return conversationError(code, fault.PublicText(err), kind, action)
}

// llmAdvice says what to do about a class of model errors: kind, user action, text.
var llmAdvice = map[llm.Class][3]string{
	llm.ClassAuth:          {"auth", "settings", "The model's provider refused the API key. Check llm_api_key in the settings, then send a message to go on."},
	llm.ClassQuota:         {"quota", "settings", "The model's provider says that the account is out of credits."},
	llm.ClassRateLimit:     {"rate_limit", "retry", "The model's provider limits the rate of requests. Send a message to try again."},
	llm.ClassOverloaded:    {"transient", "retry", "The model's provider is overloaded or down. Send a message to try again."},
	llm.ClassNetwork:       {"transient", "retry", "The model cannot be reached. Check llm_base_url and the network, then send a message to go on."},
	llm.ClassTimeout:       {"transient", "retry", "The model did not answer in time. Send a message to try again."},
	llm.ClassContext:       {"config", "settings", "The conversation is longer than the model can read. Start a new conversation, or use a model with a larger context window."},
	llm.ClassContentPolicy: {"agent_action", "retry", "The model's provider refused the content. Rephrase the request."},
	llm.ClassMalformed:     {"internal", "retry", "The model's provider rejected the history."},
	llm.ClassBadRequest:    {"config", "settings", "The model's provider rejected the request. Check llm_model and llm_base_url."},
	llm.ClassNoResponse:    {"transient", "retry", "The model gave an empty answer. Send a message to try again."},
}

func adviceOn(c llm.Class) [3]string {
	if a, ok := llmAdvice[c]; ok {
		return a
	}
	return [3]string{"unknown", "retry", "The model call failed."}
}

// told makes an error of a model one that can be read outside.
func told(err error, m Masker) error {
	le := asLLMError(err)
	if le == nil {
		return err
	}
	return fault.Wrap(err, fault.Unavailable, le.Class.Code(), "%s", m.Mask(withReason(adviceOn(le.Class)[2], le)))
}

func asLLMError(err error) *llm.Error {
	var e *llm.Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

func withReason(advice string, e *llm.Error) string {
	if e.Message == "" {
		return advice
	}
	return advice + " The provider said: " + e.Message
}

// answers answers every open call with an error.
func (l *live) answers(text string) []conversation.Payload {
	var events []conversation.Payload
	for _, a := range l.state.Pending {
		events = append(events, agentError(a, text))
	}
	return events
}

// interrupted answers every open call and ends the run as the user's doing.
func (l *live) interrupted() {
	text := conversation.CallInterrupted + "this call; it may have run in part."
	if l.state.Status == conversation.WaitingConfirmation {
		text = conversation.CallInterrupted + "the conversation while this call waited for confirmation: it did not run."
	}
	events := l.answers(text)
	waiting := l.interrupts
	l.interrupts = nil
	done := func() {
		for _, w := range waiting {
			close(w)
		}
		if len(l.interrupts) > 0 { // others came while the store refused ours
			l.interrupted()
		}
	}
	if l.state.Status != conversation.Running && l.state.Status != conversation.WaitingConfirmation {
		done() // the run ended by itself before the interrupt came through
		return
	}
	events = append(append(events, l.retryOver()...), &conversation.InterruptEvent{
		Header: conversation.Head(conversation.KindInterrupt, conversation.SourceUser, time.Time{})})
	l.must(done, conversation.TrigInterrupt, events...)
}
