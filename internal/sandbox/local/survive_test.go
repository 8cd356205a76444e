package local_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/local"
)

// serverArg makes this test binary a server that makes a box and waits for its
// own end.
const serverArg = "be-a-server"

func beServer(dir string) error {
	b, err := local.New(local.Options{Dir: dir, InitArgs: []string{initArg}, Path: os.Getenv("PATH")})
	if err != nil {
		return err
	}
	if _, err := b.Create(context.Background(), sandbox.Spec{ID: "survivor"}); err != nil {
		return err
	}
	fmt.Println("ready")
	select {}
}

// TestSurvivesTheServer kills a server and adopts its box.
func TestSurvivesTheServer(t *testing.T) {
	dir := filepath.Join(shared, "boxes")
	cmd := exec.Command("/proc/self/exe", serverArg, dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, rerr := bufio.NewReader(out).ReadString('\n')
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // says that it was killed
	if line != "ready\n" {
		t.Fatalf("the server said %q, %v", line, rerr)
	}
	b := newBackend(t)
	defer func() { _ = b.Close() }()
	h := sandbox.Handle{Backend: b.Name(), ID: "survivor", Version: 1}
	box, err := b.Adopt(context.Background(), h)
	if err != nil {
		t.Fatalf("adopt: %v", err)
	}
	sh(t, box, "echo alive")
	if err := b.Destroy(context.Background(), h); err != nil {
		t.Fatal(err)
	}
	<-box.Done()
}

// TestRemovedUnderItsProcesses: a box whose directory is removed by hand does not run
// on unknown to everybody.
func TestRemovedUnderItsProcesses(t *testing.T) {
	for name, find := range map[string]func(b *local.Backend, box sandbox.Box) error{
		"looked at": func(_ *local.Backend, box sandbox.Box) error {
			_, err := box.Usage(context.Background())
			if fault.Is(err, fault.NotFound) {
				return nil
			}
			return fmt.Errorf("usage: %w, want NotFound", err)
		},
		"destroyed": func(b *local.Backend, box sandbox.Box) error { return b.Destroy(context.Background(), box.Handle()) },
	} {
		t.Run(name, func(t *testing.T) { pullAway(t, find) })
	}
}

func pullAway(t *testing.T, find func(b *local.Backend, box sandbox.Box) error) {
	b := newBackend(t)
	box := create(t, b, sandbox.Spec{ID: "pulled-away"})
	st, err := stateOf(box)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(shared, "boxes", "pulled-away")); err != nil {
		t.Fatal(err)
	}
	if err := find(b, box); err != nil {
		t.Error(err)
	}
	<-box.Done()
	if st.Process.Alive() {
		t.Error("the first process is alive")
	}
	if st.Group == nil {
		return
	}
	for _, dir := range st.Group.Dirs {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("control group %s is left: %v", dir, err)
		}
	}
}

// TestFailedPause: a box that could not be paused in time is not paused later on.
func TestFailedPause(t *testing.T) {
	box := create(t, newBackend(t), sandbox.Spec{ID: "not-paused"})
	for range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Microsecond)
		err := box.Pause(ctx)
		cancel()
		if err == nil {
			err = box.Resume(context.Background())
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := sh(t, box, "echo works"); got != "works" {
			t.Errorf("%q", got)
		}
	}
}
