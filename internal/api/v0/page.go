package v0

import (
	"context"

	"parley/internal/api/v0/projection"
	"parley/internal/conversation"
	"parley/internal/store"
)

// lookAhead is how many events after a page are read to find what its last model
// call has cost.
const lookAhead = 32

// page renders up to limit numbered events between two ids, both inclusive.
func (l *ledger) page(ctx context.Context, c *conversation.Conversation, from, to int64, desc bool,
	limit int) ([]*projection.Event, error) {
	entries, err := l.numbers.Range(ctx, c.ID, projectionName, from, to, desc, limit)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	r := renderer{ledger: l, id: c.ID, info: projection.InfoOf(c), entries: map[int64]store.ProjectionEntry{}}
	for _, e := range entries {
		r.entries[e.ID] = e
	}
	if err := r.load(ctx, entries); err != nil {
		return nil, err
	}
	if err := r.loadImported(ctx, entries); err != nil {
		return nil, err
	}
	out := make([]*projection.Event, len(entries))
	for i, e := range entries {
		if out[i], err = r.render(ctx, e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// renderer renders the entries of one page.
type renderer struct {
	*ledger
	id      conversation.ID
	info    projection.Info
	entries map[int64]store.ProjectionEntry // by id
	first   int64                           // seq of window[0]
	window  []conversation.Payload          // the events of the page, without gaps
	others  map[int64]conversation.Payload  // events outside the window, by seq
	costs   []*projection.Metrics           // in force, per event of the window
	raw     map[int64][]byte                // the imported events of the page, by id
}

// load reads the events of the page and what their model calls have cost.
func (r *renderer) load(ctx context.Context, entries []store.ProjectionEntry) error {
	first, last := entries[0].Seq, entries[len(entries)-1].Seq
	r.first, last = max(min(first, last), 0), max(first, last)
	r.others = map[int64]conversation.Payload{}
	for next := r.first; next <= last+lookAhead; {
		want := int(min(last+lookAhead-next+1, logPage))
		events, err := r.log.Read(ctx, r.id, next-1, want)
		if err != nil {
			return err
		}
		r.window = append(r.window, payloadsOf(events)...)
		if len(events) < want {
			break
		}
		next += int64(len(events))
	}
	return r.loadCosts(ctx)
}

// loadCosts finds for each event the metrics that include the model call it came
// from: they follow the events of that call, in the same commit. Events of
// another origin have the metrics before them.
func (r *renderer) loadCosts(ctx context.Context) error {
	before, err := r.costBefore(ctx)
	if err != nil {
		return err
	}
	r.costs = make([]*projection.Metrics, len(r.window))
	for i, p := range r.window {
		if m := projection.MetricsOf(p); m != nil {
			before = m
		}
		r.costs[i] = before
	}
	for i := len(r.window) - 2; i >= 0; i-- {
		switch r.window[i].(type) {
		case *conversation.ActionEvent, *conversation.MessageEvent, *conversation.AgentErrorEvent:
			if r.ofSameCall(i + 1) {
				r.costs[i] = r.costs[i+1]
			}
		}
	}
	return nil
}

// ofSameCall reports whether the event at i goes on with what the one before it
// began.
func (r *renderer) ofSameCall(i int) bool {
	switch p := r.window[i].(type) {
	case *conversation.ActionEvent, *conversation.AgentErrorEvent:
		return true
	case *conversation.MessageEvent:
		return p.Source == conversation.SourceEnvironment
	}
	return projection.MetricsOf(r.window[i]) != nil
}

// statsSearched is how many state updates are looked through for metrics.
const statsSearched = 100

func (r *renderer) costBefore(ctx context.Context) (*projection.Metrics, error) {
	at := r.first - 1
	if at < 0 {
		return nil, nil
	}
	page, err := r.log.Search(ctx, store.EventQuery{Conversation: r.id, Kind: conversation.KindStateUpdate,
		Desc: true, AtOrAfter: &at, Limit: statsSearched})
	if err != nil {
		return nil, err
	}
	for _, p := range payloadsOf(page.Items) {
		if m := projection.MetricsOf(p); m != nil {
			return m, nil
		}
	}
	return nil, nil
}

// loadImported reads the events of the page that other servers made.
func (r *renderer) loadImported(ctx context.Context, entries []store.ProjectionEntry) error {
	first, last := int64(-1), int64(-1)
	for _, e := range entries {
		if projection.FromPart(e.Part).Recipe != projection.Imported {
			continue
		}
		if first < 0 {
			first, last = e.ID, e.ID
		}
		first, last = min(first, e.ID), max(last, e.ID)
	}
	if first < 0 || r.imported == nil {
		return nil
	}
	var err error
	r.raw, err = r.imported.Raw(ctx, r.id, first, last)
	return err
}

func (r *renderer) render(ctx context.Context, e store.ProjectionEntry) (*projection.Event, error) {
	if projection.FromPart(e.Part).Recipe == projection.Imported {
		return projection.RenderImported(e.ID, r.raw[e.ID]), nil
	}
	in := projection.Input{ID: e.ID, Derived: projection.FromPart(e.Part), Seq: e.Seq, Info: r.info}
	if e.Seq >= 0 {
		var err error
		if in.Payload, err = r.event(ctx, e.Seq); err != nil {
			return nil, err
		}
		if i := e.Seq - r.first; i >= 0 && i < int64(len(r.costs)) {
			in.Metrics = r.costs[i]
		}
	}
	shown, err := r.shown(ctx, e, in.Derived)
	if err != nil {
		return nil, err
	}
	in.Shown = shown
	return projection.Render(in), nil
}

// shown returns the event that an entry repeats or, for results, the event that
// the entry's cause shows.
func (r *renderer) shown(ctx context.Context, e store.ProjectionEntry, d projection.Derived) (conversation.Payload, error) {
	switch {
	case d.Cause() > 0:
		cause, err := r.entry(ctx, e.ID-d.Cause())
		if err != nil || cause == nil {
			return nil, err
		}
		return r.event(ctx, cause.Seq-projection.FromPart(cause.Part).Back())
	case d.Back() > 0:
		return r.event(ctx, e.Seq-d.Back())
	}
	return nil, nil
}

func (r *renderer) entry(ctx context.Context, id int64) (*store.ProjectionEntry, error) {
	if e, ok := r.entries[id]; ok {
		return &e, nil
	}
	found, err := r.numbers.Range(ctx, r.id, projectionName, id, id, false, 1)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	r.entries[id] = found[0]
	return &found[0], nil
}

// event returns the event with seq, nil if there is none.
func (r *renderer) event(ctx context.Context, seq int64) (conversation.Payload, error) {
	if i := seq - r.first; i >= 0 && i < int64(len(r.window)) {
		return r.window[i], nil
	}
	if p, ok := r.others[seq]; ok || seq < 0 {
		return p, nil
	}
	events, err := r.log.Read(ctx, r.id, seq-1, 1)
	if err != nil || len(events) == 0 || events[0].Seq != seq {
		return nil, err
	}
	r.others[seq] = payloadsOf(events)[0]
	return r.others[seq], nil
}
