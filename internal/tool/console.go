package tool

import (
	"context"
	"io"
)

// Consoles are pseudo terminals for people: each lives as long as the connection of
// who looks at it, and its program waits for a reader who does not read.
type Consoles interface {
	// StartConsole starts a program on a pseudo terminal. ctx is for the start only.
	// When the Console is closed, or the connection to it is lost, the terminal hangs
	// up, and what was started on it ends: TERM, after 2 s KILL. So does what a program
	// that ended by itself left behind. Errors are those of StartProgram, and Unsupported
	// if the sandbox was started by an older version.
	StartConsole(ctx context.Context, req ConsoleRequest) (Console, error)
}

// ConsoleRequest says what to start.
type ConsoleRequest struct {
	Argv []string          `json:"argv,omitempty"` // none = the box's shell, as a login shell
	Dir  string            `json:"dir,omitempty"`  // "" = the box's working directory
	Env  map[string]string `json:"env,omitempty"`  // added to the box's
	Rows uint16            `json:"rows"`           // 0 = 24
	Cols uint16            `json:"cols"`           // 0 = 80
}

// Console is a program on a pseudo terminal. Write types; it waits while the program
// does not read, and a lot was typed already. Read returns what the terminal shows,
// io.EOF when the program has ended and all was read. Close ends everything and every
// call that waits; it is idempotent and does not wait for the program's death.
type Console interface {
	io.ReadWriteCloser
	// Resize changes the window's size, 1 to 65535 each.
	Resize(rows, cols uint16) error
	// ExitCode is how the program ended: 128+n for signal n. It is known once Read has
	// returned io.EOF, and -1 before that and when the connection was lost.
	ExitCode() int
}
