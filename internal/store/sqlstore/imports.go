package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

type imports struct{ s *Store }

// Imports returns what was imported from other servers.
func (s *Store) Imports() store.Imports { return imports{s} }

// Add implements store.Imports.
func (m imports) Add(ctx context.Context, i *store.Import) error {
	const op = "store.imports.add"
	log, head, err := newLog(op, i.Events)
	if err != nil {
		return err
	}
	if len(i.Raw) != len(i.Numbers) {
		return badRecord(op, "not every number has an event")
	}
	for n, e := range i.Numbers {
		if e.ID != int64(n) {
			return badRecord(op, "the numbers have a gap")
		}
	}
	record := *i.Conversation
	record.Summary.Head = head.head
	r, err := m.s.encodeConversation(&record)
	if err != nil {
		return classify(op, "", err)
	}
	return m.s.writes.do(ctx, op, func(t *tx) error {
		if err := r.insert(t, head); err != nil {
			return err
		}
		if err := insertLog(t, record.ID, log); err != nil {
			return err
		}
		if err := insertNumbers(t, i); err != nil {
			return err
		}
		return t.exec(`INSERT INTO imports (conversation, digest, created_at) VALUES ($1, $2, $3)`,
			string(record.ID), i.Digest, micros(record.UpdatedAt))
	})
}

func insertNumbers(t *tx, i *store.Import) error {
	if len(i.Numbers) == 0 {
		return nil
	}
	id := string(i.Conversation.ID)
	for n, e := range i.Numbers {
		if err := t.exec(`INSERT INTO projection_entries (conversation, name, id, seq, part) VALUES ($1, $2, $3, $4, $5)`,
			id, i.Projection, e.ID, e.Seq, e.Part); err != nil {
			return err
		}
		if err := t.exec(`INSERT INTO imported_events (conversation, id, raw) VALUES ($1, $2, $3)`, id, e.ID, i.Raw[n]); err != nil {
			return err
		}
	}
	return t.exec(`INSERT INTO projections (conversation, name, next_id, next_seq) VALUES ($1, $2, $3, $4)`,
		id, i.Projection, len(i.Numbers), len(i.Events))
}

// Digest implements store.Imports.
func (m imports) Digest(ctx context.Context, id conversation.ID) ([]byte, error) {
	var digest []byte
	err := m.s.reads.row(ctx, `SELECT digest FROM imports WHERE conversation = $1`, string(id)).Scan(&digest)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.New(fault.NotFound, codeMissing, "This conversation was not imported.")
	}
	return digest, m.s.fail(ctx, "store.imports.digest", err)
}

// Raw implements store.Imports.
func (m imports) Raw(ctx context.Context, id conversation.ID, from, to int64) (map[int64][]byte, error) {
	type entry struct {
		id  int64
		raw []byte
	}
	found, err := collect(ctx, m.s.reads, func(r row) (e entry, err error) { return e, r.Scan(&e.id, &e.raw) },
		`SELECT id, raw FROM imported_events WHERE conversation = $1 AND id >= $2 AND id <= $3`, string(id), from, to)
	out := make(map[int64][]byte, len(found))
	for _, e := range found {
		out[e.id] = e.raw
	}
	return out, m.s.fail(ctx, "store.imports.raw", err)
}
