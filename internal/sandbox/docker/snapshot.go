package docker

import (
	"context"
	"errors"
	"slices"
	"strings"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/hostbox"
)

// repository is the name that images of snapshots have in common.
func (b *Backend) repository() string { return "parley-" + b.options.Installation + "-snapshot" }

// Tags are one of these and an id, which has no dot.
const (
	snapshotTag = "s." // a snapshot
	baseTag     = "b." // what the box of that id was made from
)

func (b *Backend) snapshotRef(id string) string { return b.repository() + ":" + snapshotTag + id }

// Snapshot keeps the files of a box as an image. What is mounted is not part of
// it, and neither are the volumes that an image declares. A box that runs stands
// still meanwhile.
func (b *Backend) Snapshot(ctx context.Context, h sandbox.Handle, id string) (sandbox.Snapshot, error) {
	if !hostbox.ValidID(id) {
		return sandbox.Snapshot{}, hostbox.BadID()
	}
	ctx, done, err := b.find(ctx, h)
	if err != nil {
		return sandbox.Snapshot{}, err
	}
	defer done()
	if _, err := b.look(ctx, h.ID); err != nil {
		return sandbox.Snapshot{}, err
	}
	ref := b.snapshotRef(id)
	if _, err := b.engine.image(ctx, ref); err == nil {
		return sandbox.Snapshot{}, fault.New(fault.Conflict, "snapshot_exists", "A snapshot with this id exists already.")
	} else if !refused(err, 404) {
		return sandbox.Snapshot{}, b.engine.fault(err, "The snapshot could not be taken.")
	}
	if err := b.commit(ctx, h.ID, id); err != nil {
		clear, cancel := context.WithTimeout(context.Background(), b.waits.erase)
		defer cancel()
		return sandbox.Snapshot{}, errors.Join(b.engine.fault(err, "The snapshot could not be taken."), b.drop(clear, id))
	}
	return sandbox.Snapshot{Backend: Name, ID: id}, nil
}

func (b *Backend) commit(ctx context.Context, box, id string) error {
	r, err := b.place(box).load()
	if err != nil {
		return err
	}
	// The image's user, not ours, is that of the boxes to come.
	changes := []string{"LABEL " + labelSnapshot + "=" + id, "USER " + userOr(r.User)}
	ctx, cancel := context.WithTimeout(ctx, b.waits.commit)
	defer cancel()
	return b.engine.commit(ctx, b.container(box), b.repository(), snapshotTag+id, changes)
}

// userOr is a user as an image names it, fit for a line of a Dockerfile.
func userOr(user string) string {
	if user == "" || strings.ContainsFunc(user, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"'\$#`, r) }) {
		return "0"
	}
	return user
}

// DropSnapshot removes a snapshot; boxes made from it live on. Idempotent.
func (b *Backend) DropSnapshot(ctx context.Context, s sandbox.Snapshot) error {
	if err := checkSnapshot(s); err != nil {
		return err
	}
	return b.engine.fault(b.drop(ctx, s.ID), "The snapshot could not be removed.")
}

// drop takes the name away from a snapshot's image. The boxes made from it have
// names of their own for it (hold), so the engine keeps it for them.
func (b *Backend) drop(ctx context.Context, id string) error {
	return b.untag(ctx, b.snapshotRef(id))
}

// untag removes a name of an image, and the image if it was the last.
func (b *Backend) untag(ctx context.Context, ref string) error {
	err := b.engine.removeImage(ctx, ref)
	if refused(err, 404) {
		return nil
	}
	return err
}

// baseRef names the image of a snapshot for a box made from it.
func (b *Backend) baseRef(box string) string { return b.repository() + ":" + baseTag + box }

// hold keeps the image of a snapshot for as long as a box made from it is there.
func (b *Backend) hold(ctx context.Context, box string, img image) error {
	err := b.engine.tag(ctx, img.ID, b.repository(), baseTag+box)
	if refused(err, 404) {
		return noSnapshot()
	}
	return err
}

// sweepBases removes the names that boxes had for their images and that were
// removed behind our back.
func (b *Backend) sweepBases(ctx context.Context, boxes []sandbox.Handle) {
	all, err := b.tags(ctx, baseTag)
	if err != nil {
		return
	}
	for _, id := range all {
		if slices.ContainsFunc(boxes, func(h sandbox.Handle) bool { return h.ID == id }) {
			continue
		}
		if err := b.untag(ctx, b.baseRef(id)); err != nil {
			b.options.Logger.WarnContext(ctx, "the image of a removed sandbox stays", "sandbox", id, "error", err)
		}
	}
}

// Snapshots lists all snapshots of this installation.
func (b *Backend) Snapshots(ctx context.Context) ([]sandbox.Snapshot, error) {
	ids, err := b.tags(ctx, snapshotTag)
	if err != nil {
		return nil, b.engine.fault(err, "The snapshots could not be listed.")
	}
	var list []sandbox.Snapshot
	for _, id := range ids {
		list = append(list, sandbox.Snapshot{Backend: Name, ID: id})
	}
	return list, nil
}

// tags lists the ids in the names of our images that start with prefix, sorted.
func (b *Backend) tags(ctx context.Context, prefix string) ([]string, error) {
	all, err := b.engine.images(ctx, labelInstallation+"="+b.options.Installation)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, img := range all {
		for _, name := range img.RepoTags {
			// Podman puts localhost/ before names without a registry.
			id, ok := strings.CutPrefix(strings.TrimPrefix(name, "localhost/"), b.repository()+":"+prefix)
			if ok && hostbox.ValidID(id) {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return ids, nil
}

func (b *Backend) snapshotImage(ctx context.Context, s sandbox.Snapshot) (image, error) {
	if err := checkSnapshot(s); err != nil {
		return image{}, err
	}
	img, err := b.engine.image(ctx, b.snapshotRef(s.ID))
	if refused(err, 404) {
		return img, noSnapshot()
	}
	return img, b.engine.fault(err, "The snapshot could not be looked at.")
}

func checkSnapshot(s sandbox.Snapshot) error {
	if s.Backend != Name {
		return fault.New(fault.Invalid, "sandbox_snapshot", "The snapshot is not of this backend.")
	}
	if !hostbox.ValidID(s.ID) {
		return hostbox.BadID()
	}
	return nil
}

func noSnapshot() error {
	return fault.New(fault.NotFound, "snapshot_not_found", "There is no snapshot with this id.")
}
