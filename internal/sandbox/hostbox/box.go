package hostbox

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/sandbox"
)

// Bounds of waiting for the kernel.
const (
	eraseWait = 20 * time.Second
	pauseWait = 10 * time.Second
	trimWait  = 10 * time.Second
)

// Box is a running (or frozen) box.
type Box struct {
	backend *Backend
	dir     *Dir
	spec    sandbox.Spec
	watch   *watch
	network io.Closer     // nil: none
	gauge   *gauge        // nil: the files have a file system of their own
	leave   chan struct{} // closed to let go of the box
	left    chan struct{} // closed when nothing of the server follows it any more

	turn  chan struct{} // holds one value while somebody pauses, resumes or copies
	state State         // of whoever holds turn, but for Process and Group, which stay
}

// take waits for the turn to pause, resume or copy the box.
func (x *Box) take(ctx context.Context) error {
	select {
	case x.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault.Wrap(ctx.Err(), fault.Unavailable, "sandbox_busy", "The sandbox is being copied, paused or resumed.").WithHint("Try again in a moment.")
	}
}

func (x *Box) give() { <-x.turn }

var _ sandbox.Box = (*Box)(nil)

// attach registers a live box and watches it.
func (b *Backend) attach(d *Dir, spec sandbox.Spec, st State, network io.Closer) (*Box, error) {
	w, err := newWatch(st.Process)
	if err != nil {
		closeAll(network)
		return nil, Gone(err)
	}
	box := &Box{backend: b, dir: d, spec: spec, watch: w, network: network, state: st, turn: make(chan struct{}, 1),
		leave: make(chan struct{}), left: make(chan struct{})}
	if files := b.driver.Files(d); !files.Bounded() {
		box.gauge = &gauge{box: box, files: files}
		box.gauge.bytes, box.gauge.inodes = DiskLimits(spec.Limits)
	}
	b.mu.Lock()
	b.boxes[d.id] = box
	b.wg.Add(1)
	closing := b.turns.Closed()
	b.mu.Unlock()
	go box.follow()
	if closing {
		b.detach(d.id)
	}
	return box, nil
}

// follow ends what the server runs for the box when the box dies or is left.
func (x *Box) follow() {
	defer x.backend.wg.Done()
	defer close(x.left)
	defer x.startGauge()()
	select {
	case <-x.watch.dead:
	case <-x.leave:
	}
	x.watch.close()
	closeAll(x.network)
	x.backend.forget(x)
}

// startGauge begins to measure the files and returns what ends it.
func (x *Box) startGauge() func() {
	if x.gauge == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		x.gauge.run(ctx)
	}()
	return func() { cancel(); <-ended }
}

func closeAll(c io.Closer) {
	if c != nil {
		_ = c.Close()
	}
}

func (b *Backend) forget(x *Box) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.boxes[x.dir.id] == x {
		delete(b.boxes, x.dir.id)
	}
}

// attached returns the live box of an id, nil if there is none.
func (b *Backend) attached(id string) *Box {
	b.mu.Lock()
	defer b.mu.Unlock()
	box := b.boxes[id]
	if box == nil || box.dead() {
		return nil
	}
	return box
}

// detach lets go of a box; its processes are left alone.
func (b *Backend) detach(id string) {
	b.mu.Lock()
	box := b.boxes[id]
	delete(b.boxes, id)
	b.mu.Unlock()
	if box != nil {
		close(box.leave)
		<-box.left
	}
}

func (x *Box) dead() bool {
	select {
	case <-x.watch.dead:
		return true
	default:
		return false
	}
}

// Handle finds the box again.
func (x *Box) Handle() sandbox.Handle { return x.backend.handle(x.dir.id) }

// WorkingDir is the working directory as programs inside name it.
func (x *Box) WorkingDir() string { return x.backend.driver.WorkingDir(x.dir, x.spec) }

// Done is closed when the first process is dead.
func (x *Box) Done() <-chan struct{} { return x.watch.dead }

// Dial connects to the box's sandboxd.
func (x *Box) Dial(ctx context.Context) (net.Conn, error) {
	if x.dead() {
		return nil, Gone(nil)
	}
	conn, err := x.dir.dial(ctx)
	if err == nil {
		return conn, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if !x.state.Process.Alive() {
		return nil, Gone(err)
	}
	return nil, fault.Wrap(err, fault.Unavailable, "sandbox_unreachable", "The sandbox does not take connections.")
}

// Pause freezes all processes.
func (x *Box) Pause(ctx context.Context) error {
	if err := x.change(ctx, "The sandbox could not be paused.", x.pauseLocked); err != nil {
		return err
	}
	x.backend.trim(x.dir)
	return nil
}

// trim gives space back that a paused box does not need. It is not waited for, but
// by Close.
func (b *Backend) trim(d *Dir) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.turns.Closed() {
		return
	}
	b.wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), trimWait)
		defer cancel()
		if err := b.driver.Files(d).Trim(ctx); err != nil && !errors.Is(err, fs.ErrNotExist) {
			b.log.DebugContext(ctx, "a sandbox's deleted files were not given back", "sandbox", d.id, "error", err)
		}
	})
}

func (x *Box) pauseLocked(ctx context.Context) error {
	if x.state.Group.CanFreeze() {
		return x.freezeLocked(ctx)
	}
	before, err := stopTree(ctx, x.state.Process)
	if err != nil && !x.state.Paused { // half of them stand still
		return errors.Join(err, continueTree(x.state.Process, before))
	}
	if err != nil {
		return err
	}
	if x.state.Paused { // all of them are stopped: by us
		return nil
	}
	x.state.Paused, x.state.Stopped = true, before
	return x.dir.SaveState(x.state)
}

// freezeLocked freezes the group. What does not stand still in time (a program that
// waits for a slow disk cannot) must not do so later, unasked.
func (x *Box) freezeLocked(ctx context.Context) error {
	was := x.state.Group.Frozen()
	err := x.state.Group.Freeze(ctx)
	if err == nil || was {
		return err
	}
	again, cancel := context.WithTimeout(context.WithoutCancel(ctx), pauseWait)
	defer cancel()
	return errors.Join(err, x.state.Group.Thaw(again))
}

// Resume thaws them.
func (x *Box) Resume(ctx context.Context) error {
	return x.change(ctx, "The sandbox could not be resumed.", x.resumeLocked)
}

func (x *Box) resumeLocked(ctx context.Context) error {
	if x.state.Group.CanFreeze() {
		return x.state.Group.Thaw(ctx)
	}
	if !x.state.Paused {
		return nil
	}
	if err := continueTree(x.state.Process, x.state.Stopped); err != nil {
		return err
	}
	x.state.Paused, x.state.Stopped = false, nil
	return x.dir.SaveState(x.state)
}

// still reports whether nothing in the box changes: it is paused, or about to be, or
// copied.
func (x *Box) still() bool {
	select {
	case x.turn <- struct{}{}:
		defer x.give()
		return x.frozenLocked()
	default:
		return true
	}
}

func (x *Box) frozenLocked() bool {
	if x.state.Group.CanFreeze() {
		return x.state.Group.Frozen()
	}
	return x.state.Paused
}

func (x *Box) change(ctx context.Context, public string, f func(context.Context) error) error {
	if err := x.take(ctx); err != nil {
		return err
	}
	defer x.give()
	if x.dead() {
		return Gone(nil)
	}
	ctx, cancel := context.WithTimeout(ctx, pauseWait)
	defer cancel()
	if err := f(ctx); err != nil {
		if !x.state.Process.Alive() {
			return Gone(err)
		}
		return AsFault(err, public)
	}
	return nil
}

// KillNamespace ends a box whose first process is the first of a process
// namespace: its death takes all others along. It returns when they are dead.
func KillNamespace(ctx context.Context, st State) error {
	return kill(ctx, st, func() error { return st.Process.signal(unix.SIGKILL) })
}

// KillTree ends a box whose processes are only known as descendants of the first,
// as members of its group, and by label in their environment ("NAME=value").
func KillTree(ctx context.Context, st State, label string) error {
	return kill(ctx, st, func() error {
		if err := killTree(ctx, st.Process); err != nil {
			return err
		}
		return killLabelled(ctx, label)
	})
}

func kill(ctx context.Context, st State, fallback func() error) error {
	w, err := newWatch(st.Process)
	if err != nil {
		w = nil // dead, or never alive
	} else {
		defer w.close()
	}
	if err := killProcesses(ctx, st, fallback); err != nil {
		return err
	}
	if w != nil {
		select {
		case <-w.dead:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if st.Group == nil {
		return nil
	}
	return st.Group.Remove(ctx)
}

func killProcesses(ctx context.Context, st State, fallback func() error) error {
	if st.Group == nil {
		return fallback()
	}
	killed, err := st.Group.Kill()
	if err != nil || killed {
		return err
	}
	if st.Group.CanFreeze() { // version 1: the frozen neither stop nor die
		_ = st.Group.Thaw(ctx) // the group may be gone
	}
	if err := fallback(); err != nil {
		return err
	}
	for _, pid := range st.Group.Processes() { // those that left the tree
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	return nil
}
