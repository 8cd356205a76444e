package sqlstore

import (
	"context"
	"encoding/json"
	"time"

	"parley/internal/conversation"
	"parley/internal/store"
)

// Experiments returns the configurations of experiments.
func (s *Store) Experiments() store.Experiments { return experiments{s} }

type experiments struct{ s *Store }

// Put implements store.Experiments.
func (x experiments) Put(ctx context.Context, owner string, id conversation.ID, config json.RawMessage, now time.Time, most int) (stored bool, err error) {
	const op = "store.experiments.put"
	if owner == "" || id == "" || most < 1 {
		return false, badRecord(op, "an experiment without owner or conversation, or none to keep")
	}
	err = x.s.writes.do(ctx, op, func(t *tx) error {
		n, err := t.affected(`INSERT INTO experiments (owner, conversation, config, created_at) VALUES ($1, $2, $3, $4)
			ON CONFLICT DO NOTHING`, owner, string(id), string(config), micros(now))
		if stored = n > 0; err != nil || !stored {
			return err
		}
		return t.exec(`DELETE FROM experiments WHERE owner = $1 AND (created_at, conversation) < (SELECT created_at, conversation
			FROM experiments WHERE owner = $1 ORDER BY created_at DESC, conversation DESC LIMIT 1 OFFSET $2)`, owner, most-1)
	})
	return stored, err
}
