package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"parley/internal/conversation"
)

// insertReplay stores what a new conversation repeats.
func insertReplay(t *tx, c *conversation.Conversation) error {
	if len(c.Replay) == 0 {
		return nil
	}
	items, err := document(c.Replay)
	if err != nil {
		return err
	}
	return t.exec(`INSERT INTO replays (conversation, items) VALUES ($1, $2)`, string(c.ID), items)
}

// Replay implements store.Conversations.
func (c conversations) Replay(ctx context.Context, id conversation.ID) ([]conversation.ReplayItem, error) {
	var items []conversation.ReplayItem
	err := c.s.reads.row(ctx, `SELECT items FROM replays WHERE conversation = $1`, string(id)).Scan(jsonInto{&items})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return items, c.s.fail(ctx, "store.conversations.replay", err)
}
