package engine

import (
	"context"
	"time"

	"parley/internal/conversation"
	"parley/internal/fault"
)

// SetPolicy says which actions wait for the user from the next answer of the model
// on. What the server's configuration demands holds in any case.
func (e *Engine) SetPolicy(ctx context.Context, owner string, id conversation.ID, p conversation.ConfirmationPolicy) error {
	if err := p.Check(); err != nil {
		return err
	}
	return e.setOption(ctx, owner, id, stateUpdate(conversation.KeyPolicy, p), func(o *conversation.Options) { o.Confirmation = &p })
}

// SetAnalyzer says who judges the risk of actions from the next answer of the
// model on; nil is nobody.
func (e *Engine) SetAnalyzer(ctx context.Context, owner string, id conversation.ID, a *conversation.Analyzer) error {
	if a != nil {
		if err := a.Check(); err != nil {
			return err
		}
	}
	return e.setOption(ctx, owner, id, stateUpdate(conversation.KeyAnalyzer, a), func(o *conversation.Options) {
		o.Analyzer, o.SecurityAnalyzer = a, ""
	})
}

// setOption changes the record and tells followers.
func (e *Engine) setOption(ctx context.Context, owner string, id conversation.ID, told conversation.Payload, set func(*conversation.Options)) error {
	return e.do(ctx, owner, id, func(l *live) error {
		if err := l.writable(); err != nil {
			return err
		}
		conv, err := e.opt.Store.Conversations().Update(ctx, id, time.Now().UTC(), func(c *conversation.Conversation) error {
			p := c.Options.Policy() // what held until now is not changed by the way
			c.Options.Confirmation = &p
			set(&c.Options)
			return nil
		})
		if err != nil {
			return err
		}
		l.adopt(conv)
		return l.append(told)
	})
}

// Confirm answers the actions that wait: accepted ones run, rejected ones are
// answered with the reason and the conversation waits for the user.
func (e *Engine) Confirm(ctx context.Context, owner string, id conversation.ID, accept bool, reason string) error {
	return e.do(ctx, owner, id, func(l *live) error {
		if err := l.storable(); err != nil {
			return err
		}
		if l.state.Status != conversation.WaitingConfirmation {
			return fault.New(fault.Conflict, "nothing_to_confirm", "No action waits for confirmation.")
		}
		if accept {
			if err := l.transition(conversation.TrigRun); err != nil {
				return err
			}
			l.runStarted()
			return nil
		}
		if err := l.transition(conversation.TrigReject, l.rejections(reason)...); err != nil {
			return err
		}
		e.opt.Hub.Snapshot(id, l.state.Head)
		return nil
	})
}

func (l *live) rejections(reason string) []conversation.Payload {
	if reason == "" {
		reason = "User rejected the action."
	}
	var events []conversation.Payload
	for _, a := range l.state.Pending {
		events = append(events, &conversation.UserRejectObservation{
			Header:   conversation.Head(conversation.KindUserReject, conversation.SourceEnvironment, time.Time{}),
			ToolName: a.ToolName, ToolCallID: a.ToolCallID, ActionID: a.ID,
			RejectionReason: reason, RejectionSource: "user"})
	}
	return events
}
