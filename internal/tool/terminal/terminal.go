// Package terminal is the tool that runs commands in a persistent bash.
//
// Each conversation has one shell on a pseudo terminal inside its sandbox. The
// shell belongs to the sandbox and outlives the server: everything this package
// remembers can be read back from the terminal's output, because the shell frames
// every command with markers that only this server can make. See marker.go for
// the framing and session.go for the states.
//
// It promises that a run returns within a second when its context ends and that
// what it ran has ended then (see interrupt.go); that memory and disk stay bounded
// whatever a command prints (capture.go, spool.go); and that a program's output is
// never taken for the end of a command. It does not promise to keep the shell: not
// when a command ends it (exit, set -e), makes it unable to run commands, or cannot
// be interrupted without it. The next result says so.
package terminal

import (
	"context"
	_ "embed"
	"errors"
	"sync"
	"time"
	"unicode/utf8"

	"parley/internal/tool"
)

//go:embed description.md
var description string

// Bounds and defaults.
const (
	DefaultSoftTimeout = 30 * time.Second // without output before a command is left running
	MaxCommand         = 1 << 20          // bytes of a command
	MaxInput           = 64 << 10         // bytes typed into a running program
	maxSessions        = 4096             // remembered; forgotten ones are read back
)

// Action is what a model may ask.
type Action struct {
	Command string   `json:"command" desc:"The bash command or script to run. With is_input: the text or keys to type. Empty: wait for more output of the running command."`
	IsInput bool     `json:"is_input" default:"false" desc:"true: type the command into the running program instead of running it."`
	Timeout *float64 `json:"timeout,omitempty" min:"0" max:"86400" desc:"Seconds after which a command that has not ended is left running. Without it, a command is left running once it prints nothing for 30 seconds."`
	Reset   bool     `json:"reset" default:"false" desc:"true: kill the shell and start a fresh one, then run the command if there is one. Cannot be combined with is_input."`
}

// Config sets the tool up. The zero value is usable, but see Secret.
type Config struct {
	// Secret is the server's; the markers are derived from it. A server that
	// restarts with another secret takes a running shell for a busy one.
	Secret []byte
	// SoftTimeout is how long a command without an own time-out may print nothing;
	// 0 = DefaultSoftTimeout.
	SoftTimeout time.Duration
}

// terminals holds the sessions of all conversations.
type terminals struct {
	config   Config
	mu       sync.Mutex
	sessions map[string]*session
}

// New makes the tool. One value serves all conversations.
func New(config Config) tool.Tool {
	if config.SoftTimeout <= 0 {
		config.SoftTimeout = DefaultSoftTimeout
	}
	t := &terminals{config: config, sessions: map[string]*session{}}
	spec := tool.Spec{
		Name:        tool.NameTerminal,
		Description: description,
		Destructive: true,
		OpenWorld:   true,
	}
	return tool.New(spec, t.run, tool.WithCheck(check), tool.WithClaims(claims))
}

// claims is the same for every action: a command may change anything.
func claims(Action) []tool.Claim { return []tool.Claim{{Write: true}} }

func check(a *Action) error {
	switch {
	case a.Reset && a.IsInput:
		return errors.New(`"reset" and "is_input" cannot be combined: reset first, then type into a new command`)
	case len(a.Command) > MaxCommand:
		return errors.New(`"command" is longer than 1 MiB. Write the script to a file with file_editor and run that`)
	case a.IsInput && len(a.Command) > MaxInput:
		return errors.New(`"command" is longer than the 64 KiB that can be typed into a program. Write it to a file and redirect that`)
	case !a.IsInput && hasNUL(a.Command):
		return errors.New(`"command" contains a NUL character, which bash cannot run`)
	case !utf8.ValidString(a.Command):
		return errors.New(`"command" is not valid UTF-8`)
	}
	return nil
}

func hasNUL(s string) bool {
	for i := range len(s) {
		if s[i] == 0 {
			return true
		}
	}
	return false
}

func (t *terminals) run(ctx context.Context, env *tool.Env, a Action) (tool.Result, error) {
	s := t.session(env)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &call{session: s, env: env, action: a, soft: t.config.SoftTimeout}
	return c.run(ctx)
}

// session returns the conversation's session, a new one if it is not remembered.
func (t *terminals) session(env *tool.Env) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessions[env.ConversationID]
	if s == nil {
		t.forgetOne()
		s = &session{id: "t-" + env.Label(), marks: newMarks(t.config.Secret, env.ConversationID)}
		t.sessions[env.ConversationID] = s
	}
	return s
}

// forgetOne makes room. A forgotten session is read back from its terminal.
func (t *terminals) forgetOne() {
	if len(t.sessions) < maxSessions {
		return
	}
	for id, s := range t.sessions {
		if s.mu.TryLock() {
			delete(t.sessions, id)
			s.mu.Unlock()
			return
		}
	}
}
