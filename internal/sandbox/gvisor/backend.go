package gvisor

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/diskimage"
	"parley/internal/sandbox/hostbox"
)

// handleVersion is raised when handles of older servers cannot be read any more.
const handleVersion = 1

// Bounds of waiting.
const (
	startWait = 30 * time.Second
	eraseWait = 20 * time.Second
	killPoll  = 2 * time.Millisecond
)

// Create makes a box and returns when its sandboxd answers.
func (b *Backend) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	if !hostbox.ValidID(spec.ID) {
		return nil, hostbox.BadID()
	}
	if err := b.check(&spec); err != nil {
		return nil, err
	}
	unlock, err := b.turns.Take(ctx, spec.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	d := b.box(spec.ID)
	err = os.Mkdir(string(d), 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil, fault.New(fault.Conflict, "sandbox_exists", "A sandbox with this id exists already.")
	}
	var box *Box
	if err == nil {
		box, err = b.create(ctx, d, spec)
	}
	if err != nil {
		return nil, errors.Join(hostbox.AsFault(err, "The sandbox could not be created."), b.erase(d))
	}
	return box, nil
}

func (b *Backend) create(ctx context.Context, d dir, spec sandbox.Spec) (*Box, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if spec.From != nil {
		return b.fork(ctx, d, spec)
	}
	g, err := b.newGround(ctx, spec)
	if err != nil {
		return nil, err
	}
	bytes, inodes := hostbox.DiskLimits(spec.Limits)
	rec := record{Spec: spec, Ground: g}
	if err := errors.Join(d.save(rec), b.disks.Create(ctx, d.path(diskFile), diskimage.Size{Bytes: bytes, Inodes: inodes})); err != nil {
		return nil, err
	}
	return b.start(ctx, d, rec, "")
}

// Adopt attaches to a box that runs or is frozen.
func (b *Backend) Adopt(ctx context.Context, h sandbox.Handle) (sandbox.Box, error) {
	d, unlock, err := b.find(ctx, h)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if box := b.attached(h.ID); box != nil {
		return box, nil
	}
	var rec record
	if err := d.load(&rec); err != nil || !rec.Process.Alive() {
		return nil, hostbox.Gone(err)
	}
	if err := b.disks.Recover(ctx, d.path(diskFile)); err != nil {
		return nil, hostbox.AsFault(err, "The sandbox's files cannot be used.")
	}
	if rec, err = b.settled(ctx, d, rec); err != nil {
		return nil, hostbox.AsFault(err, "The sandbox is in no known state.")
	}
	network, err := b.connect(ctx, rec)
	if err != nil { // its files and commands are worth more than its network
		b.options.Logger.WarnContext(ctx, "adopted sandbox has no network", "sandbox", h.ID, "error", err)
	}
	return b.attach(d, rec, network)
}

// settled makes of a box what its record says, whatever its former server was about
// to do.
func (b *Backend) settled(ctx context.Context, d dir, rec record) (record, error) {
	x := &Box{backend: b, dir: d, rec: rec}
	ctx, cancel := context.WithTimeout(ctx, pauseWait)
	defer cancel()
	err := x.settle(ctx)
	if err == nil && x.rec.Paused {
		err = halt(ctx, x.rec.Process)
	}
	return x.rec, err
}

// Restart starts the processes of a dead box again over its kept files.
func (b *Backend) Restart(ctx context.Context, h sandbox.Handle) (sandbox.Box, error) {
	d, unlock, err := b.find(ctx, h)
	if err != nil {
		return nil, err
	}
	defer unlock()
	var rec record
	if err := d.load(&rec); err != nil {
		return nil, fault.Wrap(err, fault.NotFound, "sandbox_not_found", "Nothing usable is left of the sandbox.")
	}
	if rec.Process.Alive() {
		return nil, fault.New(fault.Conflict, "sandbox_running", "The sandbox runs already.")
	}
	b.detach(h.ID)
	if err := b.kill(ctx, d); err != nil {
		return nil, hostbox.AsFault(err, "What is left of the sandbox could not be cleared away.")
	}
	rec.Group, rec.Paused, rec.Moving, rec.Ground.Program = nil, false, false, b.program
	box, err := b.start(ctx, d, rec, "")
	if err != nil {
		return nil, errors.Join(hostbox.AsFault(err, "The sandbox could not be started again."), b.kill(context.WithoutCancel(ctx), d))
	}
	return box, nil
}

// Destroy kills everything inside and removes every trace. Idempotent.
func (b *Backend) Destroy(ctx context.Context, h sandbox.Handle) error {
	d, unlock, err := b.find(ctx, h)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	return b.erase(d)
}

// erase removes a box, half-made or whole. It is not cancelled half-way.
func (b *Backend) erase(d dir) error {
	ctx, cancel := context.WithTimeout(context.Background(), eraseWait)
	defer cancel()
	if err := b.kill(ctx, d); err != nil {
		return hostbox.AsFault(err, "The sandbox's processes could not be ended.")
	}
	b.detach(d.id())
	if err := os.RemoveAll(string(d)); err != nil {
		return hostbox.AsFault(err, "The sandbox's files could not be removed.")
	}
	return nil
}

// kill ends the processes of a box, half-made or whole, and returns when they are
// dead. Its mounts and its network end with them.
func (b *Backend) kill(ctx context.Context, d dir) error {
	var rec record
	if err := d.load(&rec); err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.options.Logger.WarnContext(ctx, "the record of a sandbox cannot be read", "sandbox", d.id(), "error", err)
	}
	rerr := b.disks.Recover(ctx, d.path(diskFile)) // who waits for a frozen disk cannot die
	group := rec.Group
	if group == nil {
		group = b.groups.Find(d.groupName())
	}
	if group != nil {
		if err := killGroup(ctx, group.Kill, group.Processes); err != nil {
			return errors.Join(err, rerr)
		}
	}
	for rec.Process.Alive() {
		if group == nil {
			_ = unix.Kill(rec.Process.PID, unix.SIGKILL)
		}
		if err := hostbox.Sleep(ctx, killPoll); err != nil {
			return errors.Join(err, rerr)
		}
	}
	if group != nil {
		if err := group.Remove(ctx); err != nil {
			return err
		}
	}
	return os.RemoveAll(d.path(stateDir)) // runsc takes what is there for a live container
}

// killGroup kills by the group, or one by one where that is not possible.
func killGroup(ctx context.Context, kill func() (bool, error), processes func() []int) error {
	done, err := kill()
	if done || err != nil {
		return err
	}
	for {
		pids := processes()
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if err := hostbox.Sleep(ctx, killPoll); err != nil {
			return err
		}
	}
}

// List returns every box below the directory, running or not.
func (b *Backend) List(context.Context) ([]sandbox.Handle, error) {
	names, err := ids(b.path())
	if err != nil {
		return nil, hostbox.AsFault(err, "The sandboxes could not be listed.")
	}
	handles := make([]sandbox.Handle, len(names))
	for i, id := range names {
		handles[i] = handle(id)
	}
	return handles, nil
}

// Close detaches from all boxes; they keep running.
func (b *Backend) Close() error {
	b.turns.Close() // before the look at what is attached: who attaches later sees it
	b.mu.Lock()
	attached := slices.Collect(maps.Keys(b.boxes))
	b.mu.Unlock()
	b.cancel()
	var group errgroup.Group
	for _, id := range attached {
		group.Go(func() error { b.detach(id); return nil })
	}
	err := group.Wait()
	b.wg.Wait()
	return errors.Join(err, b.exe.Close())
}

func handle(id string) sandbox.Handle {
	return sandbox.Handle{Backend: Name, ID: id, Version: handleVersion}
}

// find locks the id of a handle and returns its directory.
func (b *Backend) find(ctx context.Context, h sandbox.Handle) (dir, func(), error) {
	if h.Backend != Name || h.Version != handleVersion {
		return "", nil, fault.New(fault.Invalid, "sandbox_handle", "The handle is not of this backend.")
	}
	if !hostbox.ValidID(h.ID) {
		return "", nil, hostbox.BadID()
	}
	unlock, err := b.turns.Take(ctx, h.ID)
	if err != nil {
		return "", nil, err
	}
	d := b.box(h.ID)
	info, err := os.Lstat(string(d))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		err = fault.New(fault.NotFound, "sandbox_not_found", "There is no sandbox with this id.")
	}
	if err != nil {
		unlock()
		return "", nil, hostbox.AsFault(err, "The sandbox's files cannot be read.")
	}
	return d, unlock, nil
}

// check completes and validates a spec.
func (b *Backend) check(spec *sandbox.Spec) error {
	if spec.Runtime != "" {
		return sandbox.Unsupported(Name, "choose a runtime: there is no container engine")
	}
	if spec.Image != "" && b.options.Images == nil {
		return sandbox.Unsupported(Name, "start from container images")
	}
	if spec.From != nil && (spec.From.Backend != Name || !hostbox.ValidID(spec.From.ID)) {
		return fault.New(fault.Invalid, "sandbox_snapshot", "The snapshot is not of this backend.")
	}
	if err := hostbox.CheckSpec(spec); err != nil {
		return err
	}
	if err := sandbox.CheckLimits(Name, spec.Limits, b.limits()); err != nil {
		return err
	}
	for _, m := range spec.Mounts {
		if err := hostbox.CheckSource(m.Source, append(slices.Clone(b.options.Hidden), b.options.Dir), b.options.Homes); err != nil {
			return err
		}
	}
	return nil
}
