package cgroup_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/internal/sandbox/cgroup"
)

const hybridMounts = `30 23 0:26 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw
32 30 0:28 /docker/abc /sys/fs/cgroup/memory rw shared:11 - cgroup cgroup rw,memory
33 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
34 30 0:30 / /sys/fs/cgroup/with\040space rw - cgroup cgroup rw,pids
`

func TestParse(t *testing.T) {
	for name, test := range map[string]struct {
		mounts, self string
		want         map[string]string
	}{
		"hybrid": {hybridMounts, "12:pids:/a\n4:memory:/docker/abc/x\n2:cpu,cpuacct:/\n0::/user.slice\n", map[string]string{
			"unified": "/sys/fs/cgroup/unified/user.slice",
			"memory":  "/sys/fs/cgroup/memory/x",
			"cpu":     "/sys/fs/cgroup/cpu,cpuacct", "cpuacct": "/sys/fs/cgroup/cpu,cpuacct",
			"pids": "/sys/fs/cgroup/with space/a",
		}},
		"outside of a namespace": {hybridMounts, "4:memory:/../../other\n", map[string]string{"memory": "/sys/fs/cgroup/memory"}},
		"pure version 2": {"31 30 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/system.slice/parley.service\n",
			map[string]string{"unified": "/sys/fs/cgroup/system.slice/parley.service"}},
		"nothing":  {"", "", map[string]string{}},
		"nonsense": {"a b c - d\n- - -\n", ":::\nx\n", map[string]string{}},
	} {
		if diff := cmp.Diff(test.want, cgroup.Parse(test.mounts, test.self)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(hybridMounts, "12:pids:/a\n0::/\n")
	f.Fuzz(func(t *testing.T, mounts, self string) {
		for name, dir := range cgroup.Parse(mounts, self) {
			if strings.Contains(dir, "/../") {
				t.Errorf("%s: %q", name, dir)
			}
		}
	})
}

// fake makes a directory that looks like a version 2 group. Its control files
// are plain files: what was written can be read.
func fake(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestUnifiedLimits checks which files of a pure version 2 machine are written.
// The machine that runs this may have its controllers on version 1.
func TestUnifiedLimits(t *testing.T) {
	root := t.TempDir() // allows nothing: it looks like no group
	own := filepath.Join(root, "service")
	fake(t, own, map[string]string{"cgroup.controllers": "cpu io memory pids", "cgroup.subtree_control": "", "cgroup.procs": ""})
	fake(t, filepath.Join(own, "parley"), map[string]string{"cgroup.subtree_control": ""})
	fake(t, filepath.Join(own, "parley", "box"), map[string]string{"cpu.max": "", "memory.max": "", "memory.swap.max": "", "pids.max": ""})
	m := cgroup.OpenAt(fmt.Sprintf("31 30 0:27 / %s rw - cgroup2 cgroup2 rw\n", root), "0::/service\n", os.Getpid())
	for _, what := range []string{"cpu", "memory", "pids", "freeze", "kill"} {
		if !m.Holds(what) {
			t.Errorf("%s does not hold", what)
		}
	}
	g, err := m.Create("box", cgroup.Limits{CPUs: 1.5, MemoryBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	dir := g.Dirs["unified"]
	got := []string{content(t, own+"/cgroup.subtree_control"), content(t, dir+"/cpu.max"), content(t, dir+"/memory.max"),
		content(t, dir+"/memory.swap.max"), content(t, dir+"/pids.max")}
	if diff := cmp.Diff([]string{"+cpu +memory +pids", "150000 100000", "1048576", "0", "max"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestAboveTheServersGroup: the next server can be started in the group of this one
// only if nothing is made below it.
func TestAboveTheServersGroup(t *testing.T) {
	root := t.TempDir()
	group := map[string]string{"cgroup.controllers": "cpu memory pids", "cgroup.subtree_control": "", "cgroup.procs": ""}
	slice, own := filepath.Join(root, "system.slice"), filepath.Join(root, "system.slice", "parley.service")
	for _, dir := range []string{root, slice, own} {
		fake(t, dir, group)
		fake(t, filepath.Join(dir, "parley"), map[string]string{"cgroup.subtree_control": ""})
	}
	fake(t, filepath.Join(slice, "parley", "box"), map[string]string{"cpu.max": "", "memory.max": "", "memory.swap.max": "", "pids.max": ""})
	m := cgroup.OpenAt(fmt.Sprintf("31 30 0:27 / %s rw - cgroup2 cgroup2 rw\n", root), "0::/system.slice/parley.service\n", os.Getpid())
	g, err := m.Create("box", cgroup.Limits{})
	if err != nil || g.Dirs["unified"] != filepath.Join(slice, "parley", "box") {
		t.Fatalf("%+v, %v", g, err)
	}
	if got := content(t, own+"/cgroup.subtree_control") + content(t, own+"/cgroup.procs"); got != "" {
		t.Errorf("the server's own group was changed: %q", got)
	}
}

// TestUnwritable finds nothing to use where nothing may be written.
func TestUnwritable(t *testing.T) {
	m := cgroup.OpenAt("31 30 0:27 / /proc/none rw - cgroup2 cgroup2 rw\n", "0::/\n", os.Getpid())
	if m.Holds("memory") || m.Holds("freeze") {
		t.Error("groups that cannot be made are said to hold")
	}
	if g, err := m.Create("x", cgroup.Limits{}); g != nil || err != nil {
		t.Errorf("%v, %v", g, err)
	}
	var none *cgroup.Group
	if err := none.Add(1); err != nil || none.CanFreeze() {
		t.Errorf("a nil group: %v", err)
	}
}

// counter starts a program that writes into a file for ever, in group g.
func counter(t *testing.T, g *cgroup.Group) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "count")
	cmd := exec.Command("sh", "-c", `read go; while :; do echo >> "$0"; sleep 0.005; done`, path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	if err := g.Add(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	return path
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

func awaitGrowth(t *testing.T, path string) {
	t.Helper()
	start, deadline := size(path), time.Now().Add(20*time.Second)
	for size(path) <= start {
		if time.Now().After(deadline) {
			t.Fatal("the program does not run")
		}
		time.Sleep(time.Millisecond)
	}
}

// TestFreeze freezes real processes with each hierarchy that this machine has.
func TestFreeze(t *testing.T) {
	m := cgroup.Open()
	id := fmt.Sprintf("test-%d", os.Getpid())
	real, err := m.Create(id, cgroup.Limits{})
	if err != nil || real == nil {
		t.Skipf("this user has no control groups here: %v", err)
	}
	t.Cleanup(func() {
		if err := real.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	groups := map[string]*cgroup.Group{}
	if dir := real.Dirs["unified"]; dir != "" {
		groups["version 2"] = &cgroup.Group{Dirs: map[string]string{"unified": dir}}
	}
	if v1 := "/sys/fs/cgroup/freezer/" + id; os.Mkdir(v1, 0o755) == nil {
		groups["version 1"] = &cgroup.Group{Dirs: map[string]string{"freezer": v1}}
	}
	for name, g := range groups {
		t.Run(name, func(t *testing.T) { freezeAndThaw(t, g) })
	}
	if g := groups["version 1"]; g != nil {
		if err := g.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

func freezeAndThaw(t *testing.T, g *cgroup.Group) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	path := counter(t, g)
	awaitGrowth(t, path)
	for range 5 {
		if err := g.Freeze(ctx); err != nil {
			t.Fatal(err)
		}
		if !g.Frozen() {
			t.Error("the group does not say that it is frozen")
		}
		frozen := size(path)
		// The measurement itself: how far does a frozen program come in this time?
		time.Sleep(50 * time.Millisecond)
		if now := size(path); now != frozen {
			t.Errorf("a frozen program went on from %d to %d", frozen, now)
		}
		if err := g.Thaw(ctx); err != nil {
			t.Fatal(err)
		}
		if g.Frozen() {
			t.Error("the group still says that it is frozen")
		}
		awaitGrowth(t, path)
	}
	if len(g.Processes()) == 0 {
		t.Error("the group has no processes")
	}
	if err := g.Freeze(ctx); err != nil {
		t.Fatal(err)
	}
	if killed, err := g.Kill(); err != nil {
		t.Error(err)
	} else if !killed {
		if err := g.Thaw(ctx); err != nil {
			t.Error(err)
		}
	}
}

func TestRemoveIsIdempotent(t *testing.T) {
	g := &cgroup.Group{Dirs: map[string]string{"unified": filepath.Join(t.TempDir(), "never")}}
	if err := g.Remove(context.Background()); err != nil {
		t.Error(err)
	}
	if killed, err := g.Kill(); killed || err != nil {
		t.Errorf("kill of nothing: %v, %v", killed, err)
	}
}
