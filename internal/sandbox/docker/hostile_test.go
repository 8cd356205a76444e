package docker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/internal/fault"
	"parley/internal/sandbox"
)

// TestRightsInside: what the first process had and gave up, nobody has, itself
// included.
func TestRightsInside(t *testing.T) {
	p := realPlace(t)
	p.options.Network = outward
	box := p.box(p.backend(), sandbox.Spec{ID: "rights"})
	const kept = "00000000800404fb" // chown, dac_override, fowner, fsetid, kill, setgid, setuid, net_bind_service, sys_chroot, setfcap
	for _, of := range []string{"self", "1"} {
		status := sh(t, box, "cat /proc/"+of+"/status")
		for _, want := range []string{"CapBnd:\t" + kept, "CapPrm:\t" + kept, "CapEff:\t" + kept,
			"CapInh:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
			if !strings.Contains(status, want) {
				t.Errorf("%s: %q is missing in %s", of, want, status)
			}
		}
	}
	for name, script := range map[string]string{
		"a network device":         "test -e /dev/net/tun",
		"making device nodes":      "mknod /tmp/null c 1 3",
		"mounting":                 "mount -t tmpfs none /mnt",
		"a user namespace":         "unshare -Ur true",
		"changing the network":     "ip link set lo down || echo 1 > /proc/sys/net/ipv4/ip_forward",
		"writing our program":      "echo x > /.parley/exe || echo x > /proc/1/exe",
		"removing our program":     "rm /.parley/exe || umount /.parley/exe",
		"the control socket":       "test -e /.parley/run/control",
		"making files in our area": "touch /.parley/run/x",
		"the first process's own":  "readlink /proc/1/fd/3 || cat /proc/1/environ | grep -q . || head -c 1 /proc/1/mem",
		"the engine":               "test -e /var/run/docker.sock || test -e /run/docker.sock",
		"disks":                    "ls /dev/sd* /dev/vd* /dev/nvme* 2>/dev/null | grep -q .",
		"the machine's log":        "dmesg",
		"kernel settings":          "echo 1 > /proc/sys/kernel/panic || echo b > /proc/sysrq-trigger",
		"killing the first":        "kill -9 1 && sleep 0.2 && ! kill -0 1",
		"control groups":           "for f in /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes; do test -e $f && echo 100000000000 > $f && exit 0; done; exit 1",
	} {
		if out := run(t, box, "sh", "-c", script); out.Code == 0 {
			t.Errorf("%s: possible: %s", name, out.Text)
		}
	}
	if names := sh(t, box, "cat /etc/resolv.conf"); names != "nameserver 10.0.2.3" {
		t.Errorf("name servers: %q", names)
	}
}

// TestMountsOfTheServer: what is the server's or the engine's is not shown.
func TestMountsOfTheServer(t *testing.T) {
	p := realPlace(t)
	b := p.backend()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(p.options.Dir, link); err != nil {
		t.Fatal(err)
	}
	socket := strings.TrimPrefix(p.options.Host, "unix://")
	for name, m := range map[string]sandbox.Mount{
		"the data directory":  {Source: p.options.Dir, Target: "/x"},
		"above it":            {Source: filepath.Dir(p.options.Dir), Target: "/x"},
		"a link to it":        {Source: link, Target: "/x"},
		"everything":          {Source: "/", Target: "/x"},
		"the engine's socket": {Source: filepath.Dir(socket), Target: "/x", ReadOnly: true},
		"over our own":        {Source: t.TempDir(), Target: "/.parley/run"},
	} {
		if _, err := b.Create(t.Context(), sandbox.Spec{ID: "mounts", Mounts: []sandbox.Mount{m}}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOfflineHasNothing: no device, no right to make one.
func TestOfflineHasNothing(t *testing.T) {
	p := realPlace(t)
	p.options.Network = outward
	b := p.backend()
	box := p.box(b, sandbox.Spec{ID: "offline", Network: sandbox.Network{Mode: sandbox.NetworkNone}})
	if got := sh(t, box, "grep -c : /proc/net/dev; cat /etc/resolv.conf"); got != "1\n# offline" {
		t.Errorf("inside: %q", got)
	}
	if c := p.containerOf(b, box); strings.Contains(c, "NET_ADMIN") || strings.Contains(c, "/dev/net/tun") {
		t.Error("a box that is offline was given what only a network needs")
	}
	sh(t, box, "bash -c 'exec 3<>/dev/tcp/127.0.0.1/1' 2>&1 | grep -q refused") // loopback is up
}
