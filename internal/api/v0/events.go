package v0

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"parley/internal/api/httpkit"
	"parley/internal/api/v0/projection"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/vault"
)

// eventQuery is a page of events. Bounds are inclusive in both directions.
type eventQuery struct {
	StartID int64  `json:"start_id"`
	EndID   *int64 `json:"end_id"`
	Reverse bool   `json:"reverse"`
	Limit   int    `json:"limit"`
}

// eventFilter narrows a page. Nothing is hidden by default.
type eventFilter struct {
	ExcludeHidden bool `json:"exclude_hidden"`

	Query     *string `json:"query"`
	Source    *string `json:"source"`
	StartDate *string `json:"start_date"`
	EndDate   *string `json:"end_date"`
}

// accepts reports whether an event, and its JSON, passes.
func (f *eventFilter) accepts(e *projection.Event, raw []byte) bool {
	switch {
	case f.Source != nil && *f.Source != "" && e.Source != *f.Source,
		f.StartDate != nil && *f.StartDate != "" && e.Timestamp < *f.StartDate,
		f.EndDate != nil && *f.EndDate != "" && e.Timestamp > *f.EndDate:
		return false
	case f.ExcludeHidden && isHidden(raw):
		return false
	case f.Query != nil && *f.Query != "":
		return strings.Contains(strings.ToLower(string(raw)), strings.ToLower(*f.Query))
	}
	return true
}

func (h *handlers) searchEvents(w http.ResponseWriter, r *httpkit.Request) error {
	var q eventQuery
	var filter eventFilter
	if err := r.Params(&q); err != nil {
		return err
	}
	if err := r.Body(&filter); err != nil {
		return err
	}
	if q.Limit < 0 || q.Limit > maxPage {
		return fault.New(fault.Invalid, "invalid_limit", "Invalid limit")
	}
	id, err := idOf(r)
	if err != nil {
		return err
	}
	v, c, err := h.view(r.Context(), r.Principal.UserID, id)
	if err != nil {
		return err
	}
	events, more, err := h.pageOf(r.Context(), v.Conversation, c.status == statusRunning, q, &filter)
	if err != nil {
		return err
	}
	return ok(w, map[string]any{"events": events, "has_more": more})
}

// Events may be of several MiB each, with images: they are rendered a few at a time,
// and a page ends early, with has_more, when it has this many bytes.
const (
	eventBatch   = 20
	maxPageBytes = 32 << 20
)

// pageOf collects up to the limit of events that pass the filter, and whether
// another one would.
func (h *handlers) pageOf(ctx context.Context, c *conversation.Conversation, ready bool, q eventQuery,
	filter *eventFilter) ([]json.RawMessage, bool, error) {
	next, err := h.ledger.extend(ctx, c, ready)
	if err != nil {
		return nil, false, err
	}
	out, size := []json.RawMessage{}, 0
	for from, to := q.bounds(next); from <= to; {
		events, err := h.ledger.page(ctx, c, from, to, q.Reverse, min(q.Limit+1, eventBatch))
		if err != nil || len(events) == 0 {
			return out, false, err
		}
		for _, e := range events {
			raw, err := encode(e)
			if err != nil {
				return nil, false, err
			}
			if !filter.accepts(e, raw) {
				continue
			}
			if size += len(raw); len(out) == q.Limit || size > maxPageBytes && len(out) > 0 {
				return out, true, nil
			}
			out = append(out, raw)
		}
		if last := events[len(events)-1].ID; q.Reverse {
			to = last - 1
		} else {
			from = last + 1
		}
	}
	return out, false, nil
}

// bounds returns the ids asked for, both inclusive, within what there is.
func (q *eventQuery) bounds(next int64) (from, to int64) {
	from, to = max(q.StartID, 0), int64(math.MaxInt64)
	if q.EndID != nil {
		to = *q.EndID
	}
	return from, min(to, next-1)
}

// encode renders an event without escaping what HTML would need.
func encode(e *projection.Event) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, fmt.Errorf("encode event %d: %w", e.ID, err)
	}
	raw := bytes.ReplaceAll(bytes.TrimSpace(b.Bytes()), []byte(vault.Hidden), []byte(hiddenSecret))
	return bytes.ReplaceAll(raw, []byte(hiddenEscaped), []byte(hiddenSecret)), nil
}

// hiddenSecret is what stands for a secret's value in legacy events (legacy API 8.5); the log
// has vault.Hidden.
const hiddenSecret = "<secret_hidden>"

// hiddenEscaped is vault.Hidden as JSON that was stored with HTML escaped has it.
const hiddenEscaped = `\u003csecret-hidden\u003e`

// trajectory streams all events; an error in the middle cuts the connection.
func (h *handlers) trajectory(w http.ResponseWriter, r *httpkit.Request) error {
	id, err := idOf(r)
	if err != nil {
		return err
	}
	v, err := h.attached(r.Context(), r.Principal.UserID, id)
	if err != nil {
		return err
	}
	next, err := h.ledger.extend(r.Context(), v.Conversation, true)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	before, begun := `{"trajectory":[`, false
	for from := int64(0); from < next; from += eventBatch {
		events, err := h.ledger.page(r.Context(), v.Conversation, from, next-1, false, eventBatch)
		if err != nil {
			return err
		}
		for _, e := range events {
			raw, hidden, err := trajectoryEvent(e)
			if err != nil {
				return err
			}
			if hidden {
				continue
			}
			if _, err := w.Write(append([]byte(before), raw...)); err != nil {
				return err
			}
			before, begun = ",", true
		}
	}
	if !begun {
		_, _ = w.Write([]byte(before)) // nobody reads it if that fails
	}
	_, err = w.Write([]byte("]}"))
	return err
}

func (h *handlers) addEvent(w http.ResponseWriter, r *httpkit.Request) error {
	raw, err := json.Marshal(r.BodyValue())
	if err != nil {
		return fmt.Errorf("read event: %w", err)
	}
	in, err := readEvent(raw)
	if err != nil {
		return err
	}
	id, err := idOf(r)
	if err != nil {
		return err
	}
	owner := r.Principal.UserID
	if _, err := h.attached(r.Context(), owner, id); err != nil {
		return err
	}
	if err := h.carryOut(r.Context(), owner, id, in); err != nil {
		return err
	}
	return ok(w, map[string]bool{"success": true})
}

// decide carries out a state that a client asks for. One that is there already
// is no error.
func (h *handlers) decide(ctx context.Context, owner string, id conversation.ID, state projection.AgentState) error {
	switch state {
	case projection.Stopped:
		return h.stopAgent(ctx, owner, id)
	case projection.Paused:
		return h.engine.Pause(ctx, owner, id)
	case projection.UserConfirmed:
		return h.engine.Confirm(ctx, owner, id, true, "")
	case projection.UserRejected:
		return h.engine.Confirm(ctx, owner, id, false, "")
	}
	err := h.engine.Run(ctx, owner, id)
	if fault.CodeOf(err) == engine.CodeRunning {
		return nil
	}
	return err
}

// stopAgent stops the agent, not the conversation. It is stopped then also if there was
// no run.
func (h *handlers) stopAgent(ctx context.Context, owner string, id conversation.ID) error {
	if err := h.engine.Interrupt(ctx, owner, id); err != nil {
		return err
	}
	v, err := h.engine.View(ctx, owner, id)
	if err != nil {
		return err
	}
	if err := h.ledger.halted(ctx, v.Conversation, time.Now()); err != nil {
		return err
	}
	h.rooms.touch(id)
	return nil
}

func (h *handlers) addMessage(w http.ResponseWriter, r *httpkit.Request) error {
	var in struct {
		Message string `json:"message"`
	}
	if err := r.Body(&in); err != nil {
		return err
	}
	id, err := idOf(r)
	if err != nil {
		return err
	}
	if _, err := h.attached(r.Context(), r.Principal.UserID, id); err != nil {
		return err
	}
	if strings.TrimSpace(in.Message) == "" {
		return wrongField("value_error", "Value error, The message is empty", in.Message, "body", "message")
	}
	if err := h.say(r.Context(), r.Principal.UserID, id, &clientEvent{text: in.Message}); err != nil {
		return err
	}
	return ok(w, map[string]bool{"success": true})
}
