// Package boxtest is a sandbox backend for tests of what stands above backends.
// It runs the real daemon in the test's own process, over a real unix socket,
// without isolation; freezing does nothing, so that a test sees who respects a
// pause and not who is stopped by it.
package boxtest

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/treecopy"
	"parley/internal/sandboxd"
)

// Backend makes boxes below a directory, which must have a short path: unix
// sockets live in it.
type Backend struct {
	dir, name string
	mu        sync.Mutex
	fail      error
	hold      <-chan struct{}
	boxes     map[string]*box
	usage     map[string]sandbox.Usage // what a test has set, by box
}

var _ sandbox.Backend = (*Backend)(nil)

// New returns a backend without boxes, called "bench".
func New(dir string) *Backend { return NewNamed(dir, "bench") }

// NewNamed returns a backend of another name: an installation may have several.
// Each needs a directory of its own.
func NewNamed(dir, name string) *Backend {
	return &Backend{dir: dir, name: name, boxes: map[string]*box{}, usage: map[string]sandbox.Usage{}}
}

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

// Remove takes a box away behind the backend's back, files and all.
func (b *Backend) Remove(id string) {
	b.mu.Lock()
	x := b.boxes[id]
	delete(b.boxes, id)
	delete(b.usage, id)
	b.mu.Unlock()
	if x != nil {
		x.kill()
		<-x.ended
	}
	_ = os.RemoveAll(filepath.Join(b.dir, id))
}

// SetUsage is what Usage says of a box from now on. Nothing is known until then.
func (b *Backend) SetUsage(id string, u sandbox.Usage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.usage[id] = u
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
func (b *Backend) Name() string { return b.name }

// Caps implements sandbox.Backend.
func (b *Backend) Caps() sandbox.Caps { return sandbox.Caps{Pause: true, Snapshot: true} }

// Close implements sandbox.Backend.
func (b *Backend) Close() error { return nil }

// List implements sandbox.Backend.
func (b *Backend) List(context.Context) ([]sandbox.Handle, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []sandbox.Handle
	for id := range b.boxes {
		all = append(all, b.handle(id))
	}
	return all, nil
}

// version is what handles of this backend must have.
const version = 1

func (b *Backend) handle(id string) sandbox.Handle {
	return sandbox.Handle{Backend: b.name, ID: id, Version: version}
}

// check refuses handles that this backend did not give out.
func (b *Backend) check(h sandbox.Handle) error {
	if h.Backend != b.name || h.Version != version {
		return fault.New(fault.Invalid, "sandbox_handle", "The handle is not of this backend.")
	}
	return nil
}

// Create implements sandbox.Backend.
func (b *Backend) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
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
	if spec.From != nil {
		if err := b.copyOf(ctx, *spec.From, spec.ID); err != nil {
			return nil, err
		}
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
	if err := b.check(h); err != nil {
		return nil, err
	}
	x := b.find(h.ID)
	if x == nil {
		return nil, noBox()
	}
	if x.ctx.Err() != nil {
		return nil, fault.New(fault.Gone, "dead_box", "The box is dead.")
	}
	return &view{x, b}, nil
}

// Restart implements sandbox.Backend.
func (b *Backend) Restart(_ context.Context, h sandbox.Handle) (sandbox.Box, error) {
	if err := b.check(h); err != nil {
		return nil, err
	}
	if b.find(h.ID) == nil {
		return nil, noBox()
	}
	return b.boot(h.ID)
}

// Destroy implements sandbox.Backend.
func (b *Backend) Destroy(_ context.Context, h sandbox.Handle) error {
	if err := b.check(h); err != nil {
		return err
	}
	b.Remove(h.ID)
	return nil
}

type view struct {
	*box
	b *Backend
}

func (v *view) Handle() sandbox.Handle { return v.b.handle(v.id) }
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
	v.b.mu.Lock()
	defer v.b.mu.Unlock()
	if v.b.boxes[v.id] == nil {
		return sandbox.Unknown(), noBox()
	}
	if u, set := v.b.usage[v.id]; set {
		return u, nil
	}
	return sandbox.Unknown(), nil
}

func noBox() error { return fault.New(fault.NotFound, "no_box", "There is no such box.") }

// snapshotsDir lies beside the boxes: no id starts with a dot.
const snapshotsDir = ".snapshots"

// snapshotID are the ids of snapshots.
var snapshotID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// kept is where a snapshot lies.
func (b *Backend) kept(s sandbox.Snapshot) (string, error) {
	if s.Backend != b.name || !snapshotID.MatchString(s.ID) {
		return "", fault.New(fault.Invalid, "sandbox_snapshot", "The snapshot is not of this backend.")
	}
	return filepath.Join(b.dir, snapshotsDir, s.ID), nil
}

// copyOf makes the files of a box from a snapshot.
func (b *Backend) copyOf(ctx context.Context, s sandbox.Snapshot, id string) error {
	from, err := b.kept(s)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.NotFound, "no_snapshot", "There is no such snapshot.")
	}
	return treecopy.Copy(ctx, from, filepath.Join(b.dir, id))
}

// Snapshot implements sandbox.Backend: it copies the working directory and the
// home directory.
func (b *Backend) Snapshot(ctx context.Context, h sandbox.Handle, id string) (sandbox.Snapshot, error) {
	s := sandbox.Snapshot{Backend: b.name, ID: id}
	to, err := b.kept(s)
	if err != nil {
		return sandbox.Snapshot{}, err
	}
	if err := b.check(h); err != nil {
		return sandbox.Snapshot{}, err
	}
	if b.find(h.ID) == nil {
		return sandbox.Snapshot{}, noBox()
	}
	if _, err := os.Lstat(to); err == nil {
		return sandbox.Snapshot{}, fault.New(fault.Conflict, "snapshot_exists", "There is a snapshot of this id.")
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return sandbox.Snapshot{}, err
	}
	return s, treecopy.Copy(ctx, filepath.Join(b.dir, h.ID), to)
}

// DropSnapshot implements sandbox.Backend.
func (b *Backend) DropSnapshot(_ context.Context, s sandbox.Snapshot) error {
	dir, err := b.kept(s)
	if err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// Snapshots implements sandbox.Backend.
func (b *Backend) Snapshots(context.Context) ([]sandbox.Snapshot, error) {
	entries, err := os.ReadDir(filepath.Join(b.dir, snapshotsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []sandbox.Snapshot
	for _, entry := range entries {
		all = append(all, sandbox.Snapshot{Backend: b.name, ID: entry.Name()})
	}
	return all, nil
}
