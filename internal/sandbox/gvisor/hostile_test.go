package gvisor_test

import (
	"path/filepath"
	"testing"
	"time"

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
// own: what they show or change is gVisor's, and ends with the box. Nothing below
// "host files", "host sockets", "network" or "neighbours" may be among them.
func harmless() map[string]string {
	const (
		emulated = "gVisor answers it by itself; the host's kernel is not asked"
		inside   = "the first process inside is the box's own, and so is user 0 who asks: it harms itself only"
	)
	all := map[string]string{}
	for _, attack := range []string{"perf_event_open", "syslog", "chroot out", "keyctl", "clone user and mount", "clone user",
		"clone mount", "forwarding", "sysrq", "kernel command line", "network device node", "user file systems", "no system call filter"} {
		all[attack] = emulated
	}
	for _, attack := range []string{"root of the first process", "working directory of the first process",
		"environment of the first process", "descriptors of the first process", "kill the first process"} {
		all[attack] = inside
	}
	return all
}
