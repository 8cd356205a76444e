package fleet

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/store"
)

// How often a sandbox is looked at: one that was used lately, and any other.
const (
	lookTick     = 2 * time.Second
	quietTick    = 10 * time.Second
	quietAfter   = time.Minute
	lookTimeout  = 5 * time.Second
	lookWidth    = 16 // of one backend, at the same time
	maxIncidents = 20 // kept of each sandbox
)

// look watches what the sandboxes take, until Close.
func (f *Fleet) look() {
	var looks sync.WaitGroup
	defer looks.Wait()
	slots := map[string]chan struct{}{}
	for name := range f.backends {
		slots[name] = make(chan struct{}, lookWidth)
	}
	tick := time.NewTicker(lookTick)
	defer tick.Stop()
	for {
		select {
		case <-f.ctx.Done():
			return
		case <-tick.C:
		}
		for e, backend := range f.due(time.Now()) {
			slots := slots[backend]
			select {
			case slots <- struct{}{}:
			default: // those of a backend that hangs are slow; the rest comes next time
				continue
			}
			looks.Go(func() {
				defer func() { <-slots }()
				_, _ = f.lookAt(f.ctx, e) // what is wrong with it is noted there
			})
		}
	}
}

// due lists the running sandboxes that were not looked at for long enough, with their
// backends, and marks them as looked at.
func (f *Fleet) due(now time.Time) map[*entry]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	due := map[*entry]string{}
	for _, e := range f.entries {
		pause := lookTick
		if now.Sub(e.used) > quietAfter {
			pause = quietTick
		}
		if e.live != nil && !e.frozen && now.Sub(e.looked) >= pause-lookTick/2 {
			e.looked = now.Add(lookTimeout) // no second one beside it
			due[e] = e.live.box.Handle().Backend
		}
	}
	return due
}

// lookAt asks what a sandbox takes and tells of the limits it ran into since the
// last look.
func (f *Fleet) lookAt(ctx context.Context, e *entry) (sandbox.Usage, error) {
	l := f.attached(e)
	if l == nil {
		return sandbox.Unknown(), fault.New(fault.Conflict, "sandbox_not_running", "The sandbox does not run.")
	}
	asked, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	u, err := l.box.Usage(asked)
	if err != nil {
		if fault.Is(err, fault.NotFound) && f.ctx.Err() == nil {
			f.removed(e, l)
		}
		return u, err
	}
	f.mu.Lock()
	before := e.usage
	found := incidents(before, u, time.Now().UTC())
	// Two looks may overtake each other; what was told of is not told again.
	e.usage, e.looked = u, time.Now()
	e.usage.OOMKills, e.usage.ForksRefused = max(before.OOMKills, u.OOMKills), max(before.ForksRefused, u.ForksRefused)
	e.incidents = append(e.incidents, found...)
	e.incidents = e.incidents[max(0, len(e.incidents)-maxIncidents):]
	f.mu.Unlock()
	for _, i := range found {
		f.opt.Logger.Warn("sandbox ran into a limit", "sandbox", e.id, "kind", i.Kind)
		if f.opt.OnIncident != nil {
			f.opt.OnIncident(e.id, i)
		}
	}
	return u, nil
}

// removed notes that somebody else removed a running sandbox.
func (f *Fleet) removed(e *entry, l *live) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f.attached(e) != l {
		return // meanwhile it was deleted or died
	}
	s, err := f.opt.Store.Get(f.ctx, "", e.id)
	if err != nil {
		return
	}
	f.detach(e)
	f.lost(s)
}

// incidents are the limits that were reached between two looks.
func incidents(before, now sandbox.Usage, at time.Time) []Incident {
	var found []Incident
	if n := grown(before.OOMKills, now.OOMKills); n > 0 {
		found = append(found, Incident{at, OutOfMemory, fmt.Sprintf("The sandbox reached its memory limit, and the kernel ended %s. "+
			"Use less memory at a time (fewer jobs, smaller pieces), or give the sandbox more.", processes(n))})
	}
	if n := grown(before.ForksRefused, now.ForksRefused); n > 0 {
		found = append(found, Incident{at, ProcessLimit, "The sandbox reached its limit of processes, and new ones were refused. " +
			"End what is not needed, or use fewer jobs at a time."})
	}
	if now.DiskFull && !before.DiskFull {
		found = append(found, Incident{at, DiskFull, "The sandbox's disk is full. Remove what is not needed, or give the sandbox more."})
	}
	return found
}

// grown is by how much a counter grew. The first figure that is known counts from 0.
func grown(before, now int64) int64 {
	return max(0, now) - max(0, before)
}

func processes(n int64) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}

// Usage says what a user's sandbox takes now. Conflict if it does not run.
func (f *Fleet) Usage(ctx context.Context, owner, id string) (sandbox.Usage, error) {
	s, err := f.opt.Store.Get(ctx, owner, id)
	if err != nil {
		return sandbox.Unknown(), err
	}
	if s.Status == store.SandboxMissing {
		return sandbox.Unknown(), errMissing(id)
	}
	return f.lookAt(ctx, f.entry(id))
}

// Incidents looks at a sandbox and returns the limits it ran into after a time,
// oldest first.
func (f *Fleet) Incidents(ctx context.Context, id string, after time.Time) []Incident {
	f.mu.Lock()
	e := f.entries[id]
	f.mu.Unlock()
	if e == nil { // never used since the server began
		return nil
	}
	_, _ = f.lookAt(ctx, e) // a sandbox that cannot be looked at has no news
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(e.incidents), func(i Incident) bool { return !i.Time.After(after) })
}

// expire deletes sandboxes that were paused for the time of retention, until Close.
func (f *Fleet) expire() {
	tick := time.NewTicker(min(max(f.opt.Retention/10, time.Second), time.Hour))
	defer tick.Stop()
	for {
		f.expireOnce(time.Now().Add(-f.opt.Retention))
		select {
		case <-f.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (f *Fleet) expireOnce(before time.Time) {
	all, err := f.opt.Store.All(f.ctx)
	if err != nil {
		f.opt.Logger.Warn("sandboxes not looked through for old ones", "error", err)
		return
	}
	for _, s := range all {
		if s.Status != store.SandboxPaused || !s.UpdatedAt.Before(before) || f.ctx.Err() != nil {
			continue
		}
		if err := f.remove(f.ctx, s.Owner, s.ID, func(now *store.Sandbox) bool {
			return now.Status == store.SandboxPaused && now.UpdatedAt.Before(before) && !f.busy(now.ID)
		}); err != nil {
			f.opt.Logger.Warn("an old sandbox was not deleted", "sandbox", s.ID, "error", err)
			continue
		}
		f.opt.Logger.Info("deleted a sandbox that was paused for long", "sandbox", s.ID, "since", s.UpdatedAt)
	}
}
