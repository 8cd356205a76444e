package sqlstore

import (
	"context"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

type pending struct{ s *Store }

// Pending returns the messages that wait for a start.
func (s *Store) Pending() store.Pending { return pending{s} }

// Add implements store.Pending.
func (p pending) Add(ctx context.Context, id conversation.ID, m store.PendingMessage, most int) (place int, err error) {
	const op = "store.pending.add"
	if m.ID == "" {
		return 0, badRecord(op, "a message without an id")
	}
	parts, err := document(m.Parts)
	if err != nil {
		return 0, err
	}
	err = p.s.writes.do(ctx, op, func(t *tx) error {
		if err := p.s.exists(ctx, t, id); err != nil {
			return err
		}
		var waiting, last int64
		err := t.row(ctx, `SELECT count(*), coalesce(max(seq), 0) FROM pending_messages WHERE conversation = $1`,
			string(id)).Scan(&waiting, &last)
		if err != nil {
			return err
		}
		if waiting >= int64(most) {
			return fault.New(fault.RateLimited, store.CodePendingFull, "%d messages wait for the conversation to start, which is the limit.", most).
				WithHint("Wait until it is READY.")
		}
		place = int(waiting) + 1
		return t.exec(`INSERT INTO pending_messages (conversation, seq, id, content, created_at) VALUES ($1, $2, $3, $4, $5)`,
			string(id), last+1, m.ID, parts, micros(m.CreatedAt))
	})
	return place, err
}

// List implements store.Pending.
func (p pending) List(ctx context.Context, id conversation.ID) ([]store.PendingMessage, error) {
	scan := func(r row) (m store.PendingMessage, err error) {
		return m, r.Scan(&m.ID, jsonInto{&m.Parts}, timeInto{&m.CreatedAt})
	}
	out, err := collect(ctx, p.s.reads, scan,
		`SELECT id, content, created_at FROM pending_messages WHERE conversation = $1 ORDER BY seq`, string(id))
	return out, p.s.fail(ctx, "store.pending.list", err)
}

// Remove implements store.Pending.
func (p pending) Remove(ctx context.Context, id conversation.ID, message string) error {
	return p.s.writes.do(ctx, "store.pending.remove", func(t *tx) error {
		return t.exec(`DELETE FROM pending_messages WHERE conversation = $1 AND ($2 = '' OR id = $2)`, string(id), message)
	})
}

// Waiting implements store.Pending.
func (p pending) Waiting(ctx context.Context) ([]conversation.ID, error) {
	scan := func(r row) (id conversation.ID, err error) { return id, r.Scan(&id) }
	out, err := collect(ctx, p.s.reads, scan, `SELECT DISTINCT conversation FROM pending_messages ORDER BY conversation`)
	return out, p.s.fail(ctx, "store.pending.waiting", err)
}
