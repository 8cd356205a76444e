package store

import (
	"context"
	"time"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
)

// Codes of what surrounds conversations.
const (
	CodePendingFull = "pending_messages_full" // as many messages wait as may
	CodeKeyReused   = "idempotency_key_reused"
	CodeSharesFull  = "shares_full"
)

// PendingMessage is what a user said before the conversation could hear it.
type PendingMessage struct {
	ID        string // of the event that it becomes
	Parts     []content.Part
	CreatedAt time.Time
}

// Pending keeps messages for conversations that are starting. They go with their
// conversation.
type Pending interface {
	// Add puts a message last and returns its place, 1-based. NotFound for an unknown
	// conversation; RateLimited (CodePendingFull) if most messages wait already.
	Add(ctx context.Context, id conversation.ID, m PendingMessage, most int) (int, error)
	// List returns the waiting messages in their order.
	List(ctx context.Context, id conversation.ID) ([]PendingMessage, error)
	// Remove takes a message out, "" all of them. Not an error if it is gone.
	Remove(ctx context.Context, id conversation.ID, message string) error
	// Waiting lists the conversations with waiting messages.
	Waiting(ctx context.Context) ([]conversation.ID, error)
}

// StartKey is a name under which the same start can be asked for again.
type StartKey struct {
	Name   string // what it is and its value
	Digest []byte // of the request; it is sealed at rest
}

// Starts begins conversations once.
type Starts interface {
	// Begin stores a conversation, its start task and the keys, all or nothing. If one
	// of the owner's keys is there already, nothing is stored, and the result is what
	// Find says. Conflict (CodeExists) if the conversation's id is taken.
	Begin(ctx context.Context, c *conversation.Conversation, t *conversation.StartTask, keys []StartKey) (*conversation.StartTask, error)
	// Find returns the task that was begun with one of the keys, nil if none was, and
	// Conflict (CodeKeyReused) if it was begun with another request.
	Find(ctx context.Context, owner string, keys []StartKey) (*conversation.StartTask, error)
}

// Share is a link that opens a conversation for reading.
type Share struct {
	ID           string
	Owner        string
	Conversation conversation.ID
	CreatedAt    time.Time
	ExpiresAt    time.Time
}

// Shares keeps links. They go with their conversation.
type Shares interface {
	// Add stores a link under the hash of its token and removes those of the
	// conversation that have expired. NotFound for an unknown conversation; Conflict
	// (CodeSharesFull) if it has most live ones.
	Add(ctx context.Context, s Share, token account.KeyHash, most int) error
	// List returns a conversation's links that have not expired at now, the newest first.
	List(ctx context.Context, owner string, id conversation.ID, now time.Time) ([]Share, error)
	// Revoke removes a link. NotFound if there is none.
	Revoke(ctx context.Context, owner string, id conversation.ID, share string) error
	// ByToken returns a link that has not expired at now, or NotFound.
	ByToken(ctx context.Context, token account.KeyHash, now time.Time) (*Share, error)
}
