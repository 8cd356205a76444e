package gvisor

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/hostbox"
)

const pauseWait = 10 * time.Second

// Box is a running (or frozen) box.
type Box struct {
	backend *Backend
	dir     dir
	token   string
	network io.Closer     // nil: none
	pidfd   *os.File      // of the sentry
	dead    chan struct{} // closed when the sentry is dead
	leave   chan struct{} // closed to let go of the box
	left    chan struct{} // closed when nothing of the server follows it any more

	mu  sync.Mutex // orders Pause, Resume and Snapshot
	rec record

	stillMu sync.Mutex
	still   chan struct{} // closed when tasks run again; nil: they run
}

var _ sandbox.Box = (*Box)(nil)

// attach registers a live box and watches it.
func (b *Backend) attach(d dir, rec record, network io.Closer) (*Box, error) {
	x := &Box{backend: b, dir: d, token: rec.Ground.Token, network: network, rec: rec,
		dead: make(chan struct{}), leave: make(chan struct{}), left: make(chan struct{})}
	conn, err := x.watch()
	if err != nil {
		closeAll(network)
		return nil, hostbox.Gone(err)
	}
	x.stand(rec.Paused)
	b.mu.Lock()
	b.boxes[d.id()] = x
	b.wg.Add(1)
	closing := b.turns.Closed()
	b.mu.Unlock()
	go x.follow(conn)
	if closing {
		b.detach(d.id())
	}
	return x, nil
}

// watch opens what becomes readable when the sentry dies.
func (x *Box) watch() (func(func(uintptr) bool) error, error) {
	fd, err := unix.PidfdOpen(x.rec.Process.PID, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	x.pidfd = os.NewFile(uintptr(fd), "pidfd")
	conn, err := x.pidfd.SyscallConn()
	if err == nil && !x.rec.Process.Alive() {
		err = os.ErrProcessDone
	}
	if err != nil {
		return nil, errors.Join(err, x.pidfd.Close())
	}
	return conn.Read, nil
}

// exited reports whether the process of the pidfd is dead, and takes its exit
// status if it became our child, so that no zombie is left.
func exited(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 0); err != nil || n == 0 {
		return false
	}
	_ = unix.Waitid(unix.P_PIDFD, int(fd), nil, unix.WEXITED|unix.WNOHANG, nil)
	return true
}

// follow ends what the server runs for the box when the box dies or is left.
func (x *Box) follow(wait func(func(uintptr) bool) error) {
	defer x.backend.wg.Done()
	defer close(x.left)
	watched := make(chan struct{})
	go func() { // ends when the descriptor is closed; joined below
		defer close(watched)
		if wait(exited) == nil {
			close(x.dead)
		}
	}()
	select {
	case <-x.dead:
	case <-x.leave:
	}
	_ = x.pidfd.Close()
	<-watched
	if !x.isDead() && !x.rec.Process.Alive() {
		close(x.dead)
	}
	closeAll(x.network)
	x.backend.mu.Lock()
	defer x.backend.mu.Unlock()
	if x.backend.boxes[x.dir.id()] == x {
		delete(x.backend.boxes, x.dir.id())
	}
}

func closeAll(c io.Closer) {
	if c != nil {
		_ = c.Close()
	}
}

// attached returns the live box of an id, nil if there is none.
func (b *Backend) attached(id string) *Box {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x := b.boxes[id]; x != nil && !x.isDead() {
		return x
	}
	return nil
}

// detach lets go of a box; its processes are left alone.
func (b *Backend) detach(id string) {
	b.mu.Lock()
	x := b.boxes[id]
	delete(b.boxes, id)
	b.mu.Unlock()
	if x != nil {
		close(x.leave)
		<-x.left
	}
}

func (x *Box) isDead() bool {
	select {
	case <-x.dead:
		return true
	default:
		return false
	}
}

// Handle finds the box again.
func (x *Box) Handle() sandbox.Handle { return handle(x.dir.id()) }

// Done is closed when the first process is dead.
func (x *Box) Done() <-chan struct{} { return x.dead }

// Dial connects to the box's sandboxd.
func (x *Box) Dial(ctx context.Context) (net.Conn, error) {
	if x.isDead() {
		return nil, hostbox.Gone(nil)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(x.backend.ctx, cancel)
	defer stop()
	go func() { // ends with the call
		select {
		case <-x.dead:
			cancel()
		case <-ctx.Done():
		}
	}()
	conn, err := x.dialRunning(ctx)
	if err == nil {
		return conn, nil
	}
	if !x.rec.Process.Alive() {
		return nil, hostbox.Gone(err)
	}
	if ctx.Err() != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	return nil, fault.Wrap(err, fault.Unavailable, "sandbox_unreachable", "The sandbox does not take connections.")
}

// dialRunning waits until tasks inside run: before, runsc starts none.
func (x *Box) dialRunning(ctx context.Context) (net.Conn, error) {
	for {
		if err := x.awaitRunning(ctx); err != nil {
			return nil, err
		}
		conn, err := x.backend.dial(ctx, x.dir, x.token)
		if err == nil || ctx.Err() != nil || !x.standing() {
			return conn, err
		}
	}
}

func (x *Box) awaitRunning(ctx context.Context) error {
	x.stillMu.Lock()
	still := x.still
	x.stillMu.Unlock()
	if still == nil {
		return ctx.Err()
	}
	select {
	case <-still:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (x *Box) standing() bool {
	x.stillMu.Lock()
	defer x.stillMu.Unlock()
	return x.still != nil
}

// stand notes that tasks stand still, or that they run.
func (x *Box) stand(still bool) {
	x.stillMu.Lock()
	defer x.stillMu.Unlock()
	switch {
	case still && x.still == nil:
		x.still = make(chan struct{})
	case !still && x.still != nil:
		close(x.still)
		x.still = nil
	}
}

// stop stops all tasks inside.
func (x *Box) stop(ctx context.Context) error {
	x.stand(true)
	err := x.backend.runsc(ctx, x.dir, "pause", containerID)
	if err != nil {
		x.stand(false)
	}
	return err
}

// goOn lets all tasks inside run.
func (x *Box) goOn(ctx context.Context) error {
	err := x.backend.runsc(ctx, x.dir, "resume", containerID)
	if err == nil {
		x.stand(false)
	}
	return err
}

// Pause stops all tasks inside, and then gVisor itself.
func (x *Box) Pause(ctx context.Context) error {
	return x.change(ctx, "The sandbox could not be paused.", func(ctx context.Context) error {
		if err := x.settle(ctx); err != nil {
			return err
		}
		if !x.rec.Paused {
			if err := x.moving(true, func() error { return x.stop(ctx) }); err != nil {
				return err
			}
		}
		return halt(ctx, x.rec.Process)
	})
}

// Resume lets them go on.
func (x *Box) Resume(ctx context.Context) error {
	return x.change(ctx, "The sandbox could not be resumed.", func(ctx context.Context) error {
		if err := errors.Join(x.settle(ctx), proceed(x.rec.Process)); err != nil || !x.rec.Paused {
			return err
		}
		return x.moving(false, func() error { return x.goOn(ctx) })
	})
}

// moving notes on the disk, while f runs, that tasks may run or stand still whatever
// the record says; paused is what holds afterwards. If f fails or the server dies
// meanwhile, the note stays for settle.
func (x *Box) moving(paused bool, f func() error) error {
	x.rec.Moving = true
	if err := x.dir.save(x.rec); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	x.rec.Paused, x.rec.Moving = paused, false
	return x.dir.save(x.rec)
}

// settle brings tasks into the state that the record says after something that
// stopped them or let them go on was broken off.
func (x *Box) settle(ctx context.Context) error {
	if !x.rec.Moving {
		return nil
	}
	if err := proceed(x.rec.Process); err != nil {
		return err
	}
	now, err := x.backend.status(ctx, x.dir)
	if err != nil {
		return err
	}
	return x.moving(x.rec.Paused, func() error {
		switch {
		case now == statusPaused && !x.rec.Paused:
			return x.goOn(ctx)
		case now != statusPaused && x.rec.Paused:
			return x.stop(ctx)
		}
		x.stand(x.rec.Paused)
		return nil
	})
}

func (x *Box) change(ctx context.Context, public string, f func(context.Context) error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.isDead() {
		return hostbox.Gone(nil)
	}
	ctx, cancel := context.WithTimeout(ctx, pauseWait)
	defer cancel()
	if err := f(ctx); err != nil {
		if !x.rec.Process.Alive() {
			return hostbox.Gone(err)
		}
		return hostbox.AsFault(err, public)
	}
	return nil
}

// Usage says what the box takes, gVisor's own use included.
func (x *Box) Usage(ctx context.Context) (sandbox.Usage, error) {
	if _, err := os.Lstat(string(x.dir)); errors.Is(err, fs.ErrNotExist) {
		return sandbox.Unknown(), fault.New(fault.NotFound, "sandbox_not_found", "The sandbox's files were removed.")
	}
	group := x.rec.Group.Usage()
	u := sandbox.Unknown() // the host's threads are not the processes inside
	u.CPU, u.MemoryBytes, u.OOMKills = group.CPU, group.MemoryBytes, group.OOMKills
	x.measureDisk(ctx, &u)
	return u, nil
}
