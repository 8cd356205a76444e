package sandboxd

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/tool"
)

const (
	// settleTime is how long a terminal must be quiet after its program's end to
	// count as read out, where something else keeps it open.
	settleTime = 20 * time.Millisecond
	// settleMax bounds that against one that never is.
	settleMax = time.Second
	// coalesceOver and coalesceTo say when a stream of output is gathered for
	// coalesceTime: a pseudo terminal hands out pieces of 4 KiB at most.
	coalesceOver = 2 << 10
	coalesceTo   = 64 << 10
	coalesceTime = time.Millisecond
)

// terminal is a program on a pseudo terminal. Two goroutines belong to it: one
// reads its output, one awaits its end; release joins the first, ended tells of
// the second.
type terminal struct {
	id       string
	cmd      *exec.Cmd
	patience time.Duration // of writers
	master   *os.File
	typing   chan struct{} // held while bytes are written
	read     chan struct{} // closed when there is nothing left to read
	ended    chan struct{} // closed when exited is set
	released chan struct{} // closed when nobody wants the output any more

	mu     sync.Mutex
	output ring
	hold   hold
	wake   chan struct{} // closed and forgotten when something changes; nil if nobody waits
	exited bool
	code   int
}

func startTerminal(kids *children, launch launcher, opt Options, req tool.TerminalRequest) (*terminal, error) {
	cmd, err := terminalCommand(launch, opt.Shell, req)
	if err != nil {
		return nil, err
	}
	master, slave, err := openPTY(orDefault(req.Rows, 24), orDefault(req.Cols, 80))
	if err != nil {
		return nil, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := kids.start(cmd); err != nil {
		_ = master.Close()
		_ = slave.Close()
		return nil, startFault(err, cmd.Path)
	}
	t := &terminal{
		id: req.ID, cmd: cmd, master: master, patience: opt.InputWait, output: newRing(opt.TerminalBuffer),
		typing: make(chan struct{}, 1), read: make(chan struct{}), ended: make(chan struct{}),
		released: make(chan struct{}),
	}
	go t.pump()
	go t.await(kids, slave)
	return t, nil
}

func terminalCommand(launch launcher, shell string, req tool.TerminalRequest) (*exec.Cmd, error) {
	argv := req.Argv
	if len(argv) == 0 {
		argv = []string{shell}
	}
	env := map[string]string{}
	if _, set := launch.base["TERM"]; !set {
		env["TERM"] = "xterm-256color"
	}
	for name, value := range req.Env {
		env[name] = value
	}
	return launch.command(argv, req.Dir, env)
}

func orDefault(n, fallback uint16) uint16 {
	if n == 0 {
		return fallback
	}
	return n
}

// pump moves output into the ring as it comes: the program waits for nobody but a
// reader who asked for that.
func (t *terminal) pump() {
	defer close(t.read)
	buf := make([]byte, 4<<10)
	for {
		t.waitForReader()
		n, err := t.master.Read(buf)
		if n > 0 {
			t.append(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

func (t *terminal) append(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.output.write(p)
	t.wakeLocked()
}

func (t *terminal) wakeLocked() {
	if t.wake != nil {
		close(t.wake)
		t.wake = nil
	}
}

// await waits for the program's end. The daemon keeps the program's side open
// until then: a program may close it and open it again.
func (t *terminal) await(kids *children, slave *os.File) {
	code := exitCode(kids.await(t.cmd))
	_ = slave.Close()
	t.settle()
	t.mu.Lock()
	t.exited, t.code = true, code
	t.wakeLocked()
	t.mu.Unlock()
	close(t.ended)
}

// settle returns when what the program wrote before it ended has been read.
func (t *terminal) settle() {
	last := t.end()
	for deadline := time.Now().Add(settleMax); time.Now().Before(deadline); {
		select {
		case <-t.read:
			return
		case <-time.After(settleTime):
		}
		end := t.end()
		if eased, _ := t.held(); eased != nil {
			deadline = time.Now().Add(settleMax)
		} else if end == last {
			return
		}
		last = end
	}
}

func (t *terminal) end() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.output.end
}

func (t *terminal) hasExited() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.exited
}

// info describes the terminal; created says that this call started it.
func (t *terminal) info(created bool) tool.TerminalInfo {
	return tool.TerminalInfo{ID: t.id, PID: t.cmd.Process.Pid, Created: created, End: t.end()}
}

// search looks for a pattern in output as it comes, at each byte once.
type search struct {
	pattern []byte
	offset  int64 // of the reader
	next    int64 // first byte not looked at
	max     int64
}

// met reports whether the reader has what it waits for. A match may begin before
// the reader's offset, if it ends after it: so one who follows the output piece by
// piece finds what a piece's end cut in two.
func (s *search) met(r *ring) bool {
	from := max(s.offset, r.start)
	limit := min(r.end, from+s.max)
	if len(s.pattern) == 0 || limit-from >= s.max {
		return limit > from
	}
	lookBack := max(s.next-int64(len(s.pattern)-1), r.start)
	found := lookBack < limit && r.contains(s.pattern, lookBack, limit)
	s.next = max(s.next, limit)
	return found
}

// output waits for what req asks for and returns it.
func (t *terminal) follow(ctx context.Context, req tool.TerminalRead) (tool.TerminalOutput, error) {
	defer t.holdFor(req)()
	s := &search{pattern: []byte(req.Until), offset: req.Offset, next: req.Offset, max: int64(req.Max)}
	timer := time.NewTimer(req.Wait)
	defer timer.Stop()
	for {
		wake, err := t.check(s)
		if err != nil {
			return tool.TerminalOutput{}, err
		}
		if wake == nil {
			break
		}
		select {
		case <-wake:
			continue
		case <-timer.C:
		case <-ctx.Done():
			return tool.TerminalOutput{}, context.Cause(ctx)
		}
		break
	}
	if req.Until == "" {
		t.gather(ctx, req, timer)
	}
	return t.take(req), nil
}

// check returns a channel that closes on news, or nil if the wait is over.
func (t *terminal) check(s *search) (<-chan struct{}, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.offset > t.output.end {
		return nil, fault.New(fault.Conflict, CodeOffsetAhead, "Terminal %s has output up to offset %d, not %d.", t.id, t.output.end, s.offset).
			WithHint("It was started anew: read from offset 0.")
	}
	if s.met(&t.output) || t.exited {
		return nil, nil
	}
	if t.wake == nil {
		t.wake = make(chan struct{})
	}
	return t.wake, nil
}

// gather waits a moment for more where output streams, so that a reader is not
// woken for every 4 KiB.
func (t *terminal) gather(ctx context.Context, req tool.TerminalRead, patience *time.Timer) {
	if n := t.end() - req.Offset; n < coalesceOver || n >= min(coalesceTo, int64(req.Max)) {
		return
	}
	timer := time.NewTimer(coalesceTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-patience.C:
	case <-t.ended:
	case <-ctx.Done():
	}
}

func (t *terminal) take(req tool.TerminalRead) tool.TerminalOutput {
	t.mu.Lock()
	defer t.mu.Unlock()
	from := max(req.Offset, t.output.start)
	to := min(t.output.end, from+int64(req.Max))
	return tool.TerminalOutput{
		Data: t.output.copy(from, to), Offset: from, End: t.output.end,
		Exited: t.exited, Code: t.code,
	}
}

// write types data. Writers take turns, so that their bytes do not mix.
func (t *terminal) write(ctx context.Context, data []byte) error {
	select {
	case t.typing <- struct{}{}:
		defer func() { <-t.typing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if t.hasExited() {
		return terminalExited(t.id)
	}
	_ = t.master.SetWriteDeadline(time.Now().Add(t.patience))
	interrupted := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = t.master.SetWriteDeadline(time.Unix(1, 0))
	})
	n, err := t.master.Write(data)
	if !unhook() {
		<-interrupted // or it would cut the next writer short
	}
	return t.writeFault(err, n, len(data))
}

func (t *terminal) writeFault(err error, n, total int) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fault.Wrap(err, fault.Timeout, CodeTerminalBusy,
			"The program in terminal %s does not read its input: %d of %d bytes were taken.", t.id, n, total).
			WithHint("Interrupt it, or wait until it asks for input.")
	case errors.Is(err, os.ErrClosed), errors.Is(err, unix.EIO):
		return terminalExited(t.id)
	}
	return fault.Wrap(err, fault.Internal, "io_error", "Cannot type into terminal %s.", t.id)
}

// signal sends to the foreground process group: what Ctrl-C would hit.
func (t *terminal) signal(sig syscall.Signal) error {
	if t.hasExited() {
		return terminalExited(t.id)
	}
	group := 0
	err := control(t.master, func(fd int) (err error) {
		group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	if err != nil || group <= 1 {
		group = t.cmd.Process.Pid
	}
	if err := unix.Kill(-group, sig); err != nil {
		return fault.Wrap(err, fault.Conflict, CodeTerminalExited, "Nothing runs in the foreground of terminal %s.", t.id)
	}
	return nil
}

func (t *terminal) resize(rows, cols uint16) error {
	err := control(t.master, func(fd int) error { return setSize(fd, rows, cols) })
	if err != nil {
		return terminalExited(t.id)
	}
	return nil
}

// close kills the session and frees the terminal. It waits for the program's
// death no longer than the kernel can be expected to take.
func (t *terminal) close() {
	killSession(t.cmd.Process.Pid, t.hasExited())
	t.setHold(0, 0) // whoever reads has nothing more to come
	select {
	case <-t.ended:
	case <-time.After(killPatience):
	}
	t.release()
}

// release frees the terminal of a program that has ended; what that left running
// goes on without it.
func (t *terminal) release() {
	close(t.released)
	_ = t.master.Close()
	<-t.read
}

func terminalExited(id string) error {
	return fault.New(fault.Conflict, CodeTerminalExited, "The program in terminal %s has ended.", id).
		WithHint("Open the terminal again.")
}

// setHeaders writes all of an output but its data.
func setHeaders(h http.Header, out tool.TerminalOutput) {
	h.Set(headerOffset, strconv.FormatInt(out.Offset, 10))
	h.Set(headerEnd, strconv.FormatInt(out.End, 10))
	if out.Exited {
		h.Set(headerExited, strconv.Itoa(out.Code))
	}
}
