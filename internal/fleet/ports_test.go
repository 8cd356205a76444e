package fleet_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"parley/internal/fault"
	"parley/internal/fleet"
	"parley/internal/sandbox"
	"parley/internal/store"
)

// deaf is a backend whose boxes can be made to stop answering.
type deaf struct {
	sandbox.Backend
	hangs atomic.Bool
}

type deafBox struct {
	sandbox.Box
	of *deaf
}

func (d *deaf) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	box, err := d.Backend.Create(ctx, spec)
	return &deafBox{box, d}, err
}

func (b *deafBox) Dial(ctx context.Context) (net.Conn, error) {
	if b.of.hangs.Load() {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return b.Box.Dial(ctx)
}

func (w *world) running() *store.Sandbox {
	w.Helper()
	s, err := w.fleet.Start(w.Context(), fleet.StartRequest{Owner: owner})
	if err != nil {
		w.Fatal(err)
	}
	if _, err := w.fleet.Ensure(w.Context(), owner, s.ID, true); err != nil {
		w.Fatal(err)
	}
	if s, err = w.fleet.Get(w.Context(), owner, s.ID); err != nil {
		w.Fatal(err)
	}
	return s
}

// Looking at what listens in a sandbox wakes nothing.
func TestReachDoesNotWake(t *testing.T) {
	w := newWorld(t, nil)
	s := w.running()
	if hands, err := w.fleet.Reach(t.Context(), owner, s.ID, true); err != nil || hands == nil {
		t.Fatal(err)
	}
	for id, kind := range map[string]fault.Kind{s.ID: fault.Gone, "sb-none": fault.Gone} {
		if _, err := w.fleet.Reach(t.Context(), "somebody", id, false); fault.KindOf(err) != kind {
			t.Errorf("%s: %v", id, err)
		}
	}
	if err := w.fleet.Pause(t.Context(), owner, s.ID); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := w.fleet.Reach(t.Context(), owner, s.ID, true); fault.CodeOf(err) != fleet.CodePaused || !fault.Is(err, fault.Conflict) {
			t.Errorf("%v", err)
		}
	}
	if now, err := w.fleet.Get(t.Context(), owner, s.ID); err != nil || now.Status != store.SandboxPaused {
		t.Errorf("%+v %v", now, err)
	}
	w.backend.FailWith(fault.New(fault.Unavailable, "no", "No."))
	failed, err := w.fleet.Start(t.Context(), fleet.StartRequest{Owner: owner})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.fleet.Ensure(t.Context(), owner, failed.ID, false) // waits for its end
	if _, err := w.fleet.Reach(t.Context(), owner, failed.ID, false); fault.CodeOf(err) != fleet.CodeNotRunning {
		t.Errorf("%v", err)
	}
}

// Only use keeps a sandbox awake.
func TestOnlyUseKeepsASandboxAwake(t *testing.T) {
	w := newWorld(t, func(o *fleet.Options) { o.Idle = 3 * time.Second })
	watched, used := w.running(), w.running()
	book := fleet.NewPortBook(w.fleet)
	deadline := time.Now().Add(20 * time.Second)
	for {
		now, err := w.fleet.Get(t.Context(), owner, watched.ID)
		if err != nil {
			t.Fatal(err)
		}
		if now.Status == store.SandboxPaused {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a sandbox that is only looked at stays awake")
		}
		_, _ = w.fleet.Reach(t.Context(), owner, watched.ID, false)
		book.Of(t.Context(), []*store.Sandbox{watched})
		if _, err := w.fleet.Reach(t.Context(), owner, used.ID, true); err != nil {
			t.Fatal("a sandbox that is used is paused")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestPortBook(t *testing.T) {
	var backend *deaf
	w := newWorld(t, func(o *fleet.Options) {
		backend = &deaf{Backend: o.Backends[0]}
		o.Backends = []sandbox.Backend{backend}
	})
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	port := lis.Addr().(*net.TCPAddr).Port
	s := w.running()
	book := fleet.NewPortBook(w.fleet)
	shows := func(box *store.Sandbox) bool {
		for _, p := range book.Of(t.Context(), []*store.Sandbox{nil, box})[1].Ports {
			if p.Port == port {
				return true
			}
		}
		return false
	}
	for deadline := time.Now().Add(20 * time.Second); !shows(s); {
		if time.Now().After(deadline) {
			t.Fatal("the port is not seen")
		}
	}
	// A sandbox that does not answer shows nothing, and is waited for only so long.
	backend.hangs.Store(true)
	other := w.running()
	began := time.Now()
	if shows(other) {
		t.Error("a sandbox that does not answer shows ports")
	}
	if took := time.Since(began); took > 5*time.Second { // 200 ms, on a machine that is busy with other things
		t.Errorf("a list waited for %v", took)
	}
	backend.hangs.Store(false)
	asleep := *s
	asleep.Status = store.SandboxPaused
	if shows(&asleep) || shows(&store.Sandbox{ID: "sb-none", Status: store.SandboxRunning}) {
		t.Error("what does not run shows ports")
	}
}
