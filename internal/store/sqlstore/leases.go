package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

type leases struct{ s *Store }

// Acquire implements store.Leases. A lease that ends at now has expired.
func (l leases) Acquire(ctx context.Context, id conversation.ID, holder string, now time.Time, ttl time.Duration) (int64, error) {
	const op = "store.leases.acquire"
	var generation int64
	err := l.s.writes.do(ctx, op, func(t *tx) error {
		var current string
		var until time.Time
		err := t.row(ctx, `SELECT lease_holder, lease_until, generation FROM conversations WHERE id = $1`,
			string(id)).Scan(&current, timeInto{&until}, &generation)
		if errors.Is(err, sql.ErrNoRows) {
			return noConversation()
		}
		if err != nil {
			return err
		}
		if current != "" && current != holder && micros(until) > micros(now) {
			return fault.New(fault.Conflict, store.CodeLeaseHeld, "Another server has this conversation open.").WithOp(op)
		}
		generation++
		return t.exec(`UPDATE conversations SET lease_holder = $1, lease_until = $2, generation = $3 WHERE id = $4`,
			holder, micros(now.Add(ttl)), generation, string(id))
	})
	if err != nil {
		return 0, err
	}
	return generation, nil
}

// Renew implements store.Leases. A lease that has expired but that nobody took
// is renewed.
func (l leases) Renew(ctx context.Context, holder string, held map[conversation.ID]int64, now time.Time, ttl time.Duration) ([]conversation.ID, error) {
	ids := slices.Sorted(maps.Keys(held))
	var lost []conversation.ID
	err := l.s.writes.do(ctx, "store.leases.renew", func(t *tx) error {
		for _, id := range ids {
			n, err := t.affected(`UPDATE conversations SET lease_until = $1
				WHERE id = $2 AND lease_holder = $3 AND generation = $4`,
				micros(now.Add(ttl)), string(id), holder, held[id])
			if err != nil {
				return err
			}
			if n == 0 {
				lost = append(lost, id)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return lost, nil
}

// Release implements store.Leases.
func (l leases) Release(ctx context.Context, id conversation.ID, holder string, generation int64) error {
	return l.s.writes.do(ctx, "store.leases.release", func(t *tx) error {
		return t.exec(`UPDATE conversations SET lease_holder = '', lease_until = $1
			WHERE id = $2 AND lease_holder = $3 AND generation = $4`,
			micros(time.Time{}), string(id), holder, generation)
	})
}

// Interrupted implements store.Leases.
func (l leases) Interrupted(ctx context.Context, now time.Time, deadHolders []string) ([]conversation.ID, error) {
	where := &clause{}
	free := "lease_holder = '' OR lease_until <= " + where.arg(micros(now))
	if len(deadHolders) > 0 {
		dead := &clause{args: where.args}
		dead.in("lease_holder", deadHolders)
		free += " OR " + dead.conditions[0]
		where.args = dead.args
	}
	scan := func(r row) (id conversation.ID, err error) { return id, r.Scan(&id) }
	// A quote inside a text of the document is escaped, so nothing but a goal matches.
	text := `SELECT id FROM conversations WHERE (status = 'running'
		OR status = 'finished' AND progress LIKE '%"goal":{"active":true%') AND (` + free + `) ORDER BY id`
	ids, err := collect(ctx, l.s.reads, scan, text, where.args...)
	return ids, l.s.fail(ctx, "store.leases.interrupted", err)
}
