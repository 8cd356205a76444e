package tool

import (
	"context"
	"io"
	"time"
)

// Commands run to their end while what they write is read, standard output and
// standard error apart.
type Commands interface {
	// StartCommand starts a command without input in a session of its own. ctx is for
	// the start only. When the Command is closed, or the connection to it is lost,
	// its session ends: TERM, after 1 s KILL. What the command left behind when it
	// ended by itself goes on. Errors are those of StartProgram, and Unsupported if the
	// sandbox was started by an older version.
	StartCommand(ctx context.Context, req CommandRequest) (Command, error)
}

// CommandRequest says what to run.
type CommandRequest struct {
	Argv    []string          `json:"argv"`
	Dir     string            `json:"dir,omitempty"`     // "" = the box's working directory
	Env     map[string]string `json:"env,omitempty"`     // added to the box's
	Without []string          `json:"without,omitempty"` // variables of the box's that it does not get
	Timeout time.Duration     `json:"timeout,omitempty"` // 0 = none; then TERM, 1 s, KILL to its session
}

// Command is a running command. One goroutine calls Next; a reader that does not read
// makes the command wait. Close ends Next at once, and is idempotent.
type Command interface {
	io.Closer
	// Next returns the next piece of output, or how the command ended, after which
	// nothing follows. An error means that the connection was lost, or Close called.
	Next() (CommandOutput, error)
}

// CommandOutput is one thing that a command wrote, or its end.
type CommandOutput struct {
	Data     []byte // valid until the next call
	Stderr   bool   // Data was written to the standard error
	Ended    bool   // there is no Data; the command has ended
	ExitCode int    // when Ended: 128+n for signal n, -1 if its time was up
}

// Archives carry whole directories.
type Archives interface {
	// GetTar writes dir's files, directories and symbolic links to w as an uncompressed
	// tar archive with paths relative to dir. Patterns of exclude are those of
	// path.Match; one without a slash is matched against every name. Files have at most
	// limit bytes together (0 = 1 GiB). On an error, what w got is incomplete.
	GetTar(ctx context.Context, dir string, w io.Writer, exclude []string, limit int64) error
}
