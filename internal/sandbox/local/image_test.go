package local_test

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/local"
	"parley/internal/sandbox/sandboxtest"
)

// daemonVar names the static daemon for the run as an ordinary user, who has no
// compiler's cache.
const daemonVar = "LOCAL_TEST_DAEMON"

// built is the static daemon of all tests; it goes with the data directory.
var built struct {
	sync.Mutex
	path string
}

// daemon is a static first process: it runs also where there are no libraries.
func daemon(t testing.TB) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.path == "" {
		built.path = os.Getenv(daemonVar)
	}
	if built.path == "" {
		path := filepath.Join(programs, "boxd")
		copyFile(t, sandboxtest.BuildDaemon(t), path)
		built.path = path
	}
	return built.path
}

// images are unpacked images by reference.
type images map[string]local.Image

func (m images) Get(_ context.Context, ref string) (local.Image, error) {
	img, ok := m[ref]
	if !ok {
		return img, fault.New(fault.Invalid, "image_not_found", "There is no image %q.", ref)
	}
	return img, nil
}

// write makes files below a directory.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// bareImage has one static program, odd links, and nothing that a system has.
func bareImage(t *testing.T) local.Image {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, map[string]string{"share/config/keep": "kept\n", "tmp": "a file in the place of a directory"})
	copyFile(t, daemon(t), filepath.Join(dir, "tool"))
	for link, target := range map[string]string{"etc": "share/config", "dev": "/nowhere", "share/config/hosts": "../../../../etc/shadow",
		"share/config/resolv.conf": "/run/systemd/resolve/stub-resolv.conf"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	return local.Image{Rootfs: dir, Env: []string{"PATH=/tools:/", "COLOUR=blue", "GREETING=image", "broken"}, ID: "bare", Digest: "sha256:bare"}
}

// smallImage has a shell and the usual small programs, taken from this machine.
func smallImage(t testing.TB) local.Image {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"sh", "cat", "ls", "mkdir", "rm", "id", "stat", "chmod", "chown", "touch", "grep", "sleep", "head", "tail",
		"wc", "date", "env", "nproc", "seq", "cut", "tr", "mv", "ln", "sync", "sort", "find", "nohup", "setsid", "true", "dd", "mkfifo", "readlink"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		copyProgram(t, path, filepath.Join(dir, "bin", name), dir)
	}
	return local.Image{Rootfs: dir, Env: []string{"PATH=/bin"}, ID: "small", Digest: "sha256:small"}
}

// copyProgram copies a program with the libraries that it is linked with.
func copyProgram(t testing.TB, from, to, root string) {
	t.Helper()
	if _, err := os.Lstat(to); err == nil {
		return
	}
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o755); err != nil {
		t.Fatal(err)
	}
	if f, err := elf.NewFile(bytes.NewReader(data)); err != nil || f.Section(".interp") == nil {
		return
	}
	out, err := exec.Command("ldd", from).Output()
	if err != nil {
		t.Skipf("ldd %s: %v; without it no image can be made from this machine's programs", from, err)
	}
	for word := range strings.FieldsSeq(string(out)) {
		if filepath.IsAbs(word) {
			copyProgram(t, word, filepath.Join(root, word), root)
		}
	}
}

// imageBackend has a static daemon and some images.
func imageBackend(t testing.TB, m images) *local.Backend {
	t.Helper()
	o := options(t)
	o.Exe, o.InitArgs, o.Images = daemon(t), []string{local.Name}, m
	b, err := local.New(o)
	if err != nil {
		t.Fatalf("no boxes on this machine: %v", err)
	}
	return b
}

// rootOf is a box's file system as this process sees it.
func rootOf(t *testing.T, box sandbox.Box) string {
	t.Helper()
	state, err := stateOf(box)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("/proc/%d/root", state.Process.PID)
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestBareImage starts a box from an image that lacks everything, and what it has
// is odd.
func TestBareImage(t *testing.T) {
	img := bareImage(t)
	b := imageBackend(t, images{"bare": img})
	box := create(t, b, sandbox.Spec{ID: "bare", Image: "bare", Env: map[string]string{"GREETING": "spec"}})
	out, err := sandboxtest.Exec(context.Background(), box, "/tool")
	if err != nil || out.Code != 2 || !strings.Contains(out.Text, "usage: boxd") {
		t.Fatalf("a static program: %+v, %v", out, err)
	}
	root := rootOf(t, box)
	if got := read(t, root+"/share/config/resolv.conf"); got != "nameserver 10.0.2.3\n" {
		t.Errorf("resolv.conf: %q", got)
	}
	if got := read(t, root+"/share/config/hosts") + read(t, root+"/share/config/keep"); !strings.Contains(got, "sandbox") || !strings.Contains(got, "kept") {
		t.Errorf("hosts: %q", got)
	}
	for _, dir := range []string{"/proc/1", "/dev/pts", "/tmp", "/root", "/workspace/project", "/run/lock", "/var/tmp", "/sys/devices"} {
		if info, err := os.Stat(root + dir); err != nil || !info.IsDir() {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if _, err := os.Stat(root + "/usr"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the host's /usr shows in an image that has none: %v", err)
	}
	if data, err := os.ReadFile(filepath.Join(img.Rootfs, "tmp")); err != nil || !strings.HasPrefix(string(data), "a file") {
		t.Errorf("the image was changed: %v", err)
	}
	if used, err := b.ImagesInUse(); err != nil || !slices.Contains(used, "bare") {
		t.Errorf("images in use: %v, %v", used, err)
	}
}

// TestSmallImage works in a box that stands on an image, restarts it and makes
// sure that the image stays as it was, also for the next box.
func TestSmallImage(t *testing.T) {
	img := smallImage(t)
	write(t, img.Rootfs, map[string]string{"etc/passwd": "root:x:0:0::/root:/bin/sh\n", "opt/program": "#!/bin/sh\necho from the image\n", "etc/mine": "image\n"})
	img.Env = append(img.Env, "COLOUR=blue", "GREETING=image")
	m := images{"small": img}
	b := imageBackend(t, m)
	box := create(t, b, sandbox.Spec{ID: "small", Image: "small", Env: map[string]string{"GREETING": "spec"}})
	if got := sh(t, box, `echo "$COLOUR/$GREETING/$PATH/$HOME/$SHELL/$(id -u)"; pwd; /opt/program; stat -c %u /opt/program`); got !=
		"blue/spec/bin:/root//bin/sh/0\n/workspace/project\nfrom the image\n0" && got !=
		"blue/spec//bin//root//bin/sh/0\n/workspace/project\nfrom the image\n0" {
		t.Errorf("inside: %q", got)
	}
	sh(t, box, `echo '{"id":"lie"}' > image.json; echo changed > /etc/mine && rm /opt/program && mkdir /new && echo x > /new/file && echo "1.2.3.4 other" >> /etc/hosts && touch here && chmod 700 /bin`)
	if err := sandboxtest.Crash(context.Background(), box); err != nil {
		t.Fatal(err)
	}
	<-box.Done()
	m["small"] = local.Image{Rootfs: t.TempDir(), ID: "other", Digest: "sha256:other"} // the name means something else now
	box, err := b.Restart(context.Background(), box.Handle())
	if err != nil {
		t.Fatalf("restart: %v", err)
	}
	if got := sh(t, box, "cat /etc/mine /new/file; ls -d /opt/* here 2>/dev/null; grep -c other /etc/hosts"); got != "changed\nx\nhere\n1" {
		t.Errorf("after a restart: %q", got)
	}
	if used, err := b.ImagesInUse(); err != nil || slices.Contains(used, "lie") || !slices.Contains(used, img.ID) {
		t.Errorf("images in use: %v, %v", used, err)
	}
	m["again"] = img
	second := create(t, imageBackend(t, m), sandbox.Spec{ID: "small-neighbour", Image: "again"})
	if got := sh(t, second, "cat /etc/mine && /opt/program && ! test -e /new && echo new"); got != "image\nfrom the image\nnew" {
		t.Errorf("another box: %q", got)
	}
}

// TestImageIsGone refuses to put a box's files on anything but what they were
// made on.
func TestImageIsGone(t *testing.T) {
	img := bareImage(t)
	moved := t.TempDir() + "/moved"
	m := images{"registry:5000/name:tag": img}
	b := imageBackend(t, m)
	box := create(t, b, sandbox.Spec{ID: "gone", Image: "registry:5000/name:tag"})
	if err := sandboxtest.Crash(context.Background(), box); err != nil {
		t.Fatal(err)
	}
	<-box.Done()
	if err := os.Rename(img.Rootfs, moved); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Restart(context.Background(), box.Handle()); !fault.Is(err, fault.Invalid) {
		t.Errorf("an image that cannot be had again: %v, want what the store says", err)
	}
	m["registry:5000/name@sha256:bare"] = local.Image{Rootfs: moved, ID: "other", Digest: "sha256:other"}
	if _, err := b.Restart(context.Background(), box.Handle()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("another image: %v, want Unavailable", err)
	}
	m["registry:5000/name@sha256:bare"] = local.Image{Rootfs: moved, ID: "bare", Digest: "sha256:bare"}
	if _, err := b.Restart(context.Background(), box.Handle()); err != nil {
		t.Errorf("the same image, unpacked again: %v", err)
	}
	if _, err := b.Create(context.Background(), sandbox.Spec{ID: "no-image", Image: "nothing"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("an unknown image: %v", err)
	}
	m["loud"] = local.Image{Rootfs: moved, Env: []string{"A=" + strings.Repeat("x", 1<<20)}, ID: "loud", Digest: "sha256:loud"}
	if _, err := b.Create(context.Background(), sandbox.Spec{ID: "no-image-loud", Image: "loud"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("an image with a megabyte of environment: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(shared, "boxes", "no-image*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestPinned(t *testing.T) {
	for ref, want := range map[string]string{
		"debian": "debian@sha256:x", "debian:12": "debian@sha256:x", "ghcr.io/a/b:c": "ghcr.io/a/b@sha256:x",
		"localhost:5000/a": "localhost:5000/a@sha256:x", "localhost:5000/a:b@sha256:old": "localhost:5000/a@sha256:x",
		"oci:/dir:name": "oci:/dir:name", "docker-archive:/file.tar": "docker-archive:/file.tar",
	} {
		if got := local.Pinned(ref, "sha256:x"); got != want {
			t.Errorf("%s: %q, want %q", ref, got, want)
		}
	}
	if got := local.Pinned("debian:12", ""); got != "debian:12" {
		t.Errorf("without a digest: %q", got)
	}
}

// TestDebianImage installs and removes packages in Debian, if a root file system
// of it is there.
func TestDebianImage(t *testing.T) {
	rootfs := os.Getenv("PARLEY_TEST_ROOTFS")
	if rootfs == "" {
		if slices.Contains(strings.Split(os.Getenv("PARLEY_TEST_REQUIRE"), ","), "rootfs") {
			t.Fatal("PARLEY_TEST_REQUIRE demands a root file system, and PARLEY_TEST_ROOTFS names none")
		}
		t.Skip("PARLEY_TEST_ROOTFS names no root file system of Debian")
	}
	img := local.Image{Rootfs: debian(t, rootfs), Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, ID: "debian", Digest: "sha256:debian"}
	b := imageBackend(t, images{"debian": img})
	box := create(t, b, sandbox.Spec{ID: "debian", Image: "debian"})
	sh(t, box, `mkdir -p p/DEBIAN p/usr/share/parley-test && echo one > p/usr/share/parley-test/file &&
		printf 'Package: parley-test\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: x\n' > p/DEBIAN/control &&
		dpkg-deb -b p one.deb >/dev/null && dpkg -i ./one.deb >/dev/null && grep -q one /usr/share/parley-test/file && dpkg -P parley-test >/dev/null`)
	sh(t, box, `test "$SHELL" = /bin/bash && apt-get --version >/dev/null && useradd -m somebody 2>/dev/null; id root >/dev/null && echo x >> /etc/profile`)
	if os.Geteuid() == 0 {
		sh(t, box, `id somebody && chown somebody /opt && test "$(stat -c %U /opt)" = somebody`)
	}
	if data, err := os.ReadFile(filepath.Join(img.Rootfs, "etc/profile")); err != nil || strings.HasSuffix(string(data), "x\n") {
		t.Errorf("the image was changed: %v", err)
	}
}

// debian returns a directory with the root file system that path has, with this
// user as the owner if it is not root.
func debian(t *testing.T, path string) string {
	t.Helper()
	if info, err := os.Stat(path); err != nil {
		t.Fatal(err)
	} else if info.IsDir() && os.Geteuid() == 0 {
		return path
	}
	dir := t.TempDir()
	script := `tar -C "$0" --one-file-system --exclude=./dev -cf - . 2>/dev/null | tar -C "$1" -xf - 2>/dev/null; test -x "$1/bin/sh"`
	if info, _ := os.Stat(path); !info.IsDir() {
		script = `tar -C "$1" --exclude=./dev -xf "$0" 2>/dev/null; test -x "$1/bin/sh"`
	}
	if out, err := exec.Command("sh", "-c", script, path, dir).CombinedOutput(); err != nil {
		t.Skipf("this user cannot unpack %s: %v %s", path, err, out)
	}
	return dir
}
