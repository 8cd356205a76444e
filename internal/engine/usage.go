package engine

import (
	"context"
	"time"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

// Usage returns what an owner's model calls cost from one day to another, both
// inclusive (UTC, "2006-01-02"), by day, use and model. Invalid if they are no
// days in that order.
func (e *Engine) Usage(ctx context.Context, owner, from, to string) ([]store.SpendingRow, error) {
	for _, day := range []string{from, to} {
		if _, err := time.Parse(time.DateOnly, day); err != nil {
			return nil, fault.New(fault.Invalid, "invalid_day", "%.40q is no day of the form 2006-01-31.", day)
		}
	}
	if from > to {
		return nil, fault.New(fault.Invalid, "invalid_day", "The first day, %s, is after the last, %s.", from, to)
	}
	return e.opt.Store.Ledger().Days(ctx, owner, from, to)
}

// ConversationUsage is what a conversation's model calls cost.
type ConversationUsage struct {
	ByUse map[string]store.Spending // of the conversation alone
	Tree  store.Spending            // with all sub-conversations
}

// ConversationUsage returns what a conversation cost, or NotFound.
func (e *Engine) ConversationUsage(ctx context.Context, owner string, id conversation.ID) (ConversationUsage, error) {
	if _, err := e.opt.Store.Conversations().Get(ctx, owner, id); err != nil {
		return ConversationUsage{}, err
	}
	own, tree, err := e.opt.Store.Ledger().Conversation(ctx, id)
	return ConversationUsage{ByUse: own, Tree: tree}, err
}

// Calls returns the single model calls of a conversation by usage id, derived
// from its log, or NotFound.
func (e *Engine) Calls(ctx context.Context, owner string, id conversation.ID) (map[string]conversation.Calls, error) {
	conv, err := e.opt.Store.Conversations().Get(ctx, owner, id)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	l := e.live[id]
	e.mu.Unlock()
	if l != nil {
		if known := l.calls.Load(); known != nil && known.head >= conv.Summary.Head {
			return known.calls, nil
		}
	}
	return e.foldCalls(ctx, id)
}

// foldCalls reads the calls from the log of a conversation that is not loaded.
func (e *Engine) foldCalls(ctx context.Context, id conversation.ID) (map[string]conversation.Calls, error) {
	state := conversation.NewState()
	q := store.EventQuery{Conversation: id, Kind: conversation.KindStateUpdate, Limit: 1000}
	for {
		page, err := e.opt.Store.Events().Search(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, ev := range page.Items {
			p, err := conversation.Decode(ev)
			if err != nil {
				return nil, err
			}
			state.Apply(ev, p)
		}
		if page.NextID == "" || len(page.Items) == 0 {
			return state.Calls, nil
		}
		after := page.Items[len(page.Items)-1].Seq + 1
		q.AtOrAfter = &after
	}
}
