package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

type starts struct{ s *Store }

// Starts returns what begins conversations once.
func (s *Store) Starts() store.Starts { return starts{s} }

// Begin implements store.Starts.
func (b starts) Begin(ctx context.Context, c *conversation.Conversation, task *conversation.StartTask,
	keys []store.StartKey) (earlier *conversation.StartTask, err error) {
	const op = "store.starts.begin"
	r, err := b.s.encodeConversation(c)
	if err != nil {
		return nil, classify(op, "", err)
	}
	err = b.s.writes.do(ctx, op, func(t *tx) error {
		if earlier, err = b.find(ctx, t, c.Owner, keys); err != nil || earlier != nil {
			return err
		}
		if err := r.insert(t, logHead{head: c.Summary.Head, inOrder: true}); err != nil {
			return err
		}
		for _, k := range keys {
			sealed, err := b.s.seal.Seal(startKeyPlace(c.Owner, k.Name), k.Digest)
			if err != nil {
				return err
			}
			if err := t.exec(`INSERT INTO start_keys (owner, name, conversation, task, sealed) VALUES ($1, $2, $3, $4, $5)`,
				c.Owner, k.Name, string(c.ID), task.ID, sealed); err != nil {
				return err
			}
		}
		return saveTask(t, task)
	})
	if err != nil {
		return nil, err
	}
	return earlier, nil
}

func startKeyPlace(owner, name string) string { return "start_keys/" + owner + "/" + name }

// Find implements store.Starts.
func (b starts) Find(ctx context.Context, owner string, keys []store.StartKey) (*conversation.StartTask, error) {
	t, err := b.find(ctx, b.s.reads, owner, keys)
	return t, b.s.fail(ctx, "store.starts.find", err)
}

func (b starts) find(ctx context.Context, q querier, owner string, keys []store.StartKey) (*conversation.StartTask, error) {
	id := ""
	for _, k := range keys {
		var task string
		var sealed []byte
		err := q.row(ctx, `SELECT task, sealed FROM start_keys WHERE owner = $1 AND name = $2`, owner, k.Name).Scan(&task, &sealed)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, err
		}
		digest, err := b.s.seal.Unseal(startKeyPlace(owner, k.Name), sealed)
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(digest, k.Digest) || id != "" && id != task {
			return nil, fault.New(fault.Conflict, store.CodeKeyReused, "A conversation was started with this id or idempotency key, by another request.").
				WithHint("Send the same request again, or choose another one.")
		}
		id = task
	}
	if id == "" {
		return nil, nil
	}
	return scanTask(q.row(ctx, selectTask+` WHERE id = $1`, id))
}
