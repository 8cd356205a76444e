package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

// maxDepth bounds how deep sub-conversations nest. Beyond it, or in a circle,
// nothing is reserved: a root that cannot be found has no ceiling that can be kept.
const maxDepth = 64

// Ledger returns what model calls cost.
func (s *Store) Ledger() store.Ledger { return ledger{s} }

type ledger struct{ s *Store }

var _ store.Ledger = ledger{}

// Reserve implements store.Ledger.
func (l ledger) Reserve(ctx context.Context, r store.Reservation) error {
	const op = "store.ledger.reserve"
	if r.ID == "" || r.Amount < 0 || r.Tokens < 0 || r.Amount > maxAmount || r.Tokens > maxAmount {
		return badRecord(op, "a reservation without id, or of an impossible amount")
	}
	return l.s.writes.do(ctx, op, func(t *tx) error {
		path, err := openPath(ctx, t, r.Conversation)
		if err != nil {
			return err
		}
		day, err := loadDay(ctx, t, r.Owner, dayOf(r.Now))
		if err != nil {
			return err
		}
		if len(path) > 0 {
			path[0].ownLimit = r.Ceilings.Own
		}
		if full := refusal(r, path, day); full != nil {
			return full
		}
		return hold(t, r, path, day)
	})
}

// dayOf is the UTC date that a moment counts for.
func dayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// hold writes a reservation down and adds it to all sums.
func hold(t *tx, r store.Reservation, path []*spendAccount, day *spendDay) error {
	err := t.exec(`INSERT INTO spend_reservations (id, conversation, owner, day, use, model, amount, tokens, holder)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`, r.ID, string(r.Conversation), r.Owner, day.day, r.Use, r.Model,
		int64(r.Amount), r.Tokens, r.Holder)
	if isDuplicate(err) {
		return fault.Wrap(err, fault.Conflict, store.CodeExists, "The reservation exists already.")
	}
	if err != nil {
		return err
	}
	for _, a := range path {
		a.hold(r)
		if err := a.store(t); err != nil {
			return err
		}
	}
	day.hold(r)
	return day.store(t)
}

// refusal returns the ceiling that a reservation does not fit under, nil if it
// fits under all; of several the one with the least room that could become free.
func refusal(r store.Reservation, path []*spendAccount, day *spendDay) *store.BudgetError {
	var tightest *store.BudgetError
	check := func(scope store.BudgetScope, p *purse, money *conversation.Money, tokens *int64) {
		for _, full := range []*store.BudgetError{p.checkMoney(r, money), p.checkTokens(r, tokens)} {
			if full == nil {
				continue
			}
			full.Scope = scope
			if tightest == nil || full.Left()+full.Held < tightest.Left()+tightest.Held {
				tightest = full
			}
		}
	}
	for _, a := range path {
		check(store.ScopeSub, &a.purse, a.ownLimit, nil)
	}
	if len(path) > 0 {
		check(store.ScopeConversation, &path[len(path)-1].purse, r.Ceilings.Tree, r.Ceilings.TreeTokens)
	}
	check(store.ScopeDay, &day.purse, r.Ceilings.Day, r.Ceilings.DayTokens)
	return tightest
}

// Settle implements store.Ledger.
func (l ledger) Settle(ctx context.Context, list ...store.Settlement) error {
	if len(list) == 0 {
		return nil
	}
	return l.s.writes.do(ctx, "store.ledger.settle", func(t *tx) error { return settleAll(ctx, t, list) })
}

func settleAll(ctx context.Context, t *tx, list []store.Settlement) error {
	for _, s := range list {
		held, err := takeReservation(ctx, t, s.Reservation)
		if err == nil && held != nil {
			err = settle(ctx, t, held, s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Orphans implements store.Ledger.
func (l ledger) Orphans(ctx context.Context, deadHolders []string) (int, error) {
	const op = "store.ledger.orphans"
	if len(deadHolders) == 0 {
		return 0, nil
	}
	var n int
	err := l.s.writes.do(ctx, op, func(t *tx) error {
		where := &clause{}
		where.in("holder", deadHolders)
		lost, err := collect(ctx, t, scanReservation, selectReservation+where.where()+` ORDER BY id`, where.args...)
		if err != nil {
			return err
		}
		n = len(lost)
		for _, r := range lost {
			if err := t.exec(deleteReservation, r.ID); err != nil {
				return err
			}
			all := store.Settlement{Reservation: r.ID, Uncertain: r.Amount, Tokens: r.Tokens}
			all.Usage.Model = r.Model
			if err := settle(ctx, t, r, all); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// settle moves a reservation, whose row is gone already, to what it has become:
// in the conversation and all above it, on its day and by use.
func settle(ctx context.Context, t *tx, r *store.Reservation, s store.Settlement) error {
	path, err := loadPath(ctx, t, r.Conversation)
	if err != nil {
		return err
	}
	spent, tokens := spendingOf(s), clampCount(s.Tokens)
	for _, a := range path {
		a.settle(r, spent, tokens)
		if err := a.store(t); err != nil {
			return err
		}
	}
	day, err := loadDay(ctx, t, r.Owner, dayOf(r.Now))
	if err != nil {
		return err
	}
	day.settle(r, spent, tokens)
	if err := day.store(t); err != nil {
		return err
	}
	if spent.Calls > 0 {
		if err := addUse(ctx, t, r, spent); err != nil {
			return err
		}
		if err := addDayUse(ctx, t, r, spent); err != nil {
			return err
		}
	}
	if len(path) > 0 && path[0].gone {
		return prune(ctx, t, path[0].id)
	}
	return nil
}

const (
	selectReservation = `SELECT id, conversation, owner, day, use, model, amount, tokens FROM spend_reservations`
	deleteReservation = `DELETE FROM spend_reservations WHERE id = $1`
)

func scanReservation(rows row) (*store.Reservation, error) {
	r := &store.Reservation{}
	var day string
	err := rows.Scan(&r.ID, &r.Conversation, &r.Owner, &day, &r.Use, &r.Model, &r.Amount, &r.Tokens)
	if err != nil {
		return nil, err
	}
	if r.Now, err = time.Parse(time.DateOnly, day); err != nil {
		return nil, fmt.Errorf("day of a reservation: %w", err)
	}
	return r, nil
}

// takeReservation removes and returns an open reservation, nil if there is none.
func takeReservation(ctx context.Context, t *tx, id string) (*store.Reservation, error) {
	r, err := scanReservation(t.row(ctx, selectReservation+` WHERE id = $1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return r, t.exec(deleteReservation, id)
}

// Conversation implements store.Ledger.
func (l ledger) Conversation(ctx context.Context, id conversation.ID) (map[string]store.Spending, store.Spending, error) {
	const op = "store.ledger.conversation"
	own := map[string]store.Spending{}
	var tree store.Spending
	err := l.s.reads.row(ctx, `SELECT `+spendingColumns+` FROM spend_accounts WHERE conversation = $1`, string(id)).
		Scan(spendingInto(&tree)...)
	if errors.Is(err, sql.ErrNoRows) {
		return own, tree, nil
	}
	if err != nil {
		return nil, tree, l.s.fail(ctx, op, err)
	}
	scan := func(r row) (out store.SpendingRow, err error) {
		return out, r.Scan(append([]any{&out.Use}, spendingInto(&out.Spending)...)...)
	}
	rows, err := collect(ctx, l.s.reads, scan, `SELECT use, `+spendingColumns+` FROM spend_uses WHERE conversation = $1`, string(id))
	for _, r := range rows {
		own[r.Use] = r.Spending
	}
	return own, tree, l.s.fail(ctx, op, err)
}

// Days implements store.Ledger.
func (l ledger) Days(ctx context.Context, owner, from, to string) ([]store.SpendingRow, error) {
	scan := func(r row) (out store.SpendingRow, err error) {
		return out, r.Scan(append([]any{&out.Day, &out.Use, &out.Model}, spendingInto(&out.Spending)...)...)
	}
	rows, err := collect(ctx, l.s.reads, scan, `SELECT day, use, model, `+spendingColumns+` FROM spend_day_uses
		WHERE owner = $1 AND day >= $2 AND day <= $3 ORDER BY day, use, model`, owner, from, to)
	return rows, l.s.fail(ctx, "store.ledger.days", err)
}
