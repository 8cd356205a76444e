// Package boxtest is a sandbox backend for tests of what stands above backends.
// It runs the real daemon in the test's own process, over a real unix socket,
// without isolation; freezing does nothing, so that a test sees who respects a
// pause and not who is stopped by it.
package boxtest

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandboxd"
)

// Backend makes boxes below a directory, which must have a short path: unix
// sockets live in it.
type Backend struct {
	dir   string
	mu    sync.Mutex
	fail  error
	hold  <-chan struct{}
	boxes map[string]*box
}

var _ sandbox.Backend = (*Backend)(nil)

// New returns a backend without boxes.
func New(dir string) *Backend { return &Backend{dir: dir, boxes: map[string]*box{}} }

// FailWith makes Create fail; nil makes it work again.
func (b *Backend) FailWith(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = err
}

// HoldCreate makes Create wait until the channel is closed.
func (b *Backend) HoldCreate(until <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hold = until
}

// Workspace is a box's working directory.
func (b *Backend) Workspace(id string) string { return filepath.Join(b.dir, id, "workspace") }

// Kill ends a box's daemon like a crash of the box.
func (b *Backend) Kill(id string) {
	x := b.find(id)
	x.kill()
	<-x.ended
}

type box struct {
	id    string
	sock  string
	ctx   context.Context
	kill  context.CancelFunc
	ended chan struct{}

	watched atomic.Bool // somebody waits for its end
}

// Name implements sandbox.Backend.
func (b *Backend) Name() string { return "bench" }

// Caps implements sandbox.Backend.
func (b *Backend) Caps() sandbox.Caps { return sandbox.Caps{Pause: true} }

// Close implements sandbox.Backend.
func (b *Backend) Close() error { return nil }

// List implements sandbox.Backend.
func (b *Backend) List(context.Context) ([]sandbox.Handle, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []sandbox.Handle
	for id := range b.boxes {
		all = append(all, handle(id))
	}
	return all, nil
}

// version is what handles of this backend must have.
const version = 1

func handle(id string) sandbox.Handle {
	return sandbox.Handle{Backend: "bench", ID: id, Version: version}
}

// check refuses handles that this backend did not give out.
func check(h sandbox.Handle) error {
	if h.Backend != "bench" || h.Version != version {
		return fault.New(fault.Invalid, "sandbox_handle", "The handle is not of this backend.")
	}
	return nil
}

// Create implements sandbox.Backend.
func (b *Backend) Create(_ context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	b.mu.Lock()
	fail, hold := b.fail, b.hold
	b.mu.Unlock()
	if hold != nil {
		<-hold
	}
	if fail != nil {
		return nil, fail
	}
	if b.find(spec.ID) != nil {
		return nil, fault.New(fault.Conflict, "sandbox_exists", "There is a box of this id.")
	}
	if err := os.MkdirAll(b.Workspace(spec.ID), 0o700); err != nil {
		return nil, err
	}
	return b.boot(spec.ID)
}

func (b *Backend) boot(id string) (sandbox.Box, error) {
	x := &box{id: id, sock: filepath.Join(b.dir, id, "s"), ended: make(chan struct{})}
	_ = os.Remove(x.sock)
	lis, err := net.Listen("unix", x.sock)
	if err != nil {
		return nil, err
	}
	x.ctx, x.kill = context.WithCancel(context.Background())
	home := filepath.Join(b.dir, id)
	go func() {
		defer close(x.ended)
		_ = sandboxd.Serve(x.ctx, lis, sandboxd.Options{WorkingDir: b.Workspace(id),
			Env: map[string]string{"PATH": os.Getenv("PATH"), "HOME": home}})
	}()
	b.mu.Lock()
	b.boxes[id] = x
	b.mu.Unlock()
	return &view{x, b}, nil
}

// AwaitAlive returns when a killed box was started again and is watched.
func (b *Backend) AwaitAlive(t testing.TB, id string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); b.find(id).ctx.Err() != nil || !b.find(id).watched.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("box %s was not started again", id)
		}
	}
}

func (b *Backend) find(id string) *box {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.boxes[id]
}

// Adopt implements sandbox.Backend.
func (b *Backend) Adopt(_ context.Context, h sandbox.Handle) (sandbox.Box, error) {
	if err := check(h); err != nil {
		return nil, err
	}
	x := b.find(h.ID)
	if x == nil {
		return nil, fault.New(fault.NotFound, "no_box", "There is no such box.")
	}
	if x.ctx.Err() != nil {
		return nil, fault.New(fault.Gone, "dead_box", "The box is dead.")
	}
	return &view{x, b}, nil
}

// Restart implements sandbox.Backend.
func (b *Backend) Restart(_ context.Context, h sandbox.Handle) (sandbox.Box, error) {
	if err := check(h); err != nil {
		return nil, err
	}
	return b.boot(h.ID)
}

// Destroy implements sandbox.Backend.
func (b *Backend) Destroy(_ context.Context, h sandbox.Handle) error {
	if err := check(h); err != nil {
		return err
	}
	if x := b.find(h.ID); x != nil {
		x.kill()
		<-x.ended
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.boxes, h.ID)
	return os.RemoveAll(filepath.Join(b.dir, h.ID))
}

type view struct {
	*box
	b *Backend
}

func (v *view) Handle() sandbox.Handle { return handle(v.id) }
func (v *view) WorkingDir() string     { return v.b.Workspace(v.id) }
func (v *view) Done() <-chan struct{}  { v.watched.Store(true); return v.ended }
func (v *view) Dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", v.sock)
}

func (v *view) Pause(context.Context) error  { return nil }
func (v *view) Resume(context.Context) error { return nil }

// Usage implements sandbox.Box.
func (v *view) Usage(context.Context) (sandbox.Usage, error) {
	if v.b.find(v.id) == nil {
		return sandbox.Unknown(), fault.New(fault.NotFound, "no_box", "There is no such box.")
	}
	return sandbox.Unknown(), nil
}

// Snapshot implements sandbox.Backend.
func (b *Backend) Snapshot(context.Context, sandbox.Handle, string) (sandbox.Snapshot, error) {
	return sandbox.Snapshot{}, sandbox.Unsupported("bench", "take snapshots")
}

// DropSnapshot implements sandbox.Backend.
func (b *Backend) DropSnapshot(context.Context, sandbox.Snapshot) error { return nil }

// Snapshots implements sandbox.Backend.
func (b *Backend) Snapshots(context.Context) ([]sandbox.Snapshot, error) { return nil, nil }
