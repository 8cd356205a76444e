package fleet_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"parley/internal/fault"
	"parley/internal/fleet"
	"parley/internal/sandbox"
	"parley/internal/store"
)

// fullStore refuses to keep one status.
type fullStore struct {
	store.Sandboxes
	refuse  atomic.Value // store.SandboxStatus
	refused atomic.Int32
}

func (s *fullStore) Save(ctx context.Context, box *store.Sandbox) error {
	if box.Status == s.refuse.Load() {
		s.refused.Add(1)
		return fault.New(fault.Unavailable, store.CodeStoreFull, "The disk is full.")
	}
	return s.Sandboxes.Save(ctx, box)
}

func (w *world) full() *fullStore {
	w.Helper()
	w.stop()
	s := &fullStore{Sandboxes: w.store.Sandboxes()}
	w.opt.Store = s
	w.start()
	return s
}

// A sandbox whose RUNNING could not be stored must not be made anew, without its
// files, by the next start of the server.
func TestFilesSurviveAStatusThatWasNotStored(t *testing.T) {
	w := newWorld(t, nil)
	s := w.full()
	s.refuse.Store(store.SandboxRunning)
	box, err := w.fleet.Start(t.Context(), fleet.StartRequest{Owner: owner})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.fleet.Ensure(t.Context(), owner, box.ID, true); fault.CodeOf(err) != store.CodeStoreFull {
		t.Errorf("used although nobody knows of it: %v", err)
	}
	s.refuse.Store(store.SandboxMissing)
	w.sh(box.ID, "echo kept > f")
	w.stop()
	w.start()
	w.wait(box.ID, store.SandboxRunning)
	if got := w.sh(box.ID, "cat f"); got != "kept\n" {
		t.Errorf("%q", got)
	}
}

// countingBackend knows which boxes are frozen.
type countingBackend struct {
	sandbox.Backend
	frozen atomic.Int32
}

func (b *countingBackend) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	x, err := b.Backend.Create(ctx, spec)
	return &countingBox{x, b}, err
}

type countingBox struct {
	sandbox.Box
	b *countingBackend
}

func (x *countingBox) Pause(context.Context) error  { x.b.frozen.Store(1); return nil }
func (x *countingBox) Resume(context.Context) error { x.b.frozen.Store(0); return nil }

// Frozen without anybody knowing, whoever uses it would wait for ever.
func TestAPauseThatIsNotStoredIsTakenBack(t *testing.T) {
	b := &countingBackend{}
	w := newWorld(t, nil)
	b.Backend, w.opt.Backends[0] = w.backend, b
	s := w.full()
	id := w.make()
	s.refuse.Store(store.SandboxPaused)
	if err := w.fleet.Pause(t.Context(), owner, id); fault.CodeOf(err) != store.CodeStoreFull {
		t.Errorf("paused: %v", err)
	}
	if b.frozen.Load() != 0 {
		t.Error("the sandbox stays frozen")
	}
	if got := w.sh(id, "echo fine"); got != "fine\n" {
		t.Errorf("%q", got)
	}
}

func TestOnlyItsUsersPauseHoldsASandbox(t *testing.T) {
	w := newWorld(t, func(o *fleet.Options) { o.Idle = time.Millisecond })
	unasked := w.make()
	w.wait(unasked, store.SandboxPaused)
	if _, err := w.fleet.Ensure(t.Context(), owner, unasked, false); err != nil {
		t.Errorf("paused unasked: %v", err)
	}
	w.wait(unasked, store.SandboxPaused)
	if err := w.fleet.Pause(t.Context(), owner, unasked); err != nil { // now the user wants it, too
		t.Fatal(err)
	}
	w.stop()
	w.backend.Kill(unasked) // the machine goes down; the user's word stands
	w.start()
	var err error
	for range 2 { // once before the recovery may have seen it, and after
		if _, err = w.fleet.Ensure(t.Context(), owner, unasked, false); fault.CodeOf(err) != fleet.CodePaused {
			t.Errorf("paused by the user: %v", err)
		}
		w.wait(unasked, store.SandboxPaused)
	}
	if got := w.sh(unasked, "echo back"); got != "back\n" {
		t.Errorf("%q", got)
	}
}

func TestStartingWhatExistsReturnsIt(t *testing.T) {
	w := newWorld(t, nil)
	first, err := w.fleet.Start(t.Context(), fleet.StartRequest{ID: "sb-mine", Owner: owner})
	if err != nil {
		t.Fatal(err)
	}
	w.sh(first.ID, "echo kept > f")
	again, err := w.fleet.Start(t.Context(), fleet.StartRequest{ID: "sb-mine", Owner: owner})
	if err != nil || again.ID != first.ID || again.Status != store.SandboxRunning {
		t.Fatalf("%+v, %v", again, err)
	}
	if got := w.sh(first.ID, "cat f"); got != "kept\n" {
		t.Errorf("%q", got)
	}
}
