package v0

import (
	"context"
	"net/http"
	"time"

	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
)

func (h *handlers) start(w http.ResponseWriter, r *httpkit.Request) error {
	id, err := idOf(r)
	if err != nil {
		return err
	}
	v, c, err := h.view(r.Context(), r.Principal.UserID, id)
	if err != nil {
		return err
	}
	if c.status == statusStopped {
		if c, err = h.resume(r.Context(), v); err != nil {
			return lead(err, "Failed to start conversation: ")
		}
	}
	return ok(w, created{Status: "ok", ConversationID: v.ID, ConversationStatus: c.status})
}

// changeTime bounds a start and a stop that nobody may wait for any more.
const changeTime = 5 * time.Minute

// resume starts a stopped conversation. It is STARTING until it is seen running. Of
// several clients that open it at a time one does it, to the end even if it leaves: its
// events say once that the session goes on.
func (h *handlers) resume(ctx context.Context, v *engine.View) (condition, error) {
	done, err := h.resumes.take(ctx, v.Owner+"/"+string(v.ID))
	if err != nil {
		return condition{}, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTime)
	defer cancel()
	v, c, err := h.view(ctx, v.Owner, v.ID)
	if err != nil || c.status != statusStopped {
		return c, err
	}
	if err := h.engine.Resume(ctx, v.Owner, v.ID); err != nil {
		return condition{}, err
	}
	h.evict(ctx, v.Owner, v.ID)
	if v, c, err = h.view(ctx, v.Owner, v.ID); err != nil {
		return c, err
	}
	if c.status == statusStopped {
		c.status = statusStarting
	}
	if v.Summary.Status != conversation.Running { // a run goes on where it was
		if err := h.ledger.revived(ctx, v.Conversation, time.Now()); err != nil {
			return c, err
		}
	}
	h.rooms.touch(v.ID)
	return c, nil
}

// lead puts words before the public text of an error.
func lead(err error, words string) error {
	return fault.Wrap(err, fault.KindOf(err), fault.CodeOf(err), "%s%s", words, fault.PublicText(err))
}

// stop ends the run and freezes the sandbox. What does not run, or does not
// exist, is stopped already.
func (h *handlers) stop(w http.ResponseWriter, r *httpkit.Request) error {
	id, err := idOf(r)
	if err != nil {
		return err
	}
	v, c, err := h.view(r.Context(), r.Principal.UserID, id)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if err != nil || c.status == statusStopped {
		return ok(w, created{Status: "ok", ConversationID: id, Message: ref("Conversation was not running"),
			ConversationStatus: statusStopped})
	}
	if err := h.halt(r.Context(), v, c); err != nil {
		return lead(err, "Failed to stop conversation: ")
	}
	return ok(w, created{Status: "ok", ConversationID: id, Message: ref("Conversation stopped successfully"),
		ConversationStatus: c.status})
}

// halt stops a conversation, to the end even if who asked for it leaves.
func (h *handlers) halt(ctx context.Context, v *engine.View, c condition) error {
	var err error
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTime)
	defer cancel()
	h.rooms.dismiss(v.ID)
	if c.status == statusStarting {
		if v, err = h.started(ctx, v.Owner, v.ID); err != nil {
			return err
		}
	}
	if err := h.engine.Interrupt(ctx, v.Owner, v.ID); err != nil {
		return err
	}
	if v.SandboxID != "" {
		if err := h.fleet.Pause(ctx, v.Owner, v.SandboxID); err != nil {
			return err
		}
	}
	if v, err = h.engine.View(ctx, v.Owner, v.ID); err != nil {
		return err
	}
	return h.ledger.halted(ctx, v.Conversation, time.Now())
}

const (
	startWait = 10 * time.Second
	startPoll = 20 * time.Millisecond
)

// started waits until a start has ended, well or not: there is nothing to stop
// before.
func (h *handlers) started(ctx context.Context, owner string, id conversation.ID) (*engine.View, error) {
	limit := time.NewTimer(startWait)
	defer limit.Stop()
	tick := time.NewTicker(startPoll)
	defer tick.Stop()
	for {
		v, c, err := h.view(ctx, owner, id)
		if err != nil || c.status != statusStarting {
			return v, err
		}
		select {
		case <-tick.C:
		case <-limit.C:
			return nil, fault.New(fault.Unavailable, "still_starting", "It is still starting.").
				WithHint("Try again in a moment.")
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
