package hostbox_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/hostbox"
)

func TestParseStat(t *testing.T) {
	rest := " S 7 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 1000 200"
	for name, line := range map[string]string{
		"plain": "42 (sh)" + rest, "brackets": "42 (a) R 1 (b)" + rest, "line end": "42 (a\nb)" + rest, "empty": "42 ()" + rest,
	} {
		state, parent, start, err := hostbox.ParseStat([]byte(line))
		if err != nil || state != 'S' || parent != 7 || start != 12345 {
			t.Errorf("%s: %c %d %d %v", name, state, parent, start, err)
		}
	}
	for _, line := range []string{"", "42 sh S 7", "42 (sh) S", "42 (sh) S x" + strings.Repeat(" 0", 30)} {
		if _, _, _, err := hostbox.ParseStat([]byte(line)); err == nil {
			t.Errorf("%q was read", line)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (sh) S 7 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 1000 200"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, _, _, err := hostbox.ParseStat(data); err == nil && !strings.Contains(string(data), ")") {
			t.Error("read without a name")
		}
	})
}

func TestIdent(t *testing.T) {
	self, err := hostbox.Identify(os.Getpid())
	if err != nil || !self.Alive() {
		t.Fatalf("%+v %v", self, err)
	}
	for name, change := range map[string]func(*hostbox.Ident){
		"other start": func(i *hostbox.Ident) { i.Start++ },
		"other boot":  func(i *hostbox.Ident) { i.Boot = "x" },
		"no process":  func(i *hostbox.Ident) { i.PID = 0 },
	} {
		other := self
		change(&other)
		if other.Alive() {
			t.Errorf("%s counts as alive", name)
		}
	}
}

func TestValidID(t *testing.T) {
	for id, want := range map[string]bool{"a": true, "A-z_09": true, strings.Repeat("x", 64): true,
		"": false, strings.Repeat("x", 65): false, ".": false, "a/b": false, "a b": false, "\u00e4": false, "a\x00": false, "[": false, "@": false} {
		if hostbox.ValidID(id) != want {
			t.Errorf("ValidID(%q) is %v", id, !want)
		}
	}
}

func TestCheckSpec(t *testing.T) {
	spec := sandbox.Spec{ID: "a"}
	if err := hostbox.CheckSpec(&spec); err != nil || spec.WorkingDir != sandbox.WorkingDir {
		t.Errorf("defaults: %+v, %v", spec, err)
	}
	for name, bad := range map[string]sandbox.Spec{
		"root":      {WorkingDir: "/"},
		"home":      {WorkingDir: "/root"},
		"tmp":       {WorkingDir: "/tmp"},
		"in /usr":   {WorkingDir: "/usr/src"},
		"huge env":  {Env: map[string]string{"A": strings.Repeat("x", hostbox.MaxEnv+1)}},
		"mount":     {Mounts: []sandbox.Mount{{Source: "/etc/passwd", Target: "/x"}}},
		"processes": {Limits: sandbox.Limits{Processes: -1}},
	} {
		err := hostbox.CheckSpec(&bad)
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNobodyWaitsForACopy: what wants to pause, to resume or to measure a box that is
// being copied gives up when its caller does.
func TestNobodyWaitsForACopy(t *testing.T) {
	box, copied := hostbox.BusyBox()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := box.Resume(ctx); !fault.Is(err, fault.Unavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("resume: %v", err)
	}
	if !box.Still() {
		t.Error("a box that is copied does not count as one that stands still")
	}
	copied()
	if box.Still() {
		t.Error("the box still counts as one that stands still")
	}
	if err := box.Resume(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestCountProcesses(t *testing.T) {
	if _, err := os.Lstat("/proc/thread-self/children"); err != nil {
		t.Skip("this kernel was built without lists of children")
	}
	parent, child := first(t)
	if got := hostbox.CountProcesses(parent); got != 2 {
		t.Errorf("%d, want the shell and its child", got)
	}
	if got := hostbox.CountProcesses(child); got != 1 {
		t.Errorf("%d, want the child alone", got)
	}
	child.Start++
	if got := hostbox.CountProcesses(child); got != -1 {
		t.Errorf("%d processes of a dead one", got)
	}
}
