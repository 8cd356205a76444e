package store

import (
	"context"
	"encoding/json"
	"time"
)

// CommandEvent is an event of a command that a client ran in a sandbox: the command
// itself or a piece of its output (agent protocol 1.6).
type CommandEvent struct {
	Seq       int64 // given by the store, ascending
	SandboxID string
	ID        string // unique in the sandbox
	Kind      string
	CommandID string          // of an output: its command; "" for a command
	Piece     int             // of an output: its number, from 0; -1 for a command
	Open      bool            // a command that has not ended
	Final     bool            // an output that ends its command; is not kept
	Time      time.Time       //
	Raw       json.RawMessage // as clients read it
}

// CommandQuery filters the events of a sandbox. Order is that of Append.
type CommandQuery struct {
	SandboxID string
	Kind      string    // "" = all
	CommandID string    // outputs of this command; "" = all
	From, To  time.Time // From <= time < To; zero = unbounded
	Beyond    *int      // outputs whose Piece is greater; nil = all
	After     int64     // events whose Seq is greater
	Desc      bool      // the newest first
	First     string    // id of the event that the page begins with; unknown or "" = the beginning
	Limit     int
}

// MaxCommandPage bounds the events of a page together, in bytes; the first always
// fits.
const MaxCommandPage = 16 << 20

// OpenCommand is a command that has not ended, and the number of its next output.
type OpenCommand struct {
	CommandEvent
	Next int
}

// Commands keeps what clients ran in sandboxes.
type Commands interface {
	// Append adds an event and returns its Seq. One that is Final ends its command.
	Append(ctx context.Context, e CommandEvent) (int64, error)
	// Trim removes the oldest events of a sandbox beyond a number and a size in bytes.
	// Commands that have not ended stay.
	Trim(ctx context.Context, sandboxID string, events int, bytes int64) error
	// Search returns a page; next is the id that the next one begins with, "" if there
	// is none.
	Search(ctx context.Context, q CommandQuery) (items []CommandEvent, next string, err error)
	// Batch returns events in the order of ids, nil where there is none.
	Batch(ctx context.Context, sandboxID string, ids []string) ([]*CommandEvent, error)
	// Open lists the commands of all sandboxes that have not ended.
	Open(ctx context.Context) ([]OpenCommand, error)
	// Delete removes the events of a sandbox and returns how many there were.
	Delete(ctx context.Context, sandboxID string) (int, error)
}

// The kinds of saved places.
const (
	PlaceWorkspace = "workspace"
	PlaceParent    = "parent"
)

// SavedPlace is a directory that a user keeps in a list (agent protocol 1.8).
type SavedPlace struct {
	Kind string
	Path string // unique among the owner's of the kind
	Doc  json.RawMessage
}

// Places keeps lists of directories.
type Places interface {
	// Save adds a place at the end, or replaces the one of the same kind and path in
	// its place. TooLarge (code "too_many_places") if the owner has most of the kind.
	Save(ctx context.Context, owner string, p SavedPlace, most int) error
	// List returns an owner's, in the order in which they were added.
	List(ctx context.Context, owner string) ([]SavedPlace, error)
	// Delete removes one. NotFound if there is none.
	Delete(ctx context.Context, owner, kind, path string) error
}
