package engine

import (
	"context"
	"slices"
	"time"

	"parley/internal/conversation"
	"parley/internal/extension"
	"parley/internal/fault"
)

// Trust stores what a user decided about something that wants to run, for this
// conversation and all others of the owner in which the same content asks. NotFound
// if the conversation does not ask about the subject, Conflict if its content is
// another one by now.
func (e *Engine) Trust(ctx context.Context, owner string, id conversation.ID, subject, hash string, trusted bool) error {
	var before []string
	err := e.do(ctx, owner, id, func(l *live) error {
		if !l.prepared() { // what it would run later is not known yet
			return errNotReady()
		}
		if err := l.extend(ctx); err != nil {
			return err
		}
		before = l.extras.running()
		return l.asks(subject, hash)
	})
	if err != nil {
		return err
	}
	err = e.opt.Store.Extensions().Decide(ctx, owner, extension.Decision{Subject: subject, Hash: hash, Trusted: trusted,
		At: time.Now().UTC().Truncate(time.Microsecond)})
	if err != nil {
		return err
	}
	if err := e.do(ctx, owner, id, func(l *live) error { return l.decided(ctx) }); err != nil {
		return err
	}
	e.tellOthers(owner, id)
	if trusted {
		e.job(func() { e.catchUp(owner, id, before) })
	}
	return nil
}

// asks refuses a decision about what is not asked.
func (l *live) asks(subject, hash string) error {
	about := false
	for _, q := range l.extras.questions {
		if q.Subject == subject && q.Hash == hash {
			return nil
		}
		about = about || q.Subject == subject
	}
	if about {
		return fault.New(fault.Conflict, "content_changed", "The content of %.200s is not the one that was decided about.", subject).
			WithHint("Look at the question again.")
	}
	return fault.New(fault.NotFound, "question_not_found", "The conversation does not ask about %.200q.", subject).
		WithHint("It is asked once; what was decided can be taken back with DELETE /api/v1/trust.")
}

// decided takes a decision into account.
func (l *live) decided(ctx context.Context) error {
	if err := l.extend(ctx); err != nil {
		return err
	}
	l.lookAround()
	return nil
}

// running names what may run of bundles.
func (x *extras) running() []string {
	var names []string
	for _, h := range x.hooks {
		names = append(names, "hooks of "+h.Name)
	}
	for _, b := range x.setUps {
		names = append(names, "scripts of "+b.Name)
	}
	return names
}

// tellOthers lets the owner's other conversations that are loaded look again.
func (e *Engine) tellOthers(owner string, but conversation.ID) {
	e.mu.Lock()
	all := make([]*live, 0, len(e.live))
	for id, l := range e.live {
		if id != but {
			all = append(all, l)
		}
	}
	e.mu.Unlock()
	for _, l := range all {
		e.job(func() {
			l.post(func(l *live) {
				if l.conv.Owner != owner {
					return
				}
				if err := l.decided(e.ctx); err != nil {
					e.opt.Logger.Warn("decision not taken into account", "conversation", l.id, "error", err)
				}
			})
		})
	}
}

// catchUp does what the start of a conversation left undone because it was not
// trusted: set-up scripts and the hooks of the beginning. before is what ran already.
func (e *Engine) catchUp(owner string, id conversation.ID, before []string) {
	var setUps []extension.Bundle
	var conv *conversation.Conversation
	err := e.do(e.ctx, owner, id, func(l *live) error {
		conv, setUps = l.conv, slices.DeleteFunc(slices.Clone(l.extras.setUps),
			func(b extension.Bundle) bool { return slices.Contains(before, "scripts of "+b.Name) })
		return nil
	})
	if err == nil && len(setUps) > 0 {
		err = e.setUpLate(e.ctx, conv, setUps)
	}
	if err == nil {
		err = e.beginSession(e.ctx, owner, id)
	}
	if err != nil && e.ctx.Err() == nil {
		e.opt.Logger.Warn("what was trusted could not be run", "conversation", id, "error", err)
	}
}

// setUpLate runs the set-up scripts of repositories that were trusted after the start.
func (e *Engine) setUpLate(ctx context.Context, conv *conversation.Conversation, repositories []extension.Bundle) error {
	hands, err := e.opt.Fleet.Ensure(ctx, conv.Owner, conv.SandboxID, true)
	for _, b := range repositories {
		if err == nil {
			err = e.setUp(ctx, conv, hands, b, func(conversation.TaskStatus) {})
		}
	}
	return err
}

// Decisions lists what an owner decided, the newest first.
func (e *Engine) Decisions(ctx context.Context, owner string) ([]extension.Decision, error) {
	return e.opt.Store.Extensions().Decisions(ctx, owner)
}

// Forget takes the decisions about a subject back: it is asked again. What runs in a
// conversation stops with its next call. NotFound if there is none.
func (e *Engine) Forget(ctx context.Context, owner, subject string) error {
	if err := e.opt.Store.Extensions().Forget(ctx, owner, subject); err != nil {
		return err
	}
	e.tellOthers(owner, "")
	e.dropSessions(owner) // those of conversations that are not loaded
	return nil
}

// noteExtras tells what the user should know about skills, hooks and servers, if that
// is news.
func (l *live) noteExtras() {
	notes := l.withExtras(l.state.Notes)
	if !sameExtras(notes, l.state.Notes) {
		l.note(notes)
	}
}

// withExtras brings the notes about extensions and tasks up to date. What says the
// same in other words stays.
func (l *live) withExtras(notes conversation.AgentNotes) conversation.AgentNotes {
	if l.extras == nil {
		return notes
	}
	now := notes
	now.Servers, now.Tasks = l.serverNotes(), l.tasksIn(notes.Tasks)
	now.Questions = slices.Clone(l.extras.questions)
	for i := range now.Questions { // as the log has it
		now.Questions[i].Subject = l.masker.Mask(now.Questions[i].Subject)
	}
	now.Problems = l.maskAll(l.extras.problems)
	if sameExtras(now, notes) {
		return notes
	}
	return now
}

func (l *live) maskAll(texts []string) []string {
	masked := make([]string, len(texts))
	for i, t := range texts {
		masked[i] = l.masker.Mask(t)
	}
	return masked
}

func sameExtras(a, b conversation.AgentNotes) bool {
	return slices.Equal(a.Problems, b.Problems) && slices.Equal(a.Tasks, b.Tasks) && slices.EqualFunc(a.Servers, b.Servers, sameServer) &&
		slices.EqualFunc(a.Questions, b.Questions, func(x, y conversation.TrustQuestion) bool { return x.Subject == y.Subject && x.Hash == y.Hash })
}

// sameServer leaves the words out: they change with each try.
func sameServer(a, b conversation.ServerNote) bool {
	return a.Name == b.Name && a.State == b.State && a.Tools == b.Tools
}
