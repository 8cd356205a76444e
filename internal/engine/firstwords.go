package engine

import (
	"context"
	"slices"
	"time"

	"parley/internal/agent/hookrun"
	"parley/internal/conversation"
	"parley/internal/hook"
)

// sayFirst says what is to be said once a start is through: the first message of the
// request, and what users wrote meanwhile. All of it passes the hooks before a model
// reads it. fresh says that the working directory is new, so that nothing can have run
// yet: an error is that of a start which failed.
func (e *Engine) sayFirst(ctx context.Context, conv *conversation.Conversation, fresh bool) error {
	if err := e.awaken(ctx, conv); err != nil {
		return err
	}
	if err := e.beginSession(ctx, conv.Owner, conv.ID); err != nil {
		return err
	}
	verdicts := map[string]*verdict{}
	for {
		var unjudged []Message
		var guard *hookrun.Runner
		err := e.do(ctx, conv.Owner, conv.ID, func(l *live) (err error) {
			if unjudged, guard = l.unjudged(verdicts); guard == nil {
				err = l.open(ctx, fresh, verdicts)
			}
			return err
		})
		if err != nil || guard == nil {
			return err
		}
		for _, m := range unjudged { // more may be written until they are judged
			if verdicts[m.ID], err = e.judgeMessage(ctx, guard, m); err != nil {
				return err
			}
		}
	}
}

// awaken lets a conversation know what its start has found, and connects its servers.
// What is said first waits for them a moment, so that its agent has their tools.
func (e *Engine) awaken(ctx context.Context, conv *conversation.Conversation) error {
	var servers *session
	err := e.do(ctx, conv.Owner, conv.ID, func(l *live) error {
		stored, err := e.opt.Store.Conversations().Get(ctx, "", conv.ID)
		if err != nil {
			return err
		}
		if err := l.writable(); err != nil {
			return err
		}
		l.adopt(stored)
		if err := l.extend(ctx); err != nil {
			return err
		}
		l.noteExtras()
		if l.hasInitial() || len(l.unheard()) > 0 {
			l.connect()
			servers = l.session
		}
		return nil
	})
	if err == nil && servers != nil {
		servers.settle(ctx)
	}
	return err
}

// unheard are the messages that users wrote before the agent said or did anything and
// that no hook has seen, oldest first: they were written before the start was through.
func (l *live) unheard() []Message {
	var words []Message
	heard := map[string]bool{}
	for _, p := range l.state.Branch.Path() {
		switch e := p.(type) {
		case *conversation.HookExecutionEvent:
			heard[e.MessageID] = true
		case *conversation.ActionEvent:
			return nil
		case *conversation.MessageEvent:
			switch e.Source {
			case conversation.SourceAgent:
				return nil
			case conversation.SourceUser:
				words = append(words, Message{ID: e.ID, Parts: e.LLMMessage.Content})
			}
		}
	}
	return slices.DeleteFunc(words, func(m Message) bool { return heard[m.ID] })
}

// opens reports whether the hooks have yet to see what users wrote before the start
// was through. What they write meanwhile joins it, and nothing runs before.
func (l *live) opens() bool {
	s := l.state.Status
	return l.conv.Options.Task == nil && (s == conversation.Idle || s == conversation.Error) && l.hasHooks(hook.UserPromptSubmit, "") && len(l.unheard()) > 0
}

// unjudged are the first words without a verdict, and the hooks that make one; nil if
// there is nothing to judge. The task of a sub-agent is no user's words.
func (l *live) unjudged(verdicts map[string]*verdict) ([]Message, *hookrun.Runner) {
	if !l.hasHooks(hook.UserPromptSubmit, "") {
		return nil, nil
	}
	words := l.unheard()
	if l.hasInitial() && l.conv.Options.Task == nil {
		words = append(words, l.initial())
	}
	words = slices.DeleteFunc(words, func(m Message) bool { return verdicts[m.ID] != nil })
	if len(words) == 0 {
		return nil, nil
	}
	return words, l.hooksFor(hook.UserPromptSubmit)
}

// open says the first words and starts the run. What skills and hooks have to say about
// messages that are stored already follows them.
func (l *live) open(ctx context.Context, fresh bool, verdicts map[string]*verdict) error {
	if err := l.writable(); err != nil {
		return err
	}
	if l.conv.Options.Task != nil && !l.e.tends(l.id) {
		return l.unattended()
	}
	events, heard := l.answerEarly(verdicts)
	if l.hasInitial() {
		if len(events) > 0 {
			if err := l.append(slices.Concat(l.opening(), events)...); err != nil {
				return err
			}
		}
		return l.send(ctx, l.initial(), verdicts[conversation.InitialMessageID(l.id)])
	}
	if was := l.conv.Options.Imported; was != nil && l.state.LastUserMsgID == was.UserMessage {
		return nil // nobody has said anything since
	}
	if l.conv.Origin == conversation.OriginV0 && l.state.Status == conversation.Idle && l.state.LastUserMsgID == "" && len(events) == 0 {
		return l.append(l.opening()...) // the legacy API shows it to who has not said anything yet
	}
	failed := l.state.Status == conversation.Error && (fresh || len(verdicts) > 0)
	if l.state.LastUserMsgID == "" || l.state.Status != conversation.Idle && !failed {
		return nil
	}
	opening := l.opening()
	if failed && opening == nil { // told before the directory was known
		opening = append(opening, l.prompt())
	}
	events = slices.Concat(opening, events)
	if !heard && len(verdicts) > 0 {
		return l.append(append(events, ranInVain()...)...)
	}
	if err := l.transition(conversation.TrigRun, events...); err != nil { // what was said meanwhile
		return err
	}
	l.runStarted()
	return nil
}

// answerEarly is what skills and hooks have to say about messages that are stored
// already. heard says that a model may read one of them.
func (l *live) answerEarly(verdicts map[string]*verdict) (events []conversation.Payload, heard bool) {
	var known []string
	for _, m := range l.unheard() {
		v := verdicts[m.ID]
		said := userMessage(m)
		l.enrich(said, v, known...)
		known = append(known, said.ActivatedSkills...)
		events = slices.Concat(events, v.events(), knowledgeOf(said))
		heard = heard || v == nil || !v.blocked
	}
	return events, heard
}

// ranInVain are the states of a run that no model was asked in.
func ranInVain() []conversation.Payload {
	return []conversation.Payload{stateUpdate(conversation.KeyStatus, conversation.Running),
		stateUpdate(conversation.KeyStatus, conversation.Finished)}
}

// unattended keeps the task of a sub-agent that nobody waits for any more. Who gave it
// can go on with it.
func (l *live) unattended() error {
	if !l.hasInitial() || l.state.Status != conversation.Idle {
		return nil
	}
	return l.transition(conversation.TrigPause, append(l.opening(), userMessage(l.initial()), pauseEvent())...)
}

func pauseEvent() conversation.Payload {
	return &conversation.PauseEvent{Header: conversation.Head(conversation.KindPause, conversation.SourceUser, time.Time{})}
}

// hasInitial reports whether there is a first message that was not said yet.
// Others may have been: a user may write before the start is through.
func (l *live) hasInitial() bool {
	_, said := l.state.Branch.At(conversation.InitialMessageID(l.id))
	return len(l.conv.InitialMessage) > 0 && !said
}

func (l *live) initial() Message {
	return Message{ID: conversation.InitialMessageID(l.id), Parts: l.conv.InitialMessage, Run: true}
}
