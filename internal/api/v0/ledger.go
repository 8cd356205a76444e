package v0

import (
	"context"
	"sync"
	"time"

	"parley/internal/api/v0/projection"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

const (
	projectionName = projection.Name
	logPage        = 500  // events read at once
	entryPage      = 1000 // numbered events read at once
	maxSlots       = 2048 // conversations whose state is kept in memory: more than are followed at a time
	maxAttempts    = 10   // to extend against other servers that do the same
)

// EventLog is what the projection reads of the log.
type EventLog interface {
	Read(ctx context.Context, id conversation.ID, after int64, limit int) ([]conversation.Event, error)
	Search(ctx context.Context, q store.EventQuery) (store.EventPage, error)
}

// Imports are the legacy events that other servers made.
type Imports interface {
	Raw(ctx context.Context, id conversation.ID, from, to int64) (map[int64][]byte, error)
}

// ledger gives the legacy events their numbers. A number is given when somebody
// first asks for events after the log grew, and is durable from then on.
//
// Extending costs what was appended since. After a restart, or once a
// conversation was pushed out of memory, the first extension also reads the
// whole log once to restore the state of the projection; reading pages never
// does.
type ledger struct {
	log      EventLog
	numbers  store.Projections
	imported Imports // nil = nothing was imported

	mu    sync.Mutex
	slots map[conversation.ID]*slot
	tick  int64
}

// slot is the projection of one conversation. Its members below busy belong to
// whoever holds busy.
type slot struct {
	refs int
	used int64 // tick of the last use

	busy    chan struct{} // a lock that can be waited for with a context
	state   *projection.State
	nextSeq int64
}

func newLedger(log EventLog, numbers store.Projections, imported Imports) *ledger {
	return &ledger{log: log, numbers: numbers, imported: imported, slots: map[conversation.ID]*slot{}}
}

// hold locks a conversation's slot until the returned function is called.
func (l *ledger) hold(ctx context.Context, id conversation.ID) (*slot, func(), error) {
	l.mu.Lock()
	s := l.slots[id]
	if s == nil {
		s = &slot{busy: make(chan struct{}, 1)}
		l.slots[id] = s
	}
	s.refs++
	l.tick++
	s.used = l.tick
	l.mu.Unlock()
	select {
	case s.busy <- struct{}{}:
		return s, func() { <-s.busy; l.drop(s) }, nil
	case <-ctx.Done():
		l.drop(s)
		return nil, nil, context.Cause(ctx)
	}
}

// drop gives a reference back and forgets what was not used for longest.
func (l *ledger) drop(s *slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.refs--
	for len(l.slots) > maxSlots {
		var oldest conversation.ID
		found := false
		for id, other := range l.slots {
			if other.refs == 0 && (!found || other.used < l.slots[oldest].used) {
				oldest, found = id, true
			}
		}
		if !found {
			return
		}
		delete(l.slots, oldest)
	}
}

// extend numbers what the log has that was not numbered yet and returns the next
// id. ready says that the conversation's sandbox runs.
func (l *ledger) extend(ctx context.Context, c *conversation.Conversation, ready bool) (int64, error) {
	return l.change(ctx, c, func(x *extension) error { return x.run(ctx, ready) })
}

// change carries out a change of a conversation's numbers, again if another server was
// faster, and returns the next id.
func (l *ledger) change(ctx context.Context, c *conversation.Conversation, do func(*extension) error) (int64, error) {
	s, release, err := l.hold(ctx, c.ID)
	if err != nil {
		return 0, err
	}
	defer release()
	for attempt := 1; ; attempt++ {
		x := extension{ledger: l, slot: s, conv: c}
		err := do(&x)
		if err == nil {
			return x.nextID, nil
		}
		s.state = nil
		if fault.CodeOf(err) != store.CodeHeadMoved || attempt == maxAttempts {
			return 0, err
		}
	}
}

// halted numbers that the conversation's session was stopped, behind all of its log.
func (l *ledger) halted(ctx context.Context, c *conversation.Conversation, at time.Time) error {
	_, err := l.change(ctx, c, func(x *extension) error {
		return x.live(ctx, func(s *projection.State) []projection.Derived { return s.Halt(at) })
	})
	return err
}

// revived numbers that its session goes on.
func (l *ledger) revived(ctx context.Context, c *conversation.Conversation, at time.Time) error {
	_, err := l.change(ctx, c, func(x *extension) error {
		return x.live(ctx, func(s *projection.State) []projection.Derived { return s.Revive(at) })
	})
	return err
}

// extension is one attempt to extend. If it fails, the slot's state is worthless.
type extension struct {
	*ledger
	slot    *slot
	conv    *conversation.Conversation
	nextID  int64
	nextSeq int64
}

func (x *extension) run(ctx context.Context, ready bool) error {
	var err error
	x.nextID, x.nextSeq, err = x.numbers.Cursor(ctx, x.conv.ID, projectionName)
	if err != nil {
		return err
	}
	// A conversation without a first message tells when it is ready for one.
	greet := ready && x.conv.Summary.Head == 0 && x.nextSeq == 0 && len(x.conv.InitialMessage) == 0
	if x.nextSeq >= x.conv.Summary.Head && x.nextID > 0 && (!greet || x.nextID > 1) {
		return nil
	}
	if greet { // what was looked up before it was ready may be old
		first, err := x.log.Read(ctx, x.conv.ID, -1, 1)
		if err != nil {
			return err
		}
		greet = len(first) == 0
	}
	if err := x.restore(ctx); err != nil {
		return err
	}
	state := x.slot.state
	before := state.Open()
	if greet {
		before = append(before, state.Ready()...)
	}
	if err := x.save(ctx, x.nextSeq, entriesOf(x.nextID, -1, before)); err != nil {
		return err
	}
	for more := true; more && x.nextSeq < x.conv.Summary.Head; {
		if more, err = x.advance(ctx); err != nil {
			return err
		}
	}
	return nil
}

// live numbers what no event of the log says, behind all of it.
func (x *extension) live(ctx context.Context, derive func(*projection.State) []projection.Derived) error {
	if err := x.run(ctx, false); err != nil {
		return err
	}
	if err := x.restore(ctx); err != nil {
		return err
	}
	return x.save(ctx, x.nextSeq, entriesOf(x.nextID, x.nextSeq-1, derive(x.slot.state)))
}

func entriesOf(id, seq int64, derived []projection.Derived) []store.ProjectionEntry {
	entries := make([]store.ProjectionEntry, len(derived))
	for i, d := range derived {
		entries[i] = store.ProjectionEntry{ID: id + int64(i), Seq: seq, Part: d.Part()}
	}
	return entries
}

// save makes numbers durable.
func (x *extension) save(ctx context.Context, nextSeq int64, entries []store.ProjectionEntry) error {
	if len(entries) == 0 && nextSeq == x.nextSeq {
		return nil
	}
	err := x.numbers.Extend(ctx, x.conv.ID, projectionName, x.nextID, x.nextSeq, nextSeq, entries)
	if err != nil {
		return err
	}
	x.nextID, x.nextSeq = x.nextID+int64(len(entries)), nextSeq
	x.slot.nextSeq = nextSeq
	return nil
}

// advance numbers one page of the log; false if there was none.
func (x *extension) advance(ctx context.Context) (bool, error) {
	events, err := x.log.Read(ctx, x.conv.ID, x.nextSeq-1, logPage)
	if err != nil || len(events) == 0 {
		return false, err
	}
	payloads := payloadsOf(events)
	greets := x.conv.Origin == conversation.OriginV0 && len(x.conv.InitialMessage) == 0
	id, next := x.nextID, x.nextSeq
	var entries []store.ProjectionEntry
	for i, p := range payloads {
		ahead, known := projection.LookAhead(payloads[i:], greets)
		if !known && i > 0 && len(events) == logPage {
			break // the next page, which begins here, knows
		}
		entries = append(entries, entriesOf(id, events[i].Seq, x.slot.state.Step(events[i].Seq, p, ahead))...)
		id, next = x.slot.state.NextID, events[i].Seq+1
	}
	return true, x.save(ctx, next, entries)
}

// payloadsOf decodes events. What cannot be decoded is of a kind that is not known.
func payloadsOf(events []conversation.Event) []conversation.Payload {
	out := make([]conversation.Payload, len(events))
	for i, e := range events {
		p, err := conversation.Decode(e)
		if err != nil {
			p = &conversation.Unknown{Header: conversation.Header{Kind: e.Kind, ID: e.ID, Timestamp: e.Timestamp,
				Source: e.Source}, Raw: e.Raw}
		}
		out[i] = p
	}
	return out
}

// restore makes the slot's state the one at the cursor, by replaying what was
// numbered over the log if it is another one.
func (x *extension) restore(ctx context.Context) error {
	if x.slot.state != nil && x.slot.state.NextID == x.nextID && x.slot.nextSeq == x.nextSeq {
		return nil
	}
	state := &projection.State{}
	numbered := entryReader{ledger: x.ledger, id: x.conv.ID, end: x.nextID}
	derived, err := numbered.of(ctx, -1)
	if err != nil {
		return err
	}
	state.Replay(-1, nil, derived)
	for seq := int64(0); seq < x.nextSeq; {
		events, err := x.log.Read(ctx, x.conv.ID, seq-1, logPage)
		if err != nil || len(events) == 0 {
			return err
		}
		for i, p := range payloadsOf(events) {
			if seq = events[i].Seq; seq >= x.nextSeq {
				break
			}
			if derived, err = numbered.of(ctx, seq); err != nil {
				return err
			}
			state.Replay(seq, p, derived)
			seq++
		}
	}
	x.slot.state, x.slot.nextSeq = state, x.nextSeq
	return nil
}

// entryReader reads numbered events in order, seq by seq.
type entryReader struct {
	*ledger
	id   conversation.ID
	next int64 // id to read next
	end  int64 // id to stop at
	page []store.ProjectionEntry
}

// of returns what was derived from the event with seq.
func (r *entryReader) of(ctx context.Context, seq int64) ([]projection.Derived, error) {
	var out []projection.Derived
	for {
		if len(r.page) == 0 {
			if r.next >= r.end {
				return out, nil
			}
			var err error
			r.page, err = r.numbers.Range(ctx, r.id, projectionName, r.next, r.end-1, false, entryPage)
			if err != nil || len(r.page) == 0 {
				return out, err
			}
			r.next = r.page[len(r.page)-1].ID + 1
		}
		if r.page[0].Seq > seq {
			return out, nil
		}
		out = append(out, projection.FromPart(r.page[0].Part))
		r.page = r.page[1:]
	}
}
