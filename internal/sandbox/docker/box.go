package docker

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/hostbox"
)

// Box is a running (or paused) container.
type Box struct {
	backend *Backend
	spec    sandbox.Spec
	id      string // of the container
	ctx     context.Context
	leave   context.CancelFunc // lets go of the box
	left    chan struct{}      // closed when nothing of the server follows it any more
	dead    chan struct{}      // closed when the first process is dead
	linked  chan struct{}      // closed when the network is there, or will not be
	killed  atomic.Bool        // by us: it is dead when it is left
	meter   *meter
}

var _ sandbox.Box = (*Box)(nil)

// attach registers a live box and follows it. network is nil if the box has none
// or has yet to be asked for its device.
func (b *Backend) attach(spec sandbox.Spec, c container, network io.Closer) *Box {
	x := &Box{backend: b, spec: spec, id: c.ID, left: make(chan struct{}), dead: make(chan struct{}),
		linked: make(chan struct{}), meter: newMeter(b, spec, c)}
	x.ctx, x.leave = context.WithCancel(b.ctx) // ended already if the backend closes just now
	b.mu.Lock()
	b.boxes[spec.ID] = x
	b.wg.Add(1)
	b.mu.Unlock()
	go x.follow(network)
	return x
}

// follow ends what the server runs for the box when the box dies or is left.
func (x *Box) follow(network io.Closer) {
	defer x.backend.wg.Done()
	defer close(x.left)
	ctx, cancel := context.WithCancel(x.ctx)
	var link sync.WaitGroup
	link.Go(func() {
		if network == nil && x.backend.outbound(x.spec) {
			network = x.link(ctx)
		}
		close(x.linked)
	})
	if x.watch(ctx) || x.killed.Load() {
		close(x.dead)
		x.meter.last(x.backend.ctx)
	}
	cancel()
	link.Wait()
	if network != nil {
		_ = network.Close()
	}
	x.backend.forget(x)
}

// link connects an adopted box, which may be paused: then it takes until it is
// resumed. Its files and commands are worth more than its network.
func (x *Box) link(ctx context.Context) io.Closer {
	network, err := x.backend.connect(ctx, x.spec)
	if err == nil {
		return network
	}
	if ctx.Err() == nil {
		x.backend.options.Logger.WarnContext(ctx, "adopted sandbox has no network", "sandbox", x.spec.ID, "error", err)
	}
	return nil
}

// awaitNetwork waits a moment for the network of a box that runs.
func (x *Box) awaitNetwork(ctx context.Context) {
	const moment = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, moment)
	defer cancel()
	select {
	case <-x.linked:
	case <-ctx.Done():
	}
}

// watch returns true when the first process is dead, false when the box is left.
// An engine that breaks off is asked again, for as long as it takes.
func (x *Box) watch(ctx context.Context) bool {
	const longest = 2 * time.Second
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, longest) {
		err := x.backend.engine.wait(ctx, x.id)
		if ctx.Err() != nil {
			return false
		}
		if refused(err, 404) || x.ended(ctx) {
			return true
		}
		if err == nil {
			pause = 20 * time.Millisecond
		}
		if rest(ctx, pause) != nil {
			return false
		}
	}
}

// ended looks whether the first process is dead: at the container, and if the
// engine does not answer at its socket, which nobody else holds.
func (x *Box) ended(ctx context.Context) bool {
	c, err := x.backend.engine.inspect(ctx, x.id)
	if err == nil {
		return !c.State.Running
	}
	if refused(err, 404) {
		return true
	}
	return x.silent(ctx)
}

// silent reports whether nobody listens for the box any more.
func (x *Box) silent(ctx context.Context) bool {
	conn, err := x.backend.place(x.spec.ID).dial(ctx, serveSock)
	if err == nil {
		_ = conn.Close()
	}
	return err != nil && nobodyListens(err)
}

func (b *Backend) forget(x *Box) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.boxes[x.spec.ID] == x {
		delete(b.boxes, x.spec.ID)
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

// detach lets go of a box, if it is attached; its processes are left alone.
func (b *Backend) detach(id string) {
	b.mu.Lock()
	x := b.boxes[id]
	b.mu.Unlock()
	if x == nil {
		return
	}
	x.leave()
	<-x.left
}

// bury lets go of a box, if it is attached, whose container has been removed.
func (b *Backend) bury(id string) {
	b.mu.Lock()
	if x := b.boxes[id]; x != nil {
		x.killed.Store(true)
	}
	b.mu.Unlock()
	b.detach(id)
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
func (x *Box) Handle() sandbox.Handle { return x.backend.handle(x.spec.ID) }

// Done is closed when the first process is dead.
func (x *Box) Done() <-chan struct{} { return x.dead }

// Dial connects to the box's sandboxd. The engine has no part in it.
func (x *Box) Dial(ctx context.Context) (net.Conn, error) {
	if x.isDead() {
		return nil, hostbox.Gone(nil)
	}
	conn, err := x.backend.place(x.spec.ID).dial(ctx, serveSock)
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case nobodyListens(err):
		return nil, hostbox.Gone(err)
	}
	return nil, fault.Wrap(err, fault.Unavailable, "sandbox_unreachable", "The sandbox does not take connections.")
}

// Pause freezes all processes.
func (x *Box) Pause(ctx context.Context) error {
	return x.change(ctx, "The sandbox could not be paused.", true, x.backend.engine.pause)
}

// Resume thaws them.
func (x *Box) Resume(ctx context.Context) error {
	return x.change(ctx, "The sandbox could not be resumed.", false, x.backend.engine.unpause)
}

func (x *Box) change(ctx context.Context, public string, paused bool, ask func(context.Context, string) error) error {
	if x.isDead() {
		return hostbox.Gone(nil)
	}
	ctx, done, err := x.backend.begin(ctx, x.spec.ID)
	if err != nil {
		return err
	}
	defer done()
	for try := 1; ; try++ {
		again, err := x.tryChange(ctx, public, paused, ask)
		if !again || try == changeTries || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(changeWait):
		case <-ctx.Done():
		}
	}
}

// An engine may learn of a pause or its end late, and until then it refuses the
// opposite: it is asked changeTries times, changeWait apart.
const (
	changeTries = 10
	changeWait  = 50 * time.Millisecond
)

// tryChange asks the engine once. again says that the container runs and is not as it
// should be.
func (x *Box) tryChange(ctx context.Context, public string, paused bool, ask func(context.Context, string) error) (again bool, err error) {
	if err = ask(ctx, x.id); err == nil {
		return false, nil
	}
	if refused(err, 404) {
		return false, hostbox.Gone(err)
	}
	// It may be as it should be, or not run at all; engines say so in many ways.
	c, lookErr := x.backend.engine.inspect(ctx, x.id)
	switch {
	case refused(lookErr, 404) || lookErr == nil && !c.State.Running:
		return false, hostbox.Gone(err)
	case lookErr == nil && c.State.Paused == paused:
		return false, nil
	}
	return lookErr == nil, x.backend.engine.fault(err, public)
}
