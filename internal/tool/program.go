package tool

import (
	"context"
	"io"
)

// Programs run with pipes, without a terminal, for as long as the caller holds
// them.
type Programs interface {
	// StartProgram starts a program. ctx is for the start only. When the Program is
	// closed, or the connection to it is lost, it and all its children end: TERM, after 2 s
	// KILL. So do, 1 s after the program's own end, those that it left behind. NotFound if
	// there is no such program or directory, Forbidden if it may not be executed,
	// TooLarge if too many run.
	StartProgram(ctx context.Context, req ProgramRequest) (Program, error)
}

// ProgramRequest says what to start.
type ProgramRequest struct {
	Argv []string          `json:"argv"`
	Dir  string            `json:"dir,omitempty"` // "" = the box's working directory
	Env  map[string]string `json:"env,omitempty"` // added to the box's
}

// Program is a running program. Write is its standard input and Read its standard
// output, io.EOF at its end; a reader that does not read makes the program wait. Close
// ends it, and every Read and Write that waits, at once; it is idempotent and does not
// wait for the program's death.
type Program interface {
	io.ReadWriteCloser
	// CloseWrite ends the standard input, and a Write that waits.
	CloseWrite() error
	// Stderr returns the end of what it wrote to its standard error so far, at most
	// 16 KiB.
	Stderr() string
	// Done is closed when the program has ended or the connection is lost.
	Done() <-chan struct{}
	// ExitCode is how it ended: 128+n for signal n, -1 while it runs and when the
	// connection was lost.
	ExitCode() int
}
