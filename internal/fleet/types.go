package fleet

import "time"

// Spec is a template that sandboxes are made from.
type Spec struct {
	ID         string
	Backend    string
	Command    []string // nil: sandboxd is started by Parley itself
	Env        map[string]string
	WorkingDir string
	CreatedAt  time.Time
}

// StartRequest makes a sandbox.
type StartRequest struct {
	ID      string // "" = a new one; starting one that exists returns it
	Owner   string
	SpecID  string // "" = the default
	HostDir string // checked already; "" = a directory of its own
}
