package engine

import (
	"context"
	"strings"
	"sync"
	"time"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

// MaxPending bounds the messages that wait for the start of a conversation.
const MaxPending = 10

// CodeStartFailed is the code of a Conflict that says a conversation's start failed.
const CodeStartFailed = "start_failed"

// taskPrefix is what web clients put before the id of a start task.
const taskPrefix = "task-"

// deliveryTries bounds how often a message is handed over in a row; the next message,
// and the next life of the server, begin anew.
const deliveryTries = 30

// Queued is a message that waits.
type Queued struct {
	ID    string // of the event that it becomes
	Place int    // in the queue, 1-based
}

// Queue keeps a message of the user's until the conversation is READY, and hands it over
// then: in order, exactly once, also over a restart of the server. ref names the
// conversation or its start task, also with "task-" before it. What waits for a start
// that fails is dropped; later messages are refused (CodeStartFailed).
func (e *Engine) Queue(ctx context.Context, owner, ref string, parts []content.Part) (Queued, error) {
	conv, err := e.named(ctx, owner, ref)
	if err != nil {
		return Queued{}, err
	}
	if err := e.startable(ctx, conv.ID); err != nil {
		return Queued{}, err
	}
	m := store.PendingMessage{ID: conversation.NewEventID(), Parts: parts, CreatedAt: time.Now().UTC().Truncate(time.Microsecond)}
	place, err := e.opt.Store.Pending().Add(ctx, conv.ID, m, MaxPending)
	if err != nil {
		return Queued{}, err
	}
	if err := e.startable(ctx, conv.ID); err != nil { // it failed meanwhile
		return Queued{}, err
	}
	e.deliver(owner, conv.ID)
	return Queued{m.ID, place}, nil
}

// named finds a conversation by its id or that of its start task.
func (e *Engine) named(ctx context.Context, owner, ref string) (*conversation.Conversation, error) {
	missing := fault.New(fault.NotFound, "not_found", "There is no such conversation.")
	id, err := conversation.ParseID(strings.TrimPrefix(ref, taskPrefix))
	if err != nil {
		return nil, missing
	}
	conv, err := e.opt.Store.Conversations().Get(ctx, owner, id)
	if !fault.Is(err, fault.NotFound) {
		return conv, err
	}
	tasks, err := e.opt.Store.StartTasks().Batch(ctx, owner, []string{string(id)})
	if err != nil {
		return nil, err
	}
	if tasks[0] == nil {
		return nil, missing
	}
	return e.opt.Store.Conversations().Get(ctx, owner, tasks[0].ConversationID)
}

// startable refuses messages for a conversation whose start failed.
func (e *Engine) startable(ctx context.Context, id conversation.ID) error {
	status, err := e.startStatus(ctx, id)
	if err == nil && status == conversation.TaskError {
		err = fault.New(fault.Conflict, CodeStartFailed, "The conversation could not be started.").
			WithHint("The start task's detail says why. Start a new conversation.")
	}
	return err
}

// startStatus is how far the start of a conversation is; READY without a start task.
func (e *Engine) startStatus(ctx context.Context, id conversation.ID) (conversation.TaskStatus, error) {
	task, err := e.LatestTask(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return conversation.TaskReady, nil
	}
	if err != nil {
		return "", err
	}
	return task.Status, nil
}

// couriers knows which conversations have their messages handed over right now: one
// courier each, so that the order holds. The value says that it has to look again.
type couriers struct {
	mu sync.Mutex
	at map[conversation.ID]bool
}

// call reports whether a new courier is needed.
func (c *couriers) call(id conversation.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == nil {
		c.at = map[conversation.ID]bool{}
	}
	_, under := c.at[id]
	c.at[id] = under
	return !under
}

// done reports whether the courier has to look again; if not, it is gone.
func (c *couriers) done(id conversation.ID) (again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at[id] {
		c.at[id] = false
		return true
	}
	delete(c.at, id)
	return false
}

// deliver hands over in the background what waits for a conversation, if its start is
// through.
func (e *Engine) deliver(owner string, id conversation.ID) {
	if !e.couriers.call(id) {
		return
	}
	courier := func() {
		for {
			if err := e.deliverAll(owner, id); err != nil && e.ctx.Err() == nil {
				e.opt.Logger.Error("pending messages not delivered", "conversation", id, "error", err)
			}
			if !e.couriers.done(id) || e.ctx.Err() != nil {
				return
			}
		}
	}
	if !e.job(courier) {
		e.couriers.done(id) // the next life of the server delivers
	}
}

func (e *Engine) deliverAll(owner string, id conversation.ID) error {
	queue := e.opt.Store.Pending()
	for {
		waiting, err := queue.List(e.ctx, id)
		if err != nil || len(waiting) == 0 {
			return err
		}
		status, err := e.startStatus(e.ctx, id)
		switch {
		case err != nil || !status.Done():
			return err
		case status == conversation.TaskError:
			e.opt.Logger.Warn("pending messages dropped: the start failed", "conversation", id, "messages", len(waiting))
			return e.persist(func() error { return queue.Remove(e.ctx, id, "") })
		}
		if err := e.handOver(owner, id, waiting[0]); err != nil {
			return err
		}
		if err := e.persist(func() error { return queue.Remove(e.ctx, id, waiting[0].ID) }); err != nil {
			return err
		}
	}
}

// handOver says a message in its conversation. One that an earlier life of the server
// said already is in the log. What can never be said is dropped.
func (e *Engine) handOver(owner string, id conversation.ID, m store.PendingMessage) error {
	for try := 1; ; try++ {
		said, err := e.opt.Store.Events().ByID(e.ctx, id, []string{m.ID})
		if err == nil && said[0] == nil {
			err = e.persist(func() error { return e.Send(e.ctx, owner, id, Message{ID: m.ID, Parts: m.Parts, Run: true}) })
		}
		switch {
		case err == nil:
			return nil
		case fault.Is(err, fault.NotFound), fault.Is(err, fault.Invalid), fault.CodeOf(err) == store.CodeExists, fault.CodeOf(err) == "wrong_state":
			e.opt.Logger.Warn("pending message dropped", "conversation", id, "message", m.ID, "error", err)
			return nil
		case try == deliveryTries:
			return err
		}
		select {
		case <-time.After(stallRetry):
		case <-e.ctx.Done():
			return err
		}
	}
}

// recoverPending takes up what an earlier life of the server left undelivered.
func (e *Engine) recoverPending(ctx context.Context) error {
	ids, err := e.opt.Store.Pending().Waiting(ctx)
	if err != nil {
		return err
	}
	convs, err := e.opt.Store.Conversations().Batch(ctx, "", ids)
	if err != nil {
		return err
	}
	for _, c := range convs {
		if c != nil {
			e.deliver(c.Owner, c.ID)
		}
	}
	return nil
}
