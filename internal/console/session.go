package console

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"parley/internal/fault"
	"parley/internal/tool"
)

// Session is an open terminal. Read and Type are for one goroutine each, all else for
// any. Two goroutines belong to it: one passes on what is typed, one tends the rest.
type Session struct {
	s       *Service
	req     Request
	console tool.Console
	ctx     context.Context // ends with the session
	cancel  context.CancelFunc

	typed chan []byte   // not passed on yet
	used  chan struct{} // has an element if something was typed or shown
	look  chan struct{} // has an element if the sandbox may have been paused or resumed
	news  chan struct{} // has an element if Paused may have changed

	mu        sync.Mutex
	cause     error // why it ended; nil = it has not, or by itself
	paused    bool
	lastTyped time.Time
}

func newSession(s *Service, req Request, console tool.Console) *Session {
	t := &Session{s: s, req: req, console: console, typed: make(chan []byte, typedFrames), used: make(chan struct{}, 1),
		look: make(chan struct{}, 1), news: make(chan struct{}, 1), lastTyped: time.Now()}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	tell(t.look) // it may have been paused since Reach
	return t
}

// Read returns what the terminal shows, and io.EOF when its shell has ended. A reader
// who does not read makes the program wait.
func (t *Session) Read(p []byte) (int, error) {
	n, err := t.console.Read(p)
	if n > 0 {
		tell(t.used)
	}
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	if cause := t.ended(); cause != nil {
		return n, cause
	}
	return n, fault.Wrap(err, fault.Unavailable, CodeLost, "The sandbox was stopped, and the terminal with it.").
		WithHint("Open a new one when the sandbox runs.")
}

// Type types at most MaxInput bytes. Timeout with CodeBusy if the program does not
// read what was typed before, Conflict with CodePaused while the sandbox is paused: the
// terminal goes on, and these bytes are dropped.
func (t *Session) Type(data []byte) error {
	if len(data) > MaxInput {
		return fault.New(fault.TooLarge, "input_too_large", "At most %d bytes are typed at once.", MaxInput)
	}
	if t.Paused() {
		return errPaused()
	}
	t.mu.Lock()
	t.lastTyped = time.Now()
	t.mu.Unlock()
	tell(t.used)
	timer := time.NewTimer(t.s.opt.InputWait)
	defer timer.Stop()
	select {
	case t.typed <- append([]byte(nil), data...):
	case <-t.ctx.Done(): // Read says why
	case <-timer.C:
		return fault.New(fault.Timeout, CodeBusy, "The program in the terminal does not read what is typed; the rest was dropped.").
			WithHint("Interrupt it, or wait until it asks for input.")
	}
	return nil
}

// Resize changes the window's size.
func (t *Session) Resize(rows, cols int) error {
	if err := checkSize(rows, cols); err != nil {
		return err
	}
	return t.console.Resize(uint16(rows), uint16(cols)) //nolint:gosec // checked
}

// ExitCode is how the shell ended; known after Read returned io.EOF.
func (t *Session) ExitCode() int { return t.console.ExitCode() }

// News has an element when Paused may have changed.
func (t *Session) News() <-chan struct{} { return t.news }

// Paused reports whether the sandbox is paused, so that the terminal stands still.
func (t *Session) Paused() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.paused
}

// Close ends the shell and all that was started in it. Idempotent.
func (t *Session) Close() {
	t.end(fault.New(fault.Canceled, "terminal_closed", "The terminal was closed."))
}

// end ends the session; the first cause counts.
func (t *Session) end(cause error) {
	t.mu.Lock()
	first := t.cause == nil
	if first {
		t.cause = cause
	}
	t.mu.Unlock()
	if !first {
		return
	}
	t.cancel()
	_ = t.console.Close()
	t.s.leave(t.req.SandboxID, t)
}

func (t *Session) ended() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cause
}

// pass passes on what is typed. After the program's end nobody takes it.
func (t *Session) pass() {
	for {
		select {
		case data := <-t.typed:
			_, _ = t.console.Write(data)
		case <-t.ctx.Done():
			return
		}
	}
}

// tend notes that the sandbox is used, finds out about pauses, and ends what nobody
// types in.
func (t *Session) tend() {
	tick := time.NewTicker(max(t.s.opt.Idle/100, time.Millisecond))
	defer tick.Stop()
	var touched time.Time
	for {
		select {
		case <-t.used:
			if time.Since(touched) >= t.s.opt.Touch && t.idleFor() < watched {
				touched = time.Now()
				_, _ = t.s.opt.Reach(t.ctx, t.req.Owner, t.req.SandboxID, true) // one that is gone shows to who reads
			}
		case <-t.look:
			_, err := t.s.opt.Reach(t.ctx, t.req.Owner, t.req.SandboxID, false)
			t.setPaused(fault.CodeOf(err) == CodePaused)
		case <-tick.C:
			if t.idleFor() >= t.s.opt.Idle {
				t.end(fault.New(fault.Canceled, CodeIdle, "The terminal was closed: nothing was typed for %s.", t.s.opt.Idle))
			}
		case <-t.ctx.Done():
			return
		}
	}
}

func (t *Session) idleFor() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Since(t.lastTyped)
}

func (t *Session) setPaused(paused bool) {
	t.mu.Lock()
	changed := t.paused != paused
	t.paused = paused
	t.mu.Unlock()
	if changed {
		tell(t.news)
	}
}
