package gvisor_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox"
	"parley/internal/sandbox/sandboxtest"
)

func TestHostile(t *testing.T) {
	needRunsc(t)
	sandboxtest.Hostile(t, func(t *testing.T) sandbox.Backend { return open(t) }, sandboxtest.HostileOptions{
		Options:  sandboxtest.Options{Remove: remove, Patience: time.Minute},
		DataDir:  filepath.Join(shared, "boxes"),
		Harmless: harmless(),
	})
}

// harmless are the attacks on a kernel that succeed because the kernel is the box's
// own: what they show or change is gVisor's, and ends with the box. That nothing
// happens on the host, TestHarmless shows of each. Nothing below "host files", "host
// sockets", "network", "keys", "privileges" or "neighbours" may be among them.
func harmless() map[string]string {
	const emulated = "gVisor has one of its own; the host's is not reached"
	return map[string]string{
		"chroot out":             "above the root of the box is an empty read-only directory",
		"forwarding":             emulated,
		"sysrq":                  emulated,
		"kernel command line":    emulated,
		"network device node":    emulated,
		"user file systems":      emulated,
		"kill the first process": "the box harms itself only: it ends, and can be started again",
	}
}

// TestHarmless does inside what the harmless attacks ask for, and looks at the host.
func TestHarmless(t *testing.T) {
	p := newPlace(t)
	box := p.create(sandbox.Spec{ID: "harmless"})
	neighbour := p.create(sandbox.Spec{ID: "neighbour"})
	for _, c := range []struct {
		attack string
		try    func(t *testing.T)
	}{
		{"chroot out", func(t *testing.T) {
			if got := p.sh(box, "/.sandboxd leave-root"); got != "" {
				t.Errorf("above the root: %s", got)
			}
		}},
		{"forwarding", func(t *testing.T) {
			before := hostFiles(t, "/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv4/conf/all/forwarding")
			p.sh(box, "echo $((1 - $(cat /proc/sys/net/ipv4/ip_forward))) > /proc/sys/net/ipv4/ip_forward")
			if after := hostFiles(t, "/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv4/conf/all/forwarding"); after != before {
				t.Errorf("the host forwards %q, before %q", after, before)
			}
			p.sh(neighbour, `test "$(cat /proc/sys/net/ipv4/ip_forward)" = 0`)
		}},
		{"sysrq", func(t *testing.T) {
			before := kernelLog(t)
			_ = p.trySh(box, "echo h > /proc/sysrq-trigger") // on the host it would write its help to the log
			if after := kernelLog(t); strings.Count(after, "sysrq") != strings.Count(before, "sysrq") {
				t.Error("the host's kernel has heard it")
			}
		}},
		{"kernel command line", func(t *testing.T) {
			if host := hostFiles(t, "/proc/cmdline"); p.sh(box, "cat /proc/cmdline") == strings.TrimSpace(host) {
				t.Errorf("the host's is shown: %s", host)
			}
		}},
		{"network device node", func(t *testing.T) { p.opensNothing(t, box, "/dev/net/tun") }},
		{"user file systems", func(t *testing.T) { p.opensNothing(t, box, "/dev/fuse") }},
		{"kill the first process", func(t *testing.T) { // the last: it ends the box
			canary := exec.Command("sleep", "1000")
			if err := canary.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = canary.Process.Kill(); _ = canary.Wait() }()
			_ = p.trySh(box, "kill -KILL 1; kill -KILL -1")
			select {
			case <-box.Done():
			case <-time.After(patience):
				t.Error("the box goes on without its first process")
			}
			p.sh(neighbour, "true")
			if err := canary.Process.Signal(syscall.Signal(0)); err != nil {
				t.Errorf("a process of the host: %v", err)
			}
		}},
	} {
		if harmless()[c.attack] == "" {
			t.Errorf("%s is not listed", c.attack)
		}
		t.Run(c.attack, c.try)
	}
}

// hostFiles returns what files of the host hold.
func hostFiles(t *testing.T, paths ...string) string {
	t.Helper()
	var all []string
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(data))
	}
	return strings.Join(all, " ")
}

// kernelLog returns what the host's kernel has said.
func kernelLog(t *testing.T) string {
	t.Helper()
	buf := make([]byte, 1<<20)
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, buf)
	if err != nil {
		t.Skipf("the host's kernel log cannot be read: %v", err)
	}
	return string(buf[:n])
}

// opensNothing holds a device open inside, and looks that no process which belongs
// to the box on the host has it open, and that the box's network on the host is as
// before.
func (p *place) opensNothing(t *testing.T, box sandbox.Box, device string) {
	t.Helper()
	pid, err := sentry(filepath.Join(p.dir, box.Handle().ID))
	if err != nil {
		t.Fatal(err)
	}
	before := interfaces(t, pid)
	p.sh(box, "rm -f held; (exec 9<>"+device+" && touch held && exec sleep 1000) >/dev/null 2>&1 & while ! test -e held; do sleep 0.01; done")
	for _, process := range members(t, pid, p.dir) {
		links, err := filepath.Glob(fmt.Sprintf("/proc/%s/fd/*", process))
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range links {
			if at, err := os.Readlink(link); err == nil && at == device {
				t.Errorf("process %s of the box has the host's %s open", process, device)
			}
		}
	}
	if after := interfaces(t, pid); !slices.Equal(after, before) {
		t.Errorf("interfaces on the host: %v, before: %v", after, before)
	}
}

// interfaces lists the network devices that a process of the host sees.
func interfaces(t *testing.T, pid int) []string {
	t.Helper()
	var names []string
	for line := range strings.Lines(hostFiles(t, fmt.Sprintf("/proc/%d/net/dev", pid))) {
		if name, _, ok := strings.Cut(line, ":"); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	slices.Sort(names)
	return names
}

// members lists the processes of the host that share a process's network namespace,
// which a box has for itself, or that name the directory of boxes.
func members(t *testing.T, pid int, dir string) []string {
	t.Helper()
	want, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		t.Fatal(err)
	}
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, proc := range all {
		at, _ := os.Readlink(proc + "/ns/net")
		line, _ := os.ReadFile(proc + "/cmdline")
		if at == want || bytes.Contains(line, []byte(dir)) {
			list = append(list, filepath.Base(proc))
		}
	}
	if len(list) < 2 { // the sentry and its gofer
		t.Fatalf("the processes of the box are %v", list)
	}
	return list
}

// trySh runs a script that may fail.
func (p *place) trySh(box sandbox.Box, script string) sandboxtest.Output {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, _ := sandboxtest.Exec(ctx, box, "sh", "-c", script)
	return out
}
