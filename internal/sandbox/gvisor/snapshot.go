package gvisor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sync/errgroup"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/hostbox"
)

// halfMade ends the names of snapshots that are not complete; no id has it.
const halfMade = ".new"

// kept is the record of a snapshot.
type kept struct {
	Spec   sandbox.Spec `json:"spec"` // of the box it was taken of
	Ground ground       `json:"ground"`
	Live   bool         `json:"live"` // there is an image of its processes
}

// Snapshot keeps what a box is now: its files and, if it lives, its processes.
// Programs inside stand still meanwhile; their connections, and those of the server
// to sandboxd, go on.
func (b *Backend) Snapshot(ctx context.Context, h sandbox.Handle, id string) (sandbox.Snapshot, error) {
	var none sandbox.Snapshot
	if !hostbox.ValidID(id) {
		return none, hostbox.BadID()
	}
	d, unlock, err := b.find(ctx, h)
	if err != nil {
		return none, err
	}
	defer unlock()
	unlockID, err := b.turns.Take(ctx, snapshotDir+"/"+id)
	if err != nil {
		return none, err
	}
	defer unlockID()
	to := b.snapshot(id)
	if _, err := os.Lstat(string(to)); err == nil {
		return none, fault.New(fault.Conflict, "snapshot_exists", "A snapshot with this id exists already.")
	}
	part := to + halfMade
	err = errors.Join(ctx.Err(), os.RemoveAll(string(part)), os.MkdirAll(string(part), 0o700))
	if err == nil {
		err = b.take(ctx, d, part)
	}
	if err == nil {
		err = os.Rename(string(part), string(to))
	}
	if err != nil {
		return none, errors.Join(hostbox.AsFault(err, "The sandbox could not be copied."), os.RemoveAll(string(part)))
	}
	return snapshotOf(id), nil
}

func snapshotOf(id string) sandbox.Snapshot { return sandbox.Snapshot{Backend: Name, ID: id} }

// take fills the directory of a snapshot.
func (b *Backend) take(ctx context.Context, d, part dir) error {
	var rec record
	if err := d.load(&rec); err != nil {
		return fault.Wrap(err, fault.Conflict, "sandbox_not_ready", "The sandbox has not started yet.").WithHint("Try again when it runs.")
	}
	k := kept{Spec: rec.Spec, Ground: rec.Ground}
	if !rec.Process.Alive() {
		return errors.Join(part.save(k), b.disks.Copy(ctx, d.path(diskFile), part.path(diskFile)))
	}
	x := b.attached(d.id())
	if x == nil { // nobody has it: nobody pauses it either
		x = &Box{backend: b, dir: d, rec: rec}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	k.Live = true
	if err := part.save(k); err != nil {
		return err
	}
	return x.whileStill(ctx, func() error {
		// Side by side: what programs wrote is on the host's side already, and nobody
		// writes now.
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error {
			return b.runsc(ctx, d, "checkpoint", "--leave-running", "--compression=none", "--image-path="+part.path(imageDir), containerID)
		})
		group.Go(func() error { return b.disks.Copy(ctx, d.path(diskFile), part.path(diskFile)) })
		return group.Wait()
	})
}

// whileStill calls f while no task inside runs but gVisor does, and puts the box
// back into the state it was in. Tasks of a paused box do not run meanwhile.
func (x *Box) whileStill(ctx context.Context, f func() error) error {
	if err := x.settle(ctx); err != nil {
		return err
	}
	if x.rec.Paused {
		if err := proceed(x.rec.Process); err != nil {
			return err
		}
		err := f()
		ctx, cancel := afterwards(ctx)
		defer cancel()
		return errors.Join(err, halt(ctx, x.rec.Process))
	}
	var taken error
	err := x.moving(false, func() error {
		if err := x.stop(ctx); err != nil {
			return err
		}
		taken = f()
		ctx, cancel := afterwards(ctx)
		defer cancel()
		return x.goOn(ctx)
	})
	return errors.Join(taken, err)
}

// afterwards bounds what must be done also if ctx has ended.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), pauseWait)
}

// DropSnapshot removes a snapshot; boxes made from it live on.
func (b *Backend) DropSnapshot(ctx context.Context, s sandbox.Snapshot) error {
	if s.Backend != Name || !hostbox.ValidID(s.ID) {
		return fault.New(fault.Invalid, "sandbox_snapshot", "The snapshot is not of this backend.")
	}
	unlock, err := b.turns.Take(ctx, snapshotDir+"/"+s.ID)
	if err != nil {
		return err
	}
	defer unlock()
	// Renamed first: a snapshot is complete or not there.
	from := b.snapshot(s.ID)
	if err := os.Rename(string(from), string(from+halfMade)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return hostbox.AsFault(err, "The snapshot could not be removed.")
	}
	return hostbox.AsFault(os.RemoveAll(string(from+halfMade)), "The snapshot's files could not be removed.")
}

// Snapshots lists all snapshots.
func (b *Backend) Snapshots(context.Context) ([]sandbox.Snapshot, error) {
	names, err := ids(b.path(snapshotDir))
	if err != nil {
		return nil, hostbox.AsFault(err, "The snapshots could not be listed.")
	}
	list := make([]sandbox.Snapshot, len(names))
	for i, id := range names {
		list[i] = snapshotOf(id)
	}
	return list, nil
}

// fork makes a box from a snapshot, which cannot be dropped meanwhile.
func (b *Backend) fork(ctx context.Context, d dir, spec sandbox.Spec) (*Box, error) {
	unlock, err := b.turns.Take(ctx, snapshotDir+"/"+spec.From.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	from := b.snapshot(spec.From.ID)
	var k kept
	err = from.load(&k)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "snapshot_not_found", "There is no snapshot with this id.")
	}
	if err != nil {
		return nil, err
	}
	if spec.Image != k.Spec.Image {
		return nil, fault.New(fault.Invalid, "sandbox_snapshot", "A sandbox made from a snapshot needs the container image that the snapshot was made on.")
	}
	rec := record{Spec: spec, Ground: k.Ground}
	image := ""
	if k.Live && sameShape(k.Spec, spec) {
		image = from.path(imageDir)
	} else {
		rec.Ground.Program = b.program
	}
	if err := errors.Join(d.save(rec), b.copyDisk(ctx, from, d, spec.Limits)); err != nil {
		return nil, err
	}
	return b.start(ctx, d, rec, image)
}

// sameShape reports whether the processes of a box would find in another what they
// had, and be bound by what binds that: mounts at the same places, and the limits
// that processes carry themselves. Where not, only the files are taken over.
func sameShape(a, b sandbox.Spec) bool {
	return a.Limits.OpenFiles == b.Limits.OpenFiles && processLimit(a.Limits) == processLimit(b.Limits) &&
		slices.EqualFunc(a.Mounts, b.Mounts, func(x, y sandbox.Mount) bool {
			return x.Target == y.Target && x.ReadOnly == y.ReadOnly
		})
}
