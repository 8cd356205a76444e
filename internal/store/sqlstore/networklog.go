package sqlstore

import (
	"context"
	"strings"
	"time"

	"parley/internal/store"
)

const selectNetwork = `SELECT sandbox_id, id, began, lasted, open, protocol, host, address, port, sent, received,
	verdict, reason FROM network_log`

// byBegin is the order of a network log.
var byBegin = keyset{store.CreatedDesc, "began", false, true}

type networkLog struct{ s *Store }

// Write implements store.NetworkLog.
func (n networkLog) Write(ctx context.Context, entries []store.NetworkEntry, keep int) error {
	const op = "store.network_log.write"
	boxes := map[string]bool{}
	for _, e := range entries {
		if e.SandboxID == "" || e.ID == "" {
			return badRecord(op, "a connection without sandbox or id")
		}
		boxes[e.SandboxID] = true
	}
	if keep < 1 {
		return badRecord(op, "a network log that keeps nothing")
	}
	return n.s.writes.do(ctx, op, func(t *tx) error {
		for _, e := range entries {
			if err := putConnection(t, e); err != nil {
				return err
			}
		}
		for id := range boxes {
			if err := t.exec(`DELETE FROM network_log WHERE sandbox_id = $1 AND (began, id) < (SELECT began, id FROM network_log
				WHERE sandbox_id = $1 ORDER BY began DESC, id DESC LIMIT 1 OFFSET $2)`, id, keep-1); err != nil {
				return err
			}
		}
		return nil
	})
}

func putConnection(t *tx, e store.NetworkEntry) error {
	return t.exec(`INSERT INTO network_log (sandbox_id, id, began, lasted, open, protocol, host, address, port, sent,
		received, verdict, reason) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
		ON CONFLICT (sandbox_id, id) DO UPDATE SET lasted = excluded.lasted, open = excluded.open,
		protocol = excluded.protocol, host = excluded.host, address = excluded.address, port = excluded.port,
		sent = excluded.sent, received = excluded.received, verdict = excluded.verdict, reason = excluded.reason`,
		e.SandboxID, e.ID, micros(e.Began), e.Lasted.Microseconds(), e.Open, e.Protocol, e.Host, e.Address, e.Port, e.Sent,
		e.Received, e.Verdict, e.Reason)
}

func scanConnection(rows row) (e store.NetworkEntry, err error) {
	var lasted int64
	err = rows.Scan(&e.SandboxID, &e.ID, timeInto{&e.Began}, &lasted, &e.Open, &e.Protocol, &e.Host, &e.Address, &e.Port, &e.Sent,
		&e.Received, &e.Verdict, &e.Reason)
	e.Lasted = time.Duration(lasted) * time.Microsecond
	return e, err
}

// Search implements store.NetworkLog.
func (n networkLog) Search(ctx context.Context, q store.NetworkQuery) (store.Page[store.NetworkEntry], error) {
	where, limit := &clause{}, clamp(q.Limit, maxPage)
	where.and("sandbox_id =", q.SandboxID)
	where.equal("verdict", q.Verdict)
	if q.Host != "" {
		needle := strings.ToLower(q.Host)
		where.conditions = append(where.conditions,
			"("+contains("lower(host)", where.arg(needle))+" OR "+contains("address", where.arg(needle))+")")
	}
	if at, ok := parseCursor(q.Cursor, byBegin); ok {
		where.after(byBegin, at)
	}
	text := selectNetwork + where.where() + byBegin.orderBy() + " LIMIT " + where.arg(limit+1)
	found, err := collect(ctx, n.s.reads, scanConnection, text, where.args...)
	if err != nil {
		return store.Page[store.NetworkEntry]{}, n.s.fail(ctx, "store.network_log.search", err)
	}
	return page(found, limit, func(e store.NetworkEntry) cursor {
		return cursor{Order: byBegin.name, Num: micros(e.Began), ID: e.ID}
	}), nil
}

// CloseOpen implements store.NetworkLog.
func (n networkLog) CloseOpen(ctx context.Context) error {
	return n.s.writes.do(ctx, "store.network_log.close_open", func(t *tx) error {
		return t.exec(`UPDATE network_log SET open = false WHERE open`)
	})
}

// Delete implements store.NetworkLog.
func (n networkLog) Delete(ctx context.Context, sandboxID string) error {
	return n.s.writes.do(ctx, "store.network_log.delete", func(t *tx) error {
		return t.exec(`DELETE FROM network_log WHERE sandbox_id = $1`, sandboxID)
	})
}
