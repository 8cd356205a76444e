// Package store is the seam to durable storage. Everything that a method
// reports as done is durable (fsynced) before it returns. Implementations are
// below this package; storetest holds the conformance suite that all must pass.
//
// Errors are faults: NotFound (not there, or another owner's), Conflict (see
// the codes), Unavailable with CodeStoreFull or CodeStoreReadOnly when the disk
// refuses writes.
package store

import (
	"context"
	"time"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/extension"
)

// Fault codes that callers tell apart.
const (
	CodeHeadMoved     = "head_moved"     // Append expected another head
	CodeLeaseLost     = "lease_lost"     // the writer's generation is not the current one
	CodeLeaseHeld     = "lease_held"     // another live owner holds the conversation
	CodeExists        = "exists"         // Create of an id that is there
	CodeStoreFull     = "store_full"     // no space, or quota
	CodeStoreReadOnly = "store_readonly" // the disk refuses writes
)

// Page is one page of a list. Next is an opaque cursor that means "after the
// last item of this page", "" on the last page.
type Page[T any] struct {
	Items []T
	Next  string
}

// Order of a list.
type Order string

// Orders. Ties are broken by id, so that paging is stable.
const (
	CreatedAsc  Order = "CREATED_AT"
	CreatedDesc Order = "CREATED_AT_DESC"
	UpdatedAsc  Order = "UPDATED_AT"
	UpdatedDesc Order = "UPDATED_AT_DESC"
	TitleAsc    Order = "TITLE"
	TitleDesc   Order = "TITLE_DESC"
)

// ConversationQuery filters conversations. Zero fields do not filter.
type ConversationQuery struct {
	Owner         string
	TitleContains string // literal, case-insensitive
	SandboxID     string
	Repository    string
	Trigger       string
	Status        conversation.Status
	CreatedFrom   time.Time // inclusive
	CreatedTo     time.Time // exclusive
	UpdatedFrom   time.Time
	UpdatedTo     time.Time
	ParentID      conversation.ID
	WithSubs      bool // include conversations that have a parent
	Awake         bool // only those whose sandbox runs or starts
	Order         Order
	Cursor        string // an unknown cursor starts at the beginning
	Limit         int    // 1..100
}

// Conversations keeps the records beside the logs.
type Conversations interface {
	// Create stores a new record. Conflict (CodeExists) if the id is taken, by any owner.
	Create(ctx context.Context, c *conversation.Conversation) error
	// Fork stores a new record together with its log, all or nothing. The record is
	// taken as given; Seq of the events and c.Summary.Head are set (0, 1, ... and
	// the number of events), and LastEventAt, if it is zero and there are events, is
	// CreatedAt. The events keep their ids, which must differ from each other.
	// Conflict (CodeExists) if the conversation's id is taken, by any owner. What is
	// derived from a log (projections, ledger) starts empty.
	Fork(ctx context.Context, c *conversation.Conversation, events []conversation.Event) error
	// Get returns the record; owner "" means any.
	Get(ctx context.Context, owner string, id conversation.ID) (*conversation.Conversation, error)
	// Replay returns what the conversation was made to repeat, none if it was not or
	// is unknown.
	Replay(ctx context.Context, id conversation.ID) ([]conversation.ReplayItem, error)
	// Batch returns the records in the order of ids, nil where there is none.
	Batch(ctx context.Context, owner string, ids []conversation.ID) ([]*conversation.Conversation, error)
	// Children returns the ids of the sub-conversations of the given conversations,
	// oldest first. Parents without any are not in the map.
	Children(ctx context.Context, owner string, parents []conversation.ID) (map[conversation.ID][]conversation.ID, error)
	Search(ctx context.Context, q ConversationQuery) (Page[*conversation.Conversation], error)
	Count(ctx context.Context, q ConversationQuery) (int, error)
	// Update changes a record in one transaction. It must not change the Summary,
	// lease, ids or where it was forked; UpdatedAt is set to the given time.
	Update(ctx context.Context, id conversation.ID, now time.Time,
		change func(*conversation.Conversation) error) (*conversation.Conversation, error)
	// Delete removes the record, its log, projections and start tasks. NotFound if there is none.
	Delete(ctx context.Context, id conversation.ID) error
}

// Append is one durable addition to a log.
type Append struct {
	Conversation conversation.ID
	ExpectHead   int64 // the seq of Events[0]
	Generation   int64 // of the writer's lease
	Events       []conversation.Event
	Summary      conversation.Summary // stored with the record in the same transaction
	Now          time.Time            // becomes the record's UpdatedAt and LastEventAt
	Settle       []Settlement         // of the ledger, in the same transaction
}

// EventQuery filters a log. Zero fields do not filter.
type EventQuery struct {
	Conversation conversation.ID
	Kind         string
	Source       string
	Body         string // case-insensitive substring of a MessageEvent's text
	From         string // timestamp, inclusive, compared as string
	To           string // timestamp, exclusive
	Desc         bool
	AtOrAfter    *int64 // first seq of the page in the direction of Desc; nil = from the end of the direction
	Limit        int    // 1..1000
}

// MaxEventPage bounds the events of a page together, in bytes; the first always fits.
// Clients choose what is in events, images too.
const MaxEventPage = 16 << 20

// EventPage is one page of a log, shorter than the limit if its events are large. NextID is the id of the first event of the
// next page (inclusive cursors are the protocol's), "" on the last page.
type EventPage struct {
	Items  []conversation.Event
	NextID string
}

// Events is the log.
type Events interface {
	// Append adds events or nothing. It sets Seq on the given slice. Conflict with
	// CodeHeadMoved or CodeLeaseLost, NotFound for an unknown conversation.
	Append(ctx context.Context, a Append) error
	// Read returns up to limit events with seq > after, ascending. after -1 reads from the start.
	Read(ctx context.Context, id conversation.ID, after int64, limit int) ([]conversation.Event, error)
	Search(ctx context.Context, q EventQuery) (EventPage, error)
	Count(ctx context.Context, q EventQuery) (int, error)
	// ByID returns the events in the order of ids, nil where there is none.
	ByID(ctx context.Context, id conversation.ID, ids []string) ([]*conversation.Event, error)
}

// Leases make one process the owner of a live conversation.
type Leases interface {
	// Acquire takes the lease if it is free, expired or already the holder's, and
	// returns the new generation (it grows with every Acquire). Conflict
	// (CodeLeaseHeld) if another holder's lease is live.
	Acquire(ctx context.Context, id conversation.ID, holder string, now time.Time, ttl time.Duration) (int64, error)
	// Renew extends the leases of a holder, given id to generation, in one
	// transaction and returns the ids it lost.
	Renew(ctx context.Context, holder string, held map[conversation.ID]int64, now time.Time, ttl time.Duration) ([]conversation.ID, error)
	// Release gives a lease up; not an error if it is lost already.
	Release(ctx context.Context, id conversation.ID, holder string, generation int64) error
	// Interrupted lists conversations whose summary says running, or finished with a
	// goal that is active, and whose lease is free or expired, or held by one of the
	// given dead holders.
	Interrupted(ctx context.Context, now time.Time, deadHolders []string) ([]conversation.ID, error)
}

// TaskQuery filters start tasks.
type TaskQuery struct {
	Owner          string
	ConversationID conversation.ID
	CreatedFrom    time.Time
	Order          Order // created or updated
	Cursor         string
	Limit          int
}

// StartTasks keeps the progress of starts.
type StartTasks interface {
	Save(ctx context.Context, t *conversation.StartTask) error // insert or replace
	Batch(ctx context.Context, owner string, ids []string) ([]*conversation.StartTask, error)
	Search(ctx context.Context, q TaskQuery) (Page[*conversation.StartTask], error)
	Count(ctx context.Context, q TaskQuery) (int, error)
	// Latest returns the newest task of a conversation, or NotFound.
	Latest(ctx context.Context, id conversation.ID) (*conversation.StartTask, error)
	// Unfinished lists all tasks that are not done, oldest first.
	Unfinished(ctx context.Context) ([]*conversation.StartTask, error)
}

// Accounts keeps users, keys and settings.
type Accounts interface {
	// PutUser inserts or renames a user.
	PutUser(ctx context.Context, u account.User) error
	Users(ctx context.Context) ([]account.User, error)
	// SetKeys replaces the user's keys of the given label.
	SetKeys(ctx context.Context, userID, label string, hashes []account.KeyHash) error
	// CreateKey stores a key and returns it with its id. Conflict with
	// account.CodeKeyLimit beyond account.MaxKeys of the user and label, or CodeExists.
	CreateKey(ctx context.Context, k account.APIKey, h account.KeyHash) (account.APIKey, error)
	// Keys lists the user's keys of a label, the oldest first.
	Keys(ctx context.Context, userID, label string) ([]account.APIKey, error)
	// Key returns what is known of a key, whether it opens anything now or not, or
	// NotFound.
	Key(ctx context.Context, h account.KeyHash) (account.APIKey, error)
	// DeleteKey removes a key: nobody gets in with it from then on. NotFound if the
	// user has none of that label and id.
	DeleteKey(ctx context.Context, userID, label string, id int64) error
	// UserByKey returns the user a key belongs to, or Unauthenticated, also before and
	// after its time.
	UserByKey(ctx context.Context, h account.KeyHash) (account.User, error)
	// Settings returns the user's settings, or NotFound before the first store.
	Settings(ctx context.Context, userID string) (*account.Settings, error)
	// SettingsSince is Settings for those who ask again and again: the answer has a
	// mark, and is nil if nothing was stored since the one with the mark known. The
	// zero mark is none. NotFound before the first store.
	SettingsSince(ctx context.Context, userID string, known SettingsMark) (*account.Settings, SettingsMark, error)
	// UpdateSettings runs change on the stored settings (nil if none) in one
	// transaction and stores what it returns.
	UpdateSettings(ctx context.Context, userID string,
		change func(old *account.Settings) (*account.Settings, error)) error
}

// SettingsMark tells stored settings from those stored before and after.
type SettingsMark [32]byte

// SandboxStatus is the state of a sandbox (V1 §3.3).
type SandboxStatus string

// The sandbox states. Missing is what was
// removed from outside, and what a deleted one shows.
const (
	SandboxStarting SandboxStatus = "STARTING"
	SandboxRunning  SandboxStatus = "RUNNING"
	SandboxPaused   SandboxStatus = "PAUSED"
	SandboxError    SandboxStatus = "ERROR"
	SandboxMissing  SandboxStatus = "MISSING"
)

// DetailMadeRoom is the detail of a sandbox that was paused because others needed its
// place.
const DetailMadeRoom = "Paused to make room for other sandboxes; it resumes when it is used."

// Sandbox is the record of a sandbox.
type Sandbox struct {
	ID         string
	Owner      string
	SpecID     string
	Backend    string
	Handle     []byte // the backend's, opaque; nil until it exists
	Status     SandboxStatus
	Detail     string         // why it is in this state; "" if there is nothing to say
	SessionKey account.Secret // opens the agent protocol of this sandbox
	WorkingDir string         // inside
	HostDir    string         // directory of the host mounted as working directory; "" = none
	Wanted     []byte         // what it was asked to be, the fleet's, opaque; nil = its spec as it is
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

// SandboxQuery filters sandboxes. Order is created, newest first.
type SandboxQuery struct {
	Owner  string
	Cursor string
	Limit  int
}

// Sandboxes keeps the records of sandboxes.
type Sandboxes interface {
	Save(ctx context.Context, s *Sandbox) error // insert or replace
	Get(ctx context.Context, owner, id string) (*Sandbox, error)
	Batch(ctx context.Context, owner string, ids []string) ([]*Sandbox, error)
	Search(ctx context.Context, q SandboxQuery) (Page[*Sandbox], error)
	All(ctx context.Context) ([]*Sandbox, error)
	BySessionKey(ctx context.Context, h account.KeyHash) (*Sandbox, error)
	Delete(ctx context.Context, id string) error // not an error if it is gone
}

// NetworkEntry is one connection that a program in a sandbox tried to make
// (sandbox.Connection).
type NetworkEntry struct {
	SandboxID string
	ID        string // unique in the sandbox; a later entry of the same id replaces what can change
	Began     time.Time
	Lasted    time.Duration
	Open      bool
	Protocol  string // "tcp", "udp", "dns"
	Host      string
	Address   string
	Port      int
	Sent      int64 // bytes
	Received  int64
	Verdict   string // "allowed", "refused", "failed"
	Reason    string
}

// NetworkQuery filters the network log of a sandbox. Order is begun, newest first,
// ties by id.
type NetworkQuery struct {
	SandboxID string
	Verdict   string // "" = all
	Host      string // part of the host or of the address, case-insensitive; "" = all
	Cursor    string
	Limit     int
}

// NetworkLog keeps what sandboxes connected to.
type NetworkLog interface {
	// Write inserts or updates entries in one transaction and then removes the
	// oldest beyond keep of each sandbox in it.
	Write(ctx context.Context, entries []NetworkEntry, keep int) error
	Search(ctx context.Context, q NetworkQuery) (Page[NetworkEntry], error)
	// CloseOpen ends what a former server left open.
	CloseOpen(ctx context.Context) error
	// Delete removes the log of a sandbox.
	Delete(ctx context.Context, sandboxID string) error
}

// ProjectionEntry ties one derived event to the event and part it comes from.
type ProjectionEntry struct {
	ID   int64 // 0, 1, 2, ... without gaps within the projection
	Seq  int64 // of the event in the log
	Part int   // 0-based, if one event yields several
}

// Projections number what an API derives from a log, once and for all (the
// legacy API's integer event ids).
type Projections interface {
	// Cursor returns the next id to give and the next seq to look at.
	Cursor(ctx context.Context, id conversation.ID, name string) (nextID, nextSeq int64, err error)
	// Extend adds entries and moves the cursor to nextSeq, if the cursor still is
	// where the caller saw it; otherwise Conflict (CodeHeadMoved).
	Extend(ctx context.Context, id conversation.ID, name string, fromID, fromSeq, nextSeq int64, entries []ProjectionEntry) error
	// Range returns entries with from <= ID <= to, ascending or descending, up to limit.
	Range(ctx context.Context, id conversation.ID, name string, from, to int64, desc bool, limit int) ([]ProjectionEntry, error)
}

// Store is everything, for the place that wires the program.
type Store interface {
	Conversations() Conversations
	Events() Events
	Leases() Leases
	StartTasks() StartTasks
	Accounts() Accounts
	Sandboxes() Sandboxes
	NetworkLog() NetworkLog
	Commands() Commands
	Places() Places
	Projections() Projections
	Ledger() Ledger
	Extensions() Extensions
	Webhooks() Webhooks
	Pending() Pending
	Starts() Starts
	Shares() Shares
	Search() Search
	Experiments() Experiments
	Imports() Imports
	// Ping checks that the store can take writes.
	Ping(ctx context.Context) error
	Close() error
}

// UserSkill is a skill file that a user stored.
type UserSkill struct {
	Name      string
	Content   string // of the file
	UpdatedAt time.Time
}

// Extensions keeps what is added to agents, and what users decided about it.
type Extensions interface {
	// SaveBundles replaces the bundles of a conversation; secrets in them are sealed.
	// NotFound for an unknown conversation; they go with it.
	SaveBundles(ctx context.Context, id conversation.ID, bundles []extension.Bundle) error
	// Bundles returns those of a conversation, in the order they were saved; none if
	// none were.
	Bundles(ctx context.Context, id conversation.ID) ([]extension.Bundle, error)
	// Decide stores a decision; an earlier one about the same subject and hash is
	// replaced.
	Decide(ctx context.Context, owner string, d extension.Decision) error
	// Decisions lists an owner's, the newest first.
	Decisions(ctx context.Context, owner string) ([]extension.Decision, error)
	// Forget removes the decisions about a subject. NotFound if there is none.
	Forget(ctx context.Context, owner, subject string) error
	// PutSkill inserts or replaces a skill.
	PutSkill(ctx context.Context, owner string, s UserSkill) error
	// Skills lists an owner's, sorted by name.
	Skills(ctx context.Context, owner string) ([]UserSkill, error)
	// DeleteSkill removes a skill. NotFound if there is none.
	DeleteSkill(ctx context.Context, owner, name string) error
	// PutCredential keeps a sealed value for an owner under a name; the zero Secret
	// removes it.
	PutCredential(ctx context.Context, owner, name string, value account.Secret) error
	// Credential returns what PutCredential kept, or NotFound.
	Credential(ctx context.Context, owner, name string) (account.Secret, error)
}
