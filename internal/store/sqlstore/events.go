package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"strings"
	"time"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

const (
	selectEvent = `SELECT seq, id, kind, source, timestamp, raw FROM events`
	maxEvents   = 1000
)

type events struct{ s *Store }

// logHead is what an append checks and moves.
type logHead struct {
	head, generation int64
	indexed          int64 // events in the full-text index
	owner            string
	lastTimestamp    string
	inOrder          bool
}

// Append implements store.Events. An id that the log has already is a Conflict
// (CodeExists). The stored head is counted here, whatever the summary says.
func (e events) Append(ctx context.Context, a store.Append) error {
	const op = "store.events.append"
	bodies := make([]any, len(a.Events))
	for i, ev := range a.Events {
		if ev.ID == "" || len(ev.Raw) == 0 {
			return badRecord(op, "an event without id or JSON")
		}
		bodies[i] = bodyOf(ev)
	}
	metrics, err := document(a.Summary.Metrics)
	if err != nil {
		return err
	}
	progress, err := document(a.Summary.Progress)
	if err != nil {
		return err
	}
	docs := docsOf(a.Events, a.ExpectHead)
	err = e.s.writes.do(ctx, op, func(t *tx) error {
		h, err := checkAppend(ctx, t, a)
		if err != nil {
			return err
		}
		for i, ev := range a.Events {
			if err := insertEvent(t, a, ev, bodies[i], h); err != nil {
				return err
			}
		}
		if h.indexed == a.ExpectHead { // else those before come first
			if err := (indexer{t, h.owner, a.Conversation}).add(ctx, time.Now(), docs...); err != nil {
				return err
			}
			h.indexed = h.head
		}
		if err := settleAll(ctx, t, a.Settle); err != nil {
			return err
		}
		return h.store(t, a, metrics, progress)
	})
	if err != nil {
		return err
	}
	for i := range a.Events {
		a.Events[i].Seq = a.ExpectHead + int64(i)
	}
	return nil
}

// checkAppend reads the head and compares it with what the writer believes.
func checkAppend(ctx context.Context, t *tx, a store.Append) (*logHead, error) {
	h := &logHead{}
	err := t.row(ctx, `SELECT head, generation, last_timestamp, in_order, indexed, owner FROM conversations WHERE id = $1`,
		string(a.Conversation)).Scan(&h.head, &h.generation, &h.lastTimestamp, &h.inOrder, &h.indexed, &h.owner)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, noConversation()
	case err != nil:
		return nil, err
	case h.generation != a.Generation:
		return nil, fault.New(fault.Conflict, store.CodeLeaseLost, "Another writer has taken the conversation over.")
	case h.head != a.ExpectHead:
		return nil, fault.New(fault.Conflict, store.CodeHeadMoved, "The conversation has moved on.")
	}
	return h, nil
}

func insertEvent(t *tx, a store.Append, ev conversation.Event, body any, h *logHead) error {
	err := t.exec(`INSERT INTO events (conversation, seq, id, kind, source, timestamp, body, raw)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		string(a.Conversation), h.head, ev.ID, ev.Kind, ev.Source, ev.Timestamp, body, []byte(ev.Raw))
	if isDuplicate(err) {
		return fault.Wrap(err, fault.Conflict, store.CodeExists, "The conversation has an event with this id already.")
	}
	if err != nil {
		return err
	}
	h.inOrder = h.inOrder && ev.Timestamp >= h.lastTimestamp
	h.lastTimestamp = ev.Timestamp
	h.head++
	return nil
}

// store moves the head. An append without events stores the summary only.
func (h *logHead) store(t *tx, a store.Append, metrics, progress string) error {
	if len(a.Events) == 0 {
		return t.exec(`UPDATE conversations SET status = $1, metrics = $2, progress = $3, updated_at = $4 WHERE id = $5`,
			string(a.Summary.Status), metrics, progress, micros(a.Now), string(a.Conversation))
	}
	return t.exec(`UPDATE conversations SET status = $1, head = $2, metrics = $3, progress = $4, updated_at = $5,
		last_event_at = $6, last_timestamp = $7, in_order = $8, indexed = $9 WHERE id = $10`,
		string(a.Summary.Status), h.head, metrics, progress, micros(a.Now), micros(a.Now), h.lastTimestamp, h.inOrder,
		h.indexed, string(a.Conversation))
}

// bodyOf returns the text of a message for search, nil for other events.
func bodyOf(e conversation.Event) any {
	if e.Kind != conversation.KindMessage {
		return nil
	}
	p, err := conversation.Decode(e)
	if err != nil {
		return nil // kept verbatim, but nothing to search in
	}
	m, ok := p.(*conversation.MessageEvent)
	if !ok {
		return nil
	}
	return strings.ToLower(content.JoinText(m.LLMMessage.Content))
}

func scanEvent(rows row) (conversation.Event, error) {
	var e conversation.Event
	var raw []byte
	err := rows.Scan(&e.Seq, &e.ID, &e.Kind, &e.Source, &e.Timestamp, &raw)
	e.Raw = raw
	return e, err
}

// Read implements store.Events. NotFound for an unknown conversation.
func (e events) Read(ctx context.Context, id conversation.ID, after int64, limit int) ([]conversation.Event, error) {
	found, err := collect(ctx, e.s.reads, scanEvent,
		selectEvent+` WHERE conversation = $1 AND seq > $2 ORDER BY seq LIMIT $3`, string(id), after, max(limit, 0))
	if err == nil && len(found) == 0 {
		err = e.s.exists(ctx, e.s.reads, id)
	}
	if err != nil {
		return nil, e.s.fail(ctx, "store.events.read", err)
	}
	return found, nil
}

// Search implements store.Events. NotFound for an unknown conversation.
func (e events) Search(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	found, err := e.search(ctx, q, clamp(q.Limit, maxEvents))
	if err != nil {
		return store.EventPage{}, e.s.fail(ctx, "store.events.search", err)
	}
	return found, nil
}

func (e events) search(ctx context.Context, q store.EventQuery, limit int) (store.EventPage, error) {
	w, err := e.window(ctx, q)
	if err != nil {
		return store.EventPage{}, err
	}
	order := " ORDER BY seq"
	if q.Desc {
		order = " ORDER BY seq DESC"
	}
	if q.AtOrAfter != nil {
		w.startAt(*q.AtOrAfter, q.Desc)
	}
	where := eventFilter(q, w)
	text := selectEvent + where.where() + order + " LIMIT " + where.arg(limit+1)
	size, full := 0, false // the page is full with the event before the last
	found, err := collectUntil(ctx, e.s.reads, scanEvent, func(ev conversation.Event) bool {
		full = size > 0 && size+len(ev.Raw) > store.MaxEventPage
		size += len(ev.Raw)
		return full
	}, text, where.args...)
	if full {
		limit = len(found) - 1
	}
	if err != nil || len(found) <= limit {
		return store.EventPage{Items: found}, err
	}
	return store.EventPage{Items: found[:limit:limit], NextID: found[limit].ID}, nil
}

// Count implements store.Events; AtOrAfter, Desc and Limit do not matter.
// NotFound for an unknown conversation.
func (e events) Count(ctx context.Context, q store.EventQuery) (int, error) {
	n, err := e.count(ctx, q)
	return n, e.s.fail(ctx, "store.events.count", err)
}

func (e events) count(ctx context.Context, q store.EventQuery) (n int, err error) {
	w, err := e.window(ctx, q)
	if err != nil {
		return 0, err
	}
	if q.Kind == "" && q.Source == "" && q.Body == "" && !w.scan {
		return int(max(0, w.to-w.from)), nil // a log has no gaps
	}
	where := eventFilter(q, w)
	err = e.s.reads.row(ctx, `SELECT count(*) FROM events`+where.where(), where.args...).Scan(&n)
	return n, err
}

// eventFilter writes the conditions of q within the window.
func eventFilter(q store.EventQuery, w window) *clause {
	where := &clause{}
	where.and("conversation =", string(q.Conversation))
	where.equal("kind", q.Kind)
	if q.Body != "" && q.Kind == "" {
		where.equal("kind", conversation.KindMessage) // only messages have a body: use the index
	}
	where.and("seq >=", w.from)
	where.and("seq <", w.to)
	where.equal("source", q.Source)
	where.contains("body", q.Body)
	if w.scan {
		w.timestamps(where, q)
	}
	return where
}

// ByID implements store.Events. NotFound for an unknown conversation.
func (e events) ByID(ctx context.Context, id conversation.ID, ids []string) ([]*conversation.Event, error) {
	scan := func(r row) (*conversation.Event, error) {
		ev, err := scanEvent(r)
		return &ev, err
	}
	any := false
	out, err := batch(ids, func(part []string) ([]*conversation.Event, error) {
		where := &clause{}
		where.and("conversation =", string(id))
		where.in("id", part)
		found, err := collect(ctx, e.s.reads, scan, selectEvent+where.where(), where.args...)
		any = any || len(found) > 0
		return found, err
	}, func(ev *conversation.Event) string { return ev.ID })
	if err == nil && !any {
		err = e.s.exists(ctx, e.s.reads, id)
	}
	if err != nil {
		return nil, e.s.fail(ctx, "store.events.by_id", err)
	}
	return out, nil
}

// window is the range of seqs that a query's times allow.
type window struct {
	from, to int64 // from <= seq < to
	scan     bool  // timestamps jump back in this log: compare each
}

// window finds the seqs between the query's timestamps. A log is numbered
// without gaps and nearly always in the order of time, so that the ends are
// found by bisection, however long the log is.
func (e events) window(ctx context.Context, q store.EventQuery) (window, error) {
	var w window
	var inOrder bool
	err := e.s.reads.row(ctx, `SELECT head, in_order FROM conversations WHERE id = $1`,
		string(q.Conversation)).Scan(&w.to, &inOrder)
	if errors.Is(err, sql.ErrNoRows) {
		return w, noConversation()
	}
	if err != nil || (q.From == "" && q.To == "") {
		return w, err
	}
	if !inOrder {
		w.scan = true
		return w, nil
	}
	if q.To != "" {
		if w.to, err = e.firstAt(ctx, q.Conversation, q.To, w.to); err != nil {
			return w, err
		}
	}
	if q.From != "" {
		w.from, err = e.firstAt(ctx, q.Conversation, q.From, w.to)
	}
	return w, err
}

// firstAt returns the first seq below head whose timestamp is not before t, or head.
func (e events) firstAt(ctx context.Context, id conversation.ID, t string, head int64) (int64, error) {
	low, high := int64(0), head
	for low < high {
		mid := low + (high-low)/2
		var before bool
		err := e.s.reads.row(ctx, `SELECT timestamp < $1 FROM events WHERE conversation = $2 AND seq = $3`,
			t, string(id), mid).Scan(&before)
		if errors.Is(err, sql.ErrNoRows) {
			return 0, noConversation() // deleted meanwhile
		}
		if err != nil {
			return 0, err
		}
		if before {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, nil
}

// startAt narrows the window to a page's start.
func (w *window) startAt(seq int64, desc bool) {
	if !desc {
		w.from = max(w.from, seq)
		return
	}
	if seq < math.MaxInt64 {
		w.to = min(w.to, seq+1)
	}
}

func (w window) timestamps(where *clause, q store.EventQuery) {
	if q.From != "" {
		where.and("timestamp >=", q.From)
	}
	if q.To != "" {
		where.and("timestamp <", q.To)
	}
}
