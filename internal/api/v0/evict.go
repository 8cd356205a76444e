package v0

import (
	"context"
	"errors"
	"slices"

	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/store"
)

// evict closes the owner's legacy conversations that were not updated for longest
// until no more than the bound run, as old servers do (V0 section 7.4). The one that
// has just been started stays, and so do those that still start. Two starts at once
// may pass the bound for as long as nobody starts a third.
//
// A failure is logged: the start has succeeded, and the next one tries again.
func (h *handlers) evict(ctx context.Context, owner string, started conversation.ID) {
	if h.maxLive <= 0 {
		return
	}
	live, failed := h.live(ctx, owner)
	if i := slices.IndexFunc(live, func(v *engine.View) bool { return v.ID == started }); i >= 0 {
		live = slices.Delete(live, i, i+1)
	} // else it has no sandbox yet
	for 1+len(live) > h.maxLive {
		oldest := -1
		for i, v := range live {
			if oldest < 0 || v.UpdatedAt.Before(live[oldest].UpdatedAt) {
				oldest = i
			}
		}
		if oldest < 0 {
			break
		}
		v := live[oldest]
		live = append(live[:oldest], live[oldest+1:]...)
		c, err := h.conditionOf(ctx, v)
		if err == nil && c.status == statusRunning {
			h.rooms.dismiss(v.ID, tooManyPayload())
			err = h.halt(ctx, v, c)
		}
		failed = errors.Join(failed, err)
	}
	if failed != nil {
		h.log.Warn("conversations beyond the bound not stopped", "user", owner, "error", failed)
	}
}

// live lists the owner's legacy conversations that run or start.
func (h *handlers) live(ctx context.Context, owner string) ([]*engine.View, error) {
	var all []*engine.View
	for q := (store.ConversationQuery{Owner: owner, Awake: true, Order: store.UpdatedDesc, Limit: maxPage}); ; {
		page, err := h.engine.Search(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, v := range page.Items {
			if v.Origin == conversation.OriginV0 && (v.SandboxStatus == store.SandboxRunning || v.SandboxStatus == store.SandboxStarting) {
				all = append(all, v)
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return all, nil
		}
	}
}
