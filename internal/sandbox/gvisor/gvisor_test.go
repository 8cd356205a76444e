package gvisor_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox"
	"parley/internal/sandbox/hostbox"
)

// remove does what an administrator would do to a box.
func remove(_ context.Context, box sandbox.Box) error {
	dir := filepath.Join(shared, "boxes", box.Handle().ID)
	pid, err := sentry(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Kill(pid, unix.SIGKILL), os.RemoveAll(dir))
}

// sentry returns the number of a box's first process on the host.
func sentry(dir string) (int, error) {
	var rec struct{ Process hostbox.Ident }
	data, err := os.ReadFile(filepath.Join(dir, "record.json"))
	if err != nil {
		return 0, err
	}
	err = json.Unmarshal(data, &rec)
	return rec.Process.PID, err
}

// kill kills a process of the host.
func kill(pid int) error { return unix.Kill(pid, unix.SIGKILL) }

// ownerOf returns who a file of the host belongs to.
func ownerOf(t *testing.T, path string) int {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return int(st.Uid)
}
