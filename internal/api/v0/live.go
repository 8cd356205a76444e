package v0

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"parley/internal/api/v0/projection"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/stream"
)

// Names of events on the wire: what clients hear, and what they say, of which the
// second is of older ones.
const (
	eventOut      = "oh_event"
	eventIn       = "oh_user_action"
	eventInLegacy = "oh_action"
)

// maxTold bounds what a client was told and did not take yet, besides events; the
// oldest goes first.
const maxTold = 100

// payload is something besides events that clients are told.
type payload struct {
	StatusUpdate bool    `json:"status_update,omitempty"`
	Error        bool    `json:"error,omitempty"`
	Type         string  `json:"type,omitempty"` // info, error; of a status update
	ID           string  `json:"id,omitempty"`
	Message      *string `json:"message,omitempty"`
	Title        string  `json:"conversation_title,omitempty"`
}

func statusPayload(kind, id, message string) payload {
	return payload{StatusUpdate: true, Type: kind, ID: id, Message: &message}
}

func runtimePayload(status string) payload { return statusPayload("info", status, "") }

func titlePayload(id conversation.ID, title string) payload {
	p := statusPayload("info", "", string(id))
	p.Title = title
	return p
}

func failurePayload(message string) payload { return payload{Error: true, Message: &message} }

// client is one that was let in. Its numbered events are read by the goroutine of
// serve, in order: what was there when it came is replayed, what came later is live.
type client struct {
	rooms  *Rooms
	socket Socket
	owner  string
	id     conversation.ID
	latest int64 // id of the last event that it has
	cut    context.CancelCauseFunc
	wake   chan struct{} // there is something to tell

	next int64 // id of the next event to look at; of serve

	mu      sync.Mutex
	told    []payload // to be sent
	parting bool      // and then it is sent away
}

// tell queues a payload.
func (c *client) tell(p payload) {
	c.mu.Lock()
	if len(c.told) >= maxTold {
		c.told = c.told[1:]
	}
	c.told = append(c.told, p)
	c.mu.Unlock()
	c.nudge()
}

func (c *client) nudge() { nudge(c.wake) }

// part sends the client away after what it was told.
func (c *client) part() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parting {
		return
	}
	c.parting = true
	time.AfterFunc(partingTime, func() { c.cut(errParted) })
	c.nudge()
}

// serve runs until the client leaves, which is ctx's end, or is sent away.
func (c *client) serve(ctx context.Context, news *stream.Follower) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer cancel(nil)
	helpers.Go(func() { cancel(c.listen(ctx, news)) })
	helpers.Go(func() { cancel(c.receive(ctx)) })
	err := c.send(ctx)
	if cause := context.Cause(ctx); errors.Is(err, errParted) || errors.Is(cause, errParted) {
		return nil
	} else if cause != nil {
		return cause
	}
	return err
}

func (c *client) send(ctx context.Context) error {
	if err := c.replay(ctx); err != nil {
		return err
	}
	for {
		if err := c.sendTold(ctx); err != nil {
			return err
		}
		if err := c.sendNew(ctx); err != nil {
			return err
		}
		select {
		case <-c.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// sendTold sends what was queued, and ends the connection if the client parts.
func (c *client) sendTold(ctx context.Context) error {
	c.mu.Lock()
	told, parting := c.told, c.parting
	c.told = nil
	c.mu.Unlock()
	for _, p := range told {
		if err := c.emit(ctx, p); err != nil {
			return err
		}
	}
	if parting {
		return errParted
	}
	return nil
}

func (c *client) emit(ctx context.Context, p payload) error {
	raw, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return c.socket.Emit(ctx, eventOut, raw)
}

// replay sends what the client does not have of the events that are there now. Of the
// agent's states only the last is sent, behind everything.
func (c *client) replay(ctx context.Context) error {
	conv, end, err := c.extend(ctx)
	if err != nil {
		return err
	}
	c.next = end
	var state *projection.Event
	err = c.each(ctx, conv, c.latest+1, end, func(e *projection.Event) error {
		if _, _, changed := e.StateChange(); changed {
			state = e
			return nil
		}
		if !e.Replayed() {
			return nil
		}
		return c.emitEvent(ctx, e)
	})
	if err != nil || state == nil {
		return err
	}
	return c.emitEvent(ctx, state)
}

// sendNew sends what came since.
func (c *client) sendNew(ctx context.Context) error {
	conv, end, err := c.extend(ctx)
	if err != nil {
		return err
	}
	from := c.next
	c.next = max(end, from)
	return c.each(ctx, conv, from, end, func(e *projection.Event) error {
		if state, reason, _ := e.StateChange(); state == projection.Error {
			if err := c.emit(ctx, statusPayload("error", statusOfReason(reason), reason)); err != nil {
				return err
			}
		}
		if shown, ok := e.Live(); ok {
			return c.emitEvent(ctx, shown)
		}
		return nil
	})
}

// statusOfReason is the id of the status update that goes with a reason.
func statusOfReason(reason string) string {
	if strings.HasPrefix(reason, "STATUS$") || strings.HasPrefix(reason, "CHAT_INTERFACE$") {
		return reason
	}
	return "STATUS$ERROR"
}

// extend numbers the log's new events and returns the next id.
func (c *client) extend(ctx context.Context) (*conversation.Conversation, int64, error) {
	h := c.rooms.h
	v, now, err := h.view(ctx, c.owner, c.id)
	if fault.Is(err, fault.NotFound) {
		return nil, 0, errParted // it was deleted
	}
	if err != nil {
		return nil, 0, err
	}
	end, err := h.ledger.extend(ctx, v.Conversation, now.status == statusRunning)
	return v.Conversation, end, err
}

// each calls do with the events from one id up to before another.
func (c *client) each(ctx context.Context, conv *conversation.Conversation, from, end int64, do func(*projection.Event) error) error {
	for from < end {
		events, err := c.rooms.h.ledger.page(ctx, conv, from, end-1, false, eventBatch)
		if err != nil || len(events) == 0 {
			return err
		}
		for _, e := range events {
			if err := do(e); err != nil {
				return err
			}
			from = e.ID + 1
		}
	}
	return nil
}

func (c *client) emitEvent(ctx context.Context, e *projection.Event) error {
	raw, err := encode(e)
	if err != nil {
		return err
	}
	return c.socket.Emit(ctx, eventOut, raw)
}

// listen hears of what is appended to the log, and of the end of the conversation.
func (c *client) listen(ctx context.Context, news *stream.Follower) error {
	for {
		item, err := news.Next(ctx)
		switch {
		case err != nil:
			return err
		case item.Deleted:
			return errParted
		}
		for _, e := range item.Events {
			if p, ok := retryPayload(e); ok {
				c.tell(p)
			}
		}
		if len(item.Events) > 0 {
			c.nudge()
		}
		if item.Notice != nil {
			c.tell(failurePayload(item.Notice.Detail))
		}
	}
}

// retryPayload tells that a model is asked again.
func retryPayload(e conversation.Event) (payload, bool) {
	if e.Kind != conversation.KindStateUpdate {
		return payload{}, false
	}
	p, err := conversation.Decode(e)
	if err != nil {
		return payload{}, false
	}
	text, ok := projection.RetryOf(p)
	return statusPayload("info", "STATUS$LLM_RETRY", text), ok
}

// receive carries out what the client says, one after the other. What it said before
// it left is carried out as well, without its connection's context.
func (c *client) receive(ctx context.Context) error {
	for {
		name, args, err := c.socket.Receive(ctx)
		if err != nil {
			return err
		}
		if (name != eventIn && name != eventInLegacy) || len(args) == 0 {
			continue
		}
		if err := c.rooms.h.act(context.WithoutCancel(ctx), c.owner, c.id, args[0]); err != nil {
			if fault.KindOf(err) == fault.Internal {
				c.rooms.log.Error("client's event failed", "conversation", c.id, "error", err)
			}
			c.tell(failurePayload(told(err)))
		}
	}
}
