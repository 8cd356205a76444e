package store

import (
	"context"
	"time"

	"parley/internal/account"
	"parley/internal/conversation"
)

// CodeTooMany is the Conflict of a list that is full.
const CodeTooMany = "too_many"

// WebhookFilter says which events an endpoint gets. Zero members do not filter;
// those that are set must all match.
type WebhookFilter struct {
	Conversations []conversation.ID `json:"conversations,omitempty"`
	Tags          map[string]string `json:"tags,omitempty"` // a conversation has all of them
	Kinds         []string          `json:"kinds,omitempty"`
	StatusOnly    bool              `json:"status_only,omitempty"` // only updates of the execution status
}

// WebhookEndpoint is an address that a user's events are sent to.
type WebhookEndpoint struct {
	ID          string
	Owner       string
	URL         string
	Description string
	Filter      WebhookFilter
	Secret      account.Secret // signs deliveries
	Active      bool
	Reason      string    // why the server switched it off; "" = it did not
	Since       time.Time // conversations without a cursor begin with the first event at or after it
	Epoch       int64     // grows with each replay, so that what is sent again has new ids
	CreatedAt   time.Time
	UpdatedAt   time.Time

	// What Record keeps; Update leaves it alone.
	FailingSince time.Time // zero = the last delivery arrived
	LastError    string
	DeliveredAt  time.Time // the last time that one arrived; zero = never
}

// WebhookCursor is how far an endpoint has come in a conversation.
type WebhookCursor struct {
	Endpoint     string
	Conversation conversation.ID
	Next         int64 // seq of the first event that has not been dealt with
	Upto         int64 // seq of the last event of a delivery that failed; -1 = none did
	Attempts     int   // of that delivery
	FailingSince time.Time
	RetryAt      time.Time
}

// WebhookDelivery is what became of a message.
type WebhookDelivery struct {
	Endpoint     string
	ID           string          // of the message, the same for each attempt
	Conversation conversation.ID // "" = a test
	FirstSeq     int64
	LastSeq      int64
	Events       int
	Attempts     int
	Delivered    bool
	Status       int       // of the last answer; 0 = there was none
	Error        string    // "" if it was delivered
	CreatedAt    time.Time // stays at that of the first attempt
	UpdatedAt    time.Time
	RetryAt      time.Time // zero = it is not tried again
}

// WebhookLog is a conversation as deliveries see it.
type WebhookLog struct {
	ID    conversation.ID
	Owner string
	Tags  map[string]string
}

// WebhookQuery pages through endpoints, or through the deliveries of one, the newest
// first.
type WebhookQuery struct {
	Owner    string // of endpoints
	Endpoint string // of deliveries
	Failed   bool   // only deliveries that have not arrived
	Cursor   string
	Limit    int
}

// Webhooks keeps the endpoints that events are sent to. All of an endpoint goes with
// it, and the cursors of a conversation with that.
type Webhooks interface {
	// Create stores a new endpoint. Conflict: CodeExists, or CodeTooMany if the owner
	// has most already.
	Create(ctx context.Context, e *WebhookEndpoint, most int) error
	// Update changes an endpoint in one transaction. NotFound if the owner has none of
	// this id; owner "" means any.
	Update(ctx context.Context, owner, id string, change func(*WebhookEndpoint) error) (*WebhookEndpoint, error)
	Get(ctx context.Context, owner, id string) (*WebhookEndpoint, error)
	Search(ctx context.Context, q WebhookQuery) (Page[*WebhookEndpoint], error)
	// Active lists all active ones, of all owners, the oldest first.
	Active(ctx context.Context) ([]*WebhookEndpoint, error)
	// Delete removes an endpoint, or says NotFound.
	Delete(ctx context.Context, owner, id string) error

	// Logs returns those of the given conversations that exist, in any order.
	Logs(ctx context.Context, ids []conversation.ID) ([]WebhookLog, error)
	// Behind returns the owner's conversations with an id above after that may have
	// events which the endpoint has not dealt with, ordered by id.
	Behind(ctx context.Context, endpoint string, after conversation.ID, limit int) ([]WebhookLog, error)

	// Cursor returns the cursor in a conversation, or NotFound.
	Cursor(ctx context.Context, endpoint string, id conversation.ID) (*WebhookCursor, error)
	// SaveCursor inserts or replaces one. Without its endpoint and conversation it does
	// nothing.
	SaveCursor(ctx context.Context, c WebhookCursor) error
	// ForgetCursors removes all of an endpoint.
	ForgetCursors(ctx context.Context, endpoint string) error
	// RetryNow makes what failed due, as if it had not failed yet.
	RetryNow(ctx context.Context, endpoint string) error

	// Record stores what became of an attempt: the cursor (nil = none), the delivery,
	// and the endpoint's state, in one transaction, and removes the oldest deliveries
	// beyond keep. Without the endpoint it does nothing.
	Record(ctx context.Context, c *WebhookCursor, d WebhookDelivery, keep int) error
	Deliveries(ctx context.Context, q WebhookQuery) (Page[WebhookDelivery], error)
}
