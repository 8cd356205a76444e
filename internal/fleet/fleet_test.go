package fleet_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/fleet"
	"parley/internal/sandbox"
	"parley/internal/store"
	"parley/internal/store/sqlstore"
	"parley/internal/tool"
	"parley/internal/vault"
	"parley/test/testkit/boxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const owner = account.FirstUserID

// world is a fleet over a real store and real daemons.
type world struct {
	*testing.T
	store   *sqlstore.Store
	backend *boxtest.Backend
	opt     fleet.Options
	fleet   *fleet.Fleet
}

func newWorld(t *testing.T, change func(*fleet.Options)) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "flt-")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := vault.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: filepath.Join(dir, "parley.db"), Sealer: keys})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Accounts().PutUser(t.Context(), account.User{ID: owner}); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, store: s, backend: boxtest.New(dir)}
	w.opt = fleet.Options{Store: s.Sandboxes(), Backends: []sandbox.Backend{w.backend},
		Specs: []fleet.Spec{{ID: "bench", Backend: w.backend.Name()}}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if change != nil {
		change(&w.opt)
	}
	w.start()
	t.Cleanup(func() {
		w.stop()
		for _, b := range w.opt.Backends {
			handles, _ := b.List(context.Background())
			for _, h := range handles {
				_ = b.Destroy(context.Background(), h)
			}
		}
		_ = s.Close()
		_ = os.RemoveAll(dir)
	})
	return w
}

func (w *world) start() {
	w.Helper()
	f, err := fleet.New(w.opt)
	if err != nil {
		w.Fatal(err)
	}
	w.fleet = f
	if err := w.fleet.Recover(w.Context()); err != nil {
		w.Fatal(err)
	}
}

func (w *world) stop() {
	w.Helper()
	if err := w.fleet.Close(); err != nil {
		w.Error(err)
	}
}

func (w *world) make() string {
	w.Helper()
	s, err := w.fleet.Start(w.Context(), fleet.StartRequest{Owner: owner})
	if err != nil {
		w.Fatal(err)
	}
	if s.Status != store.SandboxStarting {
		w.Errorf("a new sandbox is %s", s.Status)
	}
	w.ensure(s.ID)
	return s.ID
}

func (w *world) ensure(id string) tool.Hands {
	w.Helper()
	hands, err := w.fleet.Ensure(w.Context(), owner, id, true)
	if err != nil {
		w.Fatal(err)
	}
	return hands
}

func (w *world) sh(id, command string) string {
	w.Helper()
	res, err := w.ensure(id).Exec(w.Context(), tool.ExecRequest{Argv: []string{"/bin/sh", "-c", command}})
	if err != nil {
		w.Fatal(err)
	}
	return string(res.Stdout)
}

func (w *world) status(id string) store.SandboxStatus {
	w.Helper()
	s, err := w.fleet.Get(w.Context(), owner, id)
	if err != nil {
		w.Fatal(err)
	}
	return s.Status
}

func (w *world) wait(id string, want store.SandboxStatus) {
	w.Helper()
	for deadline := time.Now().Add(20 * time.Second); w.status(id) != want; {
		if time.Now().After(deadline) {
			w.Fatalf("%s is %s, want %s", id, w.status(id), want)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (w *world) boxes() []string {
	w.Helper()
	handles, err := w.backend.List(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	var ids []string
	for _, h := range handles {
		ids = append(ids, h.ID)
	}
	slices.Sort(ids)
	return ids
}

func TestLifecycle(t *testing.T) {
	w := newWorld(t, nil)
	id := w.make()
	if got := w.sh(id, "echo hi > f; cat f"); got != "hi\n" {
		t.Errorf("got %q", got)
	}
	for range 2 { // pausing and resuming twice does nothing more
		if err := w.fleet.Pause(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.fleet.Ensure(t.Context(), owner, id, false); fault.CodeOf(err) != fleet.CodePaused {
		t.Errorf("ensure of a paused sandbox: %v", err)
	}
	for range 2 {
		if err := w.fleet.Resume(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.fleet.Delete(t.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	if _, err := w.fleet.Ensure(t.Context(), owner, id, true); !fault.Is(err, fault.Gone) {
		t.Errorf("ensure of a deleted sandbox: %v", err)
	}
	if len(w.boxes()) != 0 {
		t.Errorf("left behind: %v", w.boxes())
	}
}

func TestOthersSandboxesAreNotFound(t *testing.T) {
	w := newWorld(t, nil)
	id := w.make()
	for name, do := range map[string]func(context.Context, string, string) error{
		"pause": w.fleet.Pause, "resume": w.fleet.Resume, "delete": w.fleet.Delete} {
		if err := do(t.Context(), "somebody", id); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRestartedServerAdoptsAndSweeps(t *testing.T) {
	w := newWorld(t, nil)
	running, paused, dead := w.make(), w.make(), w.make()
	w.sh(running, "echo kept > f")
	if err := w.fleet.Pause(t.Context(), owner, paused); err != nil {
		t.Fatal(err)
	}
	w.stop()
	w.backend.Kill(dead)
	if _, err := w.backend.Create(t.Context(), sandbox.Spec{ID: "orphan"}); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.wait(running, store.SandboxRunning)
	w.wait(dead, store.SandboxPaused) // its files wait until it is used
	for deadline := time.Now().Add(20 * time.Second); slices.Contains(w.boxes(), "orphan"); {
		if time.Now().After(deadline) {
			t.Fatal("the orphan is still there")
		}
		time.Sleep(2 * time.Millisecond)
	}
	if got := w.sh(running, "cat f"); got != "kept\n" {
		t.Errorf("adopted: %q", got)
	}
	if w.status(paused) != store.SandboxPaused {
		t.Errorf("the paused one is %s", w.status(paused))
	}
	if got := w.sh(dead, "echo back"); got != "back\n" || w.status(dead) != store.SandboxRunning {
		t.Errorf("restarted: %q, %s", got, w.status(dead))
	}
}

// A server that is killed while it makes a box leaves a record without a handle
// and perhaps a box: the next one makes it anew, and it can be deleted.
func TestWhatWasHalfMade(t *testing.T) {
	w := newWorld(t, nil)
	w.stop()
	now := time.Now().UTC()
	for _, id := range []string{"half", "unmade", "given-up"} {
		s := &store.Sandbox{ID: id, Owner: owner, SpecID: "bench", Backend: "bench", Status: store.SandboxStarting, CreatedAt: now, UpdatedAt: now}
		if id == "given-up" {
			s.Status = store.SandboxError
		}
		if err := w.store.Sandboxes().Save(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if id == "unmade" {
			continue
		}
		if _, err := w.backend.Create(t.Context(), sandbox.Spec{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	w.start()
	for _, id := range []string{"half", "unmade"} {
		w.wait(id, store.SandboxRunning)
		if got := w.sh(id, "echo up"); got != "up\n" {
			t.Errorf("%s: %q", id, got)
		}
	}
	for _, id := range []string{"half", "unmade", "given-up"} {
		if err := w.fleet.Delete(t.Context(), owner, id); err != nil {
			t.Errorf("%s is not deleted: %v", id, err)
		}
	}
	if left := w.boxes(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestDeathIsMendedUnlessItGoesOnAndOn(t *testing.T) {
	w := newWorld(t, nil)
	id := w.make()
	w.sh(id, "echo kept > f")
	for range 3 {
		w.backend.Kill(id)
		w.backend.AwaitAlive(t, id)
	}
	w.wait(id, store.SandboxRunning)
	w.backend.Kill(id)
	w.wait(id, store.SandboxError)
	if s, err := w.fleet.Get(t.Context(), owner, id); err != nil || s.Detail == "" {
		t.Errorf("no reason is given: %+v, %v", s, err)
	}
	if got := w.sh(id, "cat f"); got != "kept\n" || w.status(id) != store.SandboxRunning {
		t.Errorf("its next use: %q, %s", got, w.status(id))
	}
}

func TestDeathOfAPausedOneWaitsForItsUse(t *testing.T) {
	w := newWorld(t, nil)
	id := w.make()
	if err := w.fleet.Pause(t.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	w.backend.Kill(id)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		if s, err := w.fleet.Get(t.Context(), owner, id); err == nil && s.Status == store.SandboxPaused && s.Detail != "" {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("%+v, %v", s, err)
		}
	}
	if got := w.sh(id, "echo back"); got != "back\n" {
		t.Errorf("%q", got)
	}
}

func TestRoomIsMadeByPausingTheLongestUnusedIdleOne(t *testing.T) {
	var mu sync.Mutex
	busy := ""
	w := newWorld(t, func(o *fleet.Options) {
		o.MaxLive = 2
		o.Busy = func(id string) bool { mu.Lock(); defer mu.Unlock(); return id == busy }
	})
	first, second := w.make(), w.make()
	mu.Lock()
	busy = first
	mu.Unlock()
	third := w.make()
	w.wait(second, store.SandboxPaused)
	if w.status(first) != store.SandboxRunning || w.status(third) != store.SandboxRunning {
		t.Errorf("first %s, third %s", w.status(first), w.status(third))
	}
}

func TestIdleSandboxesArePaused(t *testing.T) {
	w := newWorld(t, func(o *fleet.Options) { o.Idle = time.Millisecond })
	id := w.make()
	w.wait(id, store.SandboxPaused)
	if got := w.sh(id, "echo again"); got != "again\n" {
		t.Errorf("%q", got)
	}
}

func TestFailedStartIsRecordedAndTriedAgain(t *testing.T) {
	w := newWorld(t, nil)
	w.backend.FailWith(fault.New(fault.Unavailable, "broken", "The machine cannot."))
	s, err := w.fleet.Start(t.Context(), fleet.StartRequest{Owner: owner})
	if err != nil {
		t.Fatal(err)
	}
	w.wait(s.ID, store.SandboxError)
	w.backend.FailWith(nil)
	if got := w.sh(s.ID, "echo works"); got != "works\n" {
		t.Errorf("%q", got)
	}
}

func TestConcurrentUseOfOneSandbox(t *testing.T) {
	w := newWorld(t, nil)
	s, err := w.fleet.Start(t.Context(), fleet.StartRequest{Owner: owner})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			var err error
			switch i % 4 {
			case 0:
				err = w.fleet.Pause(t.Context(), owner, s.ID)
			case 1:
				err = w.fleet.Resume(t.Context(), owner, s.ID)
			default:
				_, err = w.fleet.Ensure(t.Context(), owner, s.ID, true)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := w.sh(s.ID, "echo fine"); got != "fine\n" {
		t.Errorf("%q", got)
	}
	if n := len(w.boxes()); n != 1 {
		t.Errorf("%d boxes", n)
	}
}
