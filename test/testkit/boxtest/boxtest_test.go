package boxtest_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/test/testkit/boxtest"
)

func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "b")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// TestSnapshotsAreCopies forks a box and looks that neither sees the other's
// files.
func TestSnapshotsAreCopies(t *testing.T) {
	ctx := context.Background()
	b := boxtest.NewNamed(shortDir(t), "second")
	box, err := b.Create(ctx, sandbox.Spec{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	write := func(id, text string) {
		if err := os.WriteFile(filepath.Join(b.Workspace(id), "file"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a", "first")
	snap, err := b.Snapshot(ctx, box.Handle(), "s")
	if err != nil {
		t.Fatal(err)
	}
	write("a", "later")
	fork, err := b.Create(ctx, sandbox.Spec{ID: "f", From: &snap})
	if err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(b.Workspace("f"), "file")); err != nil || string(data) != "first" {
		t.Errorf("the fork has %q, %v", data, err)
	}
	if err := b.DropSnapshot(ctx, snap); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Create(ctx, sandbox.Spec{ID: "g", From: &snap}); !fault.Is(err, fault.NotFound) {
		t.Errorf("from a dropped snapshot: %v, want NotFound", err)
	}
	if all, err := b.Snapshots(ctx); err != nil || len(all) != 0 {
		t.Errorf("snapshots: %v, %v", all, err)
	}
	for _, x := range []sandbox.Box{box, fork} {
		if err := b.Destroy(ctx, x.Handle()); err != nil {
			t.Error(err)
		}
	}
}

func TestUsageAndRemovalBehindTheBack(t *testing.T) {
	ctx := context.Background()
	b := boxtest.New(shortDir(t))
	box, err := b.Create(ctx, sandbox.Spec{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if u, err := box.Usage(ctx); err != nil || u != sandbox.Unknown() {
		t.Errorf("usage: %+v, %v", u, err)
	}
	b.SetUsage("a", sandbox.Usage{OOMKills: 1})
	if u, err := box.Usage(ctx); err != nil || u.OOMKills != 1 {
		t.Errorf("usage: %+v, %v", u, err)
	}
	b.Remove("a")
	<-box.Done()
	if _, err := box.Usage(ctx); !fault.Is(err, fault.NotFound) {
		t.Errorf("usage of a removed box: %v", err)
	}
	if _, err := b.Adopt(ctx, box.Handle()); !fault.Is(err, fault.NotFound) {
		t.Errorf("adopt: %v", err)
	}
	if _, err := b.Restart(ctx, box.Handle()); !fault.Is(err, fault.NotFound) {
		t.Errorf("restart: %v", err)
	}
}
