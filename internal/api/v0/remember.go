package v0

import (
	"net/http"
	"strings"

	"parley/internal/api/httpkit"
	"parley/internal/content"
	"parley/internal/fault"
)

const (
	rememberAround = 4    // events before and after the one that is asked about
	rememberEvent  = 6000 // bytes of one event
)

// rememberPrompt asks the model for a prompt that makes the agent remember what the
// events around one teach. It needs no sandbox.
func (h *handlers) rememberPrompt(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		EventID int64 `json:"event_id"`
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	id, err := idOf(r)
	if err != nil {
		return err
	}
	v, c, err := h.view(r.Context(), r.Principal.UserID, id)
	if err != nil {
		return err
	}
	next, err := h.ledger.extend(r.Context(), v.Conversation, c.status == statusRunning)
	if err != nil {
		return err
	}
	if q.EventID < 0 || q.EventID >= next {
		return fault.New(fault.NotFound, "event_not_found", "Event %d not found", q.EventID)
	}
	events, err := h.ledger.page(r.Context(), v.Conversation, max(q.EventID-rememberAround, 0), min(q.EventID+rememberAround, next-1), false, 2*rememberAround+1)
	if err != nil {
		return err
	}
	var excerpt []string
	for _, e := range events {
		e.Metrics = nil
		raw, hidden, err := trajectoryEvent(e)
		if err != nil {
			return err
		}
		if !hidden {
			excerpt = append(excerpt, content.Head(string(raw), rememberEvent))
		}
	}
	prompt, err := h.engine.Remember(r.Context(), v.Owner, v.ID, strings.Join(excerpt, "\n"))
	if err != nil {
		return err
	}
	return ok(w, map[string]string{"status": "success", "prompt": prompt})
}
