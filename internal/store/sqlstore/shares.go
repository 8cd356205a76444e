package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

const selectShare = `SELECT id, owner, conversation, created_at, expires_at FROM shares`

type shares struct{ s *Store }

// Shares returns the links that open conversations for reading.
func (s *Store) Shares() store.Shares { return shares{s} }

func scanShare(r row) (s store.Share, err error) {
	return s, r.Scan(&s.ID, &s.Owner, &s.Conversation, timeInto{&s.CreatedAt}, timeInto{&s.ExpiresAt})
}

// Add implements store.Shares.
func (h shares) Add(ctx context.Context, s store.Share, token account.KeyHash, most int) error {
	return h.s.writes.do(ctx, "store.shares.add", func(t *tx) error {
		if err := h.s.exists(ctx, t, s.Conversation); err != nil {
			return err
		}
		if err := t.exec(`DELETE FROM shares WHERE conversation = $1 AND expires_at <= $2`,
			string(s.Conversation), micros(s.CreatedAt)); err != nil {
			return err
		}
		var n int
		if err := t.row(ctx, `SELECT count(*) FROM shares WHERE conversation = $1`, string(s.Conversation)).Scan(&n); err != nil {
			return err
		}
		if n >= most {
			return fault.New(fault.Conflict, store.CodeSharesFull, "The conversation has %d links, which is the limit.", most).
				WithHint("Revoke one that is not needed any more.")
		}
		return t.exec(`INSERT INTO shares (id, owner, conversation, hash, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6)`,
			s.ID, s.Owner, string(s.Conversation), token[:], micros(s.CreatedAt), micros(s.ExpiresAt))
	})
}

// List implements store.Shares.
func (h shares) List(ctx context.Context, owner string, id conversation.ID, now time.Time) ([]store.Share, error) {
	out, err := collect(ctx, h.s.reads, scanShare, selectShare+
		` WHERE conversation = $1 AND owner = $2 AND expires_at > $3 ORDER BY created_at DESC, id DESC`, string(id), owner, micros(now))
	return out, h.s.fail(ctx, "store.shares.list", err)
}

// Revoke implements store.Shares.
func (h shares) Revoke(ctx context.Context, owner string, id conversation.ID, share string) error {
	return h.s.writes.do(ctx, "store.shares.revoke", func(t *tx) error {
		n, err := t.affected(`DELETE FROM shares WHERE id = $1 AND conversation = $2 AND owner = $3`, share, string(id), owner)
		if err == nil && n == 0 {
			err = noShare()
		}
		return err
	})
}

// ByToken implements store.Shares.
func (h shares) ByToken(ctx context.Context, token account.KeyHash, now time.Time) (*store.Share, error) {
	s, err := scanShare(h.s.reads.row(ctx, selectShare+` WHERE hash = $1 AND expires_at > $2`, token[:], micros(now)))
	if errors.Is(err, sql.ErrNoRows) {
		err = noShare()
	}
	if err != nil {
		return nil, h.s.fail(ctx, "store.shares.by_token", err)
	}
	return &s, nil
}

func noShare() error { return fault.New(fault.NotFound, codeMissing, "There is no such link.") }
