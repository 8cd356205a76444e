package cgroup_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/internal/sandbox/cgroup"
)

// TestUsage reads the files of each version; those of the other one are missing.
func TestUsage(t *testing.T) {
	dir := t.TempDir()
	v2, memory, pids, cpuacct := filepath.Join(dir, "v2"), filepath.Join(dir, "memory"), filepath.Join(dir, "pids"), filepath.Join(dir, "cpuacct")
	fake(t, v2, map[string]string{"cpu.stat": "usage_usec 1500\nuser_usec 900\n", "memory.current": "9000\n",
		"memory.stat": "anon 5000\ninactive_file 4000\n", "memory.events": "low 0\noom 3\noom_kill 2\n",
		"pids.current": "7\n", "pids.events": "max 5\n"})
	fake(t, memory, map[string]string{"memory.usage_in_bytes": "800\n", "memory.stat": "inactive_file 1\ntotal_inactive_file 900\n",
		"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"})
	fake(t, pids, map[string]string{"pids.current": "3\n", "pids.events": "max 1\n"})
	fake(t, cpuacct, map[string]string{"cpuacct.usage": "42\n"})
	for name, test := range map[string]struct {
		dirs map[string]string
		want cgroup.Usage
	}{
		"version 2": {map[string]string{"unified": v2},
			cgroup.Usage{CPU: 1500 * time.Microsecond, MemoryBytes: 5000, Processes: 7, OOMKills: 2, ForksRefused: 5}},
		"version 1": {map[string]string{"memory": memory, "pids": pids, "cpuacct": cpuacct},
			cgroup.Usage{CPU: 42, MemoryBytes: 0, Processes: 3, OOMKills: 4, ForksRefused: 1}},
		"limits on 1, the rest on 2": {map[string]string{"unified": v2, "memory": memory, "pids": pids},
			cgroup.Usage{CPU: 1500 * time.Microsecond, MemoryBytes: 0, Processes: 3, OOMKills: 4, ForksRefused: 1}},
		"removed": {map[string]string{"unified": filepath.Join(dir, "none")}, cgroup.Unknown()},
	} {
		g := &cgroup.Group{Dirs: test.dirs}
		if diff := cmp.Diff(test.want, g.Usage()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	var none *cgroup.Group
	if diff := cmp.Diff(cgroup.Unknown(), none.Usage()); diff != "" {
		t.Errorf("a nil group: %s", diff)
	}
}

// realGroup makes a group on this machine that holds what is named.
func realGroup(t *testing.T, lim cgroup.Limits, needs ...string) *cgroup.Group {
	t.Helper()
	m := cgroup.Open()
	for _, what := range needs {
		if !m.Holds(what) {
			t.Skipf("this user has no control groups with %s here", what)
		}
	}
	g, err := m.Create(fmt.Sprintf("%s-%d", t.Name(), os.Getpid()), lim)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return g
}

// inside runs a shell script in the group and returns what it printed.
func inside(t *testing.T, g *cgroup.Group, script string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", "read go; "+script)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := g.Add(cmd.Process.Pid); err != nil {
		t.Error(err)
	}
	_, _ = in.Write([]byte("go\n"))
	_ = cmd.Wait() // it may be killed
	return out.String()
}

func TestRefusedForksAreCounted(t *testing.T) {
	g := realGroup(t, cgroup.Limits{Processes: 4}, "pids")
	inside(t, g, "for i in 1 2 3 4 5 6; do sleep 0.1 & done; wait")
	if u := g.Usage(); u.ForksRefused < 1 || u.Processes < 0 || u.Processes > 4 {
		t.Errorf("%+v", u)
	}
}

func TestOutOfMemoryKillsAreCounted(t *testing.T) {
	g := realGroup(t, cgroup.Limits{MemoryBytes: 32 << 20}, "memory")
	inside(t, g, "head -c 256M /dev/zero | tail | wc -c")
	if u := g.Usage(); u.OOMKills < 1 || u.MemoryBytes < 0 {
		t.Errorf("%+v", u)
	}
}

// TestProcessorTimeIsBounded compares time used with time passed: it may be less
// on a busy machine, not more.
func TestProcessorTimeIsBounded(t *testing.T) {
	g := realGroup(t, cgroup.Limits{CPUs: 0.1}, "cpu")
	start := time.Now()
	inside(t, g, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
	passed, used := time.Since(start), g.Usage().CPU
	if used <= 0 || used > passed/5+50*time.Millisecond {
		t.Errorf("%v of processor time in %v with a tenth of a core", used, passed)
	}
}
