// Package stream follows a conversation's log live. A notification is only a
// wake-up that may be merged or lost without harm: events always come from the
// log, so a late or slow reader can fall behind but never loses or doubles one.
// Deltas of a streamed answer travel beside the log; they are lossy and never
// stored.
package stream

import (
	"context"
	"sync"

	"parley/internal/conversation"
	"parley/internal/fault"
)

const (
	pageSize  = 100
	maxDeltas = 256 // per follower; older ones are dropped
)

// Delta is a piece of an answer that is being streamed.
type Delta struct {
	Text      string
	Reasoning string
	head      int64 // of the log when it was published
}

// Notice is a live-only message about trouble that cannot be written to the log
// (the disk is full).
type Notice struct {
	Code   string
	Detail string
}

// Log is what a follower reads.
type Log interface {
	Read(ctx context.Context, id conversation.ID, after int64, limit int) ([]conversation.Event, error)
}

// Item is one thing to show, exactly one member is set.
type Item struct {
	Events   []conversation.Event
	Delta    *Delta
	Notice   *Notice
	Snapshot bool // show the full state now: a run ended
	Deleted  bool // the conversation is gone; nothing follows
}

// Hub wakes followers. The zero value is not usable; see NewHub.
type Hub struct {
	mu    sync.Mutex
	subs  map[conversation.ID]map[*Follower]struct{}
	ends  map[conversation.ID]*recent // of logs that have followers
	woken func(conversation.ID)
}

// NewHub returns an empty hub.
func NewHub() *Hub {
	return &Hub{subs: map[conversation.ID]map[*Follower]struct{}{}, ends: map[conversation.ID]*recent{}}
}

// OnWake sets what hears of every log whose head moved; it must not block, nor call
// the hub. Call it before the first Wake.
func (h *Hub) OnWake(f func(conversation.ID)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.woken = f
}

// Wake tells followers that the log's head moved. Call it after the commit, in the
// order of commits. events may be what was committed, with their seqs; they must not
// be changed any more.
func (h *Hub) Wake(id conversation.ID, head int64, events ...conversation.Event) {
	h.keep(id, head, events)
	h.each(id, func(f *Follower) { f.head = max(f.head, head) })
	h.mu.Lock()
	woken := h.woken
	h.mu.Unlock()
	if woken != nil {
		woken(id)
	}
}

// keep remembers what was committed, for followers who are up to date.
func (h *Hub) keep(id conversation.ID, head int64, events []conversation.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch n := len(events); {
	case len(h.subs[id]) == 0:
	case n == 0 || events[n-1].Seq+1 != head:
		delete(h.ends, id) // there is a gap
	default:
		if h.ends[id] == nil {
			h.ends[id] = &recent{}
		}
		h.ends[id].add(events)
	}
}

// Delta hands a piece of a streamed answer to followers. head is the log's head
// now: once the log moved on, the piece is stale and dropped.
func (h *Hub) Delta(id conversation.ID, head int64, text, reasoning string) {
	h.each(id, func(f *Follower) {
		if len(f.deltas) >= maxDeltas {
			f.deltas = f.deltas[1:]
		}
		f.deltas = append(f.deltas, Delta{text, reasoning, head})
	})
}

// Snapshot asks followers to show the full state after the events before head.
func (h *Hub) Snapshot(id conversation.ID, head int64) {
	h.each(id, func(f *Follower) { f.head, f.snapshotAt = max(f.head, head), head })
}

// Notice hands a live-only message to followers; only the latest is kept.
func (h *Hub) Notice(id conversation.ID, n Notice) {
	h.each(id, func(f *Follower) { f.notice = &n })
}

// Deleted ends the followers of a conversation.
func (h *Hub) Deleted(id conversation.ID) {
	h.each(id, func(f *Follower) { f.deleted = true })
}

// Followers returns how many follow a conversation.
func (h *Hub) Followers(id conversation.ID) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subs[id])
}

func (h *Hub) each(id conversation.ID, change func(*Follower)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for f := range h.subs[id] {
		change(f)
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
}

// Follower is one reader. Next must be called from one goroutine.
type Follower struct {
	hub   *Hub
	log   Log
	id    conversation.ID
	after int64 // seq of the last event handed out
	fresh bool  // the log was never read
	wake  chan struct{}

	// guarded by hub.mu
	head       int64
	snapshotAt int64 // -1 = none wanted
	deltas     []Delta
	notice     *Notice
	deleted    bool
}

// Follow joins a log after the event with seq after (-1 = from the start).
// Joining comes before the first read, so that nothing falls in between.
func (h *Hub) Follow(log Log, id conversation.ID, after int64) *Follower {
	f := &Follower{hub: h, log: log, id: id, after: after, fresh: true,
		wake: make(chan struct{}, 1), snapshotAt: -1}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs[id] == nil {
		h.subs[id] = map[*Follower]struct{}{}
	}
	h.subs[id][f] = struct{}{}
	return f
}

// Close leaves. It may be called more than once.
func (f *Follower) Close() {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	delete(f.hub.subs[f.id], f)
	if len(f.hub.subs[f.id]) == 0 {
		delete(f.hub.subs, f.id)
		delete(f.hub.ends, f.id)
	}
}

// After returns the seq of the last event handed out: the cursor to resume with.
func (f *Follower) After() int64 { return f.after }

// Next returns the next thing to show, waiting for it if need be. Its error is
// the context's cause or the log's.
func (f *Follower) Next(ctx context.Context) (Item, error) {
	for {
		if f.behind() {
			item, err := f.read(ctx)
			if err != nil || item.Events != nil || item.Deleted {
				return item, err
			}
		}
		if item, ok := f.take(); ok {
			return item, nil
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
			return Item{}, context.Cause(ctx)
		}
	}
}

func (f *Follower) behind() bool {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	return f.fresh || f.after+1 < f.head
}

// read fetches a page. A short page means that the log was read to its end.
func (f *Follower) read(ctx context.Context) (Item, error) {
	if events := f.recent(); len(events) > 0 {
		f.after = events[len(events)-1].Seq
		return Item{Events: events}, nil
	}
	events, err := f.log.Read(ctx, f.id, f.after, pageSize)
	if fault.Is(err, fault.NotFound) {
		return Item{Deleted: true}, nil
	}
	if err != nil {
		return Item{}, err
	}
	f.fresh = len(events) == pageSize
	if len(events) == 0 {
		return Item{}, nil
	}
	f.after = events[len(events)-1].Seq
	return Item{Events: events}, nil
}

// recent returns what comes next, if it was committed just now. A follower who has
// not come to the end of the log once reads the log itself.
func (f *Follower) recent() []conversation.Event {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	if end := f.hub.ends[f.id]; end != nil && !f.fresh {
		return end.after(f.after, pageSize)
	}
	return nil
}

// take returns what travels beside the log, if its turn has come.
func (f *Follower) take() (Item, bool) {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	if f.snapshotAt >= 0 && f.after+1 >= f.snapshotAt {
		f.snapshotAt = -1
		return Item{Snapshot: true}, true
	}
	for len(f.deltas) > 0 {
		d := f.deltas[0]
		f.deltas = f.deltas[1:]
		if d.head > f.after {
			return Item{Delta: &d}, true
		}
	}
	if n := f.notice; n != nil {
		f.notice = nil
		return Item{Notice: n}, true
	}
	if f.deleted {
		return Item{Deleted: true}, true
	}
	return Item{}, false
}
