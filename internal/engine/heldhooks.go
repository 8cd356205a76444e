package engine

import (
	"context"

	"parley/internal/agent/hookrun"
	"parley/internal/conversation"
)

// runHooks runs hooks that a conversation's work waits for without being part of it:
// those of its beginning and of messages. An interrupt and the end of the conversation
// stop them; the error is why, then.
func (e *Engine) runHooks(ctx context.Context, r *hookrun.Runner, in hookrun.Input) (hookrun.Outcome, error) {
	id := conversation.ID(r.SessionID)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	e.mu.Lock()
	if e.hooks[id] == nil {
		e.hooks[id] = map[*context.CancelCauseFunc]struct{}{}
	}
	e.hooks[id][&cancel] = struct{}{}
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if delete(e.hooks[id], &cancel); len(e.hooks[id]) == 0 {
			delete(e.hooks, id)
		}
	}()
	return r.Run(ctx, in)
}

// stopHooks ends what runHooks runs for a conversation.
func (e *Engine) stopHooks(id conversation.ID, cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for cancel := range e.hooks[id] {
		(*cancel)(cause)
	}
}
