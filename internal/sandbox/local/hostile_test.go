package local_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/local"
	"parley/internal/sandbox/sandboxtest"
)

const patience = 30 * time.Second

func run(t *testing.T, box sandbox.Box, script string) sandboxtest.Output {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := sandboxtest.Exec(ctx, box, "sh", "-c", script)
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return out
}

// sh runs a script inside that must succeed.
func sh(t *testing.T, box sandbox.Box, script string) string {
	t.Helper()
	out := run(t, box, script)
	if out.Code != 0 || out.Err != "" {
		t.Fatalf("%s: code %d %s: %s", script, out.Code, out.Err, out.Text)
	}
	return strings.TrimSpace(out.Text)
}

func holds(t *testing.T, b *local.Backend, name string) bool {
	t.Helper()
	for _, g := range b.Caps().Guarantees {
		if g.Name == name {
			return g.Holds
		}
	}
	t.Fatalf("no guarantee is called %s", name)
	return false
}

func TestSecretsAreNotVisible(t *testing.T) {
	const secret = "parley-test-secret"
	for _, dir := range []string{os.TempDir(), shared, filepath.Join(shared, "boxes")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := os.CreateTemp(dir, secret)
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		t.Cleanup(func() { _ = os.Remove(f.Name()) })
	}
	box := create(t, newBackend(t), sandbox.Spec{ID: "secrets"})
	if out := sh(t, box, "find / -xdev -name '"+secret+"*' 2>/dev/null; true"); out != "" {
		t.Errorf("visible: %s", out)
	}
	if out := sh(t, box, "ls -A /home /mnt /media /srv; ls -A /root | grep -v '^\\.\\(bash\\|profile\\)'; true"); strings.Count(out, "\n") > 6 {
		t.Errorf("homes or mounts of the host: %s", out)
	}
	if out := sh(t, box, "cut -d: -f2 /etc/shadow /etc/gshadow | sort -u"); out != "*" {
		t.Errorf("password hashes: %s", out)
	}
	for _, path := range []string{"/boot", shared, "/etc/ssh", "/etc/ssl/private/ssl-cert-snakeoil.key", "/run/dbus", "/var/lib/postgresql", "/.dockerenv"} {
		if out := run(t, box, "ls -d "+path); out.Code == 0 {
			t.Errorf("%s is visible", path)
		}
	}
	// No more than an ordinary account of the host may read.
	if out := sh(t, box, "find /usr/local /opt /etc -xdev ! -perm -o=r ! -type l 2>/dev/null | grep -v '^/etc/g\\?shadow$'; true"); out != "" {
		t.Errorf("private files: %s", out)
	}
	if out := sh(t, box, "cat /proc/self/mounts"); strings.Contains(out, shared) {
		t.Errorf("paths of the host: %s", out)
	}
}

func TestHostIsNotChanged(t *testing.T) {
	box := create(t, newBackend(t), sandbox.Spec{ID: "changes"})
	sh(t, box, `touch /usr/bin/parley-test-new /etc/parley-test-new /opt/parley-test-new &&
		mkdir -p /usr/local/lib/parley-test-dir/deep && echo x > /usr/local/lib/parley-test-dir/deep/file &&
		mkdir /parley-test-root && rm /usr/bin/env && echo "1.2.3.4 evil" >> /etc/hosts && rm -rf /usr/share/doc`)
	for _, path := range []string{"/usr/bin/parley-test-new", "/etc/parley-test-new", "/opt/parley-test-new",
		"/usr/local/lib/parley-test-dir", "/parley-test-root"} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was made on the host", path)
		}
	}
	if _, err := os.Stat("/usr/bin/env"); err != nil {
		t.Error("a program was removed from the host")
	}
	if hosts, _ := os.ReadFile("/etc/hosts"); strings.Contains(string(hosts), "evil") {
		t.Error("the host's /etc/hosts was changed")
	}
	other := create(t, newBackend(t), sandbox.Spec{ID: "changes-neighbour"})
	sh(t, other, "test -x /usr/bin/env && ! test -e /usr/bin/parley-test-new && ! grep evil /etc/hosts")
}

// TestPackages installs, replaces and removes packages, and where it is promised
// changes files of the host in place.
func TestPackages(t *testing.T) {
	if _, err := os.Stat("/usr/bin/dpkg-deb"); err != nil {
		t.Skip("the host has no dpkg: nothing to install")
	}
	b := newBackend(t)
	box := create(t, b, sandbox.Spec{ID: "packages"})
	sh(t, box, `mkdir -p p/DEBIAN p/usr/share/parley-test p/etc p/var/lib/parley-test && cd p &&
		printf 'Package: parley-test\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: x\n' > DEBIAN/control &&
		printf '#!/bin/sh\nset -e\nchown 33:33 /usr/share/parley-test/file\nadduser --version >/dev/null 2>&1 || true\n' > DEBIAN/postinst &&
		chmod 755 DEBIAN/postinst && echo one > usr/share/parley-test/file && echo c > etc/parley-test.conf && cd .. &&
		dpkg-deb -b p one.deb && sed -i 's/Version: 1/Version: 2/' p/DEBIAN/control && echo two > p/usr/share/parley-test/file && dpkg-deb -b p two.deb`)
	sh(t, box, "dpkg -i ./one.deb && grep -q one /usr/share/parley-test/file")
	sh(t, box, "dpkg -i ./two.deb && grep -q two /usr/share/parley-test/file")
	sh(t, box, "apt-get -o APT::Get::AutomaticRemove=false -y remove parley-test && ! test -e /usr/share/parley-test/file")
	if holds(t, b, "change_packages") {
		sh(t, box, "f=$(find /usr/share/perl* /usr/lib/python3 -type f 2>/dev/null | head -1); echo x >> $f && chown 5:5 $f && mv $f $f.moved")
		sh(t, box, "dpkg --force-depends --force-remove-essential -P $(dpkg-query -W -f '${Package}\n' | grep -m1 -E '^(xz-utils|bzip2|vim-common|git)$')")
	}
	if status, err := os.ReadFile("/var/lib/dpkg/status"); err != nil || strings.Contains(string(status), "parley-test") {
		t.Error("the host's package database was changed")
	}
}

// TestWithoutIDMap is what root has on kernels and file systems that cannot map
// ids: a range of ids, and the host's files as an ordinary user sees them.
func TestWithoutIDMap(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user has no id-mapped mounts anyway")
	}
	if testing.Short() {
		t.Skip("short: the layers of a data directory of its own take seconds")
	}
	o := local.WithoutIDMap(options(t))
	o.Dir = filepath.Join(t.TempDir(), "boxes")
	b, err := local.New(o)
	if err != nil {
		t.Fatal(err)
	}
	box := create(t, b, sandbox.Spec{ID: "unmapped"})
	if holds(t, b, "change_packages") {
		t.Error("the backend claims what needs id-mapped mounts")
	}
	sh(t, box, `mkdir -p /usr/local/lib/x/y && touch /usr/bin/new /usr/local/lib/x/y/z && rm /usr/bin/env && chown 5:5 /usr/bin/new &&
		! echo x >> /usr/bin/sh && test "$(stat -c %u /usr/bin/new)" = 5`)
	_, err = b.Create(context.Background(), sandbox.Spec{ID: "unmapped-mount", Mounts: []sandbox.Mount{{Source: t.TempDir(), Target: "/m"}}})
	if !fault.Is(err, fault.Unsupported) {
		t.Errorf("a mount without id-mapping: %v, want Unsupported", err)
	}
}

func TestForkBomb(t *testing.T) {
	const limit = 64
	b := newBackend(t)
	box := create(t, b, sandbox.Spec{ID: "forks", Limits: sandbox.Limits{Processes: limit}})
	neighbour := create(t, newBackend(t), sandbox.Spec{ID: "forks-neighbour"})
	out := run(t, box, `for i in $(seq 300); do sleep 1000 & done; true`)
	if !strings.Contains(strings.ToLower(out.Text), "fork") {
		t.Errorf("300 processes were started in a box for %d: %s", limit, out.Text)
	}
	if n := countInside(t, box); n > limit {
		t.Errorf("%d processes in a box for %d", n, limit)
	}
	// A bomb that goes on: the neighbour and the host answer all the same.
	run(t, box, `(bomb() { bomb | bomb & }; while :; do bomb; done) >/dev/null 2>&1 &`)
	for i := range 50 {
		if got := sh(t, neighbour, fmt.Sprint("sh -c 'echo ", i, "'")); got != fmt.Sprint(i) {
			t.Fatalf("a neighbour's command: %q", got)
		}
		if err := exec.Command("true").Run(); err != nil {
			t.Fatalf("the host cannot start a program: %v", err)
		}
	}
	if u := usage(t, box); u.Processes > limit || u.ForksRefused == 0 {
		t.Errorf("%+v in a box for %d", u, limit)
	}
}

// countInside counts the processes of a box from outside: inside, there is no
// room to look.
func countInside(t *testing.T, box sandbox.Box) int {
	t.Helper()
	state, err := stateOf(box)
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", state.Process.PID))
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob("/proc/[0-9]*/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, path := range paths {
		if link, err := os.Readlink(path); err == nil && link == namespace {
			count++
		}
	}
	if count < 10 {
		t.Errorf("only %d processes were found: is the count right?", count)
	}
	return count
}

func TestMemoryHog(t *testing.T) {
	b := newBackend(t)
	if !holds(t, b, "memory_limit") {
		_ = b.Close()
		t.Skip("Caps says that memory is not limited here, so a hog is not tried")
	}
	box := create(t, b, sandbox.Spec{ID: "hog", Limits: sandbox.Limits{MemoryBytes: 128 << 20}})
	neighbour := create(t, newBackend(t), sandbox.Spec{ID: "hog-neighbour"})
	sh(t, box, `(while :; do head -c 1G /dev/zero | tail > /dev/null; done) >/dev/null 2>&1 &`)
	await(t, "a kill for want of memory", func() bool { return usage(t, box).OOMKills > 0 })
	for i := range 50 {
		if got := sh(t, neighbour, fmt.Sprint("echo ", i)); got != fmt.Sprint(i) {
			t.Fatalf("a neighbour's command: %q", got)
		}
	}
	sh(t, box, "echo alive")
	if u := usage(t, neighbour); u.OOMKills != 0 {
		t.Errorf("the neighbour suffers: %+v", u)
	}
}

func TestLinksLeadNowhere(t *testing.T) {
	victim := t.TempDir()
	if err := os.Chmod(victim, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(victim, "precious"), []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	b := newBackend(t)
	box := create(t, b, sandbox.Spec{ID: "links", WorkingDir: "/custom/project"})
	sh(t, box, fmt.Sprintf(`ln -s / up && ln -s %[1]s victim && ! ls up%[1]s 2>/dev/null && ! cat victim/precious 2>/dev/null &&
		mv /custom /moved && ln -s %[1]s /custom && rm -rf /root && ln -s %[1]s /root && rmdir /var/tmp && ln -s %[1]s /var/tmp`, victim))
	if err := sandboxtest.Crash(context.Background(), box); err != nil {
		t.Fatal(err)
	}
	<-box.Done()
	// It may fail, since the box has ruined its own root; the host must not suffer.
	if again, err := b.Restart(context.Background(), box.Handle()); err == nil {
		sh(t, again, "true")
	} else {
		t.Logf("restart: %v", err)
	}
	if err := b.Destroy(context.Background(), box.Handle()); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(victim)
	if err != nil || len(entries) != 1 {
		t.Errorf("the host's directory has %v, %v", entries, err)
	}
}

func TestDescriptorsAreNotInherited(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFD, 0); err != nil { // as a parent of the server may have left it
		t.Fatal(err)
	}
	box := create(t, newBackend(t), sandbox.Spec{ID: "descriptors"})
	if out := sh(t, box, "ls /proc/self/fd | tr '\\n' ' '"); out != "0 1 2 3" {
		t.Errorf("descriptors inside: %s", out)
	}
}

func TestLimitsInside(t *testing.T) {
	box := create(t, newBackend(t), sandbox.Spec{ID: "limits", Limits: sandbox.Limits{OpenFiles: 333}})
	if out := sh(t, box, "ulimit -Hn; ulimit -Sn; ulimit -c"); out != "333\n333\n0" {
		t.Errorf("limits: %q", out)
	}
	status := sh(t, box, "grep -E '^(NoNewPrivs|Seccomp|CapInh|CapAmb):' /proc/self/status")
	for _, want := range []string{"NoNewPrivs:\t1", "Seccomp:\t2", "CapInh:\t0000000000000000", "CapAmb:\t0000000000000000"} {
		if !strings.Contains(status, want) {
			t.Errorf("%q is missing in %s", want, status)
		}
	}
	if out := sh(t, box, "hostname; id -u; cat /proc/net/dev | wc -l"); !strings.HasPrefix(out, "sandbox\n0\n") {
		t.Errorf("identity: %s", out)
	}
}

func TestNetworkNone(t *testing.T) {
	box := create(t, newBackend(t), sandbox.Spec{ID: "offline", Network: sandbox.Network{Mode: sandbox.NetworkNone}})
	if out := sh(t, box, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' \\n'"); out != "lo" {
		t.Errorf("devices: %s", out)
	}
}

// recorder is the server's side of a box's network: it takes packets.
type recorder struct {
	file    *os.File
	packets chan []byte
	ended   chan struct{}
}

func (r *recorder) Close() error {
	err := r.file.Close()
	<-r.ended
	return err
}

func record(tun int) *recorder {
	r := &recorder{file: os.NewFile(uintptr(tun), "tun"), packets: make(chan []byte, 64), ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		for {
			buf := make([]byte, 65536)
			n, err := r.file.Read(buf)
			if err != nil {
				return
			}
			select {
			case r.packets <- buf[:n]:
			default:
			}
		}
	}()
	return r
}

func TestNetworkOutbound(t *testing.T) {
	made := make(chan *recorder, 8)
	o := options(t)
	o.Network = func(_ context.Context, tun int, _ string, _ sandbox.Network) (io.Closer, error) {
		r := record(tun)
		made <- r
		return r, nil
	}
	b, err := local.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if !holds(t, b, "network_outbound") {
		_ = b.Close()
		t.Skip("Caps says that there is no network device here")
	}
	box, err := b.Create(context.Background(), sandbox.Spec{ID: "online"})
	if err != nil {
		t.Fatal(err)
	}
	wantPacket(t, box, <-made)
	// A frozen box can be adopted with its network.
	if err := box.Pause(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b, err = local.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	box, err = b.Adopt(context.Background(), box.Handle())
	if err != nil {
		t.Fatal(err)
	}
	if err := box.Resume(context.Background()); err != nil {
		t.Fatal(err)
	}
	r := <-made
	wantPacket(t, box, r)
	if err := b.Destroy(context.Background(), box.Handle()); err != nil {
		t.Fatal(err)
	}
	<-r.ended
}

// wantPacket lets a program inside send to a public address, and waits for the
// packet.
func wantPacket(t *testing.T, box sandbox.Box, r *recorder) {
	t.Helper()
	sh(t, box, "bash -c 'echo marker-for-the-test > /dev/udp/203.0.113.7/4242'")
	timeout := time.After(patience)
	for {
		select {
		case p := <-r.packets:
			if len(p) >= 28 && p[0]>>4 == 4 && strings.Contains(string(p), "marker-for-the-test") {
				if !slices.Equal(p[12:16], []byte{10, 0, 2, 100}) || !slices.Equal(p[16:20], []byte{203, 0, 113, 7}) {
					t.Errorf("addresses % x", p[12:20])
				}
				return
			}
		case <-timeout:
			t.Fatal("no packet left the box")
		}
	}
}

// TestNothingIsLeft looks for mounts, groups and files after a busy box is gone.
func TestNothingIsLeft(t *testing.T) {
	mounts := func() string {
		data, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	before := mounts()
	b := newBackend(t)
	box := create(t, b, sandbox.Spec{ID: "left-overs"})
	sh(t, box, `mkdir -p a/b && chmod 0 a/b && touch "$(printf 'odd\nname')" && mkfifo pipe && setsid sleep 1000 >/dev/null 2>&1 & sleep 0.01`)
	sh(t, box, "mkdir -p /usr/share/closed/inner && chmod 0 /usr/share/closed")
	if err := b.Destroy(context.Background(), box.Handle()); err != nil {
		t.Fatal(err)
	}
	if after := mounts(); after != before {
		t.Errorf("mounts before:\n%s\nafter:\n%s", before, after)
	}
	if left, _ := filepath.Glob(filepath.Join(shared, "boxes", "left-overs*")); len(left) > 0 {
		t.Errorf("files: %v", left)
	}
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(e.Name(), "left-overs") {
			t.Errorf("control group %s", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestHalfMadeBoxes(t *testing.T) {
	b := newBackend(t)
	defer func() { _ = b.Close() }()
	dir := filepath.Join(shared, "boxes", "half-made")
	if err := os.MkdirAll(filepath.Join(dir, "fs", "upper"), 0o700); err != nil {
		t.Fatal(err)
	}
	h := sandbox.Handle{Backend: b.Name(), ID: "half-made", Version: 1}
	handles, err := b.List(context.Background())
	if err != nil || !slices.ContainsFunc(handles, func(l sandbox.Handle) bool { return l.ID == h.ID }) {
		t.Errorf("list: %v, %v", handles, err)
	}
	if _, err := b.Adopt(context.Background(), h); !fault.Is(err, fault.Gone) {
		t.Errorf("adopt: %v, want Gone", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "state.json"), []byte(`{"process":{"pid":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.Destroy(context.Background(), h); err != nil {
		t.Errorf("destroy: %v", err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the directory is left")
	}
}

// TestLongDirectory has a socket path that does not fit into an address.
func TestLongDirectory(t *testing.T) {
	o := options(t)
	o.Dir = filepath.Join(t.TempDir(), strings.Repeat("long-", 20), "boxes")
	if err := os.MkdirAll(filepath.Dir(o.Dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		t.Skip("the layers of a data directory of its own take too long as an ordinary user; root runs this")
	}
	b, err := local.New(o)
	if err != nil {
		t.Fatal(err)
	}
	box := create(t, b, sandbox.Spec{ID: strings.Repeat("x", 64)})
	sh(t, box, "true")
}

func TestProbeSaysWhatHolds(t *testing.T) {
	guarantees := local.Probe(context.Background(), options(t))
	if len(guarantees) < 8 {
		t.Fatalf("guarantees: %v", guarantees)
	}
	for _, g := range guarantees {
		t.Logf("%-18s %-5v %s", g.Name, g.Holds, g.Detail)
		if g.Name == "" || g.Detail == "" {
			t.Errorf("incomplete: %+v", g)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(shared, "boxes", ".probe*")); len(left) > 0 {
		t.Errorf("the probe left %v", left)
	}
	o := options(t)
	o.Dir = "/proc/nowhere"
	if _, err := local.New(o); !fault.Is(err, fault.Unavailable) {
		t.Errorf("an impossible directory: %v, want Unavailable", err)
	}
}
