package sqlstore_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"parley/internal/fault"
	"parley/internal/store"
	"parley/internal/store/sqlstore"
)

// TestUpgradeKeepsSandboxes opens a database of the schema before network logs.
func TestUpgradeKeepsSandboxes(t *testing.T) {
	dir := t.TempDir()
	closeStore(t, open(t, dir)) // makes the key
	if err := os.Remove(dbPath(dir)); err != nil {
		t.Fatal(err)
	}
	db := raw(t, dir)
	upTo(t, db, 5)
	execute(t, db, `INSERT INTO sandboxes VALUES ('b', 'u', 'spec', 'local', x'00ff', 'PAUSED', 'why', NULL, NULL, '/w', '/h', 1, 2)`)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	b, err := s.Sandboxes().Get(t.Context(), "u", "b")
	if err != nil || b.Wanted != nil || b.Status != store.SandboxPaused || string(b.Handle) != "\x00\xff" || b.UpdatedAt != time.UnixMicro(2).UTC() {
		t.Fatalf("%+v, %v", b, err)
	}
	b.Wanted = []byte("{}")
	if err := s.Sandboxes().Save(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := connectRepeatedly(t.Context(), s, "b", 5); err != nil {
		t.Error(err)
	}
}

// connectRepeatedly writes connections and looks whether they are there.
func connectRepeatedly(ctx context.Context, s *sqlstore.Store, box string, n int) error {
	var entries []store.NetworkEntry
	for i := range n {
		entries = append(entries, store.NetworkEntry{SandboxID: box, ID: fmt.Sprint(i), Began: time.UnixMicro(int64(i))})
	}
	if err := s.NetworkLog().Write(ctx, entries, n); err != nil {
		return err
	}
	p, err := s.NetworkLog().Search(ctx, store.NetworkQuery{SandboxID: box})
	if err == nil && len(p.Items) != n {
		err = fmt.Errorf("%d of %d connections are there", len(p.Items), n)
	}
	return err
}

const brokenBox = "connected"

// connectRefused writes what the disk has no room for: nothing of it may be there.
func connectRefused(ctx context.Context, s *sqlstore.Store, code string) error {
	var entries []store.NetworkEntry
	for i := range 256 {
		entries = append(entries, store.NetworkEntry{SandboxID: brokenBox, ID: fmt.Sprint(i), Reason: strings.Repeat("x", 16<<10)})
	}
	if err := s.NetworkLog().Write(ctx, entries, 1000); fault.CodeOf(err) != code {
		return fmt.Errorf("connections on a bad disk: %w, want code %s", err, code)
	}
	p, err := s.NetworkLog().Search(ctx, store.NetworkQuery{SandboxID: brokenBox})
	if err != nil || len(p.Items) > 0 {
		return fmt.Errorf("%d refused connections are visible: %w", len(p.Items), err)
	}
	return nil
}

// BenchmarkNetworkLog writes batches to a log that is as long as it gets.
func BenchmarkNetworkLog(b *testing.B) {
	s := open(b, b.TempDir())
	batch := make([]store.NetworkEntry, 256)
	at := 0
	write := func() {
		for i := range batch {
			at++
			batch[i] = store.NetworkEntry{SandboxID: "b", ID: fmt.Sprint(at), Began: time.UnixMicro(int64(at)), Host: "host.example",
				Address: "203.0.113.7", Port: 443, Protocol: "tcp", Verdict: "allowed"}
		}
		if err := s.NetworkLog().Write(b.Context(), batch, 10_000); err != nil {
			b.Fatal(err)
		}
	}
	for range 50 {
		write()
	}
	for b.Loop() {
		write()
	}
}
