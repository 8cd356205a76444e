package image_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/sandbox/image"
)

// Root runs what matters once more as somebody else.
func TestAsAnOrdinaryUser(t *testing.T) {
	if os.Getenv(asUserVar) != "" || os.Geteuid() != 0 {
		t.Skip("this is an ordinary user already: every other test is what this one runs")
	}
	home := t.TempDir()
	const nobody = 65534
	if err := errors.Join(os.Chown(home, nobody, nobody), os.Chmod(filepath.Dir(home), 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := command(t, "TestAnImageIsItsLayersOnTopOfEachOther|TestOwnersModesAndAttributes|TestLayersAreShared.*|TestNoLayerLeavesItsDirectory|TestHolders|TestLoad|TestAnEntryThatIsThereTwice",
		asUserVar+"=1", "TMPDIR="+home, "HOME="+home)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody, NoSetGroups: true}}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestHolders")) {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestAFullDisk(t *testing.T) {
	if dir := os.Getenv(fullVar); dir != "" {
		if err := unix.Mount("none", dir, "tmpfs", 0, "size=600k,nr_inodes=100"); err != nil {
			t.Skip("no file system can be mounted here:", err)
		}
		h := newHub(t)
		s := open(t, h.options(dir))
		for name, entries := range map[string][]entry{
			"bytes":  {file("a", strings.Repeat("a", 1<<20))},
			"inodes": {file(strings.Repeat("d/", 120)+"x", "")},
		} {
			text := refused(t, s, h.push("x/y", name, &picture{layers: [][]byte{layerOf(t, entries...)}}), fault.Unavailable, image.CodeDiskFull)
			if !strings.Contains(text, "disk is full") || len(leftovers(t, dir)) > 0 {
				t.Errorf("%s, %v", text, leftovers(t, dir))
			}
		}
		get(t, s, h.push("x/y", "small", &picture{layers: [][]byte{layerOf(t, file("a", "a"))}}))
		return
	}
	cmd := command(t, "TestAFullDisk", fullVar+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWUSER, Unshareflags: 0,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EINVAL), bytes.Contains(out, []byte("--- SKIP")):
		t.Skipf("no file system can be mounted here: %v", err)
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	}
}

// rootTar returns the tar of a Debian root file system.
func rootTar(t testing.TB) []byte {
	t.Helper()
	path := os.Getenv("PARLEY_TEST_ROOTFS")
	if path == "" {
		if slices.Contains(strings.Split(os.Getenv("PARLEY_TEST_REQUIRE"), ","), "rootfs") {
			t.Fatal("PARLEY_TEST_REQUIRE asks for a root file system, and PARLEY_TEST_ROOTFS names none")
		}
		t.Skip("PARLEY_TEST_ROOTFS names no root file system (directory or tar)")
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if !info.IsDir() {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	cmd := exec.Command("tar", "-C", path, "--one-file-system", "-cf", "-", ".")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	data, err := cmd.Output()
	if err != nil && len(data) == 0 {
		t.Fatalf("%v: %s", err, errs.String())
	}
	return data
}

// A real system comes out as its tar has it, entry by entry.
func TestARealRootFileSystem(t *testing.T) {
	data := rootTar(t)
	h := newHub(t)
	im := get(t, open(t, h.options(t.TempDir())), h.push("debian/root", "1", &picture{layers: [][]byte{data}}))
	owners := os.Geteuid() == 0
	r := tar.NewReader(bytes.NewReader(data))
	n := 0
	for {
		hdr, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		var st unix.Stat_t
		path := filepath.Join(im.Rootfs, hdr.Name)
		err = unix.Lstat(path, &st)
		switch {
		case hdr.Typeflag == tar.TypeChar || hdr.Typeflag == tar.TypeBlock || hdr.Typeflag == tar.TypeFifo:
			if err == nil {
				t.Errorf("%s is there", hdr.Name)
			}
			continue
		case err != nil:
			t.Errorf("%s: %v", hdr.Name, err)
			continue
		case hdr.Typeflag == tar.TypeReg && st.Size != hdr.Size:
			t.Errorf("%s: %d bytes of %d", hdr.Name, st.Size, hdr.Size)
		case hdr.Typeflag == tar.TypeLink && st.Ino != inode(t, im.Rootfs, hdr.Linkname):
			t.Errorf("%s is no hard link", hdr.Name)
		case hdr.Typeflag != tar.TypeSymlink && owners && st.Mode&0o7777 != uint32(hdr.Mode):
			t.Errorf("%s: mode %o of %o", hdr.Name, st.Mode, hdr.Mode)
		case owners && (int(st.Uid) != hdr.Uid || int(st.Gid) != hdr.Gid):
			t.Errorf("%s: owner %d:%d of %d:%d", hdr.Name, st.Uid, st.Gid, hdr.Uid, hdr.Gid)
		case st.Mtim.Sec != hdr.ModTime.Unix():
			t.Errorf("%s: time %d of %d", hdr.Name, st.Mtim.Sec, hdr.ModTime.Unix())
		}
		n++
	}
	if n < 1000 {
		t.Errorf("only %d entries", n)
	}
	if owners {
		out, err := exec.Command("chroot", im.Rootfs, "/bin/sh", "-c", "echo $((40 + 2))").CombinedOutput()
		if err != nil || string(out) != "42\n" {
			t.Errorf("%v: %s", err, out)
		}
	}
}

// BenchmarkPull measures download over loopback, unpacking and merging.
func BenchmarkPull(b *testing.B) {
	var entries []entry
	body := strings.Repeat("some text that compresses a little 0123456789 \x01\x02\x03\x04\n", 200)
	for i := range 10_000 {
		entries = append(entries, file("d"+strconv.Itoa(i%100)+"/f"+strconv.Itoa(i), body[i%50:]))
	}
	data := layerOf(b, entries...)
	for name, compress := range map[string]func([]byte) []byte{"gzip": gzipped, "zstd": zstded, "plain": plainly} {
		b.Run(name, func(b *testing.B) { benchmark(b, data, compress) })
	}
	b.Run("debian", func(b *testing.B) { benchmark(b, rootTar(b), gzipped) })
}

func benchmark(b *testing.B, data []byte, compress func([]byte) []byte) {
	h := newHub(b)
	ref := h.push("x/y", "1", &picture{layers: [][]byte{data}, compress: compress})
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		b.StopTimer()
		s := open(b, h.options(b.TempDir()))
		b.StartTimer()
		get(b, s, ref)
		b.StopTimer()
		_ = s.Close()
		b.StartTimer()
	}
}
