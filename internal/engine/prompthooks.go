package engine

import (
	"context"
	"slices"
	"strings"

	"parley/internal/agent/hookrun"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/hook"
	"parley/internal/skill"
)

// verdict is what hooks made of a message.
type verdict struct {
	outcome hookrun.Outcome
	blocked bool
}

// events are those of the hooks, none without a verdict.
func (v *verdict) events() []conversation.Payload {
	if v == nil {
		return nil
	}
	return hookEvents(v.outcome)
}

// submit sends a message after the hooks that guard it have seen it. They run beside
// the conversation's goroutine, and before anything is stored: who sent the message
// hears of it only then.
func (e *Engine) submit(ctx context.Context, owner string, id conversation.ID, m Message) error {
	var guard *hookrun.Runner
	err := e.do(ctx, owner, id, func(l *live) error {
		if guard = l.guardOf(&m); guard != nil {
			return nil
		}
		return l.send(ctx, m, nil)
	})
	if err != nil || guard == nil {
		return err
	}
	v, err := e.judgeMessage(ctx, guard, m)
	if err != nil {
		return err
	}
	return e.do(ctx, owner, id, func(l *live) error { return l.send(ctx, m, v) })
}

// guardOf returns the hooks that a message has to pass, nil if there are none. The
// message gets its id, by which hooks know it.
func (l *live) guardOf(m *Message) *hookrun.Runner {
	if !l.prepared() || l.opens() {
		return nil // kept for the start, which asks then
	}
	if m.ID == "" {
		m.ID = conversation.NewEventID()
	}
	return l.hooksFor(hook.UserPromptSubmit)
}

func (e *Engine) judgeMessage(ctx context.Context, guard *hookrun.Runner, m Message) (*verdict, error) {
	o, err := e.runHooks(ctx, guard, hookrun.Input{Event: hook.UserPromptSubmit, Message: content.JoinText(m.Parts), MessageID: m.ID})
	if err != nil {
		return nil, err
	}
	return &verdict{outcome: o, blocked: o.Blocked}, nil
}

// enrich adds to a message what skills and hooks have to say about it.
// told are skills that are about to be told.
func (l *live) enrich(ev *conversation.MessageEvent, v *verdict, told ...string) {
	if v != nil && v.blocked {
		return
	}
	if l.extras != nil {
		for _, found := range skill.Match(l.extras.skills, content.JoinText(ev.LLMMessage.Content),
			func(name string) bool { return slices.Contains(told, name) || l.knowsSkill(name) }) {
			ev.ActivatedSkills = append(ev.ActivatedSkills, found.Skill.Name)
			ev.ExtendedContent = append(ev.ExtendedContent, content.Text(skill.Knowledge(found)))
		}
	}
	if v != nil {
		ev.ExtendedContent = append(ev.ExtendedContent, contextParts(v.outcome)...)
	}
	if s := strings.TrimSpace(l.conv.Options.UserSuffix); s != "" {
		ev.ExtendedContent = append(ev.ExtendedContent, content.Text(s))
	}
}
