package gvisor_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/gvisor"
)

// images has unpacked images by their names, which are single words.
type images map[string]gvisor.Image

func (i images) Get(_ context.Context, ref string) (gvisor.Image, error) {
	if strings.Contains(ref, " ") {
		return gvisor.Image{}, fault.New(fault.Invalid, "image_ref", "This is no name of an image.")
	}
	img, ok := i[ref]
	if !ok {
		return img, fault.New(fault.NotFound, "image_not_found", "There is no image %s.", ref)
	}
	return img, nil
}

// debian returns a directory with the root file system of Debian that the run names.
func debian(t *testing.T) string {
	t.Helper()
	path := os.Getenv("PARLEY_TEST_ROOTFS")
	if path == "" {
		if slices.Contains(strings.Split(os.Getenv("PARLEY_TEST_REQUIRE"), ","), "rootfs") {
			t.Fatal("PARLEY_TEST_REQUIRE demands a root file system, and PARLEY_TEST_ROOTFS names none")
		}
		t.Skip("PARLEY_TEST_ROOTFS names no root file system of Debian")
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.IsDir() {
		return path
	}
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-C", dir, "--exclude=./dev", "-xf", path).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v: %s", err, out)
	}
	return dir
}

// TestImage: a box on an image has its files, its environment and its working
// directory, may install packages, leaves the image alone, and can be forked.
func TestImage(t *testing.T) {
	needRunsc(t)
	rootfs := debian(t)
	p := newPlace(t)
	p.images = images{"debian": {Rootfs: rootfs, Digest: "sha256:debian", WorkingDir: "/opt",
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "OF_THE_IMAGE=yes"}}}
	p.reopen()
	if !p.b.Caps().Images {
		t.Error("Caps do not say that there are images")
	}
	box := p.create(sandbox.Spec{ID: "debian", Image: "debian", Env: map[string]string{"OF_THE_SPEC": "yes"}})
	if got := p.sh(box, `echo $OF_THE_IMAGE $OF_THE_SPEC; . /etc/os-release; echo $ID; cat /etc/hostname`); got != "yes yes\ndebian\nsandbox" {
		t.Errorf("the box says %q", got)
	}
	p.sh(box, `mkdir -p p/DEBIAN p/usr/share/parley-test && echo one > p/usr/share/parley-test/file &&
		printf 'Package: parley-test\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: x\n' > p/DEBIAN/control &&
		dpkg-deb -b p one.deb >/dev/null && dpkg -i ./one.deb >/dev/null && echo changed >> /etc/profile && useradd -m somebody 2>/dev/null &&
		chown somebody /opt && test "$(stat -c %U /opt)" = somebody`)
	for _, name := range []string{"usr/share/parley-test", ".sandboxd", ".sandboxd.json", "home/somebody"} {
		if _, err := os.Lstat(filepath.Join(rootfs, name)); err == nil {
			t.Errorf("the image now has %s", name)
		}
	}
	snap, err := p.b.Snapshot(context.Background(), box.Handle(), "snap")
	if err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	p.reopen()
	if used, err := p.b.ImagesInUse(); err != nil || !used["sha256:debian"] {
		t.Errorf("images in use: %v, %v", used, err)
	}
	fork := p.create(sandbox.Spec{ID: "fork", Image: "debian", From: &snap})
	if got := p.sh(fork, "cat /usr/share/parley-test/file; tail -n 1 /etc/profile"); got != "one\nchanged" {
		t.Errorf("the fork says %q", got)
	}
	if _, err := p.b.Create(context.Background(), sandbox.Spec{ID: "other", From: &snap}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a fork on another ground: %v", err)
	}
	if _, err := p.b.Create(context.Background(), sandbox.Spec{ID: "none", Image: "none"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("an image that is not there: %v", err)
	}
	if err := p.b.DropSnapshot(context.Background(), snap); err != nil {
		t.Errorf("drop: %v", err)
	}
}

// TestTemporaryFilesAreOnTheDisk: what is written to /tmp counts, and is kept.
func TestTemporaryFilesAreOnTheDisk(t *testing.T) {
	p := newPlace(t)
	box := p.create(sandbox.Spec{ID: "tmp"})
	before, err := box.Usage(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if got := p.sh(box, "stat -c '%a %U' /tmp; ls /tmp; head -c 8000000 /dev/zero > /tmp/big; sync"); got != "1777 root" {
		t.Errorf("/tmp: %q", got)
	}
	await(t, "8 MB in /tmp are on the disk", func() bool {
		u, err := box.Usage(context.Background())
		return err == nil && u.DiskBytes >= before.DiskBytes+8000000
	})
	for i, mischief := range []string{"rm -rf /tmp/* /tmp/.p*", "rm -rf /tmp; ln -s /etc /tmp", "rm -rf /tmp; ln -s ../../../../../../../../etc /tmp", "rm -rf /tmp; touch /tmp", "rm -rf /tmp"} {
		p.sh(box, mischief)
		pid, err := sentry(filepath.Join(p.dir, "tmp"))
		if err != nil {
			t.Fatal(err)
		}
		if err := kill(pid); err != nil {
			t.Fatal(err)
		}
		<-box.Done()
		if box, err = p.b.Restart(context.Background(), box.Handle()); err != nil {
			t.Fatalf("restart after %s: %v", mischief, err)
		}
		if _, err := os.Lstat("/etc/.parley-on-disk"); err == nil {
			t.Fatalf("%d: the host's /etc was written to", i)
		}
	}
	p.sh(box, "test -d /tmp") // without one it gets one
}

// TestMountOfAnotherOwner: what is made in a mounted directory belongs to its owner
// outside, and set-user-id files are refused there.
func TestMountOfAnotherOwner(t *testing.T) {
	p := newPlace(t)
	const owner = 12345
	dir := filepath.Join(t.TempDir(), "shared")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "old"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "old")} {
		if err := os.Chown(path, owner, owner); err != nil {
			t.Fatal(err)
		}
	}
	box := p.create(sandbox.Spec{ID: "mount", Mounts: []sandbox.Mount{{Source: dir, Target: "/shared"}}})
	if got := p.sh(box, "cd /shared && stat -c %u . old && cat old && echo new > new && mkdir sub && touch sub/file && (chmod 4755 new || chmod u+s new || echo refused) 2>/dev/null"); got != "0\n0\noldrefused" {
		t.Errorf("inside: %q", got)
	}
	for _, name := range []string{"new", "sub", "sub/file"} {
		if got := ownerOf(t, filepath.Join(dir, name)); got != owner {
			t.Errorf("%s belongs to %d outside", name, got)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "new")); err != nil || info.Mode()&os.ModeSetuid != 0 {
		t.Errorf("new: %v, %v", info, err)
	}
}

// TestRefusals: where boxes cannot be made, it is said why.
func TestRefusals(t *testing.T) {
	o := options()
	o.Dir, o.Runsc = t.TempDir(), "/nowhere/runsc"
	_, err := gvisor.New(context.Background(), o)
	want := "runsc is not installed"
	if os.Geteuid() != 0 {
		want = "does not run as root"
	}
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.PublicText(err), want) {
		t.Errorf("no runsc: %v", err)
	}
	list := gvisor.Probe(context.Background(), o)
	if len(list) != 1 || list[0].Holds || !strings.Contains(list[0].Detail, want) {
		t.Errorf("the probe says %+v", list)
	}
	if os.Geteuid() != 0 {
		return
	}
	for name, script := range map[string]string{"fails": "exit 1", "is of another kind": "echo runsc version x", "says nothing": "exit 0"} {
		o.Runsc = filepath.Join(t.TempDir(), "runsc")
		if err := os.WriteFile(o.Runsc, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		o.Exe = "/bin/sh" // it is never started
		if _, err := gvisor.New(context.Background(), o); !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.PublicText(err), "trial failed") {
			t.Errorf("a runsc that %s: %v", name, err)
		}
	}
}
