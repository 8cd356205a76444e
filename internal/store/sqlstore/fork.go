package sqlstore

import (
	"context"
	"strconv"
	"strings"

	"parley/internal/conversation"
)

// forkChunk is how many events one statement of a fork stores. It is measured: with
// one, the calls cost; with many, the driver's binding of arguments does, which
// grows with their square.
const forkChunk = 10

// newEvent is an event with what is worked out before the store is locked.
type newEvent struct {
	*conversation.Event
	body any // bodyOf
}

// Fork implements store.Conversations. Everything is worked out and checked
// before the transaction, which other writers wait for.
func (c conversations) Fork(ctx context.Context, conv *conversation.Conversation, events []conversation.Event) error {
	const op = "store.conversations.fork"
	log, head, err := newLog(op, events)
	if err != nil {
		return err
	}
	record := *conv
	record.Summary.Head = head.head
	if len(events) > 0 && record.LastEventAt.IsZero() {
		record.LastEventAt = record.CreatedAt
	}
	r, err := c.s.encodeConversation(&record)
	if err != nil {
		return classify(op, "", err)
	}
	err = c.s.writes.do(ctx, op, func(t *tx) error {
		if err := r.insert(t, head); err != nil {
			return err
		}
		return insertLog(t, record.ID, log)
	})
	if err != nil {
		return err
	}
	*conv = record
	for i := range events {
		events[i].Seq = int64(i)
	}
	return nil
}

// newLog checks the events of a new log and returns them with their head.
func newLog(op string, events []conversation.Event) ([]newEvent, logHead, error) {
	head := logHead{head: int64(len(events)), inOrder: true}
	log := make([]newEvent, len(events))
	seen := make(map[string]struct{}, len(events))
	for i := range events {
		ev := &events[i]
		if ev.ID == "" || len(ev.Raw) == 0 {
			return nil, head, badRecord(op, "an event without id or JSON")
		}
		if _, twice := seen[ev.ID]; twice {
			return nil, head, badRecord(op, "two events with the same id")
		}
		seen[ev.ID] = struct{}{}
		log[i] = newEvent{ev, bodyOf(*ev)}
		head.inOrder = head.inOrder && ev.Timestamp >= head.lastTimestamp
		head.lastTimestamp = ev.Timestamp
	}
	return log, head, nil
}

// insertLog stores a whole log in statements of forkChunk rows.
func insertLog(t *tx, id conversation.ID, log []newEvent) error {
	whole := insertEvents(forkChunk)
	args := make([]any, 0, 2+6*forkChunk)
	for from := 0; from < len(log); from += forkChunk {
		part := log[from:min(from+forkChunk, len(log))]
		text := whole
		if len(part) < forkChunk {
			text = insertEvents(len(part))
		}
		args = append(args[:0], string(id), int64(from))
		for _, e := range part {
			args = append(args, e.ID, e.Kind, e.Source, e.Timestamp, e.body, []byte(e.Raw))
		}
		if err := t.exec(text, args...); err != nil {
			return err
		}
	}
	return nil
}

// insertEvents is a statement for n events in a row: conversation and first seq
// come first, then the columns of each event.
func insertEvents(n int) string {
	var b strings.Builder
	b.WriteString(`INSERT INTO events (conversation, seq, id, kind, source, timestamp, body, raw) VALUES `)
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("($1, $2 + " + strconv.Itoa(i))
		for col := range 6 {
			b.WriteString(", $" + strconv.Itoa(3+6*i+col))
		}
		b.WriteString(")")
	}
	return b.String()
}
