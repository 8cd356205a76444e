package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/store"
)

const selectSandbox = `SELECT id, owner, spec_id, backend, handle, status, detail, key_sealed, working_dir, host_dir,
	wanted, created_at, updated_at FROM sandboxes`

type sandboxes struct{ s *Store }

func keyPlace(id string) string { return "sandboxes.key_sealed/" + id }

// Save implements store.Sandboxes. Conflict (CodeExists) if another sandbox has
// the same session key.
func (s sandboxes) Save(ctx context.Context, b *store.Sandbox) error {
	const op = "store.sandboxes.save"
	hash, sealed, err := s.sealKey(b)
	if err != nil {
		return classify(op, "", err)
	}
	args := []any{b.ID, b.Owner, b.SpecID, b.Backend, b.Handle, string(b.Status), b.Detail, hash, sealed, b.WorkingDir,
		b.HostDir, wantedText(b.Wanted), micros(b.CreatedAt), micros(b.UpdatedAt)}
	return s.s.writes.do(ctx, op, func(t *tx) error {
		err := t.exec(`INSERT INTO sandboxes (id, owner, spec_id, backend, handle, status, detail, key_hash, key_sealed,
			working_dir, host_dir, wanted, created_at, updated_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
			ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, spec_id = excluded.spec_id,
			backend = excluded.backend, handle = excluded.handle, status = excluded.status, detail = excluded.detail,
			key_hash = excluded.key_hash, key_sealed = excluded.key_sealed, working_dir = excluded.working_dir,
			host_dir = excluded.host_dir, wanted = excluded.wanted, created_at = excluded.created_at, updated_at = excluded.updated_at`, args...)
		if isDuplicate(err) {
			return fault.New(fault.Conflict, store.CodeExists, "Another sandbox has this session key.").WithOp(op)
		}
		return err
	})
}

// wantedText is how the fleet's document is stored, NULL for none.
func wantedText(doc []byte) any {
	if doc == nil {
		return nil
	}
	return string(doc)
}

// sealKey returns the look-up hash and the sealed value of the session key, nil
// if there is none.
func (s sandboxes) sealKey(b *store.Sandbox) (hash, sealed []byte, err error) {
	if !b.SessionKey.IsSet() {
		return nil, nil, nil
	}
	h := account.HashKey(b.SessionKey.Reveal())
	sealed, err = s.s.seal.Seal(keyPlace(b.ID), []byte(b.SessionKey.Reveal()))
	return h[:], sealed, err
}

func (s sandboxes) scan(rows row) (*store.Sandbox, error) {
	b := &store.Sandbox{}
	var sealed []byte
	err := rows.Scan(&b.ID, &b.Owner, &b.SpecID, &b.Backend, &b.Handle, &b.Status, &b.Detail, &sealed, &b.WorkingDir,
		&b.HostDir, &b.Wanted, timeInto{&b.CreatedAt}, timeInto{&b.UpdatedAt})
	if err != nil || sealed == nil {
		return b, err
	}
	key, err := s.s.seal.Unseal(keyPlace(b.ID), sealed)
	b.SessionKey = account.NewSecret(string(key))
	return b, err
}

// one reads a single record, NotFound if there is none.
func (s sandboxes) one(ctx context.Context, op string, where *clause) (*store.Sandbox, error) {
	b, err := s.scan(s.s.reads.row(ctx, selectSandbox+where.where(), where.args...))
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.New(fault.NotFound, codeMissing, "There is no such sandbox.")
	}
	if err != nil {
		return nil, s.s.fail(ctx, op, err)
	}
	return b, nil
}

// Get implements store.Sandboxes; owner "" means any.
func (s sandboxes) Get(ctx context.Context, owner, id string) (*store.Sandbox, error) {
	where := &clause{}
	where.and("id =", id)
	where.equal("owner", owner)
	return s.one(ctx, "store.sandboxes.get", where)
}

// BySessionKey implements store.Sandboxes. NotFound for an unknown key.
func (s sandboxes) BySessionKey(ctx context.Context, h account.KeyHash) (*store.Sandbox, error) {
	where := &clause{}
	where.and("key_hash =", h[:])
	return s.one(ctx, "store.sandboxes.by_session_key", where)
}

// Batch implements store.Sandboxes.
func (s sandboxes) Batch(ctx context.Context, owner string, ids []string) ([]*store.Sandbox, error) {
	out, err := batch(ids, func(part []string) ([]*store.Sandbox, error) {
		where := &clause{}
		where.owned(owner)
		where.in("id", part)
		return collect(ctx, s.s.reads, s.scan, selectSandbox+where.where(), where.args...)
	}, func(b *store.Sandbox) string { return b.ID })
	return out, s.s.fail(ctx, "store.sandboxes.batch", err)
}

// Search implements store.Sandboxes.
func (s sandboxes) Search(ctx context.Context, q store.SandboxQuery) (store.Page[*store.Sandbox], error) {
	where, limit := &clause{}, clamp(q.Limit, maxPage)
	where.equal("owner", q.Owner)
	if at, ok := parseCursor(q.Cursor, byNewest); ok {
		where.after(byNewest, at)
	}
	text := selectSandbox + where.where() + byNewest.orderBy() + " LIMIT " + where.arg(limit+1)
	found, err := collect(ctx, s.s.reads, s.scan, text, where.args...)
	if err != nil {
		return store.Page[*store.Sandbox]{}, s.s.fail(ctx, "store.sandboxes.search", err)
	}
	return page(found, limit, func(b *store.Sandbox) cursor {
		return cursor{Order: byNewest.name, Num: micros(b.CreatedAt), ID: b.ID}
	}), nil
}

// All implements store.Sandboxes, the oldest first.
func (s sandboxes) All(ctx context.Context) ([]*store.Sandbox, error) {
	out, err := collect(ctx, s.s.reads, s.scan, selectSandbox+byCreation.orderBy())
	return out, s.s.fail(ctx, "store.sandboxes.all", err)
}

// Delete implements store.Sandboxes.
func (s sandboxes) Delete(ctx context.Context, id string) error {
	return s.s.writes.do(ctx, "store.sandboxes.delete", func(t *tx) error {
		return t.exec(`DELETE FROM sandboxes WHERE id = $1`, id)
	})
}
