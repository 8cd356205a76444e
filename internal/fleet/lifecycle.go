package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/store"
)

// change runs a lifecycle operation on a sandbox, one at a time.
func (f *Fleet) change(ctx context.Context, owner, id string, do func(*entry, *store.Sandbox) error) error {
	if _, err := f.opt.Store.Get(ctx, owner, id); err != nil {
		return err
	}
	e := f.entry(id)
	if err := e.mu.LockContext(ctx); err != nil {
		return err
	}
	defer e.mu.Unlock()
	s, err := f.opt.Store.Get(ctx, owner, id) // again: it may have changed while we waited
	if err != nil {
		return err
	}
	return do(e, s)
}

// Pause freezes a sandbox. Pausing a paused one does nothing.
func (f *Fleet) Pause(ctx context.Context, owner, id string) error {
	return f.change(ctx, owner, id, func(e *entry, s *store.Sandbox) error {
		if s.Status == store.SandboxPaused {
			if byUser(s) {
				return nil
			}
			return f.save(s, store.SandboxPaused, "") // from now on it stays so until it is resumed
		}
		return f.freeze(ctx, e, s, "")
	})
}

// byUser reports whether a paused sandbox was paused by its user, who alone needs
// no explanation. Only such a pause holds a run; what Parley paused by itself, or
// found dead after a restart, starts again when it is used.
func byUser(s *store.Sandbox) bool { return s.Detail == "" }

func (f *Fleet) freeze(ctx context.Context, e *entry, s *store.Sandbox, detail string) error {
	if f.attached(e) == nil {
		f.reattach(ctx, e, s)
	}
	l := f.attached(e)
	if l == nil {
		return fault.New(fault.Conflict, "sandbox_not_running", "The sandbox cannot be paused: %s", s.Detail)
	}
	f.setFrozen(e, true)
	if err := l.box.Pause(ctx); err != nil {
		f.unfreeze(ctx, e, l) // it may have got half way
		return err
	}
	if err := f.save(s, store.SandboxPaused, detail); err != nil {
		f.unfreeze(ctx, e, l) // frozen without anybody knowing, whoever uses it would hang
		return err
	}
	f.room.leave(s.ID)
	return nil
}

func (f *Fleet) setFrozen(e *entry, frozen bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.frozen = frozen
}

// unfreeze takes a failed pause back, also after the caller left.
func (f *Fleet) unfreeze(ctx context.Context, e *entry, l *live) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := l.box.Resume(ctx); err != nil {
		f.opt.Logger.Error("sandbox not resumed after a failed pause", "sandbox", e.id, "error", err)
		return
	}
	f.setFrozen(e, false)
}

// Resume thaws a sandbox, or starts it again if its processes died. Resuming a
// running one does nothing.
func (f *Fleet) Resume(ctx context.Context, owner, id string) error {
	return f.change(ctx, owner, id, func(e *entry, s *store.Sandbox) error {
		_, err := f.ensure(ctx, e, s, true)
		return err
	})
}

// thaw resumes a paused box. e.mu is held.
func (f *Fleet) thaw(ctx context.Context, e *entry, s *store.Sandbox) error {
	if err := f.findRoom(ctx, s); err != nil {
		return err
	}
	if err := f.warm(ctx, e, s); err != nil {
		f.room.leave(s.ID)
		return err
	}
	f.setFrozen(e, false)
	return nil
}

func (f *Fleet) warm(ctx context.Context, e *entry, s *store.Sandbox) error {
	if f.attached(e) == nil {
		f.reattach(ctx, e, s)
	}
	l := f.attached(e)
	if l == nil {
		return fault.New(fault.Unavailable, "sandbox_failed", "The sandbox does not resume: %s", s.Detail)
	}
	if err := l.box.Resume(ctx); err != nil {
		return err
	}
	return f.save(s, store.SandboxRunning, "")
}

// Delete kills everything inside a sandbox and removes it with its files.
func (f *Fleet) Delete(ctx context.Context, owner, id string) error {
	return f.remove(ctx, owner, id, func(*store.Sandbox) bool { return true })
}

// remove deletes a sandbox if it still is what the caller thinks it is.
func (f *Fleet) remove(ctx context.Context, owner, id string, still func(*store.Sandbox) bool) error {
	kept := false
	err := f.change(ctx, owner, id, func(e *entry, s *store.Sandbox) error {
		if kept = !still(s); kept {
			return nil
		}
		f.detach(e)
		if err := f.destroy(ctx, s); err != nil {
			f.note(s, store.SandboxError, fault.PublicText(err))
			return err
		}
		return f.opt.Store.Delete(ctx, id)
	})
	if err != nil || kept {
		return err
	}
	f.forget(id)
	for _, tell := range []func(string){f.opt.OnChange, f.opt.OnGone} {
		if tell != nil {
			tell(id)
		}
	}
	return nil
}

func (f *Fleet) detach(e *entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.live != nil {
		delete(f.homes, e.live.box.Handle().ID)
		e.live.client.Close()
		e.live = nil
	}
	f.room.leave(e.id)
}

// destroy removes a record's box, if there is one. A box whose handle was never
// stored, because the server ended while it was made, is found by its id.
func (f *Fleet) destroy(ctx context.Context, s *store.Sandbox) error {
	backend, err := f.backendOf(s)
	if err != nil {
		return err
	}
	if len(s.Handle) > 0 {
		h, err := handle(s)
		if err != nil {
			return err
		}
		return backend.Destroy(ctx, h)
	}
	all, err := backend.List(ctx)
	if err != nil {
		return err
	}
	for _, h := range all {
		if h.ID == s.ID {
			return backend.Destroy(ctx, h)
		}
	}
	return nil
}

// handle reads a record's handle.
func handle(s *store.Sandbox) (h sandbox.Handle, err error) {
	if err := json.Unmarshal(s.Handle, &h); err != nil {
		return h, fault.Wrap(err, fault.Internal, "bad_handle", "The sandbox's handle is damaged.")
	}
	return h, nil
}

// findRoom takes a place for a sandbox, pausing the longest unused one that is
// idle if there is none free, and waiting its turn if all are at work.
func (f *Fleet) findRoom(ctx context.Context, s *store.Sandbox) error {
	shown := s.Detail
	err := f.room.wait(ctx, s.ID, func(running, waiting int) {
		f.job(f.makeRoom)
		if s.Status == store.SandboxStarting {
			f.note(s, s.Status, fmt.Sprintf("Waiting for a free place: %d of %d sandboxes are running, and %d wait before this one.",
				running, f.opt.MaxLive, waiting))
		}
	})
	s.Detail = shown
	return err
}

// roomTick is the pause between two looks for a sandbox to pause.
const roomTick = 250 * time.Millisecond

// makeRoom pauses sandboxes that nobody uses until all who wait have a place. It
// looks again while somebody waits: what is busy now may be idle soon.
func (f *Fleet) makeRoom() {
	if !f.startMaking() {
		return
	}
	again := time.NewTicker(roomTick)
	defer again.Stop()
	for f.goOnMaking() {
		for _, id := range f.toPause(time.Now()) {
			f.job(func() {
				defer f.donePausing(id)
				f.pauseUnasked(id, store.DetailMadeRoom)
			})
		}
		select {
		case <-f.ctx.Done():
			return
		case <-again.C:
		}
	}
}

// pauseTime is how long a pause may take before another sandbox is paused in its
// place: a backend that hangs must not hold up the others.
const pauseTime = 2 * time.Second

// toPause picks sandboxes to pause for those who wait, and notes that they are
// being paused.
func (f *Fleet) toPause(now time.Time) []string {
	underWay := 0
	f.mu.Lock()
	for _, since := range f.pausing {
		if now.Sub(since) < pauseTime {
			underWay++
		}
	}
	f.mu.Unlock()
	ids := f.longestUnused(max(0, f.room.short()-underWay))
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		f.pausing[id] = now
	}
	return ids
}

func (f *Fleet) donePausing(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pausing, id)
}

func (f *Fleet) startMaking() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.making {
		return false
	}
	f.making = true
	return true
}

// goOnMaking ends the making of room if nobody waits. Who queues after this look
// starts it anew.
func (f *Fleet) goOnMaking() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.making = f.room.short() > 0 && f.ctx.Err() == nil
	return f.making
}

// pauseUnasked pauses a sandbox that nobody uses at the moment.
func (f *Fleet) pauseUnasked(id, detail string) {
	ctx, cancel := context.WithTimeout(f.ctx, 30*time.Second)
	defer cancel()
	err := f.change(ctx, "", id, func(e *entry, s *store.Sandbox) error {
		f.setFrozen(e, true) // before the question: who becomes busy after it comes by e.mu
		if s.Status != store.SandboxRunning || f.busy(id) {
			f.setFrozen(e, s.Status == store.SandboxPaused)
			return nil
		}
		return f.freeze(ctx, e, s, detail)
	})
	if err != nil && f.ctx.Err() == nil {
		f.opt.Logger.Warn("sandbox not paused", "sandbox", id, "error", err)
	}
}

func (f *Fleet) busy(id string) bool { return f.opt.Busy != nil && f.opt.Busy(id) }

// pauseIdle pauses sandboxes that were not used for the idle time, until Close.
func (f *Fleet) pauseIdle() {
	tick := time.NewTicker(max(f.opt.Idle/4, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-f.ctx.Done():
			return
		case <-tick.C:
		}
		for _, id := range f.unusedSince(time.Now().Add(-f.opt.Idle)) {
			f.pauseUnasked(id, "Paused because it was idle; it resumes when it is used.")
		}
	}
}

// unusedSince lists attached sandboxes that were not used after t.
func (f *Fleet) unusedSince(t time.Time) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []string
	for id, e := range f.entries {
		if e.live != nil && e.used.Before(t) {
			ids = append(ids, id)
		}
	}
	return ids
}
