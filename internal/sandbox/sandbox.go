// Package sandbox is the seam to isolated execution environments. A backend
// makes boxes; in every box runs sandboxd, and everything that happens inside
// goes through it, whatever the backend. sandboxtest holds the conformance
// suite.
package sandbox

import (
	"context"
	"encoding/json"
	"net"
)

// WorkingDir is where work happens inside a box unless its spec says otherwise.
const WorkingDir = "/workspace/project"

// Limits bound a box. Zero means the backend's default; a backend that cannot
// enforce one says so in Caps.
type Limits struct {
	MemoryBytes int64
	Processes   int64
	OpenFiles   uint64
}

// Network says what a box may reach.
type Network string

// Network modes.
const (
	NetworkOutbound Network = "outbound" // own stack, outgoing connections through the server
	NetworkNone     Network = "none"     // own stack, loopback only
)

// Mount shows a directory of the host inside a box.
type Mount struct {
	Source   string
	Target   string
	ReadOnly bool
}

// Spec says what to make. The zero value of everything but ID is usable.
type Spec struct {
	ID         string            // unique, [a-zA-Z0-9_-]{1,64}: the label of everything that is made
	WorkingDir string            // inside; "" = WorkingDir
	Env        map[string]string // for every process inside; not secret
	Mounts     []Mount
	Limits     Limits
	Network    Network // "" = NetworkOutbound
}

// Handle finds a box again, also from another process. Data is the backend's.
type Handle struct {
	Backend string          `json:"backend"`
	ID      string          `json:"id"`
	Version int             `json:"version"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Guarantee is one thing a backend holds or does not hold on this machine.
type Guarantee struct {
	Name   string `json:"name"` // "user_namespace", "overlay", "seccomp", "memory_limit", ...
	Holds  bool   `json:"holds"`
	Detail string `json:"detail"` // how, or why not and what to do about it
}

// Caps say what a backend is and what holds.
type Caps struct {
	Isolated   bool        `json:"isolated"`
	Pause      bool        `json:"pause"`
	Guarantees []Guarantee `json:"guarantees"`
}

// Backend makes and finds boxes. All methods may be called concurrently.
// Errors are faults: Unavailable (the machine cannot), NotFound (no such box),
// Gone (its processes are dead; its files may be restarted).
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
	// Done is closed when the box's first process is dead.
	Done() <-chan struct{}
}
