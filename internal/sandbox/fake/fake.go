// Package fake is a sandbox backend in memory, for tests of what stands above
// backends: it starts at once, needs nothing of the machine and can be looked
// into. It has no processes and no files of the host: a shell interpreter with a
// handful of commands works on a file system in memory, and its boxes speak what
// sandboxtest.Exec speaks, not sandboxd.
package fake

import (
	"context"
	"net"
	"sync"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/hostbox"
)

// Name is the backend's name in handles.
const Name = "fake"

const handleVersion = 1

// Place is where boxes are: it survives the backends over it, as a machine
// survives a server.
type Place struct {
	mu        sync.Mutex
	machines  map[string]*machine
	snapshots map[string]*tree
}

// NewPlace returns a place without boxes.
func NewPlace() *Place {
	return &Place{machines: map[string]*machine{}, snapshots: map[string]*tree{}}
}

// Remove takes a box away behind the backend's back.
func (p *Place) Remove(id string) {
	p.mu.Lock()
	m := p.machines[id]
	delete(p.machines, id)
	p.mu.Unlock()
	if m != nil {
		m.end()
	}
}

// end kills what runs and returns when it is dead.
func (m *machine) end() {
	m.mu.Lock()
	r := m.run
	m.mu.Unlock()
	if r != nil {
		r.kill()
		<-r.done
	}
}

func (p *Place) find(id string) *machine {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.machines[id]
}

// Backend makes boxes in a place.
type Backend struct {
	place *Place

	mu     sync.Mutex
	closed bool
}

var _ sandbox.Backend = (*Backend)(nil)

// New returns a backend over a place.
func New(place *Place) *Backend { return &Backend{place: place} }

// Name returns the backend's name.
func (b *Backend) Name() string { return Name }

// Caps says what boxes in memory can do.
func (b *Backend) Caps() sandbox.Caps {
	return sandbox.Caps{Isolated: true, Pause: true, Snapshot: true,
		Limits: []string{sandbox.LimitProcesses, sandbox.LimitDisk, sandbox.LimitInodes},
		Guarantees: []sandbox.Guarantee{
			{Name: "isolation", Holds: true, Detail: "nothing inside is more than memory of the server"},
			{Name: "network_outbound", Detail: "there is no network"},
		}}
}

// Create makes a box.
func (b *Backend) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	if err := b.open(ctx); err != nil {
		return nil, err
	}
	if err := check(&spec); err != nil {
		return nil, err
	}
	b.place.mu.Lock()
	defer b.place.mu.Unlock()
	if b.place.machines[spec.ID] != nil {
		return nil, fault.New(fault.Conflict, "sandbox_exists", "A sandbox with this id exists already.")
	}
	files := newTree("/tmp", "/var/tmp", "/usr/local/bin", home)
	if spec.From != nil {
		kept := b.place.snapshots[spec.From.ID]
		if kept == nil {
			return nil, fault.New(fault.NotFound, "snapshot_not_found", "There is no snapshot with this id.")
		}
		files = kept.clone()
	}
	files.maxBytes, files.maxCount = 0, 0
	if err := files.mkdirAll(spec.WorkingDir, 0o755); err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "sandbox_spec", "The working directory cannot be made.")
	}
	files.maxBytes, files.maxCount = spec.Limits.DiskBytes, spec.Limits.Inodes
	m := newMachine(spec, files)
	b.place.machines[spec.ID] = m
	return &Box{place: b.place, machine: m, run: m.start()}, nil
}

// check completes a spec and refuses what Caps do not promise.
func check(spec *sandbox.Spec) error {
	if !hostbox.ValidID(spec.ID) {
		return badID()
	}
	if err := hostbox.CheckSpec(spec); err != nil {
		return err
	}
	l := spec.Limits
	for what, asked := range map[string]bool{
		"start from images": spec.Image != "", "run on runtimes of container engines": spec.Runtime != "",
		"show directories of the host": len(spec.Mounts) > 0,
		"follow a network policy":      spec.Network.Mode != "" && spec.Network.Mode != sandbox.NetworkOpen || spec.Network.Within != nil,
		"limit CPU time":               l.CPUs != 0, "limit memory": l.MemoryBytes != 0, "limit open files": l.OpenFiles != 0,
	} {
		if asked {
			return sandbox.Unsupported(Name, what)
		}
	}
	if spec.From != nil {
		return checkSnapshot(*spec.From)
	}
	return nil
}

func badID() error {
	return fault.New(fault.Invalid, "sandbox_id", "A sandbox id has 1 to 64 letters, digits, - or _.")
}

func checkSnapshot(s sandbox.Snapshot) error {
	if s.Backend != Name || !hostbox.ValidID(s.ID) {
		return fault.New(fault.Invalid, "sandbox_snapshot", "The snapshot is not of this backend.")
	}
	return nil
}

// open reports whether the backend still works.
func (b *Backend) open(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return fault.New(fault.Unavailable, "sandbox_closed", "The server is stopping.")
	}
	return ctx.Err()
}

// find returns the machine of a handle. NotFound if there is none.
func (b *Backend) find(ctx context.Context, h sandbox.Handle) (*machine, error) {
	if err := b.open(ctx); err != nil {
		return nil, err
	}
	if h.Backend != Name || h.Version != handleVersion || !hostbox.ValidID(h.ID) {
		return nil, fault.New(fault.Invalid, "sandbox_handle", "The handle is not of this backend.")
	}
	if m := b.place.find(h.ID); m != nil {
		return m, nil
	}
	return nil, fault.New(fault.NotFound, "sandbox_not_found", "There is no sandbox with this id.")
}

// Adopt attaches to a box that runs or is frozen.
func (b *Backend) Adopt(ctx context.Context, h sandbox.Handle) (sandbox.Box, error) {
	m, err := b.find(ctx, h)
	if err != nil {
		return nil, err
	}
	r := m.alive()
	if r == nil {
		return nil, gone()
	}
	return &Box{place: b.place, machine: m, run: r}, nil
}

// Restart starts a dead box again over its files.
func (b *Backend) Restart(ctx context.Context, h sandbox.Handle) (sandbox.Box, error) {
	m, err := b.find(ctx, h)
	if err != nil {
		return nil, err
	}
	if m.alive() != nil {
		return nil, fault.New(fault.Conflict, "sandbox_running", "The sandbox runs already.")
	}
	m.end()
	return &Box{place: b.place, machine: m, run: m.start()}, nil
}

// Destroy removes a box. Idempotent.
func (b *Backend) Destroy(ctx context.Context, h sandbox.Handle) error {
	_, err := b.find(ctx, h)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err == nil {
		b.place.Remove(h.ID)
	}
	return err
}

// List returns all boxes.
func (b *Backend) List(context.Context) ([]sandbox.Handle, error) {
	b.place.mu.Lock()
	defer b.place.mu.Unlock()
	var all []sandbox.Handle
	for id := range b.place.machines {
		all = append(all, handle(id))
	}
	return all, nil
}

func handle(id string) sandbox.Handle {
	return sandbox.Handle{Backend: Name, ID: id, Version: handleVersion}
}

// Snapshot copies a box's files.
func (b *Backend) Snapshot(ctx context.Context, h sandbox.Handle, id string) (sandbox.Snapshot, error) {
	kept := sandbox.Snapshot{Backend: Name, ID: id}
	if err := checkSnapshot(kept); err != nil {
		return sandbox.Snapshot{}, err
	}
	m, err := b.find(ctx, h)
	if err != nil {
		return sandbox.Snapshot{}, err
	}
	files := m.snapshot()
	b.place.mu.Lock()
	defer b.place.mu.Unlock()
	if b.place.snapshots[id] != nil {
		return sandbox.Snapshot{}, fault.New(fault.Conflict, "snapshot_exists", "A snapshot with this id exists already.")
	}
	b.place.snapshots[id] = files
	return kept, nil
}

// DropSnapshot forgets a snapshot. Idempotent.
func (b *Backend) DropSnapshot(_ context.Context, s sandbox.Snapshot) error {
	if err := checkSnapshot(s); err != nil {
		return err
	}
	b.place.mu.Lock()
	defer b.place.mu.Unlock()
	delete(b.place.snapshots, s.ID)
	return nil
}

// Snapshots lists all snapshots.
func (b *Backend) Snapshots(context.Context) ([]sandbox.Snapshot, error) {
	b.place.mu.Lock()
	defer b.place.mu.Unlock()
	var all []sandbox.Snapshot
	for id := range b.place.snapshots {
		all = append(all, sandbox.Snapshot{Backend: Name, ID: id})
	}
	return all, nil
}

// Close ends the backend; its boxes go on in their place.
func (b *Backend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}

// Box is one run of a box.
type Box struct {
	place   *Place
	machine *machine
	run     *run
}

var _ sandbox.Box = (*Box)(nil)

func gone() error {
	return fault.New(fault.Gone, "sandbox_gone", "The sandbox's processes are dead.")
}

// Handle finds the box again.
func (x *Box) Handle() sandbox.Handle { return handle(x.machine.spec.ID) }

// WorkingDir is the working directory inside.
func (x *Box) WorkingDir() string { return x.machine.spec.WorkingDir }

// Done is closed when nothing runs any more.
func (x *Box) Done() <-chan struct{} { return x.run.done }

// Dial connects to what sandboxtest.Exec talks to.
func (x *Box) Dial(ctx context.Context) (net.Conn, error) {
	if x.run.ctx.Err() != nil {
		return nil, gone()
	}
	ours, theirs := net.Pipe()
	if !x.run.conns.Give(ctx, theirs) {
		_ = ours.Close()
		_ = theirs.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, gone()
	}
	return ours, nil
}

// Pause freezes everything inside.
func (x *Box) Pause(context.Context) error { return x.freeze(true) }

// Resume thaws it.
func (x *Box) Resume(context.Context) error { return x.freeze(false) }

func (x *Box) freeze(frozen bool) error {
	if x.run.ctx.Err() != nil {
		return gone()
	}
	x.machine.freeze(frozen)
	return nil
}

// Usage says what the box takes.
func (x *Box) Usage(context.Context) (sandbox.Usage, error) {
	if x.place.find(x.machine.spec.ID) != x.machine {
		return sandbox.Unknown(), fault.New(fault.NotFound, "sandbox_not_found", "The sandbox was removed.")
	}
	return x.machine.usage(), nil
}
