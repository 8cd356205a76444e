package fleet

import (
	"context"
	"slices"
	"time"

	"parley/internal/fault"
	"parley/internal/store"
)

// longestUnused picks what to pause so that MaxLive sandboxes run, keep included.
func (f *Fleet) longestUnused(all []*store.Sandbox, keep string) []string {
	var running []string
	for _, s := range all {
		if s.ID != keep && s.Status == store.SandboxRunning {
			running = append(running, s.ID)
		}
	}
	over := len(running) + 1 - f.opt.MaxLive
	if over <= 0 {
		return nil
	}
	used := f.lastUse(running)
	slices.SortFunc(running, func(a, b string) int { return used[a].Compare(used[b]) })
	idle := slices.DeleteFunc(running, f.busy)
	return idle[:min(over, len(idle))]
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

// Recover adopts what runs from an earlier life of the server, makes again what
// was being made, and removes what belongs to no record. It works in the
// background and leaves each sandbox usable at once: whoever needs one early
// adopts it then.
func (f *Fleet) Recover(ctx context.Context) error {
	all, err := f.opt.Store.All(ctx)
	if err != nil {
		return err
	}
	if f.opt.Idle > 0 && f.opt.Backend.Caps().Pause {
		f.job(f.pauseIdle)
	}
	f.job(func() {
		for _, s := range all {
			if f.ctx.Err() != nil {
				return
			}
			f.recoverOne(s.ID)
		}
		f.sweep()
	})
	return nil
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
	box, err := f.opt.Backend.Adopt(f.ctx, h)
	switch {
	case err == nil:
		f.attach(e, box)
		f.setFrozen(e, s.Status == store.SandboxPaused)
		if f.opt.OnChange != nil {
			f.opt.OnChange(s.ID)
		}
	case fault.Is(err, fault.Gone):
		if s.Status == store.SandboxPaused && byUser(s) {
			return // it waits for its user all the same
		}
		f.note(s, store.SandboxPaused, "Its processes ended while the server was away; its files are kept and it starts again when it is used.")
	case f.ctx.Err() == nil:
		f.note(s, store.SandboxError, fault.PublicText(err))
	}
}

// sweep destroys boxes that no record knows.
func (f *Fleet) sweep() {
	handles, err := f.opt.Backend.List(f.ctx)
	if err != nil {
		f.opt.Logger.Warn("sandboxes on this machine not listed", "error", err)
		return
	}
	for _, h := range handles {
		_, err := f.opt.Store.Get(f.ctx, "", h.ID)
		if !fault.Is(err, fault.NotFound) {
			continue
		}
		f.opt.Logger.Info("removing an orphaned sandbox", "sandbox", h.ID)
		if err := f.opt.Backend.Destroy(f.ctx, h); err != nil {
			f.opt.Logger.Warn("orphaned sandbox not removed", "sandbox", h.ID, "error", err)
		}
	}
}
