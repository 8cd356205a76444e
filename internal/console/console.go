// Package console gives users terminals of their own in their sandboxes: a login shell
// each, which lives as long as somebody looks at it. It bounds them, lets what happens
// in them count as use of the sandbox, and tells of pauses.
package console

import (
	"context"
	"sync"
	"time"

	"parley/internal/fault"
	"parley/internal/tool"
)

// Stable codes of faults.
const (
	CodeTooMany  = "too_many_terminals" // RateLimited: of this sandbox
	CodeBusy     = "terminal_busy"      // Timeout: the program does not read what is typed
	CodePaused   = "sandbox_paused"     // Conflict: nothing can be typed, or begun
	CodeIdle     = "terminal_idle"      // Canceled: nothing was typed for long
	CodeStopping = "draining"           // Unavailable: the server stops
	CodeLost     = "sandbox_gone"       // Unavailable: the sandbox was stopped or removed
)

const (
	defaultMost      = 8
	defaultIdle      = 12 * time.Hour
	defaultInputWait = 10 * time.Second
	defaultTouch     = 5 * time.Second
	// watched is how long after something was typed output still counts as use of the
	// sandbox: what prints forever does not keep it awake forever.
	watched = time.Hour
	// startTime bounds the start of a shell.
	startTime = 30 * time.Second
	// typedFrames and MaxInput bound what was typed and not read yet, 1 MiB together.
	typedFrames = 16
)

// Bounds of what clients ask for.
const (
	MaxInput = 64 << 10 // bytes that are typed at once
	MaxRows  = 500
	MaxCols  = 1000
)

// Options configure a Service.
type Options struct {
	// Reach returns the hands of an owner's sandbox that runs, without waking it; with
	// use that counts as use of it. Conflict with CodePaused if it is paused.
	Reach func(ctx context.Context, owner, sandboxID string, use bool) (tool.Hands, error)
	// Most bounds the terminals of one sandbox, 0 = 8.
	Most int
	// Idle is how long nothing may be typed before a terminal ends, 0 = 12 h.
	Idle time.Duration
	// InputWait is how long typing waits for a program that does not read, 0 = 10 s.
	InputWait time.Duration
	// Touch is the least time between two notes that a sandbox is used, 0 = 5 s.
	Touch time.Duration
}

// Service has the terminals of all users. Close it once, before the sandboxes.
type Service struct {
	opt  Options
	work sync.WaitGroup // of sessions

	mu     sync.Mutex
	closed bool
	counts map[string]int                   // terminals, those that start included, by sandbox
	open   map[string]map[*Session]struct{} // by sandbox
}

// New makes a service.
func New(opt Options) *Service {
	if opt.Most <= 0 {
		opt.Most = defaultMost
	}
	for at, fallback := range map[*time.Duration]time.Duration{&opt.Idle: defaultIdle, &opt.InputWait: defaultInputWait, &opt.Touch: defaultTouch} {
		if *at <= 0 {
			*at = fallback
		}
	}
	return &Service{opt: opt, counts: map[string]int{}, open: map[string]map[*Session]struct{}{}}
}

// Request asks for a terminal.
type Request struct {
	Owner     string // user id
	SandboxID string
	Dir       string // to begin in, absolute; "" or one that is not there = the sandbox's working directory
	Rows      int    // 1 to MaxRows
	Cols      int    // 1 to MaxCols
}

// Open starts a login shell on a terminal. Close the session. Errors are those of
// Options.Reach, of tool.Consoles, and RateLimited with CodeTooMany.
func (s *Service) Open(ctx context.Context, req Request) (*Session, error) {
	if err := checkSize(req.Rows, req.Cols); err != nil {
		return nil, err
	}
	hands, err := s.opt.Reach(ctx, req.Owner, req.SandboxID, true)
	if fault.CodeOf(err) == CodePaused {
		return nil, errPaused()
	}
	if err != nil {
		return nil, err
	}
	if err := s.enter(req.SandboxID); err != nil {
		return nil, err
	}
	console, err := start(ctx, hands, req)
	if err != nil {
		s.leave(req.SandboxID, nil)
		return nil, err
	}
	t := newSession(s, req, console)
	if !s.register(t) {
		_ = console.Close()
		s.leave(req.SandboxID, nil)
		return nil, errStopping()
	}
	return t, nil
}

// start starts the shell, elsewhere if the directory is not there.
func start(ctx context.Context, hands tool.Hands, req Request) (console tool.Console, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for _, dir := range []string{req.Dir, "", "/"} {
		console, err = hands.StartConsole(ctx, tool.ConsoleRequest{Dir: dir, Rows: uint16(req.Rows), Cols: uint16(req.Cols), //nolint:gosec // checked
			Env: map[string]string{"TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_CTYPE": "C.UTF-8"}})
		if !fault.Is(err, fault.NotFound) {
			break
		}
	}
	return console, err
}

func checkSize(rows, cols int) error {
	if rows < 1 || rows > MaxRows || cols < 1 || cols > MaxCols {
		return fault.New(fault.Invalid, "bad_size", "A terminal has 1 to %d rows and 1 to %d columns.", MaxRows, MaxCols)
	}
	return nil
}

// enter takes a place for a terminal of a sandbox.
func (s *Service) enter(sandboxID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errStopping()
	}
	if s.counts[sandboxID] >= s.opt.Most {
		return fault.New(fault.RateLimited, CodeTooMany, "%d terminals are open in the sandbox, which is the limit.", s.opt.Most).
			WithHint("Close one that is not needed.")
	}
	s.counts[sandboxID]++
	return nil
}

// leave gives the place back; t is nil if there is no session yet.
func (s *Service) leave(sandboxID string, t *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts[sandboxID]--; s.counts[sandboxID] == 0 {
		delete(s.counts, sandboxID)
	}
	delete(s.open[sandboxID], t)
	if len(s.open[sandboxID]) == 0 {
		delete(s.open, sandboxID)
	}
}

// register makes a session known and starts its work, unless the server stops.
func (s *Service) register(t *Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.open[t.req.SandboxID] == nil {
		s.open[t.req.SandboxID] = map[*Session]struct{}{}
	}
	s.open[t.req.SandboxID][t] = struct{}{}
	s.work.Go(t.tend)
	s.work.Go(t.pass)
	return true
}

// Changed says that a sandbox may have been paused or resumed. It does not block.
func (s *Service) Changed(sandboxID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t := range s.open[sandboxID] {
		tell(t.look)
	}
}

// Close ends all terminals and waits for that.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	var all []*Session
	for _, sessions := range s.open {
		for t := range sessions {
			all = append(all, t)
		}
	}
	s.mu.Unlock()
	for _, t := range all {
		t.end(errStopping())
	}
	s.work.Wait()
}

func errPaused() error {
	return fault.New(fault.Conflict, CodePaused, "The sandbox is paused.").WithHint("Resume it first.")
}

func errStopping() error {
	return fault.New(fault.Unavailable, CodeStopping, "The server is stopping.")
}

// tell leaves a sign for who waits on a channel of one element.
func tell(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
