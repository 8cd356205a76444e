package diskimage_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox/diskimage"
)

const owner = 0x70000000

// beServerArg makes this test binary a server that is killed while it has an image.
const beServerArg = "be-a-server"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == beServerArg {
		fmt.Fprintln(os.Stderr, beServer(os.Args[2]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// open returns a store, or skips where this machine has none.
func open(t testing.TB) (*diskimage.Store, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := diskimage.Open(context.Background(), filepath.Join(dir, "templates"), owner)
	if err == nil {
		return s, dir
	}
	if strings.Contains(","+os.Getenv("PARLEY_TEST_REQUIRE")+",", ",diskimage,") {
		t.Fatal(err)
	}
	t.Skipf("no disk images on this machine: %v", err)
	return nil, ""
}

var size = diskimage.Size{Bytes: 64 << 20, Inodes: 4096}

// image makes an image and mounts it.
func image(t testing.TB, s *diskimage.Store, path string, size diskimage.Size) *diskimage.Mount {
	t.Helper()
	if err := s.Create(context.Background(), path, size); err != nil {
		t.Fatal(err)
	}
	return mount(t, s, path)
}

func mount(t testing.TB, s *diskimage.Store, path string) *diskimage.Mount {
	t.Helper()
	m, err := s.Mount(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// await polls until ok.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not so after 20 s", what)
		}
	}
}

// loops counts the loop devices whose files lie below dir.
func loops(t testing.TB, dir string) int {
	t.Helper()
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(data), dir) {
			n++
		}
	}
	return n
}

// fsck checks a file system without changing it.
func fsck(t testing.TB, path string) {
	t.Helper()
	out, err := exec.Command("e2fsck", "-f", "-n", path).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Log("there is no e2fsck: the file system is not checked")
		return
	}
	if err != nil {
		t.Errorf("e2fsck %s: %v\n%s", path, err, out)
	}
}

func TestLimitsHold(t *testing.T) {
	s, dir := open(t)
	full, neighbour := image(t, s, dir+"/full", size), image(t, s, dir+"/neighbour", size)
	f, err := os.Create(full.Dir() + "/big")
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 1<<20)
	written := 0
	for err == nil && written < 100 {
		_, err = f.Write(block)
		written++
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Errorf("after %d MiB: %v, want ENOSPC", written, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(dir+"/full", &st); err != nil || st.Blocks*512 > size.Bytes+1<<20 {
		t.Errorf("the image takes %d bytes of the host's disk, %v", st.Blocks*512, err)
	}
	if err := os.WriteFile(neighbour.Dir()+"/small", block, 0o600); err != nil {
		t.Errorf("neighbour: %v", err)
	}
	for i := range 2 * size.Inodes {
		if err = os.WriteFile(fmt.Sprintf("%s/%d", neighbour.Dir(), i), nil, 0o600); err != nil {
			break
		}
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Errorf("files beyond the limit: %v, want ENOSPC", err)
	}
	if err := os.Remove(full.Dir() + "/big"); err != nil {
		t.Fatal(err)
	}
	if err := full.Trim(); err != nil {
		t.Fatal(err)
	}
	await(t, "deleted files free the host's disk", func() bool {
		return unix.Stat(dir+"/full", &st) == nil && st.Blocks*512 < 16<<20
	})
}

func TestRootBelongsToTheOwner(t *testing.T) {
	s, dir := open(t)
	m := image(t, s, dir+"/x", size)
	var st unix.Stat_t
	if err := unix.Stat(m.Dir(), &st); err != nil || st.Uid != owner || st.Gid != owner {
		t.Errorf("root directory: %d:%d, %v", st.Uid, st.Gid, err)
	}
}

// TestNothingStaysAttached: after the last use neither the device nor the mount is
// there, also if the file is gone already.
func TestNothingStaysAttached(t *testing.T) {
	s, dir := open(t)
	for i := range 5 {
		path := fmt.Sprint(dir, "/", i)
		m := image(t, s, path, size)
		again := mount(t, s, path)
		if n := loops(t, dir); n != 1 {
			t.Errorf("%d devices for one image", n)
		}
		if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), "/dev/loop") {
			t.Errorf("the image is seen in the host's tree, %v:\n%s", err, mounts)
		}
		if err := errors.Join(os.Remove(path), m.Close(), again.Close()); err != nil {
			t.Fatal(err)
		}
		await(t, "the device is detached", func() bool { return loops(t, dir) == 0 })
	}
}

// TestSideBySide attaches many images at once: the kernel gives the same free
// device to several.
func TestSideBySide(t *testing.T) {
	s, dir := open(t)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			path := fmt.Sprint(dir, "/", i)
			if err := s.Create(context.Background(), path, size); err != nil {
				t.Error(err)
				return
			}
			m, err := s.Mount(context.Background(), path)
			if err != nil {
				t.Error(err)
				return
			}
			if err := os.WriteFile(m.Dir()+"/number", []byte(fmt.Sprint(i)), 0o600); err != nil {
				t.Error(err)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range 16 {
		m := mount(t, s, fmt.Sprint(dir, "/", i))
		if data, err := os.ReadFile(m.Dir() + "/number"); string(data) != fmt.Sprint(i) {
			t.Errorf("image %d has the file of %q, %v", i, data, err)
		}
	}
}

// TestCopyWhileProgramsWrite: a copy is a clean file system with all that was
// written to disk before it.
func TestCopyWhileProgramsWrite(t *testing.T) {
	s, dir := open(t)
	m := image(t, s, dir+"/x", diskimage.Size{Bytes: 256 << 20, Inodes: 50_000})
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 3 {
		writers.Go(func() { write(t, fmt.Sprint(m.Dir(), "/w", w), stop) })
	}
	defer writers.Wait()
	defer close(stop)
	for i := range 5 {
		mark := fmt.Sprint("mark", i)
		f, err := os.Create(filepath.Join(m.Dir(), mark))
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteString(mark)
		if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
			t.Fatal(err)
		}
		path := fmt.Sprint(dir, "/copy", i)
		if err := s.Copy(context.Background(), dir+"/x", path); err != nil {
			t.Fatal(err)
		}
		if dirty, err := diskimage.NeedsCheck(path); dirty || err != nil {
			t.Errorf("copy %d was not closed cleanly, %v", i, err)
		}
		fsck(t, path)
		c := mount(t, s, path)
		if data, err := os.ReadFile(filepath.Join(c.Dir(), mark)); string(data) != mark {
			t.Errorf("copy %d: %q, %v", i, data, err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// write makes and removes files until stop.
func write(t *testing.T, dir string, stop <-chan struct{}) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Error(err)
		return
	}
	data := make([]byte, 20_000)
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		path := fmt.Sprintf("%s/%d", dir, i%500)
		if err := errors.Join(os.WriteFile(path, data, 0o600), os.Rename(path, path+"-renamed")); err != nil {
			t.Error(err)
			return
		}
	}
}

func TestCancelledCopyThaws(t *testing.T) {
	s, dir := open(t)
	m := image(t, s, dir+"/x", size)
	ctx, cancel := context.WithCancel(context.Background())
	err := m.WhileFrozen(ctx, func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		// Thawed while the copy still goes on: this would wait for ever else.
		return os.WriteFile(m.Dir()+"/file", []byte("x"), 0o600)
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v: a copy of what changed is none", err)
	}
	if _, err := os.Lstat(dir + "/x.frozen"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the mark is left: %v", err)
	}
	failed := errors.New("failed")
	if err := m.WhileFrozen(context.Background(), func(context.Context) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("error %v", err)
	}
	if err := os.WriteFile(m.Dir()+"/file", []byte("y"), 0o600); err != nil {
		t.Error(err)
	}
	done, stop := context.WithCancel(context.Background())
	stop()
	if err := s.Copy(done, dir+"/x", dir+"/copy"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled copy: %v", err)
	}
	if _, err := os.Lstat(dir + "/copy"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something is left of the copy: %v", err)
	}
}

// beServer mounts and freezes an image and waits for its own end.
func beServer(path string) error {
	ctx := context.Background()
	s, err := diskimage.Open(ctx, filepath.Dir(path)+"/templates", owner)
	if err != nil {
		return err
	}
	m, err := s.Mount(ctx, path)
	if err != nil {
		return err
	}
	if err := m.Freeze(); err != nil {
		return err
	}
	fmt.Println("frozen")
	select {}
}

// TestRecoverAfterAKilledServer: what a killed server froze is thawed by the next
// one, and is not lost.
func TestRecoverAfterAKilledServer(t *testing.T) {
	s, dir := open(t)
	path := dir + "/x"
	m := image(t, s, path, size) // as a box has it
	cmd := exec.Command("/proc/self/exe", beServerArg, path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	word := make([]byte, 6)
	_, rerr := out.Read(word)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // says that it was killed
	if string(word) != "frozen" {
		t.Fatalf("the server said %q, %v", word, rerr)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(m.Dir()+"/file", []byte("x"), 0o600) }()
	for range 2 { // idempotent
		if err := s.Recover(context.Background(), path); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, "the device is detached", func() bool { return loops(t, dir) == 0 })
	fsck(t, path)
}

// TestAfterACrashOfTheMachine mounts what was copied in the middle of everything, as
// a disk is after a power cut.
func TestAfterACrashOfTheMachine(t *testing.T) {
	s, dir := open(t)
	m := image(t, s, dir+"/x", size)
	f, err := os.Create(m.Dir() + "/kept")
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString("kept")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(dir + "/x")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/crashed", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if dirty, err := diskimage.NeedsCheck(dir + "/crashed"); !dirty || err != nil {
		t.Errorf("not seen to be dirty, %v", err)
	}
	c := mount(t, s, dir+"/crashed")
	if data, err := os.ReadFile(c.Dir() + "/kept"); string(data) != "kept" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestNotAnImage(t *testing.T) {
	s, dir := open(t)
	for name, data := range map[string][]byte{"empty": nil, "short": make([]byte, 100), "zeros": make([]byte, 1<<20)} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if m, err := s.Mount(context.Background(), path); err == nil {
			t.Errorf("%s was mounted: %v", name, m.Close())
		}
	}
	if err := os.Symlink("/etc/passwd", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Mount(context.Background(), dir+"/link"); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a link: %v", err)
	}
	await(t, "no device is left", func() bool { return loops(t, dir) == 0 })
}

func TestTemplatesAreBounded(t *testing.T) {
	s, dir := open(t)
	for i := range 12 {
		path := fmt.Sprint(dir, "/", i)
		if err := s.Create(context.Background(), path, diskimage.Size{Bytes: int64(16+i) << 20, Inodes: 1000}); err != nil {
			t.Fatal(err)
		}
		if err := s.Create(context.Background(), path, size); !errors.Is(err, fs.ErrExist) {
			t.Errorf("over an existing file: %v", err)
		}
	}
	entries, err := os.ReadDir(dir + "/templates")
	if err != nil || len(entries) > 10 {
		t.Errorf("%d templates, %v", len(entries), err)
	}
}

// superblock returns one as far as it is read.
func superblock(blocks, inodes uint32, state, incompat byte) []byte {
	data := make([]byte, 1024)
	binary.LittleEndian.PutUint32(data, inodes)
	binary.LittleEndian.PutUint32(data[4:], blocks)
	copy(data[0x38:], []byte{0x53, 0xef, state})
	data[0x60] = incompat
	return data
}

// FuzzSuperblock: what is no superblock is refused, and of one only four fields count.
func FuzzSuperblock(f *testing.F) {
	for _, seed := range [][]byte{nil, make([]byte, 1024), superblock(1, 2, 1, 0), superblock(1<<31, 9, 2, 0), superblock(4096, 64, 1, 4), superblock(1, 1, 1, 0)[:1023]} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		blocks, inodes, dirty, err := diskimage.ParseSuper(data)
		if err != nil {
			if len(data) == 1024 && data[0x38] == 0x53 && data[0x39] == 0xef {
				t.Errorf("refused: %v", err)
			}
			return
		}
		b2, i2, d2, err := diskimage.ParseSuper(superblock(blocks, inodes, data[0x3a], data[0x60]))
		if err != nil || b2 != blocks || i2 != inodes || d2 != dirty || dirty != (data[0x3a]&2 != 0 || data[0x60]&4 != 0) {
			t.Errorf("%d %d %v, then %d %d %v, %v", blocks, inodes, dirty, b2, i2, d2, err)
		}
	})
}
