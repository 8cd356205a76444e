package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

type projections struct{ s *Store }

// Cursor implements store.Projections. NotFound for an unknown conversation.
func (p projections) Cursor(ctx context.Context, id conversation.ID, name string) (nextID, nextSeq int64, err error) {
	nextID, nextSeq, err = p.cursor(ctx, p.s.reads, id, name)
	return nextID, nextSeq, p.s.fail(ctx, "store.projections.cursor", err)
}

// cursor is 0, 0 before the first extension.
func (p projections) cursor(ctx context.Context, q querier, id conversation.ID, name string) (nextID, nextSeq int64, err error) {
	err = q.row(ctx, `SELECT next_id, next_seq FROM projections WHERE conversation = $1 AND name = $2`,
		string(id), name).Scan(&nextID, &nextSeq)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, 0, p.s.exists(ctx, q, id)
	}
	return nextID, nextSeq, err
}

// Extend implements store.Projections. NotFound for an unknown conversation.
func (p projections) Extend(ctx context.Context, id conversation.ID, name string, fromID, fromSeq, nextSeq int64,
	entries []store.ProjectionEntry) error {
	const op = "store.projections.extend"
	for i, e := range entries {
		if e.ID != fromID+int64(i) {
			return badRecord(op, "the ids have a gap")
		}
	}
	return p.s.writes.do(ctx, op, func(t *tx) error {
		atID, atSeq, err := p.cursor(ctx, t, id, name)
		if err != nil {
			return err
		}
		if atID != fromID || atSeq != fromSeq {
			return fault.New(fault.Conflict, store.CodeHeadMoved, "The projection has moved on.").WithOp(op)
		}
		for _, e := range entries {
			err := t.exec(`INSERT INTO projection_entries (conversation, name, id, seq, part) VALUES ($1, $2, $3, $4, $5)`,
				string(id), name, e.ID, e.Seq, e.Part)
			if err != nil {
				return err
			}
		}
		return t.exec(`INSERT INTO projections (conversation, name, next_id, next_seq) VALUES ($1, $2, $3, $4)
			ON CONFLICT (conversation, name) DO UPDATE SET next_id = excluded.next_id, next_seq = excluded.next_seq`,
			string(id), name, fromID+int64(len(entries)), nextSeq)
	})
}

func scanEntry(rows row) (e store.ProjectionEntry, err error) {
	return e, rows.Scan(&e.ID, &e.Seq, &e.Part)
}

// Range implements store.Projections. An unknown conversation has no entries.
func (p projections) Range(ctx context.Context, id conversation.ID, name string, from, to int64, desc bool,
	limit int) ([]store.ProjectionEntry, error) {
	text := `SELECT id, seq, part FROM projection_entries
		WHERE conversation = $1 AND name = $2 AND id >= $3 AND id <= $4 ORDER BY id`
	if desc {
		text += " DESC"
	}
	out, err := collect(ctx, p.s.reads, scanEntry, text+" LIMIT $5", string(id), name, from, to, max(limit, 0))
	return out, p.s.fail(ctx, "store.projections.range", err)
}
