package fleet

import (
	"context"
	"strings"
	"time"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/store"
)

// forkPrefix begins the ids of snapshots that a fork is made from.
const forkPrefix = "fork-"

// Fork makes a new sandbox with what is in another one now, and returns its
// record, STARTING. The other goes on as it was. Unsupported if its backend takes
// no snapshots, Conflict if it is not made yet. id is the new one's, "" = any.
func (f *Fleet) Fork(ctx context.Context, owner, from, id string) (*store.Sandbox, error) {
	var made *store.Sandbox
	err := f.change(ctx, owner, from, func(e *entry, s *store.Sandbox) error {
		spec, err := f.spec(s.SpecID)
		if err != nil {
			return err
		}
		want, snap, err := f.snapshot(ctx, s)
		if err != nil {
			return err
		}
		want.From = &snap
		made, err = f.start(ctx, spec, StartRequest{ID: id, Owner: s.Owner, HostDir: ""}, want)
		if err != nil {
			f.dropSnapshot(f.backends[s.Backend], snap)
		}
		return err
	})
	return made, gone(err, from)
}

// snapshot keeps what a sandbox is now, and returns what else makes another one
// like it.
func (f *Fleet) snapshot(ctx context.Context, s *store.Sandbox) (wanted, sandbox.Snapshot, error) {
	var none sandbox.Snapshot
	backend, err := f.backendOf(s)
	if err != nil {
		return wanted{}, none, err
	}
	if !backend.Caps().Snapshot {
		return wanted{}, none, sandbox.Unsupported(backend.Name(), "copy a sandbox")
	}
	if s.HostDir != "" {
		return wanted{}, none, fault.New(fault.Conflict, "sandbox_host_dir", "The sandbox works in a directory of this machine, which is not copied.").
			WithHint("Copy the directory yourself, and start a conversation there.")
	}
	h, err := handle(s)
	if err != nil {
		return wanted{}, none, fault.New(fault.Conflict, "sandbox_not_ready", "The sandbox has not started yet.").WithHint("Try again when it runs.")
	}
	_, want, err := f.boxSpec(s)
	if err != nil {
		return wanted{}, none, err
	}
	snap, err := backend.Snapshot(ctx, h, forkPrefix+string(conversation.NewID()))
	return wanted{Changes: want.Changes}, snap, err
}

// dropSnapshot removes a snapshot that is not needed any more; what fails is swept
// at the next start.
func (f *Fleet) dropSnapshot(b sandbox.Backend, s sandbox.Snapshot) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.ctx), 30*time.Second)
	defer cancel()
	if err := b.DropSnapshot(ctx, s); err != nil {
		f.opt.Logger.Warn("a snapshot was not removed", "snapshot", s.ID, "error", err)
	}
}

// sweepSnapshots removes the snapshots of forks that were cut off.
func (f *Fleet) sweepSnapshots(b sandbox.Backend, known map[string]bool) {
	if !b.Caps().Snapshot {
		return
	}
	all, err := b.Snapshots(f.ctx)
	if err != nil {
		f.opt.Logger.Warn("the snapshots of a backend were not listed", "backend", b.Name(), "error", err)
		return
	}
	for _, s := range all {
		if strings.HasPrefix(s.ID, forkPrefix) && !known[s.ID] {
			f.dropSnapshot(b, s)
		}
	}
}
