package fleet

import (
	"encoding/json"
	"time"

	"parley/internal/sandbox"
)

// Spec is a template that sandboxes are made from.
type Spec struct {
	ID         string
	Backend    string            // name of one of the fleet's backends
	Image      string            // container image; "" = the backend's own file system
	Runtime    string            // of the container engine; "" = its default
	Command    []string          // a program to start in each new sandbox and after each restart of it; nil = none
	Env        map[string]string // for every process inside; public
	WorkingDir string            // "" = sandbox.WorkingDir
	Limits     sandbox.Limits
	Network    sandbox.Network
	Warm       int // boxes kept ready for new sandboxes
	CreatedAt  time.Time
}

// StartRequest makes a sandbox.
type StartRequest struct {
	ID      string // "" = a new one; starting one that exists returns it
	Owner   string
	SpecID  string // "" = the first
	HostDir string // checked already; "" = a directory of its own
	Changes
}

// Changes are what a sandbox has different from its spec.
type Changes struct {
	Image   string           `json:"image,omitempty"`   // "" = the spec's
	Factor  float64          `json:"factor,omitempty"`  // of the spec's limits; 0 = 1
	Network *sandbox.Network `json:"network,omitempty"` // within the spec's; nil = the spec's
}

// wanted is what a sandbox was asked to be, stored in its record.
type wanted struct {
	Changes
	From *sandbox.Snapshot `json:"from,omitempty"` // dropped when the box is made
}

func (w wanted) plain() bool {
	return w.Image == "" && (w.Factor == 0 || w.Factor == 1) && w.Network == nil && w.From == nil
}

// encode returns nil where there is nothing to keep.
func (w wanted) encode() []byte {
	if w.plain() {
		return nil
	}
	data, err := json.Marshal(w)
	if err != nil { // strings and numbers only
		return nil
	}
	return data
}

// Kinds of incidents.
const (
	OutOfMemory  = "out_of_memory"
	ProcessLimit = "process_limit"
	DiskFull     = "disk_full"
)

// Incident is a limit that a sandbox ran into.
type Incident struct {
	Time time.Time `json:"time"`
	Kind string    `json:"kind"`
	Text string    `json:"text"` // what happened and what to do, for the user and the model
}
