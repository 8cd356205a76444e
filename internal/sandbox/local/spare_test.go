package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox"
)

// sparesOf lists the spare first processes of a server.
func sparesOf(t *testing.T, server int) []int {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", server))
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, task := range tasks {
		data, _ := os.ReadFile(task) // a thread that has ended has none
		for _, word := range bytes.Fields(data) {
			line, _ := os.ReadFile(filepath.Join("/proc", string(word), "cmdline"))
			args := bytes.Split(bytes.TrimSuffix(line, []byte{0}), []byte{0})
			if pid, err := strconv.Atoi(string(word)); err == nil && string(args[len(args)-1]) == "spare" {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// awaitSpare waits for the spare process of a server, which is never more than one.
func awaitSpare(t *testing.T, server int) int {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if pids := sparesOf(t, server); len(pids) > 0 {
			if len(pids) > 1 {
				t.Fatalf("%d spare processes", len(pids))
			}
			return pids[0]
		}
	}
	t.Fatal("no spare process was started")
	return 0
}

// awaitDeath waits for the death of a process that kill causes.
func awaitDeath(t *testing.T, pid int, kill func() error) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := kill(); err != nil {
		t.Fatal(err)
	}
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(poll, int((20 * time.Second).Milliseconds()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n != 1 {
			t.Fatalf("process %d lives on: %d, %v", pid, n, err)
		}
		return
	}
}

func needSpares(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("boxes of ordinary users open the host's paths themselves: they start without spare processes")
	}
}

func TestSpareProcess(t *testing.T) {
	needSpares(t)
	b := newBackend(t)
	ctx := context.Background()
	first := awaitSpare(t, os.Getpid())
	box, err := b.Create(ctx, sandbox.Spec{ID: "from-spare"})
	if err != nil {
		t.Fatal(err)
	}
	if st, err := stateOf(box); err != nil || st.Process.PID != first {
		t.Errorf("the box's first process is %d, not the spare one %d: %v", st.Process.PID, first, err)
	}
	second := awaitSpare(t, os.Getpid())
	if second == first {
		t.Error("one process serves two boxes")
	}
	awaitDeath(t, second, func() error { return unix.Kill(second, unix.SIGKILL) })
	other, err := b.Create(ctx, sandbox.Spec{ID: "without-spare"})
	if err != nil {
		t.Fatalf("the spare process was killed, and no box could be made: %v", err)
	}
	sh(t, other, "echo alive")
	awaitSpare(t, os.Getpid())
	for _, x := range []sandbox.Box{box, other} {
		if err := b.Destroy(ctx, x.Handle()); err != nil {
			t.Error(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if left := sparesOf(t, os.Getpid()); len(left) > 0 {
		t.Errorf("spare processes are left: %v", left)
	}
}

// TestSpareDiesWithTheServer kills a server that has a spare process.
func TestSpareDiesWithTheServer(t *testing.T) {
	needSpares(t)
	cmd := exec.Command("/proc/self/exe", serverArg, filepath.Join(shared, "boxes"))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := awaitSpare(t, cmd.Process.Pid)
	awaitDeath(t, pid, func() error {
		err := cmd.Process.Kill()
		_ = cmd.Wait() // says that it was killed
		return err
	})
	b := newBackend(t)
	defer func() { _ = b.Close() }()
	// The server may have been killed with a box half-made.
	handles, err := b.List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(handles, func(h sandbox.Handle) bool { return h.ID == "survivor" })
	if i >= 0 {
		if err := b.Destroy(context.Background(), handles[i]); err != nil {
			t.Error(err)
		}
	}
}
