package fleet_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/internal/fault"
	"parley/internal/fleet"
	"parley/internal/sandbox"
	"parley/internal/store"
	"parley/test/testkit/boxtest"
)

// until waits for a condition.
func (w *world) until(what string, ok func() bool) {
	w.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			w.Fatalf("not in time: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// busySet is what the engine would say is at work.
type busySet struct {
	mu  sync.Mutex
	ids map[string]bool
}

func (b *busySet) set(id string, busy bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ids == nil {
		b.ids = map[string]bool{}
	}
	b.ids[id] = busy
}

func (b *busySet) has(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ids[id]
}

func TestWhereAllAreAtWorkANewSandboxWaitsItsTurn(t *testing.T) {
	var busy busySet
	w := newWorld(t, func(o *fleet.Options) { o.MaxLive, o.Busy = 1, busy.has })
	first := w.make()
	busy.set(first, true)
	var waiting []string
	for range 2 {
		s, err := w.fleet.Start(t.Context(), fleet.StartRequest{Owner: owner})
		if err != nil {
			t.Fatal(err)
		}
		busy.set(s.ID, true)
		waiting = append(waiting, s.ID)
		w.until("the wait is told", func() bool {
			got, err := w.fleet.Get(t.Context(), owner, s.ID)
			return err == nil && strings.HasPrefix(got.Detail, "Waiting for a free place: 1 of 1 sandboxes are running")
		})
	}
	if got := w.boxes(); len(got) != 1 {
		t.Errorf("boxes beyond the bound: %v", got)
	}
	busy.set(first, false)
	w.wait(waiting[0], store.SandboxRunning)
	w.wait(first, store.SandboxPaused)
	if w.status(waiting[1]) != store.SandboxStarting {
		t.Errorf("the second in the queue is %s", w.status(waiting[1]))
	}
	if err := w.fleet.Delete(t.Context(), owner, waiting[0]); err != nil {
		t.Fatal(err)
	}
	w.wait(waiting[1], store.SandboxRunning)
	s, err := w.fleet.Get(t.Context(), owner, waiting[1])
	if err != nil || s.Detail != "" {
		t.Errorf("it runs and says %q, %v", s.Detail, err)
	}
}

// One that waits for a place and is deleted gives it up, and the fleet closes
// while somebody waits.
func TestNobodyHoldsThePlaceOfAWaiterThatLeft(t *testing.T) {
	var busy busySet
	w := newWorld(t, func(o *fleet.Options) { o.MaxLive, o.Busy = 1, busy.has })
	first := w.make()
	busy.set(first, true)
	second, err := w.fleet.Start(t.Context(), fleet.StartRequest{Owner: owner})
	if err != nil {
		t.Fatal(err)
	}
	w.stop()
	busy.set(first, false)
	w.start() // what was STARTING is made again
	w.wait(second.ID, store.SandboxRunning)
}

func TestWarmBoxesBecomeSandboxes(t *testing.T) {
	w := newWorld(t, func(o *fleet.Options) { o.Specs[0].Warm = 1 })
	warm := func() []string {
		return slices.DeleteFunc(w.boxes(), func(id string) bool { return !strings.HasPrefix(id, "warm-") })
	}
	w.until("a warm box", func() bool { return len(warm()) == 1 })
	box := warm()[0]
	id := w.make()
	w.sh(id, "echo mine > f")
	if got := w.fleet.SandboxOf(box); got != id {
		t.Errorf("the box %s is of %s, want %s", box, got, id)
	}
	w.until("the pool is full again", func() bool { return len(warm()) == 2 })
	w.stop()
	w.start()
	w.until("the former server's pool is swept", func() bool { return len(warm()) == 2 && slices.Contains(warm(), box) })
	if got := w.sh(id, "cat f"); got != "mine\n" {
		t.Errorf("adopted: %q", got)
	}
	if err := w.fleet.Delete(t.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(w.boxes(), box) {
		t.Error("the box of a deleted sandbox is still there")
	}
	busy := fleet.Changes{Factor: 2} // nothing in the pool is like that
	s, err := w.fleet.Start(t.Context(), fleet.StartRequest{Owner: owner, Changes: busy})
	if err != nil {
		t.Fatal(err)
	}
	w.wait(s.ID, store.SandboxRunning)
	if !slices.Contains(w.boxes(), s.ID) {
		t.Error("a sandbox with changes was made from the pool")
	}
}

func TestRetentionDeletesWhatWasPausedForLong(t *testing.T) {
	gone := make(chan string, 4)
	w := newWorld(t, func(o *fleet.Options) {
		o.Retention = 50 * time.Millisecond
		o.OnGone = func(id string) { gone <- id }
	})
	kept, old := w.make(), w.make()
	if err := w.fleet.Pause(t.Context(), owner, old); err != nil {
		t.Fatal(err)
	}
	w.until("it is deleted", func() bool { return !slices.Contains(w.boxes(), old) })
	if id := <-gone; id != old {
		t.Errorf("%s is gone, want %s", id, old)
	}
	if w.status(kept) != store.SandboxRunning {
		t.Errorf("the running one is %s", w.status(kept))
	}
}

func TestARemovedSandboxBecomesMissing(t *testing.T) {
	w := newWorld(t, nil)
	id := w.make()
	w.backend.Remove(id)
	w.wait(id, store.SandboxMissing)
	if _, err := w.fleet.Ensure(t.Context(), owner, id, true); !fault.Is(err, fault.Gone) {
		t.Errorf("used: %v", err)
	}
	if err := w.fleet.Delete(t.Context(), owner, id); err != nil {
		t.Errorf("not deleted: %v", err)
	}
}

func TestLimitsThatWereReachedAreTold(t *testing.T) {
	told := make(chan fleet.Incident, 8)
	w := newWorld(t, func(o *fleet.Options) { o.OnIncident = func(_ string, i fleet.Incident) { told <- i } })
	id := w.make()
	u := sandbox.Unknown()
	u.OOMKills, u.ForksRefused = 0, 0
	w.backend.SetUsage(id, u)
	if got, err := w.fleet.Usage(t.Context(), owner, id); err != nil || got != u {
		t.Fatalf("%+v, %v", got, err)
	}
	before := time.Now()
	u.OOMKills, u.ForksRefused, u.DiskFull = 2, 7, true
	w.backend.SetUsage(id, u)
	var kinds []string
	for range 3 {
		kinds = append(kinds, (<-told).Kind)
	}
	if want := []string{fleet.OutOfMemory, fleet.ProcessLimit, fleet.DiskFull}; !slices.Equal(kinds, want) {
		t.Errorf("%v, want %v", kinds, want)
	}
	found := w.fleet.Incidents(t.Context(), id, before)
	if len(found) != 3 || !strings.Contains(found[0].Text, "2 processes") {
		t.Errorf("%+v", found)
	}
	if again := w.fleet.Incidents(t.Context(), id, time.Now()); len(again) != 0 {
		t.Errorf("told again: %+v", again)
	}
}

func TestForkCopiesASandbox(t *testing.T) {
	w := newWorld(t, nil)
	id := w.make()
	w.sh(id, "echo one > f")
	made, err := w.fleet.Fork(t.Context(), owner, id, "")
	if err != nil {
		t.Fatal(err)
	}
	w.sh(id, "echo two > f")
	if got := w.sh(made.ID, "cat f"); got != "one\n" {
		t.Errorf("the fork has %q", got)
	}
	w.sh(made.ID, "echo three > f")
	if got := w.sh(id, "cat f"); got != "two\n" {
		t.Errorf("the source has %q", got)
	}
	w.until("the fork's snapshot is dropped", func() bool {
		all, err := w.backend.Snapshots(t.Context())
		return err == nil && len(all) == 0
	})
	if _, err := w.fleet.Fork(t.Context(), "somebody", id, ""); !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Gone) {
		t.Errorf("somebody else's: %v", err)
	}
}

// A fork that was cut off leaves a snapshot that no record names, or a record that
// the next server makes again from it.
func TestSnapshotsOfForksThatWereCutOff(t *testing.T) {
	w := newWorld(t, nil)
	id := w.make()
	w.sh(id, "echo one > f")
	s, err := w.fleet.Get(t.Context(), owner, id)
	if err != nil {
		t.Fatal(err)
	}
	w.stop()
	h := sandbox.Handle{Backend: s.Backend, ID: id, Version: 1}
	for _, name := range []string{"fork-lost", "fork-named", "kept"} {
		if _, err := w.backend.Snapshot(t.Context(), h, name); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now().UTC()
	half := &store.Sandbox{ID: "half", Owner: owner, SpecID: "bench", Backend: "bench", Status: store.SandboxStarting,
		Wanted: []byte(`{"from":{"backend":"bench","id":"fork-named"}}`), CreatedAt: now, UpdatedAt: now}
	if err := w.store.Sandboxes().Save(t.Context(), half); err != nil {
		t.Fatal(err)
	}
	w.start()
	if got := w.sh("half", "cat f"); got != "one\n" {
		t.Errorf("made again: %q", got)
	}
	w.until("only what is nobody's business is left", func() bool {
		all, err := w.backend.Snapshots(t.Context())
		return err == nil && len(all) == 1 && all[0].ID == "kept"
	})
}

func TestSeveralBackends(t *testing.T) {
	dir := t.TempDir()
	var other *boxtest.Backend
	w := newWorld(t, func(o *fleet.Options) {
		other = boxtest.NewNamed(dir, "other")
		o.Backends = append(o.Backends, other)
		o.Specs = append(o.Specs, fleet.Spec{ID: "second", Backend: "other", Env: map[string]string{"A": "b"}})
	})
	hold := make(chan struct{})
	w.backend.HoldCreate(hold) // one backend hangs
	stuck, err := w.fleet.Start(t.Context(), fleet.StartRequest{Owner: owner})
	if err != nil {
		t.Fatal(err)
	}
	s, err := w.fleet.Start(t.Context(), fleet.StartRequest{Owner: owner, SpecID: "second"})
	if err != nil {
		t.Fatal(err)
	}
	if got := w.sh(s.ID, "echo fine"); got != "fine\n" {
		t.Errorf("%q", got)
	}
	if s.Backend != "other" || s.SpecID != "second" {
		t.Errorf("%+v", s)
	}
	close(hold)
	w.wait(stuck.ID, store.SandboxRunning)
	for _, req := range []fleet.StartRequest{
		{SpecID: "third"}, {Changes: fleet.Changes{Image: "debian"}}, {Changes: fleet.Changes{Factor: 99}},
		{Changes: fleet.Changes{Network: &sandbox.Network{Mode: "everything"}}}, {Changes: fleet.Changes{Network: &sandbox.Network{Mode: sandbox.NetworkNone}}},
	} {
		req.Owner = owner
		if _, err := w.fleet.Start(t.Context(), req); err == nil {
			t.Errorf("%+v is not refused", req)
		}
	}
	if _, err := fleet.New(fleet.Options{Backends: w.opt.Backends, Specs: []fleet.Spec{{ID: "x", Backend: "none"}}}); err == nil {
		t.Error("a spec without a backend is served")
	}
	if _, err := fleet.New(fleet.Options{Backends: w.opt.Backends, Specs: []fleet.Spec{{ID: "x", Backend: "other", Image: "debian"}}}); err == nil {
		t.Error("an image for a backend without images is served")
	}
}

// stuckBackend's boxes cannot be paused: the engine does not answer.
type stuckBackend struct{ *boxtest.Backend }

func (b *stuckBackend) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	x, err := b.Backend.Create(ctx, spec)
	return &stuckBox{x}, err
}

type stuckBox struct{ sandbox.Box }

func (x *stuckBox) Pause(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestABackendThatHangsHoldsUpItsOwnSandboxesOnly(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t, func(o *fleet.Options) {
		o.MaxLive = 2
		o.Backends = append(o.Backends, &stuckBackend{boxtest.NewNamed(dir, "stuck")})
		o.Specs = append(o.Specs, fleet.Spec{ID: "stuck", Backend: "stuck"})
	})
	stuck, err := w.fleet.Start(t.Context(), fleet.StartRequest{Owner: owner, SpecID: "stuck"})
	if err != nil {
		t.Fatal(err)
	}
	w.ensure(stuck.ID)
	other := w.make() // used later: the stuck one is the first to be paused
	third, err := w.fleet.Start(t.Context(), fleet.StartRequest{Owner: owner})
	if err != nil {
		t.Fatal(err)
	}
	w.wait(third.ID, store.SandboxRunning)
	if w.status(other) != store.SandboxPaused {
		t.Errorf("the other one is %s", w.status(other))
	}
}

// Who needs a sandbox early, before it was recovered, meets the half-made box that a
// killed server left.
func TestAHalfMadeBoxIsMadeAnew(t *testing.T) {
	w := newWorld(t, nil)
	w.stop()
	now := time.Now().UTC()
	half := &store.Sandbox{ID: "half", Owner: owner, SpecID: "bench", Backend: "bench", Status: store.SandboxStarting, CreatedAt: now, UpdatedAt: now}
	if err := w.store.Sandboxes().Save(t.Context(), half); err != nil {
		t.Fatal(err)
	}
	if _, err := w.backend.Create(t.Context(), sandbox.Spec{ID: "half"}); err != nil {
		t.Fatal(err)
	}
	f, err := fleet.New(w.opt)
	if err != nil {
		t.Fatal(err)
	}
	w.fleet = f // not recovered
	if got := w.sh("half", "echo up"); got != "up\n" || w.status("half") != store.SandboxRunning {
		t.Errorf("%q, %s", got, w.status("half"))
	}
}
