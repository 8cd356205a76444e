package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"parley/internal/account"
	"parley/internal/agent/condense"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/store"
)

// memory is what a live conversation knows about the room its model has.
type memory struct {
	settings condense.Settings
	// learnt is the window as a prompt showed it that was refused in this run, and of
	// which model; 0 = none was.
	learnt     int64
	learntFrom string
	refused    int64 // estimate of the prompt that the provider refused last
	vain       int   // events of the view when a condensation came to nothing
	waiting    []chan error
}

// remember reads the condensers anew.
func (l *live) remember(s *account.Settings) {
	own := l.conv.Options.Condenser
	settings, err := condense.FromOptions(own, condense.Defaults{Enabled: s.EnableDefaultCondenser,
		MaxSize: s.CondenserMaxSize, Planning: l.conv.AgentType == AgentPlan})
	if err != nil { // checked at the start; a later version may be stricter
		l.e.opt.Logger.Warn("condenser of a conversation not usable", "conversation", l.id, "error", err)
		settings, _ = condense.FromOptions(nil, condense.Defaults{Enabled: true})
	}
	for i, c := range settings {
		if c.LLM != nil {
			own := s.WithKeys(*c.LLM)
			settings[i].LLM = &own
		}
	}
	l.memory.settings = settings
}

// maxCondensations bounds how many condensations there are before the model answers
// or the user speaks, whatever the estimates say.
const maxCondensations = 8

// tries counts them.
func tries(history []conversation.Payload) int {
	for i, p := range slices.Backward(history) {
		if m, ok := p.(*conversation.MessageEvent); ok && m.Source == conversation.SourceUser {
			return condense.Tries(history[i:])
		}
	}
	return condense.Tries(history)
}

// plan says whether the view has to become shorter before the model is called. The
// numbers are of the request that would be sent.
func (l *live) plan(s *step) condense.Plan {
	m := &l.memory
	if tries(s.history) >= maxCondensations && len(m.waiting) == 0 {
		return condense.Plan{}
	}
	in := condense.Input{Path: s.history, Tokens: s.prompt.Likely, Window: m.window(s), SoftFailed: m.vain,
		Thinks: func(id string) bool { return len(s.fields[id]) > 0 }}
	requested := condense.Requested(s.history)
	if requested {
		in.Refused = m.refused
	}
	p := m.settings.Plan(in)
	if !requested && m.vain > 0 && p.Size < m.vain+max(p.Config.MaxSize/10, 1) {
		return condense.Plan{} // the provider will say whether it is too long
	}
	return p
}

// window is how many tokens a prompt may have; 0 = unknown.
func (m *memory) window(s *step) int64 {
	window := s.info.ContextWindow
	if window > 0 && s.info.MaxOutput > 0 {
		window = max(window-min(s.info.MaxOutput, window/4), window/2)
	}
	if m.learnt > 0 && m.learntFrom == s.info.Model && (window == 0 || m.learnt < window) {
		return m.learnt
	}
	return window
}

// tooLong notes that the provider refused a prompt, and asks for a condensation.
// False if nothing condenses here, or if it was tried often enough.
func (l *live) tooLong(s *step, class llm.Class) bool {
	m := &l.memory
	if !m.settings.Handles() || tries(s.history) >= maxCondensations {
		return false
	}
	switch class {
	case llm.ClassContext:
		m.refused = max(s.prompt.Likely, 1)
		m.learnt, m.learntFrom = condense.Learned(m.window(s), m.refused), s.info.Model
	case llm.ClassMalformed: // a shorter history may be a sound one
		if tries(s.history) > 0 {
			return false
		}
		m.refused = 0
	default:
		return false
	}
	l.anchor = nil
	l.must(l.boundary, "", &conversation.CondensationRequest{
		Header: conversation.Head(conversation.KindCondenseRequest, conversation.SourceEnvironment, time.Time{})})
	return true
}

// Condense replaces old events by a summary for the model, as soon as no step is
// under way, and returns when that is done. Conflict while actions wait for the
// user, or calls are open.
func (e *Engine) Condense(ctx context.Context, owner string, id conversation.ID) error {
	done := make(chan error, 1)
	err := e.do(ctx, owner, id, func(l *live) error {
		if err := l.writable(); err != nil {
			return err
		}
		if err := l.openCalls(); err != nil {
			return err
		}
		if err := l.refresh(ctx); err != nil {
			return err
		}
		l.memory.refused = 0
		err := l.append(&conversation.CondensationRequest{
			Header: conversation.Head(conversation.KindCondenseRequest, conversation.SourceEnvironment, time.Time{})})
		if err == nil {
			l.memory.waiting = append(l.memory.waiting, done)
		}
		return err
	})
	if err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-e.ctx.Done():
		return errStopping()
	}
}

// openCalls says why nothing is condensed while no run is there that answers the
// open calls: a summary would take their place before their results are known.
func (l *live) openCalls() error {
	if l.state.Status == conversation.Running || len(l.state.Pending) == 0 {
		return nil
	}
	return fault.New(fault.Conflict, codeWrongState, "Actions of the conversation are open: %s.", l.state.Status).
		WithHint("Confirm or reject them, or run the conversation on.")
}

// condenseNow carries out what the user asked for while nothing runs. What cannot be
// done now is done before the next call of the model.
func (l *live) condenseNow() {
	if err := l.openCalls(); err != nil {
		l.memory.condensed(err)
		return
	}
	if !condense.Requested(l.history()) {
		l.memory.condensed(nil)
		return
	}
	s, err := guarded(l.e, "request", l.newStep)
	if err != nil && !errors.Is(err, errNoVision) {
		l.memory.condensed(err)
		return
	}
	l.startCondense(s.shorten)
}

// condensed tells whoever waits how it went.
func (m *memory) condensed(err error) {
	for _, w := range m.waiting {
		w <- err
	}
	m.waiting = nil
}

// startCondense makes the view shorter.
func (l *live) startCondense(p condense.Plan) {
	owner, choice := l.conv.Owner, quickly(l.choice)
	l.start(func(ctx context.Context) func(*live) {
		own, window := l.e.condenser(p)
		job := p.Job(window)
		step := job.Start()
		for step.Request != nil {
			model := choice
			if step.Own {
				model = own
			}
			resp, err := l.e.aside(ctx, owner, l.id, store.UseCondenser, model, step.Request, l.tellRetries())
			if ctx.Err() != nil {
				break
			}
			step = job.Take(resp, err)
		}
		return func(l *live) { l.condenseDone(context.Cause(ctx), p, step) }
	})
}

// condenser is the condenser's own model, if it has one, and its window.
func (e *Engine) condenser(p condense.Plan) (account.LLM, int64) {
	if p.Config.LLM == nil {
		return account.LLM{}, 0
	}
	m, err := e.opt.Models(*p.Config.LLM, ModelOptions{})
	if err != nil {
		return *p.Config.LLM, 0
	}
	return *p.Config.LLM, m.Info().ContextWindow
}

// condenseDone records what came of a condensation.
func (l *live) condenseDone(cause error, p condense.Plan, step condense.Step) {
	if step.Failure != nil {
		l.e.opt.Logger.Info("condensation", "conversation", l.id, "plan", p.String(), "failure", classOf(step.Failure))
	}
	switch {
	case isLeaving(cause):
	case errors.Is(cause, ErrInterrupted):
		l.memory.condensed(fault.New(fault.Canceled, "interrupted", "The condensation was interrupted."))
		l.stepDone(cause)
	case step.Condensation != nil:
		l.must(func() { l.memory.condensed(nil); l.stepDone(cause) }, "", append(l.retryOver(), step.Condensation)...)
	case step.Err != nil && l.state.Status == conversation.Running:
		l.memory.condensed(told(step.Err, l.masker))
		l.fail(step.Err)
	case step.Err != nil: // asked for by the user, and no run: the request is void
		l.e.opt.Logger.Warn("condensation failed", "conversation", l.id, "class", classOf(step.Err))
		l.must(func() { l.memory.condensed(told(step.Err, l.masker)); l.stepDone(cause) }, "", errorEvent(step.Err), voidCondensation())
	default: // it was not needed yet
		l.memory.vain = p.Size
		l.memory.condensed(nil)
		l.stepDone(cause)
	}
}

// voidCondensation forgets nothing: it answers a request that could not be met.
func voidCondensation() *conversation.Condensation {
	return &conversation.Condensation{
		Header: conversation.Head(conversation.KindCondensation, conversation.SourceEnvironment, time.Time{})}
}
