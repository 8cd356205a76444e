package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"slices"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/store"
)

type accounts struct{ s *Store }

// PutUser implements store.Accounts.
func (a accounts) PutUser(ctx context.Context, u account.User) error {
	return a.s.writes.do(ctx, "store.accounts.put_user", func(t *tx) error {
		return t.exec(`INSERT INTO users (id, name, created_at) VALUES ($1, $2, $3)
			ON CONFLICT (id) DO UPDATE SET name = excluded.name`, u.ID, u.Name, micros(u.CreatedAt))
	})
}

func scanUser(rows row) (u account.User, err error) {
	return u, rows.Scan(&u.ID, &u.Name, timeInto{&u.CreatedAt})
}

// Users implements store.Accounts, the oldest first.
func (a accounts) Users(ctx context.Context) ([]account.User, error) {
	out, err := collect(ctx, a.s.reads, scanUser, `SELECT id, name, created_at FROM users ORDER BY created_at, id`)
	return out, a.s.fail(ctx, "store.accounts.users", err)
}

// SetKeys implements store.Accounts. NotFound for an unknown user; Conflict
// (CodeExists) if a key is another user's or another label's.
func (a accounts) SetKeys(ctx context.Context, userID, label string, hashes []account.KeyHash) error {
	const op = "store.accounts.set_keys"
	return a.s.writes.do(ctx, op, func(t *tx) error {
		var one int
		err := t.row(ctx, `SELECT 1 FROM users WHERE id = $1`, userID).Scan(&one)
		if errors.Is(err, sql.ErrNoRows) {
			return fault.New(fault.NotFound, codeMissing, "There is no such user.").WithOp(op)
		}
		if err != nil {
			return err
		}
		return replaceKeys(ctx, t, userID, label, hashes)
	})
}

// replaceKeys leaves those keys alone that are to stay: their ids do.
func replaceKeys(ctx context.Context, t *tx, userID, label string, hashes []account.KeyHash) error {
	scan := func(r row) (h []byte, err error) { return h, r.Scan(&h) }
	stored, err := collect(ctx, t, scan, `SELECT hash FROM api_keys WHERE user_id = $1 AND label = $2`, userID, label)
	if err != nil {
		return err
	}
	there := map[account.KeyHash]bool{}
	for _, h := range stored {
		if slices.Contains(hashes, account.KeyHash(h)) {
			there[account.KeyHash(h)] = true
			continue
		}
		if err := t.exec(`DELETE FROM api_keys WHERE hash = $1`, h); err != nil {
			return err
		}
	}
	for _, h := range hashes {
		if there[h] {
			continue
		}
		there[h] = true
		err := t.exec(`INSERT INTO api_keys (hash, user_id, label) VALUES ($1, $2, $3)`, h[:], userID, label)
		if isDuplicate(err) {
			return fault.New(fault.Conflict, store.CodeExists, "The key is in use already.")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func settingsPlace(userID string) string { return "settings.sealed/" + userID }

// Settings implements store.Accounts.
func (a accounts) Settings(ctx context.Context, userID string) (*account.Settings, error) {
	s, err := a.settings(ctx, a.s.reads, userID)
	if err == nil && s == nil {
		err = noSettings()
	}
	if err != nil {
		return nil, a.s.fail(ctx, "store.accounts.settings", err)
	}
	return s, nil
}

// SettingsSince implements store.Accounts. What is sealed is never sealed twice in the
// same way, so that its hash is a mark.
func (a accounts) SettingsSince(ctx context.Context, userID string, known store.SettingsMark) (*account.Settings, store.SettingsMark, error) {
	blob, err := a.sealedSettings(ctx, a.s.reads, userID)
	if err == nil && blob == nil {
		err = noSettings()
	}
	mark := store.SettingsMark(sha256.Sum256(blob))
	if err == nil && mark == known {
		return nil, mark, nil
	}
	s := &account.Settings{}
	if err == nil {
		err = a.s.unsealed(settingsPlace(userID), blob, s)
	}
	if err != nil {
		return nil, store.SettingsMark{}, a.s.fail(ctx, "store.accounts.settings_since", err)
	}
	return s, mark, nil
}

func noSettings() error {
	return fault.New(fault.NotFound, codeMissing, "No settings have been stored yet.")
}

// settings returns nil if there are none.
func (a accounts) settings(ctx context.Context, q querier, userID string) (*account.Settings, error) {
	blob, err := a.sealedSettings(ctx, q, userID)
	if err != nil || blob == nil {
		return nil, err
	}
	s := &account.Settings{}
	return s, a.s.unsealed(settingsPlace(userID), blob, s)
}

// sealedSettings returns nil if there are none.
func (accounts) sealedSettings(ctx context.Context, q querier, userID string) (blob []byte, err error) {
	err = q.row(ctx, `SELECT sealed FROM settings WHERE user_id = $1`, userID).Scan(&blob)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return blob, err
}

// UpdateSettings implements store.Accounts. If change returns nil, nothing is
// stored.
func (a accounts) UpdateSettings(ctx context.Context, userID string,
	change func(old *account.Settings) (*account.Settings, error)) error {
	return a.s.writes.do(ctx, "store.accounts.update_settings", func(t *tx) error {
		old, err := a.settings(ctx, t, userID)
		if err != nil {
			return err
		}
		changed, err := change(old)
		if err != nil || changed == nil {
			return err
		}
		blob, err := a.s.sealed(settingsPlace(userID), changed)
		if err != nil {
			return err
		}
		return t.exec(`INSERT INTO settings (user_id, sealed) VALUES ($1, $2)
			ON CONFLICT (user_id) DO UPDATE SET sealed = excluded.sealed`, userID, blob)
	})
}
