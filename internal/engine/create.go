package engine

import (
	"context"
	"time"

	"parley/internal/conversation"
	"parley/internal/fault"
)

// createWait bounds how long Create waits.
const createWait = 2 * time.Minute

// Create starts a conversation and waits until it can work, at most two minutes.
// A start that failed is an error, and leaves nothing behind.
func (e *Engine) Create(ctx context.Context, req StartRequest) (*View, error) {
	task, err := e.Start(ctx, req)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, createWait)
	defer cancel()
	if err := e.awaitTask(ctx, task.ID); err != nil {
		return nil, err
	}
	t, err := e.opt.Store.StartTasks().Latest(ctx, task.ConversationID)
	if err != nil {
		return nil, err
	}
	if t.Status == conversation.TaskError {
		if err := e.Delete(ctx, req.Owner, task.ConversationID); err != nil {
			return nil, err
		}
		return nil, fault.New(fault.Unavailable, "start_failed", "The conversation could not be started. %s", t.Detail)
	}
	return e.View(ctx, req.Owner, task.ConversationID)
}

// awaitTask returns when a start task is done.
func (e *Engine) awaitTask(ctx context.Context, id string) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		e.mu.Lock()
		_, under := e.tasks[id]
		e.mu.Unlock()
		if !under {
			return nil
		}
		select {
		case <-tick.C:
		case <-e.ctx.Done():
			return errStopping()
		case <-ctx.Done():
			return fault.Wrap(context.Cause(ctx), fault.Timeout, "start_slow", "The conversation is still starting.").
				WithHint("Look for it in a moment.")
		}
	}
}
