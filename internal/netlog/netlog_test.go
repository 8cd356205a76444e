package netlog_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"parley/internal/netlog"
	"parley/internal/sandbox"
	"parley/internal/store"
	"parley/internal/store/sqlstore"
	"parley/internal/vault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openStore(t testing.TB) *sqlstore.Store {
	t.Helper()
	dir := t.TempDir()
	v, err := vault.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sqlstore.Open(context.Background(), sqlstore.Options{Path: filepath.Join(dir, "parley.db"), Sealer: v})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// seam counts what reaches the store, and can stand still.
type seam struct {
	store.NetworkLog
	writes atomic.Int64
	gate   sync.RWMutex // held: Write waits
}

func (s *seam) Write(ctx context.Context, entries []store.NetworkEntry, keep int) error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	s.writes.Add(1)
	return s.NetworkLog.Write(ctx, entries, keep)
}

func open(t testing.TB, o netlog.Options) *netlog.Log {
	t.Helper()
	l := netlog.New(o)
	t.Cleanup(l.Close)
	return l
}

func connection(n int) sandbox.Connection {
	return sandbox.Connection{ID: fmt.Sprintf("c%06d", n), Began: time.Date(2026, 3, 1, 12, 0, 0, n*1000, time.UTC),
		Protocol: "tcp", Host: "host.example", Address: "203.0.113.7", Port: 443, Verdict: sandbox.VerdictAllowed}
}

func search(t testing.TB, l interface {
	Search(context.Context, store.NetworkQuery) (store.Page[store.NetworkEntry], error)
}, box string) []store.NetworkEntry {
	t.Helper()
	var out []store.NetworkEntry
	q := store.NetworkQuery{SandboxID: box, Limit: 100}
	for {
		p, err := l.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p.Items...)
		if q.Cursor = p.Next; q.Cursor == "" {
			return out
		}
	}
}

func TestAUserSeesWhatJustHappened(t *testing.T) {
	l := open(t, netlog.Options{Store: openStore(t).NetworkLog()})
	record := l.Recorder("b")
	c := connection(1)
	c.Open = true
	record(c)
	want := store.NetworkEntry{SandboxID: "b", ID: c.ID, Began: c.Began, Open: true, Protocol: "tcp", Host: "host.example",
		Address: "203.0.113.7", Port: 443, Verdict: "allowed"}
	if got := search(t, l, "b"); len(got) != 1 || got[0] != want {
		t.Errorf("open: %+v", got)
	}
	c.Open, c.Lasted, c.Sent, c.Received, c.Reason = false, time.Second, 1, 2, "why\xff"+strings.Repeat("x", 9000)
	record(c)
	got := search(t, l, "b")
	if len(got) != 1 || got[0].Open || got[0].Lasted != time.Second || got[0].Sent != 1 || got[0].Received != 2 ||
		!strings.HasPrefix(got[0].Reason, "why\ufffdxxx") || len(got[0].Reason) > 512 {
		t.Errorf("ended: %+v", got)
	}
	if got := search(t, l, "other"); len(got) != 0 {
		t.Errorf("of another sandbox: %+v", got)
	}
}

// Entries reach the store by themselves, many at once, states of one as one.
func TestBatches(t *testing.T) {
	s := &seam{NetworkLog: openStore(t).NetworkLog()}
	l := open(t, netlog.Options{Store: s})
	s.gate.Lock()
	record := l.Recorder("b")
	for i := range 2000 {
		c := connection(i)
		c.Open = true
		record(c)
		c.Open = false
		record(c)
	}
	s.gate.Unlock()
	deadline := time.Now().Add(20 * time.Second)
	for len(search(t, s, "b")) < 2000 {
		if time.Now().After(deadline) {
			t.Fatal("they were not written")
		}
	}
	if n := s.writes.Load(); n > 10 {
		t.Errorf("2000 connections in %d writes", n)
	}
	for _, e := range search(t, s, "b") {
		if e.Open {
			t.Errorf("%+v", e)
		}
	}
}

func TestOnlyTheNewestAreKept(t *testing.T) {
	l := open(t, netlog.Options{Store: openStore(t).NetworkLog(), Keep: 100})
	l.Recorder("other")(connection(0))
	for i := range 1000 {
		l.Recorder("b")(connection(i))
	}
	got := search(t, l, "b")
	if len(got) != 100 || got[0].ID != "c000999" || got[99].ID != "c000900" || len(search(t, l, "other")) != 1 {
		t.Errorf("%d entries", len(got))
	}
}

func TestWhatWasLeftOpenIsClosed(t *testing.T) {
	s := openStore(t).NetworkLog()
	c := connection(1)
	c.Open = true
	first := netlog.New(netlog.Options{Store: s})
	first.Recorder("b")(c)
	first.Close()
	if got := search(t, s, "b"); len(got) != 1 || !got[0].Open {
		t.Fatalf("Close wrote %+v", got)
	}
	first.Close()
	second := open(t, netlog.Options{Store: s})
	again := connection(2)
	again.Open = true
	second.Recorder("b")(again)
	if got := search(t, second, "b"); len(got) != 2 || !got[0].Open || got[1].Open {
		t.Errorf("after a restart: %+v", got)
	}
}

// TestAStoreThatStandsStill makes nobody wait but readers, and those as long as
// they want.
func TestAStoreThatStandsStill(t *testing.T) {
	s := &seam{NetworkLog: openStore(t).NetworkLog()}
	var lines lockedBuffer
	l := open(t, netlog.Options{Store: s, Keep: 100_000, Logger: slog.New(slog.NewTextHandler(&lines, nil))})
	s.gate.Lock()
	record := l.Recorder("b")
	const most, taken = 16 * 1024, 256
	for i := range most + 2*taken {
		record(connection(i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Search(ctx, store.NetworkQuery{SandboxID: "b"}); err == nil {
		t.Error("a search of an ended context")
	}
	s.gate.Unlock()
	if n := len(search(t, l, "b")); n < most || n > most+taken {
		t.Errorf("%d entries are there", n)
	}
	if text := lines.String(); strings.Count(text, "are lost") != 1 {
		t.Errorf("the log says %q", text)
	}
}

func TestForget(t *testing.T) {
	l := open(t, netlog.Options{Store: openStore(t).NetworkLog()})
	for _, box := range []string{"a", "b"} {
		l.Recorder(box)(connection(1))
	}
	search(t, l, "b") // now they are in the store
	for _, box := range []string{"a", "b"} {
		l.Recorder(box)(connection(2)) // and these wait
	}
	if err := l.Forget(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if a, b := search(t, l, "a"), search(t, l, "b"); len(a) != 0 || len(b) != 2 {
		t.Errorf("%d and %d entries are left", len(a), len(b))
	}
}

// TestAFullDisk limits the size of this process's files for a while.
func TestAFullDisk(t *testing.T) {
	s := openStore(t).NetworkLog()
	var lines lockedBuffer
	l := open(t, netlog.Options{Store: s, Logger: slog.New(slog.NewTextHandler(&lines, nil))})
	record := l.Recorder("b")
	record(connection(1))
	search(t, l, "b")
	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 4096, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	record(connection(2))
	got := search(t, l, "b")
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || !strings.Contains(lines.String(), "are lost") {
		t.Errorf("on a full disk: %d entries, the log says %q", len(got), lines.String())
	}
	record(connection(3))
	if got := search(t, l, "b"); len(got) != 2 || got[0].ID != "c000003" {
		t.Errorf("after it: %+v", got)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func BenchmarkRecord(b *testing.B) {
	l := open(b, netlog.Options{Store: openStore(b).NetworkLog()})
	record := l.Recorder("b")
	n := 0
	for b.Loop() {
		n++
		record(connection(n))
	}
}
