package v1

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"parley/internal/api/eventwire"
	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
	"parley/internal/stream"
)

type eventFilter struct {
	PathID  string   `json:"conversation_id"`
	QueryID *string  `json:"conversation_id__eq"` // the older spelling
	IDs     []string `json:"id"`
	Kind    *string  `json:"kind__eq"`
	From    *string  `json:"timestamp__gte"`
	To      *string  `json:"timestamp__lt"`
	Order   string   `json:"sort_order"`
	PageID  *string  `json:"page_id"`
	Limit   int      `json:"limit"`
}

// events reads the filter and finds the conversation. known is false if there is
// no such conversation: event lists are empty then (V1 §11 row 5).
func (h *handlers) events(r *httpkit.Request) (f eventFilter, q store.EventQuery, known bool, err error) {
	if err = r.Params(&f); err != nil {
		return f, q, false, err
	}
	raw := f.PathID
	if raw == "" {
		raw = orEmpty(f.QueryID)
	}
	id, err := conversation.ParseID(raw)
	if err == nil {
		_, err = h.Engine.View(r.Context(), r.Principal.UserID, id)
	}
	if fault.Is(err, fault.Invalid) || fault.Is(err, fault.NotFound) {
		return f, q, false, nil
	}
	q = store.EventQuery{Conversation: id, Kind: orEmpty(f.Kind), Desc: f.Order == "TIMESTAMP_DESC", Limit: f.Limit}
	if f.From != nil {
		q.From = eventwire.Timestamp(*f.From)
	}
	if f.To != nil {
		q.To = eventwire.Timestamp(*f.To)
	}
	return f, q, err == nil, err
}

// rawEvents renders events as they are stored.
func rawEvents(events []conversation.Event) []json.RawMessage {
	out := make([]json.RawMessage, len(events))
	for i, e := range events {
		out[i] = e.Raw
	}
	return out
}

func (h *handlers) searchEvents(w http.ResponseWriter, r *httpkit.Request) error {
	f, q, known, err := h.events(r)
	if err != nil {
		return err
	}
	if !known {
		return writePage[json.RawMessage](w, nil, "")
	}
	if q.AtOrAfter, err = h.pageStart(r.Context(), q.Conversation, orEmpty(f.PageID)); err != nil {
		return err
	}
	found, err := h.Engine.Log().Search(r.Context(), q)
	if err != nil {
		return err
	}
	return writePage(w, rawEvents(found.Items), found.NextID)
}

// pageStart finds the first event of a page; an unknown id starts at the
// beginning.
func (h *handlers) pageStart(ctx context.Context, id conversation.ID, pageID string) (*int64, error) {
	if pageID == "" {
		return nil, nil
	}
	found, err := h.Engine.Log().ByID(ctx, id, []string{pageID})
	if err != nil || found[0] == nil {
		return nil, err
	}
	return &found[0].Seq, nil
}

func (h *handlers) countEvents(w http.ResponseWriter, r *httpkit.Request) error {
	_, q, known, err := h.events(r)
	if err != nil {
		return err
	}
	n := 0
	if known {
		if n, err = h.Engine.Log().Count(r.Context(), q); err != nil {
			return err
		}
	}
	return httpkit.JSON(w, http.StatusOK, n)
}

func (h *handlers) getEvents(w http.ResponseWriter, r *httpkit.Request) error {
	f, q, known, err := h.events(r)
	if err != nil {
		return err
	}
	if err := checkBatch(f.IDs); err != nil {
		return err
	}
	if !known {
		return httpkit.JSON(w, http.StatusOK, make([]json.RawMessage, len(f.IDs))) // nil encodes as null
	}
	return h.writeEvents(r.Context(), w, q.Conversation, f.IDs)
}

// eventsAtATime bounds how many events of a batch are in memory: each may be large, and
// one may be asked for more than once.
const eventsAtATime = 4

// writeEvents answers with events in the order of their ids, null where there is none.
func (h *handlers) writeEvents(ctx context.Context, w http.ResponseWriter, id conversation.ID, ids []string) error {
	before := byte('[')
	for len(ids) > 0 {
		part := ids[:min(len(ids), eventsAtATime)]
		ids = ids[len(part):]
		found, err := h.Engine.Log().ByID(ctx, id, part)
		if err != nil {
			return err
		}
		if before == '[' {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusOK)
		}
		for _, e := range found {
			raw := json.RawMessage("null")
			if e != nil {
				raw = e.Raw
			}
			if _, err := w.Write(append([]byte{before}, raw...)); err != nil {
				return err
			}
			before = ','
		}
	}
	if before == '[' {
		return httpkit.JSON(w, http.StatusOK, []json.RawMessage{})
	}
	_, err := w.Write([]byte("]\n"))
	return err
}

// streamEvents is the resumable stream: the event's number in the log is its id.
func (h *handlers) streamEvents(w http.ResponseWriter, r *httpkit.Request) error {
	v, err := h.find(r)
	if err != nil {
		return err
	}
	var q struct {
		After  int64  `json:"after_seq"`
		LastID string `json:"Last-Event-ID"`
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	if last, ok := httpkit.ParseCursor(q.LastID, ""); ok {
		q.After = last
	}
	// A cursor beyond the log would skip what comes next.
	after := min(q.After, v.Summary.Head-1)
	ctx, leave, err := h.Streams.Join(r.Context(), r.Principal, "sse", string(v.ID))
	if err != nil {
		return err
	}
	defer leave()
	follower, err := h.Engine.Follow(ctx, r.Principal.UserID, v.ID, after)
	if err != nil {
		return err
	}
	defer follower.Close()
	e := &streamEncoder{h: h, owner: r.Principal.UserID, id: v.ID}
	sse := &httpkit.SSE{Source: follower, Encode: e.encode, Heartbeat: h.Heartbeat, HeadersOnly: r.Method == http.MethodHead}
	return sse.Serve(ctx, w)
}

type streamEncoder struct {
	h     *handlers
	owner string
	id    conversation.ID
}

func (s *streamEncoder) encode(ctx context.Context, item stream.Item) ([]httpkit.Frame, error) {
	frames := make([]httpkit.Frame, 0, len(item.Events)+1)
	for _, e := range item.Events {
		frames = append(frames, httpkit.Frame{ID: strconv.FormatInt(e.Seq, 10), Data: e.Raw})
	}
	var data []byte
	var err error
	name := ""
	switch now := time.Now(); {
	case item.Delta != nil:
		name = "delta"
		data, err = eventwire.Delta(item.Delta, now)
	case item.Notice != nil:
		name = "notice"
		data, err = eventwire.ServerError(item.Notice.Code, item.Notice.Detail, now)
	case item.Snapshot:
		name = "state"
		data, err = s.state(ctx, now)
	case item.Deleted:
		name, data = "deleted", []byte("{}")
	}
	if len(data) > 0 {
		frames = append(frames, httpkit.Frame{Event: name, Data: data})
	}
	return frames, err
}

// state renders the whole state; nothing if the conversation was deleted
// meanwhile, which the stream tells next.
func (s *streamEncoder) state(ctx context.Context, now time.Time) ([]byte, error) {
	v, err := s.h.Engine.View(ctx, s.owner, s.id)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return eventwire.FullState(s.h.FullState(v), now)
}
