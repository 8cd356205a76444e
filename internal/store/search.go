package store

import (
	"context"

	"parley/internal/conversation"
	"parley/internal/textsearch"
)

// TextQuery looks for words in titles and events.
type TextQuery struct {
	Owner        string            // required
	Conversation conversation.ID   // "" = all of the owner's
	Terms        []textsearch.Term // all must match, in one title or event; none = nothing is found
	Cursor       string            // an unknown cursor starts at the beginning
	Limit        int               // 1..100
}

// TextHit is a title or an event that matches.
type TextHit struct {
	Conversation conversation.ID
	Event        *conversation.Event // nil: the title matches
}

// Search is the full-text index. It covers what is appended and renamed from then on
// by itself; what an older version stored, and the logs of forks, CatchUp has to add.
type Search interface {
	// Find returns what matches, the newest first. The events of a page have at most
	// MaxEventPage bytes together; the first always fits.
	Find(ctx context.Context, q TextQuery) (Page[TextHit], error)
	// CatchUp adds a part of what is missing in the index. more says that there may be
	// more; it is not meant to be called by several at once.
	CatchUp(ctx context.Context) (more bool, err error)
}
