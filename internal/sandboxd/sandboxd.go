// Package sandboxd is the daemon inside every sandbox and its client: hands for
// whoever thinks elsewhere. Serve offers programs, terminals, files, directory
// archives and TCP ports of its sandbox over HTTP/1.1 on one listener; Client
// speaks to it over any dial function and implements tool.Hands.
//
// The daemon knows nothing of conversations, users or models, reads no
// environment and keeps no state on disk: a terminal lives as long as the daemon
// and is independent of connections. It is not a security boundary: whoever can
// connect may do whatever the daemon's own user may do in the sandbox.
//
// Server and daemon may be of different versions, because sandboxes outlive a
// restart of the server: unknown members of requests are ignored, and a request
// that the daemon does not know comes back as fault.Unsupported.
package sandboxd

import (
	"time"

	"parley/internal/tool"
)

// Stable codes of faults that callers may want to tell apart.
const (
	CodeGone             = "sandbox_gone"        // Unavailable: the daemon does not answer or died meanwhile
	CodeClosed           = "client_closed"       // Canceled: the Client was closed
	CodeExists           = "exists"              // Conflict: WriteOptions.New, and the path exists
	CodeNotFound         = "not_found"           // NotFound: no such file or directory
	CodeIsDirectory      = "is_directory"        // Invalid: a file was needed
	CodeNotDirectory     = "not_a_directory"     // a directory was needed
	CodeNotRegular       = "not_regular"         // Invalid: a device, pipe or socket
	CodeDenied           = "permission_denied"   // Forbidden
	CodeReadOnly         = "read_only"           // Forbidden: the file system is mounted read-only
	CodeKeepOwner        = "cannot_keep_owner"   // Forbidden: replacing the file would change its owner
	CodeDiskFull         = "disk_full"           // Unavailable: no space or quota left
	CodeNameTooLong      = "name_too_long"       // Invalid
	CodeTooLarge         = "too_large"           // TooLarge: a body, file, archive or directory
	CodeBadPath          = "invalid_path"        // Invalid: not absolute, empty, NUL bytes
	CodeBadRequest       = "invalid_request"     // Invalid: cannot be decoded, or a member out of range
	CodeProgramNotFound  = "program_not_found"   // NotFound
	CodeNotExecutable    = "not_executable"      // Forbidden
	CodeDirNotFound      = "dir_not_found"       // NotFound: the directory to start in
	CodeProgramLimit     = "too_many_programs"   // TooLarge: programs with pipes
	CodeProgramEnded     = "program_ended"       // Conflict: writing to a program that has ended
	CodeStdinClosed      = "stdin_closed"        // Conflict: writing after CloseWrite, or to a program that closed its standard input
	CodeTerminalNotFound = "terminal_not_found"  // NotFound
	CodeTerminalExited   = "terminal_exited"     // Conflict: its program has ended
	CodeTerminalBusy     = "terminal_busy"       // Timeout: the program does not read its input
	CodeTerminalLimit    = "too_many_terminals"  // TooLarge
	CodeOffsetAhead      = "offset_ahead"        // Conflict: no such output yet; a newer terminal has this id
	CodePortClosed       = "port_closed"         // Unavailable: nothing listens there
	CodePortLimit        = "too_many_ports"      // TooLarge: connections to ports
	CodeUnsafeArchive    = "unsafe_archive_path" // Invalid: an entry would leave the directory
	CodeOutside          = "outside_root"        // Forbidden: a path of ChangeFiles leaves the root, maybe through links
	CodeChanged          = "file_changed"        // Conflict: a file does not hold what ChangeFiles was told
	CodeStopping         = "sandbox_stopping"    // Unavailable
)

// Bounds of what one request may carry. Both sides hold them.
const (
	MaxFileBytes   = 64 << 20  // of ReadFile and WriteFile
	MaxInputBytes  = 1 << 20   // of WriteTerminal
	MaxStdinBytes  = 16 << 20  // of Exec
	MaxOutputBytes = 16 << 20  // of Exec, per stream; more is cut to this
	MaxChangeBytes = 16 << 20  // of ChangeFiles, all together
	MaxChanges     = 1000      // of ChangeFiles
	MaxTarBytes    = 16 << 30  // of PutTar and GetTar
	MaxTarEntries  = 1_000_000 // of PutTar

	maxPrograms     = 64 // with pipes, at a time
	maxHeaderBytes  = 64 << 10
	maxExecBody     = 2 * MaxStdinBytes // base64 and the other members
	maxOpenBody     = 2 << 20           // argv and environment
	maxPath         = 4096              // PATH_MAX
	maxUntil        = 4 << 10
	maxWait         = 10 * time.Minute
	maxTerminalRead = 2 << 20
	maxListEntries  = 100_000
	maxDirNames     = 1 << 20 // names of one directory, all held in memory to sort them
)

// Defaults of requests that leave a member out.
const (
	defaultMaxOutput    = 1 << 20
	defaultReadFile     = 16 << 20
	defaultTerminalRead = 1 << 20
	defaultListEntries  = 10_000
	defaultTarBytes     = 1 << 30
	defaultFileMode     = 0o644
)

// Health is what a daemon says of itself.
type Health struct {
	Version    string        `json:"version"`
	PID        int           `json:"pid"`
	Uptime     time.Duration `json:"uptime"` // includes time frozen
	WorkingDir string        `json:"working_dir"`
	Terminals  int           `json:"terminals"`
}

var _ tool.Hands = (*Client)(nil)
