package store

import (
	"context"

	"parley/internal/conversation"
)

// Import is a conversation of another server.
type Import struct {
	Conversation *conversation.Conversation // its Summary but for the head is taken as given
	Events       []conversation.Event       // the whole log; Seq is set
	Digest       []byte                     // of the source
	// Projection names whom Numbers and Raw are for: events of another form, numbered
	// 0, 1, 2, ... None if there are no numbers.
	Projection string
	Numbers    []ProjectionEntry
	Raw        [][]byte // JSON, by number
}

// Imports keeps what was imported. It goes with its conversation.
type Imports interface {
	// Add stores a conversation with its log, all or nothing. Conflict (CodeExists) if
	// the id is taken.
	Add(ctx context.Context, i *Import) error
	// Digest returns that of an import, or NotFound.
	Digest(ctx context.Context, id conversation.ID) ([]byte, error)
	// Raw returns the events with from <= number <= to, by number.
	Raw(ctx context.Context, id conversation.ID, from, to int64) (map[int64][]byte, error)
}
