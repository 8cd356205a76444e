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
	if task, err = e.awaitTask(ctx, task); err != nil {
		return nil, err
	}
	if task.Status == conversation.TaskError {
		if err := e.Delete(ctx, req.Owner, task.ConversationID); err != nil {
			return nil, err
		}
		return nil, fault.New(fault.Unavailable, "start_failed", "The conversation could not be started. %s", task.Detail)
	}
	return e.View(ctx, req.Owner, task.ConversationID)
}

// createPoll is how often Create looks.
const createPoll = 5 * time.Millisecond

// awaitTask returns a start task when it is done, as it is stored then.
func (e *Engine) awaitTask(ctx context.Context, task *conversation.StartTask) (*conversation.StartTask, error) {
	tick := time.NewTicker(createPoll)
	defer tick.Stop()
	for {
		if !e.underWay(task.ID) {
			stored, err := e.opt.Store.StartTasks().Batch(ctx, task.Owner, []string{task.ID})
			switch {
			case err != nil:
				return nil, err
			case stored[0] == nil:
				return nil, fault.New(fault.Conflict, "start_failed", "The conversation was deleted while it started.")
			case stored[0].Status.Done():
				return stored[0], nil
			}
		}
		select {
		case <-tick.C:
		case <-e.ctx.Done():
			return nil, errStopping()
		case <-ctx.Done():
			return nil, fault.Wrap(context.Cause(ctx), fault.Timeout, "start_slow", "The conversation is still starting.").
				WithHint("Look for it in a moment.")
		}
	}
}

// underWay reports whether a start task is being carried out.
func (e *Engine) underWay(task string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.tasks[task]
	return ok
}
