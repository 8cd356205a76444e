package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/store"
)

// useInterval is how often it is noted that a key is used.
const useInterval = time.Hour

const selectKey = `SELECT id, user_id, label, name, created_at, used_at, not_before, expires_at FROM api_keys`

func scanKey(rows row) (k account.APIKey, err error) {
	var used, from, until sql.NullInt64
	err = rows.Scan(&k.ID, &k.UserID, &k.Label, &k.Name, timeInto{&k.CreatedAt}, &used, &from, &until)
	k.UsedAt, k.NotBefore, k.ExpiresAt = timeOf(used), timeOf(from), timeOf(until)
	return k, err
}

func timeOf(n sql.NullInt64) *time.Time {
	if !n.Valid {
		return nil
	}
	t := time.UnixMicro(n.Int64).UTC()
	return &t
}

func microsOrNull(t *time.Time) any {
	if t == nil {
		return nil
	}
	return micros(*t)
}

// CreateKey implements store.Accounts.
func (a accounts) CreateKey(ctx context.Context, k account.APIKey, h account.KeyHash) (account.APIKey, error) {
	const op = "store.accounts.create_key"
	err := a.s.writes.do(ctx, op, func(t *tx) error {
		var n int
		err := t.row(ctx, `SELECT COUNT(*) FROM api_keys WHERE user_id = $1 AND label = $2`, k.UserID, k.Label).Scan(&n)
		switch {
		case err != nil:
			return err
		case n >= account.MaxKeys:
			return fault.New(fault.Conflict, account.CodeKeyLimit, "There are %d API keys, the most a user can have.", account.MaxKeys).
				WithHint("Delete one first.")
		}
		err = t.row(ctx, `INSERT INTO api_keys (hash, user_id, label, name, created_at, not_before, expires_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id`, h[:], k.UserID, k.Label, k.Name, micros(k.CreatedAt),
			microsOrNull(k.NotBefore), microsOrNull(k.ExpiresAt)).Scan(&k.ID)
		if isDuplicate(err) {
			return fault.New(fault.Conflict, store.CodeExists, "The key is in use already.").WithOp(op)
		}
		return err
	})
	return k, err
}

// Keys implements store.Accounts.
func (a accounts) Keys(ctx context.Context, userID, label string) ([]account.APIKey, error) {
	out, err := collect(ctx, a.s.reads, scanKey, selectKey+` WHERE user_id = $1 AND label = $2 ORDER BY id`, userID, label)
	return out, a.s.fail(ctx, "store.accounts.keys", err)
}

// Key implements store.Accounts.
func (a accounts) Key(ctx context.Context, h account.KeyHash) (account.APIKey, error) {
	k, err := scanKey(a.s.reads.row(ctx, selectKey+` WHERE hash = $1`, h[:]))
	if errors.Is(err, sql.ErrNoRows) {
		err = errNoKey()
	}
	return k, a.s.fail(ctx, "store.accounts.key", err)
}

func errNoKey() error { return fault.New(fault.NotFound, account.CodeKeyNotFound, "API key not found") }

// DeleteKey implements store.Accounts.
func (a accounts) DeleteKey(ctx context.Context, userID, label string, id int64) error {
	return a.s.writes.do(ctx, "store.accounts.delete_key", func(t *tx) error {
		n, err := t.affected(`DELETE FROM api_keys WHERE user_id = $1 AND label = $2 AND id = $3`, userID, label, id)
		if err == nil && n == 0 {
			err = errNoKey()
		}
		return err
	})
}

// UserByKey implements store.Accounts. That a key is used is noted now and then; a
// store that takes no writes lets it in all the same.
func (a accounts) UserByKey(ctx context.Context, h account.KeyHash) (account.User, error) {
	now := time.Now()
	var u account.User
	var label string
	var used sql.NullInt64
	err := a.s.reads.row(ctx, `SELECT users.id, users.name, users.created_at, api_keys.label, api_keys.used_at FROM users
		JOIN api_keys ON api_keys.user_id = users.id WHERE api_keys.hash = $1
		AND (not_before IS NULL OR not_before <= $2) AND (expires_at IS NULL OR expires_at > $2)`, h[:], micros(now)).
		Scan(&u.ID, &u.Name, timeInto{&u.CreatedAt}, &label, &used)
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.New(fault.Unauthenticated, "unknown_key", "The key is not valid.")
	}
	if err != nil {
		return account.User{}, a.s.fail(ctx, "store.accounts.user_by_key", err)
	}
	if label == account.MadeKeyLabel && now.Sub(time.UnixMicro(used.Int64)) > useInterval {
		_ = a.s.writes.do(ctx, "store.accounts.use_key", func(t *tx) error {
			return t.exec(`UPDATE api_keys SET used_at = $2 WHERE hash = $1`, h[:], micros(now))
		})
	}
	return u, nil
}
