package fleet

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/store"
)

// longestUnused picks up to count running sandboxes to pause: those that nobody
// uses, longest unused first.
func (f *Fleet) longestUnused(count int) []string {
	running := f.pausable(f.room.running())
	used := f.lastUse(running)
	slices.SortFunc(running, func(a, b string) int { return used[a].Compare(used[b]) })
	idle := slices.DeleteFunc(running, f.busy)
	return idle[:min(count, len(idle))]
}

// pausable leaves out what is not attached or cannot be paused.
func (f *Fleet) pausable(ids []string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(ids, func(id string) bool {
		e := f.entries[id]
		_, underWay := f.pausing[id]
		return e == nil || e.live == nil || e.frozen || underWay || !f.canPause(e.live.box)
	})
}

func (f *Fleet) canPause(box sandbox.Box) bool {
	b := f.backends[box.Handle().Backend]
	return b != nil && b.Caps().Pause
}

func (f *Fleet) lastUse(ids []string) map[string]time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	used := map[string]time.Time{}
	for _, id := range ids {
		if e := f.entries[id]; e != nil {
			used[id] = e.used
		}
	}
	return used
}

// recoverWidth is how many sandboxes of one backend are adopted at a time.
const recoverWidth = 8

// Recover adopts what runs from an earlier life of the server, makes again what
// was being made, and removes what belongs to no record. It works in the
// background and leaves each sandbox usable at once: whoever needs one early
// adopts it then. A backend that hangs holds up its own sandboxes only.
func (f *Fleet) Recover(ctx context.Context) error {
	all, err := f.opt.Store.All(ctx)
	if err != nil {
		return err
	}
	of := map[string][]string{}
	for _, s := range all {
		of[s.Backend] = append(of[s.Backend], s.ID)
	}
	for name := range f.backends {
		of[name] = append([]string(nil), of[name]...)
	}
	for name, ids := range of {
		f.job(func() { f.recoverBackend(name, ids) })
	}
	if f.opt.Idle > 0 {
		f.job(f.pauseIdle)
	}
	if f.opt.Retention > 0 {
		f.job(f.expire)
	}
	f.job(f.look)
	return nil
}

// recoverBackend recovers the sandboxes of one backend, sweeps what is left over,
// and then starts its pools: their boxes would be swept, too.
func (f *Fleet) recoverBackend(name string, ids []string) {
	var group errgroup.Group
	group.SetLimit(recoverWidth)
	for _, id := range ids {
		group.Go(func() error {
			if f.ctx.Err() == nil {
				f.recoverOne(id)
			}
			return nil
		})
	}
	_ = group.Wait()
	b := f.backends[name]
	if b == nil || f.ctx.Err() != nil {
		return
	}
	f.sweep(b)
	for _, p := range f.pools {
		if p.backend == b {
			f.job(func() { p.fill(f.ctx) })
		}
	}
}

func (f *Fleet) recoverOne(id string) {
	e := f.entry(id)
	if err := e.mu.LockContext(f.ctx); err != nil {
		return
	}
	defer e.mu.Unlock()
	s, err := f.opt.Store.Get(f.ctx, "", id)
	if err != nil || f.attached(e) != nil {
		return
	}
	switch s.Status {
	case store.SandboxStarting:
		if err := f.destroy(f.ctx, s); err != nil {
			f.opt.Logger.Warn("half-made sandbox not removed", "sandbox", id, "error", err)
		}
		s.Handle = nil
		f.boot(e, s)
	case store.SandboxRunning, store.SandboxPaused:
		f.adopt(e, s)
	}
}

// adopt attaches to a box that survived. One whose processes did not survive (the
// machine was restarted) waits, paused, until it is used.
func (f *Fleet) adopt(e *entry, s *store.Sandbox) {
	h, err := handle(s)
	if err != nil {
		f.note(s, store.SandboxError, fault.PublicText(err))
		return
	}
	backend, err := f.backendOf(s)
	if err != nil {
		f.note(s, store.SandboxError, fault.PublicText(err))
		return
	}
	box, err := backend.Adopt(f.ctx, h)
	switch {
	case err == nil:
		f.attach(e, box)
		f.setFrozen(e, s.Status == store.SandboxPaused)
		if s.Status != store.SandboxPaused {
			f.room.take(s.ID)
		}
		if f.opt.OnChange != nil {
			f.opt.OnChange(s.ID)
		}
	case fault.Is(err, fault.Gone):
		if s.Status == store.SandboxPaused && byUser(s) {
			return // it waits for its user all the same
		}
		f.note(s, store.SandboxPaused, "Its processes ended while the server was away; its files are kept and it starts again when it is used.")
	case fault.Is(err, fault.NotFound):
		f.lost(s)
	case f.ctx.Err() == nil:
		f.note(s, store.SandboxError, fault.PublicText(err))
	}
}

// sweep destroys boxes and snapshots that no record knows.
func (f *Fleet) sweep(b sandbox.Backend) {
	handles, err := b.List(f.ctx)
	if err != nil {
		f.opt.Logger.Warn("the sandboxes of a backend were not listed", "backend", b.Name(), "error", err)
		return
	}
	known, err := f.known()
	if err != nil {
		f.opt.Logger.Warn("the sandboxes of a backend were not swept", "backend", b.Name(), "error", err)
		return
	}
	for _, h := range handles {
		if known[h.ID] || f.exists(h.ID) {
			continue
		}
		f.opt.Logger.Info("removing an orphaned sandbox", "sandbox", h.ID)
		if err := b.Destroy(f.ctx, h); err != nil {
			f.opt.Logger.Warn("orphaned sandbox not removed", "sandbox", h.ID, "error", err)
		}
	}
	f.sweepSnapshots(b, known)
}

// known are the ids of the boxes and snapshots that records name.
func (f *Fleet) known() (map[string]bool, error) {
	all, err := f.opt.Store.All(f.ctx)
	known := map[string]bool{}
	for _, s := range all {
		known[s.ID] = true
		if h, err := handle(s); err == nil {
			known[h.ID] = true
		}
		var w wanted
		if json.Unmarshal(s.Wanted, &w) == nil && w.From != nil {
			known[w.From.ID] = true
		}
	}
	return known, err
}

// exists asks again right before something is removed: a sandbox may have been
// started since known looked. Its record is stored before its box is made.
func (f *Fleet) exists(id string) bool {
	_, err := f.opt.Store.Get(f.ctx, "", id)
	return !fault.Is(err, fault.NotFound)
}
