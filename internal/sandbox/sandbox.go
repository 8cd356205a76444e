// Package sandbox is the seam to isolated execution environments. A backend
// makes boxes; in every box runs sandboxd, and everything that happens inside
// goes through it, whatever the backend. sandboxtest holds the conformance
// suite.
package sandbox

import (
	"context"
	"encoding/json"
	"net"
	"time"
)

// WorkingDir is where work happens inside a box unless its spec says otherwise.
const WorkingDir = "/workspace/project"

// NetworkMode says what a box may reach.
type NetworkMode string

// Network modes. In each a box has a network stack of its own, and connections
// to the outside are made by the server.
const (
	NetworkOpen  NetworkMode = "open"  // public addresses, and what Allow adds
	NetworkAllow NetworkMode = "allow" // what Allow lists, and nothing else
	NetworkNone  NetworkMode = "none"  // itself only
)

// Network is a box's network policy; package netpolicy reads it. The zero value
// is open.
type Network struct {
	Mode NetworkMode `json:"mode,omitempty"` // "" = NetworkOpen
	// Allow lists host names, "*." with a domain for all names below it, addresses,
	// and networks (10.0.0.0/8), each also with :port. Private and loopback
	// addresses are reachable only if an address or network here has them: a name
	// that leads to one does not open it.
	Allow []string `json:"allow,omitempty"`
	// Within must allow a connection, too: a conversation's policy stands within its
	// spec's. nil = nothing more to ask.
	Within *Network `json:"within,omitempty"`
}

// Offline reports whether nothing can be reached.
func (n Network) Offline() bool {
	return n.Mode == NetworkNone || n.Within != nil && n.Within.Offline()
}

// UnmarshalJSON also reads the single word that records of older servers have.
func (n *Network) UnmarshalJSON(data []byte) error {
	var word string
	if json.Unmarshal(data, &word) == nil {
		*n = Network{}
		if word == string(NetworkNone) {
			n.Mode = NetworkNone
		}
		return nil
	}
	type plain Network
	return json.Unmarshal(data, (*plain)(n))
}

// Verdict is what became of a connection.
type Verdict string

// The verdicts.
const (
	VerdictAllowed Verdict = "allowed"
	VerdictRefused Verdict = "refused" // by policy
	VerdictFailed  Verdict = "failed"  // the other side could not be reached
)

// Connection is one attempt of a program inside to reach something.
type Connection struct {
	ID       string        // unique; the same connection is told of when it opens and when it ends
	Began    time.Time     //
	Lasted   time.Duration // 0 while it is open, or if it never was
	Open     bool
	Protocol string // "tcp", "udp", or "dns" for a name that was asked for
	Host     string // the name the box had looked up for the address, lower case; "" = none
	Address  string // IP address; "" for dns
	Port     uint16
	Sent     int64 // bytes that left the box
	Received int64
	Verdict  Verdict
	Reason   string // why it was refused or failed, in words
}

// Mount shows a directory of the host inside a box.
type Mount struct {
	Source   string
	Target   string
	ReadOnly bool
}

// Spec says what to make. The zero value of everything but ID is usable.
type Spec struct {
	ID         string            // unique, [a-zA-Z0-9_-]{1,64}: the label of everything that is made
	Image      string            // container image its file system is made from; "" = the backend's own
	Runtime    string            // of the container engine, "runsc" for instance; "" = the engine's default
	WorkingDir string            // inside; "" = WorkingDir
	Env        map[string]string // for every process inside; not secret
	Mounts     []Mount
	Limits     Limits
	Network    Network
	From       *Snapshot // the files (and with Caps.LiveSnapshot the processes) it starts with; nil = new ones
}

// Handle finds a box again, also from another process. Data is the backend's.
type Handle struct {
	Backend string          `json:"backend"`
	ID      string          `json:"id"`
	Version int             `json:"version"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Snapshot is what a box was at one moment, kept apart from it. Boxes are made
// from it with Spec.From, any number of times.
type Snapshot struct {
	Backend string          `json:"backend"`
	ID      string          `json:"id"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Usage is what a box takes. A figure that cannot be known is -1.
type Usage struct {
	CPU          time.Duration // used since its start
	MemoryBytes  int64
	Processes    int64
	DiskBytes    int64
	Inodes       int64
	OOMKills     int64 // processes killed for want of memory, since its start
	ForksRefused int64 // by the limit of processes, since its start
	DiskFull     bool  // its disk or inode limit is reached
}

// Unknown is a Usage in which nothing is known.
func Unknown() Usage {
	return Usage{CPU: -1, MemoryBytes: -1, Processes: -1, DiskBytes: -1, Inodes: -1, OOMKills: -1, ForksRefused: -1}
}

// Guarantee is one thing a backend holds or does not hold on this machine.
type Guarantee struct {
	Name   string `json:"name"` // "user_namespace", "overlay", "seccomp", "memory_limit", ...
	Holds  bool   `json:"holds"`
	Detail string `json:"detail"` // how, or why not and what to do about it
}

// Caps say what a backend is and what holds. What a backend cannot do it refuses
// with Unsupported, code CodeUnsupported.
type Caps struct {
	Isolated      bool        `json:"isolated"`
	Pause         bool        `json:"pause"`
	Snapshot      bool        `json:"snapshot"`       // Snapshot, DropSnapshot, Spec.From
	LiveSnapshot  bool        `json:"live_snapshot"`  // snapshots hold running processes, too
	Images        bool        `json:"images"`         // Spec.Image
	NetworkPolicy bool        `json:"network_policy"` // Spec.Network beyond open is enforced, connections are told of
	Mounts        bool        `json:"mounts"`         // Spec.Mounts
	Slow          bool        `json:"slow"`           // a start takes long enough for a pool of warm boxes to pay
	Limits        []string    `json:"limits"`         // those that are enforced
	Guarantees    []Guarantee `json:"guarantees"`
}

// CodeUnsupported is the code of what a backend cannot do.
const CodeUnsupported = "sandbox_unsupported"

// Backend makes and finds boxes. All methods may be called concurrently.
// Errors are faults: Unavailable (the machine cannot), NotFound (no such box),
// Gone (its processes are dead; its files may be restarted), Unsupported (Caps
// say so).
type Backend interface {
	Name() string
	Caps() Caps
	// Create makes a box and returns when its sandboxd answers. On error nothing
	// of it is left.
	Create(ctx context.Context, spec Spec) (Box, error)
	// Adopt attaches to a box that still runs (frozen counts), e.g. after a
	// restart of the server. Gone if its processes died, NotFound if nothing is left.
	Adopt(ctx context.Context, h Handle) (Box, error)
	// Restart starts the processes of a dead box again over its kept files.
	Restart(ctx context.Context, h Handle) (Box, error)
	// Destroy kills everything inside and removes every trace. Idempotent.
	Destroy(ctx context.Context, h Handle) error
	// List returns what exists on this machine under this backend's data
	// directory, running or not, for the sweep of orphans.
	List(ctx context.Context) ([]Handle, error)
	// Snapshot keeps what a box is now under a new id ([a-zA-Z0-9_-]{1,64}). The
	// box may run, be frozen or be dead; it goes on as it was. On error nothing of
	// the snapshot is left.
	Snapshot(ctx context.Context, h Handle, id string) (Snapshot, error)
	// DropSnapshot removes a snapshot; boxes made from it live on. Idempotent.
	DropSnapshot(ctx context.Context, s Snapshot) error
	// Snapshots lists all snapshots, for the sweep of orphans.
	Snapshots(ctx context.Context) ([]Snapshot, error)
	// Close detaches from all boxes; they keep running.
	Close() error
}

// Box is a running (or frozen) sandbox.
type Box interface {
	Handle() Handle
	// Dial connects to the box's sandboxd.
	Dial(ctx context.Context) (net.Conn, error)
	// Pause freezes all processes; it returns when they are frozen. Idempotent.
	Pause(ctx context.Context) error
	// Resume thaws them. Idempotent.
	Resume(ctx context.Context) error
	// Usage says what the box takes. It is cheap: a few small reads, no walk through
	// its files. NotFound if the box was removed behind the server's back.
	Usage(ctx context.Context) (Usage, error)
	// Done is closed when the box's first process is dead.
	Done() <-chan struct{}
}
