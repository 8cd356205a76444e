package hostbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"parley/internal/fault"
	"parley/internal/sandbox"
)

// SnapshotsDir lies beside the boxes in the directory of a Root. In it every
// directory is a complete snapshot; those whose names end with halfMade are not, and
// no id does.
const (
	SnapshotsDir = ".snapshots"
	halfMade     = ".new"
)

// stillFile in the directory of a box says that its programs stand still for a copy,
// and not because it is paused.
const stillFile = "still"

// snapshotFile describes a snapshot, in its directory.
const snapshotFile = "snapshot.json"

// snapshot is what is kept of a box beside its files.
type snapshot struct {
	Backend string `json:"backend"`
	Layer   string `json:"layer,omitempty"` // the generation of shared layers its files stand on
}

// Snapshot keeps the files of a box: its working directory, its home and what was
// changed in its file system. Directories of the host that are mounted in it are
// not part of that. Programs stand still meanwhile only if the files lie in
// directories of the host.
func (b *Backend) Snapshot(ctx context.Context, h sandbox.Handle, id string) (sandbox.Snapshot, error) {
	var none sandbox.Snapshot
	if !ValidID(id) {
		return none, BadID()
	}
	d, unlock, err := b.find(ctx, h)
	if err != nil {
		return none, err
	}
	defer unlock()
	unlockID, err := b.turns.Take(ctx, SnapshotsDir+"/"+id)
	if err != nil {
		return none, err
	}
	defer unlockID()
	if err := b.root.room(); err != nil {
		return none, err
	}
	if err := b.snapshot(ctx, d, id); err != nil {
		return none, AsFault(err, "The sandbox could not be copied.")
	}
	return b.snapshotOf(id), nil
}

func (b *Backend) snapshotOf(id string) sandbox.Snapshot {
	return sandbox.Snapshot{Backend: b.driver.Name(), ID: id}
}

// snapshot makes the directory of a snapshot under another name first.
func (b *Backend) snapshot(ctx context.Context, d *Dir, id string) error {
	to := b.root.snapshot(id)
	if _, err := os.Lstat(to.path); err == nil {
		return fault.New(fault.Conflict, "snapshot_exists", "A snapshot with this id exists already.")
	}
	part := &Dir{id: id, path: to.path + halfMade}
	if err := errors.Join(part.remove(), os.MkdirAll(part.path, 0o700)); err != nil {
		return err
	}
	err := b.copyInto(ctx, d, part)
	if err == nil {
		err = ctx.Err() // a small copy may be done before anybody looks
	}
	if err == nil {
		err = os.Rename(part.path, to.path)
	}
	if err != nil {
		return errors.Join(err, part.remove())
	}
	return nil
}

func (b *Backend) copyInto(ctx context.Context, d, part *Dir) error {
	st, err := d.State()
	if err != nil {
		return fault.Wrap(err, fault.Conflict, "sandbox_not_ready", "The sandbox has not started yet.").WithHint("Try again when it runs.")
	}
	if err := part.write(snapshotFile, snapshot{Backend: b.driver.Name(), Layer: st.Layer}); err != nil {
		return err
	}
	files := b.driver.Files(d)
	if files.Bounded() {
		return files.Copy(ctx, part)
	}
	return b.whileStill(ctx, d, st, func() error { return files.Copy(ctx, part) })
}

// whileStill calls f while no program of the box runs, and lets it go on as it was.
// A paused box stays paused, and one that is paused meanwhile is paused after it.
func (b *Backend) whileStill(ctx context.Context, d *Dir, st State, f func() error) error {
	if !st.Process.Alive() {
		return f()
	}
	x := b.attached(d.id)
	if x == nil { // nobody has it: nobody pauses it either
		x = &Box{backend: b, dir: d, state: st, turn: make(chan struct{}, 1)}
	}
	if err := x.take(ctx); err != nil {
		return err
	}
	defer x.give()
	if x.frozenLocked() {
		return f()
	}
	if err := os.WriteFile(d.Path(stillFile), nil, 0o600); err != nil {
		return err
	}
	still, cancel := context.WithTimeout(ctx, pauseWait)
	defer cancel()
	err := x.pauseLocked(still)
	if err == nil {
		err = f()
	}
	return errors.Join(err, x.goOnLocked())
}

// goOnLocked ends the standstill of whileStill, also of a server that was killed in
// it.
func (x *Box) goOnLocked() error {
	if _, err := os.Lstat(x.dir.Path(stillFile)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), pauseWait)
	defer cancel()
	resume := x.resumeLocked
	if !x.state.Group.CanFreeze() && !x.state.Paused { // killed before it was written who is stopped
		resume = func(context.Context) error { return continueTree(x.state.Process, nil) }
	}
	if err := resume(ctx); err != nil && x.state.Process.Alive() {
		return err
	}
	return os.Remove(x.dir.Path(stillFile))
}

// DropSnapshot removes a snapshot; boxes made from it live on.
func (b *Backend) DropSnapshot(ctx context.Context, s sandbox.Snapshot) error {
	if err := b.ownSnapshot(s); err != nil {
		return err
	}
	unlock, err := b.turns.Take(ctx, SnapshotsDir+"/"+s.ID)
	if err != nil {
		return err
	}
	defer unlock()
	// Renamed first: a snapshot is complete or not there.
	to := b.root.snapshot(s.ID)
	part := &Dir{id: s.ID, path: to.path + halfMade}
	if err := part.remove(); err != nil {
		return AsFault(err, "The snapshot's files could not be removed.")
	}
	if err := os.Rename(to.path, part.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return AsFault(err, "The snapshot could not be removed.")
	}
	return AsFault(part.remove(), "The snapshot's files could not be removed.")
}

// Snapshots lists all snapshots of the backend.
func (b *Backend) Snapshots(context.Context) ([]sandbox.Snapshot, error) {
	ids, err := b.root.snapshotIDs()
	if err != nil {
		return nil, AsFault(err, "The snapshots could not be listed.")
	}
	list := make([]sandbox.Snapshot, len(ids))
	for i, id := range ids {
		list[i] = b.snapshotOf(id)
	}
	return list, nil
}

// ownSnapshot refuses what is not this backend's.
func (b *Backend) ownSnapshot(s sandbox.Snapshot) error {
	if s.Backend != b.driver.Name() || !ValidID(s.ID) {
		return fault.New(fault.Invalid, "sandbox_snapshot", "The snapshot is not of this backend.")
	}
	return nil
}

// restore fills the directory of a new box with the files of a snapshot, which
// cannot be dropped meanwhile.
func (b *Backend) restore(ctx context.Context, d *Dir, s sandbox.Snapshot) error {
	unlock, err := b.turns.Take(ctx, SnapshotsDir+"/"+s.ID)
	if err != nil {
		return err
	}
	defer unlock()
	from := b.root.snapshot(s.ID)
	var known snapshot
	err = from.read(snapshotFile, &known)
	if errors.Is(err, fs.ErrNotExist) || err == nil && known.Backend != b.driver.Name() {
		return fault.New(fault.NotFound, "snapshot_not_found", "There is no snapshot with this id.")
	}
	if err != nil {
		return err
	}
	if err := b.driver.Files(from).Copy(ctx, d); err != nil {
		return err
	}
	return d.SaveState(State{Layer: known.Layer})
}

func (r *Root) snapshot(id string) *Dir {
	return &Dir{id: id, path: filepath.Join(r.path, SnapshotsDir, id)}
}

// snapshotIDs returns the ids of this backend's snapshots.
func (r *Root) snapshotIDs() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(r.path, SnapshotsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		if known, err := r.readSnapshot(e.Name()); err == nil && known.Backend == r.backend {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

func (r *Root) readSnapshot(id string) (known snapshot, err error) {
	if !ValidID(id) {
		return known, fs.ErrNotExist
	}
	err = r.snapshot(id).read(snapshotFile, &known)
	return known, err
}

// sweepSnapshots removes what servers that were killed left half-made. What another
// backend in the same directory has begun may be at work.
func (r *Root) sweepSnapshots() error {
	dir := filepath.Join(r.path, SnapshotsDir)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		part, known := &Dir{path: filepath.Join(dir, e.Name())}, snapshot{}
		if !strings.HasSuffix(e.Name(), halfMade) || part.read(snapshotFile, &known) == nil && known.Backend != r.backend {
			continue
		}
		err = errors.Join(err, part.remove())
	}
	return err
}
