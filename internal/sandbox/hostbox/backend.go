package hostbox

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"parley/internal/fault"
	"parley/internal/sandbox"
)

// handleVersion is raised when handles of older servers cannot be read any more.
const handleVersion = 1

// Driver is what distinguishes one backend of this machine from another.
type Driver interface {
	Name() string
	Caps() sandbox.Caps
	// Check completes and validates a spec. Errors are Invalid.
	Check(spec *sandbox.Spec) error
	// Prepare makes the files of a new box in its directory; with spec.From some are
	// there already.
	Prepare(ctx context.Context, d *Dir, spec sandbox.Spec) error
	// Files are the writable files in the directory of a box or a snapshot.
	Files(d *Dir) Files
	// Start starts the box's first process over its files, saves its state before
	// it lets the process go, and returns when sandboxd answers. On error it may
	// leave a process; the state names it.
	Start(ctx context.Context, d *Dir, spec sandbox.Spec) (State, error)
	// Attach connects a running box to its network. The closer may be nil.
	Attach(ctx context.Context, spec sandbox.Spec, st State) (io.Closer, error)
	// Kill ends the box's processes; d may be half-made. It returns when they are
	// dead, and removes what is kept outside of d.
	Kill(ctx context.Context, d *Dir) error
	// WorkingDir is the working directory as programs inside name it.
	WorkingDir(d *Dir, spec sandbox.Spec) string
	Close() error
}

// Backend is a sandbox.Backend over a Driver.
type Backend struct {
	driver Driver
	root   *Root
	log    *slog.Logger
	wg     sync.WaitGroup
	turns  Turns // operations on boxes and snapshots

	mu    sync.Mutex
	boxes map[string]*Box // attached and not known dead
}

var _ sandbox.Backend = (*Backend)(nil)

// New returns a backend whose boxes live below root.
func New(driver Driver, root *Root, log *slog.Logger) *Backend {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if err := root.sweepSnapshots(); err != nil {
		log.Warn("half-made snapshots could not be removed", "error", err)
	}
	return &Backend{driver: driver, root: root, log: log, boxes: map[string]*Box{}}
}

// Name returns the backend's name.
func (b *Backend) Name() string { return b.driver.Name() }

// Caps says what holds on this machine.
func (b *Backend) Caps() sandbox.Caps { return b.driver.Caps() }

// Create makes a box and returns when its sandboxd answers.
func (b *Backend) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	if !ValidID(spec.ID) {
		return nil, BadID()
	}
	if err := b.driver.Check(&spec); err != nil {
		return nil, err
	}
	if err := refuse(b.driver.Name(), b.driver.Caps(), spec); err != nil {
		return nil, err
	}
	if spec.From != nil {
		if err := b.ownSnapshot(*spec.From); err != nil {
			return nil, err
		}
	}
	if err := b.root.room(); err != nil {
		return nil, AsFault(err, "The disk of the sandboxes cannot be looked at.")
	}
	unlock, err := b.turns.Take(ctx, spec.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	d, err := b.root.create(spec)
	if fault.Is(err, fault.Conflict) {
		return nil, err
	}
	box, err := b.create(ctx, d, spec, err)
	if err != nil {
		return nil, errors.Join(AsFault(err, "The sandbox could not be created."), b.erase(d))
	}
	return box, nil
}

func (b *Backend) create(ctx context.Context, d *Dir, spec sandbox.Spec, err error) (*Box, error) {
	if err == nil && spec.From != nil {
		err = b.restore(ctx, d, *spec.From)
	}
	if err == nil {
		err = b.driver.Prepare(ctx, d, spec)
	}
	if err != nil {
		return nil, err
	}
	return b.start(ctx, d, spec)
}

// start starts the processes and attaches to them.
func (b *Backend) start(ctx context.Context, d *Dir, spec sandbox.Spec) (*Box, error) {
	st, err := b.driver.Start(ctx, d, spec)
	if err != nil {
		return nil, err
	}
	closer, err := b.driver.Attach(ctx, spec, st)
	if err != nil {
		return nil, err
	}
	return b.attach(d, spec, st, closer)
}

// Adopt attaches to a box that runs or is frozen.
func (b *Backend) Adopt(ctx context.Context, h sandbox.Handle) (sandbox.Box, error) {
	d, unlock, err := b.find(ctx, h)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if box := b.attached(d.id); box != nil {
		return box, nil
	}
	spec, st, err := b.running(d)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(b.driver.Files(d).Recover(ctx), (&Box{dir: d, state: st}).goOnLocked()); err != nil {
		return nil, AsFault(err, "The sandbox does not go on after a copy that was cut off.")
	}
	if st, err = d.State(); err != nil {
		return nil, Gone(err)
	}
	conn, err := d.dial(ctx)
	if err != nil {
		return nil, Gone(err)
	}
	_ = conn.Close()
	closer, err := b.driver.Attach(ctx, spec, st)
	if err != nil { // its files and commands are worth more than its network
		b.log.WarnContext(ctx, "adopted sandbox has no network", "sandbox", d.id, "error", err)
	}
	return b.attach(d, spec, st, closer)
}

// running reads the record of a box that must be alive.
func (b *Backend) running(d *Dir) (sandbox.Spec, State, error) {
	spec, err := d.Spec()
	if err != nil {
		return spec, State{}, Gone(err)
	}
	st, err := d.State()
	if err != nil {
		return spec, st, Gone(err)
	}
	if !st.Process.Alive() {
		return spec, st, Gone(nil)
	}
	return spec, st, nil
}

// Restart starts the processes of a dead box again over its kept files. Conflict
// if they run.
func (b *Backend) Restart(ctx context.Context, h sandbox.Handle) (sandbox.Box, error) {
	d, unlock, err := b.find(ctx, h)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if _, _, err := b.running(d); err == nil {
		return nil, fault.New(fault.Conflict, "sandbox_running", "The sandbox runs already.")
	}
	spec, err := d.Spec()
	if err != nil {
		return nil, fault.Wrap(err, fault.NotFound, "sandbox_not_found", "Nothing usable is left of the sandbox.")
	}
	b.detach(d.id)
	if err := b.kill(ctx, d); err != nil { // leftovers, such as its control groups
		return nil, AsFault(err, "What is left of the sandbox could not be cleared away.")
	}
	box, err := b.start(ctx, d, spec)
	if err != nil {
		err = AsFault(err, "The sandbox could not be started again.")
		return nil, errors.Join(err, b.driver.Kill(context.WithoutCancel(ctx), d))
	}
	return box, nil
}

// Destroy kills everything inside and removes every trace. Idempotent.
func (b *Backend) Destroy(ctx context.Context, h sandbox.Handle) error {
	d, unlock, err := b.find(ctx, h)
	if fault.Is(err, fault.NotFound) {
		if box := b.attached(h.ID); box != nil {
			return AsFault(box.end(ctx), "The sandbox's processes could not be ended.")
		}
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	return b.erase(d)
}

// erase removes a box, half-made or whole. It is not cancelled half-way.
func (b *Backend) erase(d *Dir) error {
	ctx, cancel := context.WithTimeout(context.Background(), eraseWait)
	defer cancel()
	if err := b.kill(ctx, d); err != nil {
		return AsFault(err, "The sandbox's processes could not be ended.")
	}
	b.detach(d.id)
	if err := d.remove(); err != nil {
		return AsFault(err, "The sandbox's files could not be removed.")
	}
	return nil
}

// kill ends the processes of a box. None waits for frozen files then: it could not
// be killed.
func (b *Backend) kill(ctx context.Context, d *Dir) error {
	rerr := errors.Join(b.driver.Files(d).Recover(ctx), d.forget(stillFile))
	if err := b.driver.Kill(ctx, d); err != nil {
		return errors.Join(err, rerr)
	}
	return nil
}

// List returns every box below the directory, running or not.
func (b *Backend) List(context.Context) ([]sandbox.Handle, error) {
	ids, err := b.root.IDs()
	if err != nil {
		return nil, AsFault(err, "The sandboxes could not be listed.")
	}
	handles := make([]sandbox.Handle, len(ids))
	for i, id := range ids {
		handles[i] = b.handle(id)
	}
	return handles, nil
}

// Close detaches from all boxes; they keep running.
func (b *Backend) Close() error {
	b.turns.Close() // before the look at what is attached: who attaches later sees it
	b.mu.Lock()
	ids := slices.Collect(maps.Keys(b.boxes))
	b.mu.Unlock()
	var group errgroup.Group
	for _, id := range ids {
		group.Go(func() error { b.detach(id); return nil })
	}
	err := group.Wait()
	b.wg.Wait()
	return errors.Join(err, b.driver.Close())
}

func (b *Backend) handle(id string) sandbox.Handle {
	return sandbox.Handle{Backend: b.driver.Name(), ID: id, Version: handleVersion}
}

// find locks the id of a handle and returns its directory.
func (b *Backend) find(ctx context.Context, h sandbox.Handle) (*Dir, func(), error) {
	if h.Backend != b.driver.Name() || h.Version != handleVersion {
		return nil, nil, fault.New(fault.Invalid, "sandbox_handle", "The handle is not of this backend.")
	}
	if !ValidID(h.ID) {
		return nil, nil, BadID()
	}
	unlock, err := b.turns.Take(ctx, h.ID)
	if err != nil {
		return nil, nil, err
	}
	d, err := b.root.lookup(h.ID)
	if err != nil {
		unlock()
		return nil, nil, AsFault(err, "The sandbox's files cannot be read.")
	}
	return d, unlock, nil
}
