// Package tool is the seam to what an agent can do. A tool is a typed Go
// function; its schema is derived from its input type, and the prose the model
// reads is a .md file beside its code. Confirmation, masking and limits are
// decorators of the engine, not the tools' business.
package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"time"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/lazyre"
)

// Spec describes a tool to models and clients.
type Spec struct {
	Name            string // what the model calls: "terminal"
	Title           string
	Description     string
	Kind            string          // "TerminalTool"
	ActionKind      string          // "TerminalAction"
	ObservationKind string          // "TerminalObservation"
	Parameters      json.RawMessage // JSON Schema of an object, without the members every tool gets (security_risk, summary)
	ReadOnly        bool
	Destructive     bool
	Idempotent      bool
	OpenWorld       bool
	NoConfirm       bool // never needs confirmation (finish, think)
	NoHands         bool // needs no sandbox
	// More is a JSON object with the members that the definition of such a tool has
	// beyond those of every tool; nil = none.
	More json.RawMessage
}

// Result is what a run gave.
type Result struct {
	// Observation is the JSON object clients see: "kind", "content", "is_error"
	// and the tool's own members.
	Observation json.RawMessage
	// Parts are what the model reads.
	Parts   []content.Part
	IsError bool
}

// Tool is one thing an agent can do.
type Tool interface {
	Spec() *Spec
	// Parse checks the arguments a model gave and returns the action as clients
	// see it (an object with "kind"). Errors are fault.Invalid with a text the
	// model can act on. It must be pure.
	Parse(args json.RawMessage) (action json.RawMessage, err error)
	// Run runs an action that Parse returned. An error means that the tool could
	// not run at all; what the model did wrong is a Result with IsError. It
	// returns early, with the context's cause, when ctx ends.
	Run(ctx context.Context, env *Env, action json.RawMessage) (Result, error)
	// Claims says what a run of the action uses. Of two calls of one answer whose
	// claims conflict, the second starts when the first has ended.
	Claims(action json.RawMessage) []Claim
}

// Env is where a tool runs.
type Env struct {
	ConversationID string
	WorkingDir     string // absolute, inside the sandbox
	Hands          Hands
	// Secrets returns name to value of the secrets a command mentions.
	Secrets func(command string) map[string]string
	// Mask hides secrets in a text. A tool that cuts a long text masks it first, so
	// that no part of a secret is left at the cut; all else is masked by the engine.
	// nil = nothing to hide.
	Mask func(text string) string
	// Models are the models that the conversation can use; nil where there are none.
	Models Models
	// SearchKey opens the web search; unset where the user has none.
	SearchKey account.Secret
	// CallID is the id of the event that asks for the call.
	CallID string
	// Skills and Agents are the conversation's; nil where there are none.
	Skills Skills
	Agents Agents
	// Progress shows how far a call is, in a few words; it does not block. nil =
	// nobody looks.
	Progress func(text string)
}

// Models is what a conversation's models do for tools. What they cost is the
// conversation's.
type Models interface {
	// Switch lets the conversation go on with another of its owner's profiles and
	// returns the model's id. NotFound with the known names as hint.
	Switch(ctx context.Context, profile string) (model string, err error)
	// Look asks a model with vision about an image of the conversation: index counts
	// the images of its messages from 0, oldest first. profile "" is the first of the
	// owner's whose model sees. NotFound for an unknown image or profile,
	// Unsupported if no model sees.
	Look(ctx context.Context, image int, question, profile string) (Look, error)
}

// Look is what a model saw.
type Look struct {
	Model  string // id
	Answer string
}

// StateDir is where the tools keep what is theirs inside the sandbox: one directory
// per conversation and none above it, because sandboxes without isolation share
// /tmp with other users.
func (e *Env) StateDir() string { return "/tmp/.parley-" + e.Label() }

// plainID are the conversation ids that can name terminals and files.
var plainID = lazyre.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Label names the conversation in letters that terminals and paths can hold:
// legacy clients choose ids with spaces, quotes and what not.
func (e *Env) Label() string {
	if plainID.MatchString(e.ConversationID) {
		return e.ConversationID
	}
	sum := sha256.Sum256([]byte(e.ConversationID))
	return "x" + hex.EncodeToString(sum[:16])
}

// Hands are what a sandbox offers to tools. Implemented by sandboxd's client.
type Hands interface {
	Terminals
	Files
	Ports
	Programs
	Commands
	Consoles
	Archives
	// Exec runs a program to its end, without a terminal.
	Exec(ctx context.Context, req ExecRequest) (ExecResult, error)
}

// ExecRequest runs a program.
type ExecRequest struct {
	Argv      []string          `json:"argv"`
	Dir       string            `json:"dir,omitempty"` // "" = the box's working directory
	Env       map[string]string `json:"env,omitempty"` // added to the box's
	Stdin     []byte            `json:"stdin,omitempty"`
	Timeout   time.Duration     `json:"timeout,omitempty"`    // 0 = none; then TERM, 1 s, KILL to the process group
	MaxOutput int               `json:"max_output,omitempty"` // bytes kept per stream; 0 = 1 MiB
}

// ExecResult is how a program ended.
type ExecResult struct {
	ExitCode  int    `json:"exit_code"` // -1 when killed by the time-out; 128+n for signal n
	Stdout    []byte `json:"stdout,omitempty"`
	Stderr    []byte `json:"stderr,omitempty"`
	TimedOut  bool   `json:"timed_out,omitempty"`
	Truncated bool   `json:"truncated,omitempty"` // more output than MaxOutput: the head is kept
}

// Terminals are pseudo terminals with a program in them. They belong to the
// sandbox and outlive the server's connection; output is kept in a bounded ring
// and addressed by absolute byte offsets.
type Terminals interface {
	// OpenTerminal starts the program, or returns the running terminal of that id.
	OpenTerminal(ctx context.Context, req TerminalRequest) (TerminalInfo, error)
	// WriteTerminal types bytes.
	WriteTerminal(ctx context.Context, id string, data []byte) error
	// ReadTerminal returns output from offset on. It waits up to wait for at least
	// one byte; with until set, it goes on waiting (up to wait) until the output
	// since offset contains until. It returns early when the program exits.
	ReadTerminal(ctx context.Context, id string, req TerminalRead) (TerminalOutput, error)
	// SignalTerminal sends a signal to the foreground process group.
	SignalTerminal(ctx context.Context, id string, signal int) error
	// CloseTerminal kills the program and all in its session. Idempotent.
	CloseTerminal(ctx context.Context, id string) error
}

// TerminalRequest opens a terminal.
type TerminalRequest struct {
	ID   string            `json:"id"`
	Argv []string          `json:"argv"`
	Dir  string            `json:"dir,omitempty"`
	Env  map[string]string `json:"env,omitempty"`
	Rows uint16            `json:"rows"`
	Cols uint16            `json:"cols"`
}

// TerminalInfo describes a terminal.
type TerminalInfo struct {
	ID      string `json:"id"`
	PID     int    `json:"pid"`
	Created bool   `json:"created"` // false: it was running already
	End     int64  `json:"end"`     // offset after the last byte so far
}

// TerminalRead asks for output.
type TerminalRead struct {
	Offset int64         `json:"offset"`
	Wait   time.Duration `json:"wait"`
	Until  string        `json:"until,omitempty"`
	Max    int           `json:"max,omitempty"` // bytes; 0 = 1 MiB
	// Hold makes the program wait for this reader instead of overwriting what it has
	// not read. It ends with a read without Hold, or soon after the last one with it.
	Hold bool `json:"hold,omitempty"`
}

// TerminalOutput is a piece of output.
type TerminalOutput struct {
	Data   []byte `json:"data,omitempty"`
	Offset int64  `json:"offset"` // of Data[0]; greater than asked if the ring dropped bytes
	End    int64  `json:"end"`    // offset after the last byte there is
	Exited bool   `json:"exited,omitempty"`
	Code   int    `json:"code,omitempty"` // exit code when Exited
}

// Ports are the TCP ports of the sandbox's own loopback interface.
type Ports interface {
	// DialPort connects to what listens on a port (1 to 65535) on 127.0.0.1 or ::1
	// inside the sandbox. ctx is for connecting only. The connection has CloseWrite,
	// keeps its own deadlines, and breaks when the sandbox goes. Unavailable if
	// nothing listens there, TooLarge if too many connections are open.
	DialPort(ctx context.Context, port int) (net.Conn, error)
	// ListeningPorts lists the ports that DialPort reaches, ascending, up to 1,000.
	ListeningPorts(ctx context.Context) ([]ListeningPort, error)
}

// ListeningPort is a TCP port that a program in the sandbox listens on.
type ListeningPort struct {
	Port     int   `json:"port"`
	Loopback bool  `json:"loopback"` // on loopback only, not on every address
	UID      int64 `json:"uid"`      // user inside whom the program runs as
}

// Files are the sandbox's files. Paths are absolute. Errors are faults: NotFound,
// Forbidden, Conflict (CodeExists), TooLarge, Invalid.
type Files interface {
	Stat(ctx context.Context, path string) (FileInfo, error)
	// ReadFile reads up to max bytes; TooLarge if there is more. max 0 = 16 MiB.
	ReadFile(ctx context.Context, path string, max int64) ([]byte, error)
	// WriteFile replaces the file atomically, keeping its mode and owner.
	WriteFile(ctx context.Context, path string, data []byte, opt WriteOptions) error
	// ListDir lists entries sorted by name, up to depth levels below path (1 = the
	// direct ones) and max entries.
	ListDir(ctx context.Context, path string, depth, max int) ([]FileInfo, error)
	Remove(ctx context.Context, path string) error // a file; not an error if it is gone
	// Search finds files below a directory, by name and by text.
	Search(ctx context.Context, req SearchRequest) (SearchResult, error)
	// ChangeFiles changes several files inside root as one: all or none. Conflict
	// (CodeExists, CodeChanged) if a file is not what the change says it was,
	// Forbidden (CodeOutside) if a path leaves root, also through links.
	ChangeFiles(ctx context.Context, root string, changes []FileChange) error
}

// WriteOptions say how to write a file.
type WriteOptions struct {
	Parents bool        `json:"parents,omitempty"` // make missing directories
	New     bool        `json:"new,omitempty"`     // Conflict if the path exists
	Mode    fs.FileMode `json:"mode,omitempty"`    // for new files; 0 = 0644
	// Append adds to the end of a file that exists, in place and not atomically,
	// instead of replacing it.
	Append bool `json:"append,omitempty"`
}

// FileInfo describes a file.
type FileInfo struct {
	Path    string      `json:"path"` // absolute for Stat, relative to the listed directory for ListDir
	Size    int64       `json:"size"`
	Mode    fs.FileMode `json:"mode"`
	ModTime time.Time   `json:"mod_time"`
	IsDir   bool        `json:"is_dir"`
	Link    string      `json:"link,omitempty"` // target of a symbolic link
	Real    string      `json:"real,omitempty"` // Stat only: the path with no symbolic link in it; "" if it has none
}

// ErrDetach is the cancel cause that means "we are leaving, the work goes on": a
// run returns at once and leaves what it started running. Any other cause means
// that the work itself is to stop.
var ErrDetach = errors.New("the server detaches from running tools")
