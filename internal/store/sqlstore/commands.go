package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"parley/internal/store"
)

const selectCommands = `SELECT seq, sandbox_id, id, kind, command_id, piece, open, time, raw FROM command_events`

type commands struct{ s *Store }

// Append implements store.Commands.
func (c commands) Append(ctx context.Context, e store.CommandEvent) (seq int64, err error) {
	const op = "store.commands.append"
	if e.SandboxID == "" || e.ID == "" || len(e.Raw) == 0 {
		return 0, badRecord(op, "an event of a command without sandbox, id or text")
	}
	err = c.s.writes.do(ctx, op, func(t *tx) error {
		if e.Final {
			if err := t.exec(`UPDATE command_events SET open = false WHERE sandbox_id = $1 AND id = $2`, e.SandboxID, e.CommandID); err != nil {
				return err
			}
		}
		return t.row(ctx, `INSERT INTO command_events (sandbox_id, id, kind, command_id, piece, open, time, size, raw)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING seq`, e.SandboxID, e.ID, e.Kind, e.CommandID, e.Piece, e.Open,
			micros(e.Time), len(e.Raw), string(e.Raw)).Scan(&seq)
	})
	return seq, err
}

// Trim implements store.Commands.
func (c commands) Trim(ctx context.Context, sandboxID string, events int, bytes int64) error {
	return c.s.writes.do(ctx, "store.commands.trim", func(t *tx) error {
		return t.exec(`DELETE FROM command_events WHERE sandbox_id = $1 AND NOT open AND seq <= COALESCE((SELECT max(seq) FROM (
			SELECT seq, row_number() OVER w AS place, sum(size) OVER w AS total FROM command_events WHERE sandbox_id = $1
			WINDOW w AS (ORDER BY seq DESC)) WHERE place > $2 OR total > $3), 0)`, sandboxID, events, bytes)
	})
}

func scanCommand(rows row) (e store.CommandEvent, err error) {
	var raw string
	err = rows.Scan(&e.Seq, &e.SandboxID, &e.ID, &e.Kind, &e.CommandID, &e.Piece, &e.Open, timeInto{&e.Time}, &raw)
	e.Raw = []byte(raw)
	return e, err
}

// Search implements store.Commands.
func (c commands) Search(ctx context.Context, q store.CommandQuery) ([]store.CommandEvent, string, error) {
	const op = "store.commands.search"
	where, err := c.filter(ctx, q)
	if err != nil {
		return nil, "", c.s.fail(ctx, op, err)
	}
	order := " ORDER BY seq"
	if q.Desc {
		order += " DESC"
	}
	limit, size, full := clamp(q.Limit, maxPage), 0, false
	text := selectCommands + where.where() + order + " LIMIT " + where.arg(limit+1)
	items, err := collectUntil(ctx, c.s.reads, scanCommand, func(e store.CommandEvent) bool {
		full = size > 0 && size+len(e.Raw) > store.MaxCommandPage
		size += len(e.Raw)
		return full
	}, text, where.args...)
	if full {
		limit = len(items) - 1
	}
	if err != nil || len(items) <= limit {
		return items, "", c.s.fail(ctx, op, err)
	}
	return items[:limit:limit], items[limit].ID, nil
}

func (c commands) filter(ctx context.Context, q store.CommandQuery) (*clause, error) {
	where := &clause{}
	where.and("sandbox_id =", q.SandboxID)
	where.equal("kind", q.Kind)
	where.equal("command_id", q.CommandID)
	where.between("time", q.From, q.To)
	if q.Beyond != nil {
		where.and("piece >", max(*q.Beyond, -1)) // commands are -1
	}
	if q.After > 0 {
		where.and("seq >", q.After)
	}
	if q.First == "" {
		return where, nil
	}
	var seq int64
	err := c.s.reads.row(ctx, `SELECT seq FROM command_events WHERE sandbox_id = $1 AND id = $2`, q.SandboxID, q.First).Scan(&seq)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return where, nil
	case q.Desc:
		where.and("seq <=", seq)
	default:
		where.and("seq >=", seq)
	}
	return where, err
}

// Batch implements store.Commands.
func (c commands) Batch(ctx context.Context, sandboxID string, ids []string) ([]*store.CommandEvent, error) {
	out := make([]*store.CommandEvent, len(ids))
	for i, id := range ids {
		e, err := scanCommand(c.s.reads.row(ctx, selectCommands+` WHERE sandbox_id = $1 AND id = $2`, sandboxID, id))
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, c.s.fail(ctx, "store.commands.batch", err)
		}
		out[i] = &e
	}
	return out, nil
}

// Open implements store.Commands.
func (c commands) Open(ctx context.Context) ([]store.OpenCommand, error) {
	events, err := collect(ctx, c.s.reads, scanCommand, selectCommands+` WHERE open ORDER BY seq`)
	if err != nil {
		return nil, c.s.fail(ctx, "store.commands.open", err)
	}
	all := make([]store.OpenCommand, len(events))
	for i, e := range events {
		all[i].CommandEvent = e
		err := c.s.reads.row(ctx, `SELECT COALESCE(max(piece), -1) + 1 FROM command_events WHERE sandbox_id = $1 AND command_id = $2`,
			e.SandboxID, e.ID).Scan(&all[i].Next)
		if err != nil {
			return nil, c.s.fail(ctx, "store.commands.open", err)
		}
	}
	return all, nil
}

// Delete implements store.Commands.
func (c commands) Delete(ctx context.Context, sandboxID string) (int, error) {
	var n int64
	err := c.s.writes.do(ctx, "store.commands.delete", func(t *tx) (err error) {
		n, err = t.affected(`DELETE FROM command_events WHERE sandbox_id = $1`, sandboxID)
		return err
	})
	return int(n), err
}
