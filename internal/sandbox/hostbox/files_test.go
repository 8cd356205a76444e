package hostbox_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/hostbox"
)

// await polls until ok.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not so after 20 s", what)
		}
	}
}

func TestFloor(t *testing.T) {
	const gib = 1 << 30
	for name, c := range map[string]struct {
		total, free float64
		refused     bool
	}{
		"plenty":                     {1000 * gib, 500 * gib, false},
		"a GiB of a large disk":      {1000 * gib, 1 * gib, false},
		"less":                       {1000 * gib, 0.9 * gib, true},
		"a small disk keeps 2 %":     {10 * gib, 0.3 * gib, false},
		"less than 2 %":              {10 * gib, 0.1 * gib, true},
		"nothing":                    {10 * gib, 0, true},
		"a file system without size": {0, 0, false},
	} {
		err := hostbox.Enough(c.total, c.free)
		if (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && (!fault.Is(err, fault.Unavailable) || !strings.Contains(fault.PublicText(err), "MiB are free")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRefuse(t *testing.T) {
	none, all := sandbox.Caps{}, sandbox.Caps{Images: true, NetworkPolicy: true, Limits: []string{sandbox.LimitCPU, sandbox.LimitMemory,
		sandbox.LimitProcesses, sandbox.LimitOpenFiles, sandbox.LimitDisk, sandbox.LimitInodes}}
	for name, spec := range map[string]sandbox.Spec{
		"image":      {Image: "debian"},
		"no network": {Network: sandbox.Network{Mode: sandbox.NetworkNone}},
		"nested":     {Network: sandbox.Network{Within: &sandbox.Network{}}},
		"cpu":        {Limits: sandbox.Limits{CPUs: 1}},
		"memory":     {Limits: sandbox.Limits{MemoryBytes: 1}},
		"processes":  {Limits: sandbox.Limits{Processes: 1}},
		"open files": {Limits: sandbox.Limits{OpenFiles: 1}},
		"disk":       {Limits: sandbox.Limits{DiskBytes: 1}},
		"inodes":     {Limits: sandbox.Limits{Inodes: 1}},
	} {
		if err := hostbox.Refuse(none, spec); !fault.Is(err, fault.Unsupported) {
			t.Errorf("%s: %v, want Unsupported", name, err)
		}
		if err := hostbox.Refuse(all, spec); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := hostbox.Refuse(all, sandbox.Spec{Runtime: "runsc"}); !fault.Is(err, fault.Unsupported) {
		t.Errorf("runtime: %v", err)
	}
	if err := hostbox.Refuse(none, sandbox.Spec{Network: sandbox.Network{Mode: sandbox.NetworkOpen}}); err != nil {
		t.Errorf("open network: %v", err)
	}
}

func TestDiskLimits(t *testing.T) {
	for _, c := range []struct {
		asked        sandbox.Limits
		disk, inodes int64
	}{
		{sandbox.Limits{}, 10 << 30, 1_000_000},
		{sandbox.Limits{DiskBytes: 64 << 20}, 64 << 20, 8192},
		{sandbox.Limits{DiskBytes: 1 << 20}, 1 << 20, 1024},
		{sandbox.Limits{DiskBytes: 1 << 40, Inodes: 7}, 1 << 40, 7},
	} {
		if disk, inodes := hostbox.DiskLimits(c.asked); disk != c.disk || inodes != c.inodes {
			t.Errorf("%+v: %d bytes, %d files", c.asked, disk, inodes)
		}
	}
}

// first starts a shell with a child, as a box's first process has, and returns the
// identities of both.
func first(t *testing.T) (parent, child hostbox.Ident) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "sleep 1000 & echo $!; wait; sleep 1000")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	parent, err = hostbox.Identify(cmd.Process.Pid)
	if err == nil {
		child, err = hostbox.Identify(pid)
	}
	if err != nil {
		t.Fatal(err)
	}
	return parent, child
}

// TestGaugeKillsWhatGoesOnWriting: at the limit it is said, beyond it programs die
// if the files grow, and what only removes lives.
func TestGaugeKillsWhatGoesOnWriting(t *testing.T) {
	path := t.TempDir()
	dir := hostbox.NewDir("box", path)
	if err := os.Mkdir(path+"/files", 0o755); err != nil {
		t.Fatal(err)
	}
	fill := func(bytes int) {
		t.Helper()
		if err := os.WriteFile(path+"/files/big", make([]byte, bytes), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parent, child := first(t)
	look := hostbox.Gauge(parent, dir, []string{"files"}, 1<<20, 100)
	for _, step := range []struct {
		bytes       int
		full, alive bool
	}{{500 << 10, false, true}, {1050 << 10, true, true}, {2 << 20, true, false}} {
		fill(step.bytes)
		d := look()
		if d.Full != step.full || d.Bytes < int64(step.bytes) || d.Inodes != 1 || child.Alive() != step.alive && step.alive {
			t.Errorf("%d bytes: %+v, alive %v", step.bytes, d, child.Alive())
		}
	}
	await(t, "the program is killed", func() bool { return !child.Alive() })
	if !parent.Alive() {
		t.Error("the first process was killed, too")
	}
	other, second := first(t)
	look = hostbox.Gauge(other, dir, []string{"files"}, 1<<20, 100)
	look() // grown since it was measured never
	await(t, "the program is killed", func() bool { return !second.Alive() })
	_, third := first(t)
	if d := look(); !d.Full || !third.Alive() {
		t.Errorf("files that do not grow: %+v, alive %v", d, third.Alive())
	}
}

func TestHalfMadeSnapshotsAreSwept(t *testing.T) {
	root, err := hostbox.OpenRoot(t.TempDir(), "test")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root.Path(), hostbox.SnapshotsDir)
	for _, name := range []string{"whole", "half.new/deep/er", "other.new", "anothers.new"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir+"/half.new/deep", 0); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"anothers.new": `{"backend":"another"}`, "half.new": `{"backend":"test"}`} {
		if err := os.WriteFile(filepath.Join(dir, name, "snapshot.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := root.SweepSnapshots(); err != nil {
			t.Fatal(err)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 || left[0].Name() != "anothers.new" || left[1].Name() != "whole" {
		t.Errorf("left: %v, %v", left, err)
	}
	if ids, err := root.IDs(); err != nil || slices.Contains(ids, hostbox.SnapshotsDir) {
		t.Errorf("the directory of snapshots counts as a box: %v, %v", ids, err)
	}
}

func TestPlainCopy(t *testing.T) {
	from, to := hostbox.NewDir("a", t.TempDir()), hostbox.NewDir("b", t.TempDir())
	if err := os.MkdirAll(from.Path("one", "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	files := hostbox.Plain{Dir: from, Names: []string{"one", "missing"}}
	if err := files.Copy(context.Background(), to); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(to.Path("one", "deep")); err != nil {
		t.Error(err)
	}
	if d, err := files.Measure(context.Background(), hostbox.Ident{}); err != nil || d.Inodes != 1 {
		t.Errorf("%+v, %v", d, err)
	}
}
