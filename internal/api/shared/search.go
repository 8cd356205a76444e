package shared

import (
	"context"
	"encoding/json"
	"net/http"

	"parley/internal/api/httpkit"
	"parley/internal/engine"
	"parley/internal/store"
)

// A search reads the log in parts, because events that are not shown do not count;
// after so many parts it answers with what it has.
const (
	scanPart = 200
	maxParts = 50
	// maxShown bounds the events of one answer together, in bytes: strangers must not
	// have the server hold a whole log of images. A page ends there, its first event
	// always fits; events by id are refused.
	maxShown = 8 << 20
)

type page struct {
	Items  []json.RawMessage `json:"items"`
	NextID *string           `json:"next_page_id"`
}

func (h *handlers) search(w http.ResponseWriter, r *httpkit.Request) error {
	q, err := read(r)
	if err != nil {
		return err
	}
	p, err := h.find(r.Context(), q.Conversation, q.token())
	if err != nil {
		return err
	}
	out := page{Items: []json.RawMessage{}}
	if p != nil && (q.Kind == nil || isShown(*q.Kind)) {
		if out, err = h.scan(r.Context(), p, &q); err != nil {
			return err
		}
	}
	return httpkit.JSON(w, http.StatusOK, out)
}

// scan collects a page. Its next id is that of the first event of the next page.
func (h *handlers) scan(ctx context.Context, p *engine.Published, q *query) (page, error) {
	out := page{Items: []json.RawMessage{}}
	f := q.filter(p.ID)
	next, size := "", 0
	if q.PageID != nil {
		next = *q.PageID
	}
	for range maxParts {
		if err := h.startAt(ctx, &f, next); err != nil {
			return out, err
		}
		found, err := h.Engine.Log().Search(ctx, f)
		if err != nil {
			return out, err
		}
		for i := range found.Items {
			e := &found.Items[i]
			if !isShown(e.Kind) {
				continue
			}
			size += len(e.Raw)
			if len(out.Items) == q.Limit || len(out.Items) > 0 && size > maxShown {
				out.NextID = &e.ID
				return out, nil
			}
			raw, err := view(e, p.Redact)
			if err != nil {
				return out, err
			}
			out.Items = append(out.Items, raw)
		}
		if next = found.NextID; next == "" {
			return out, nil
		}
	}
	out.NextID = &next
	return out, nil
}

// startAt moves the query to the event with the id; an unknown one is the beginning.
func (h *handlers) startAt(ctx context.Context, f *store.EventQuery, id string) error {
	if id == "" {
		return nil
	}
	found, err := h.Engine.Log().ByID(ctx, f.Conversation, []string{id})
	if err == nil && found[0] != nil {
		f.AtOrAfter = &found[0].Seq
	}
	return err
}
