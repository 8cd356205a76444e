package store

import (
	"context"
	"encoding/json"
	"time"

	"parley/internal/conversation"
)

// Experiments keeps what legacy clients configure of an experiment for a
// conversation, which need not exist yet (V0 section 13).
type Experiments interface {
	// Put keeps a configuration unless the conversation has one of that owner already:
	// false then. Of an owner's the newest most are kept. It goes with the
	// conversation.
	Put(ctx context.Context, owner string, id conversation.ID, config json.RawMessage, now time.Time, most int) (bool, error)
}
