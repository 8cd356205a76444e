package treecopy_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"parley/internal/sandbox/treecopy"
)

// entry is what of a file must be the same in a copy.
type entry struct {
	Mode     uint32
	UID, GID uint32
	Size     int64
	Modified int64 // nanoseconds
	Device   uint64
	Link     string
	Content  string
	Attrs    map[string]string
	Twins    []string // all names of the same file
}

// describe reads a tree without following anything. ctime and the times of reading
// do not count; sizes of directories neither.
func describe(t *rapid.T, root string) map[string]entry {
	all := map[string]entry{}
	names := map[uint64][]string{}
	inodes := map[string]uint64{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		d := entry{Mode: st.Mode, UID: st.Uid, GID: st.Gid, Modified: st.Mtim.Nano(), Attrs: attrs(path)}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			d.Size = st.Size
			if data, err := readAny(path, st.Mode); err == nil {
				d.Content = data
			} else {
				return err
			}
		case unix.S_IFLNK:
			d.Link, err = os.Readlink(path)
		case unix.S_IFCHR, unix.S_IFBLK:
			d.Device = st.Rdev
		}
		if st.Nlink > 1 && !e.IsDir() {
			names[st.Ino] = append(names[st.Ino], rel)
			inodes[rel] = st.Ino
		}
		all[rel] = d
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for rel, ino := range inodes {
		d := all[rel]
		d.Twins = names[ino]
		all[rel] = d
	}
	return all
}

func readAny(path string, mode uint32) (string, error) {
	if mode&0o400 == 0 && os.Geteuid() != 0 {
		return "closed", nil
	}
	data, err := os.ReadFile(path)
	return string(data), err
}

func attrs(path string) map[string]string {
	buf := make([]byte, 4096)
	n, err := unix.Llistxattr(path, buf)
	if err != nil || n == 0 {
		return nil
	}
	found := map[string]string{}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00") {
		value := make([]byte, 4096)
		if n, err := unix.Lgetxattr(path, name, value); err == nil && strings.Contains(name, "test") {
			found[name] = string(value[:n])
		}
	}
	return found
}

// build makes a random tree; what this user may not make is left out.
func build(t *rapid.T, root string) {
	dirs, files := []string{root}, []string{}
	for i := range rapid.IntRange(0, 25).Draw(t, "entries") {
		name := rapid.SampledFrom([]string{"a", "b b", "\u00fc", "-c", "line\nend", strings.Repeat("x", 200)}).Draw(t, "name")
		path := filepath.Join(rapid.SampledFrom(dirs).Draw(t, "dir"), fmt.Sprint(name, i))
		kind := rapid.SampledFrom([]string{"dir", "file", "sparse", "link", "hard", "fifo", "whiteout", "socket", "device"}).Draw(t, "kind")
		err := makeEntry(t, kind, path, files)
		if errors.Is(err, unix.EPERM) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		switch kind {
		case "dir":
			dirs = append(dirs, path)
		case "file", "sparse":
			files = append(files, path)
		}
	}
	for _, path := range slices.Concat(files, dirs[1:]) { // last: closed directories take no more
		dress(t, path)
	}
	for _, dir := range dirs {
		_ = os.Chtimes(dir, time.Unix(1e9, 7), time.Unix(1e9, 7))
	}
}

func makeEntry(t *rapid.T, kind, path string, files []string) error {
	switch kind {
	case "dir":
		return os.Mkdir(path, 0o755)
	case "file":
		size := rapid.SampledFrom([]int{0, 1, 4096, 64 << 10, 64<<10 + 1, 300_000}).Draw(t, "size")
		return os.WriteFile(path, []byte(strings.Repeat("0123456789abcdef!", size/17+1))[:size], 0o644)
	case "sparse":
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		_, err = f.WriteAt([]byte("end"), rapid.SampledFrom([]int64{0, 100_000, 1 << 20}).Draw(t, "offset"))
		if rapid.Bool().Draw(t, "hole at the end") {
			err = errors.Join(err, f.Truncate(3<<20))
		}
		return errors.Join(err, f.Close())
	case "link":
		return os.Symlink(rapid.SampledFrom([]string{"/etc/passwd", "nowhere", "..", strings.Repeat("l", 3000)}).Draw(t, "target"), path)
	case "hard":
		if len(files) == 0 {
			return nil
		}
		return os.Link(rapid.SampledFrom(files).Draw(t, "twin"), path)
	case "fifo":
		return unix.Mkfifo(path, 0o640)
	case "whiteout":
		return unix.Mknod(path, unix.S_IFCHR, 0)
	case "socket":
		return unix.Mknod(path, unix.S_IFSOCK|0o600, 0)
	}
	return unix.Mknod(path, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 9)))
}

// dress gives a file a mode, an owner, a time and attributes.
func dress(t *rapid.T, path string) {
	if rapid.Bool().Draw(t, "attribute") {
		_ = unix.Lsetxattr(path, "user.overlay.test", []byte("y"), 0)
		_ = unix.Lsetxattr(path, "trusted.overlay.test", []byte("y"), 0) // root only
	}
	if os.Geteuid() == 0 && rapid.Bool().Draw(t, "owner") {
		_ = os.Lchown(path, 1234, 4321)
	}
	mode := rapid.SampledFrom([]uint32{0o644, 0o4755, 0o1777, 0o400, 0o500, 0o700}).Draw(t, "mode")
	if os.Geteuid() == 0 {
		mode = rapid.SampledFrom([]uint32{mode, 0, 0o2070}).Draw(t, "closed mode")
	}
	if info, err := os.Lstat(path); err == nil && info.IsDir() && os.Geteuid() != 0 {
		mode |= 0o700 // this test must read and remove it; see TestClosedToItsOwner
	}
	_ = unix.Chmod(path, mode)
	_ = os.Chtimes(path, time.Unix(1e9, 5), time.Unix(1234567890, 987654321))
}

func TestCopyEqualsSource(t *testing.T) {
	base := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(base, "")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		from, to := dir+"/from", dir+"/to"
		if err := os.Mkdir(from, 0o751); err != nil {
			t.Fatal(err)
		}
		build(t, from)
		before := describe(t, from)
		if err := treecopy.Copy(context.Background(), from, to); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, describe(t, to)); diff != "" {
			t.Errorf("copy differs (-source +copy):\n%s", diff)
		}
		if diff := cmp.Diff(before, describe(t, from)); diff != "" {
			t.Errorf("the source was changed:\n%s", diff)
		}
	})
}

// TestClosedToItsOwner copies what its owner, an ordinary user, may not read.
func TestClosedToItsOwner(t *testing.T) {
	from, to := t.TempDir()+"/from", t.TempDir()+"/to"
	for path, text := range map[string]string{"dir/deep/file": "deep", "closed": "text"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(from, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(from, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	closed := []string{"closed", "dir/deep", "dir", ""}
	for _, name := range closed {
		if err := os.Chmod(filepath.Join(from, name), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := treecopy.Copy(context.Background(), from, to); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(closed)
	for _, root := range []string{from, to} {
		for _, name := range closed {
			path := filepath.Join(root, name)
			info, err := os.Lstat(path)
			if err != nil || info.Mode().Perm() != 0 {
				t.Errorf("%s: %v, %v, want mode 0", path, info.Mode(), err)
			}
			if err := os.Chmod(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	if data, err := os.ReadFile(to + "/dir/deep/file"); string(data) != "deep" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
}

// TestHolesStayHoles: a copy takes no more of the disk than its source.
func TestHolesStayHoles(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()+"/to"
	f, err := os.Create(from + "/sparse")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("x"), 64<<20); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(1<<40), f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := treecopy.Copy(context.Background(), from, to); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(to+"/sparse", &st); err != nil || st.Size != 1<<40 || st.Blocks*512 > 1<<20 {
		t.Errorf("%d bytes in %d blocks, %v", st.Size, st.Blocks, err)
	}
}

// TestHostileTree copies what would lead others astray: links to everything that
// matters, pipes that block whoever opens them, deep paths, odd names.
func TestHostileTree(t *testing.T) {
	outside, from, to := t.TempDir(), t.TempDir(), t.TempDir()+"/to"
	if err := os.WriteFile(outside+"/secret", []byte("swordfish"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"dir": outside, "file": outside + "/secret", "root": "/", "proc": "/proc/self/root",
		"self": ".", "up": "../../..", "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(from, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(from+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	if err := treecopy.Copy(context.Background(), from, to); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(to, func(path string, e fs.DirEntry, err error) error {
		if err == nil && path != to && e.Type()&(fs.ModeSymlink|fs.ModeNamedPipe) == 0 {
			t.Errorf("%s is a %v", path, e.Type())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	size, err := treecopy.Measure(context.Background(), from)
	if err != nil || size.Inodes != 8 || size.Bytes > 1<<20 {
		t.Errorf("measured %+v, %v", size, err)
	}
}

func TestSourceThatIsALink(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/etc", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	if err := treecopy.Copy(context.Background(), dir+"/link", dir+"/to"); err == nil {
		t.Error("a link was followed")
	}
	if _, err := os.Lstat(dir + "/to"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something is left: %v", err)
	}
}

// deep makes directories nested beyond the longest path.
func deep(t *testing.T, root string) {
	t.Helper()
	fd, err := unix.Open(root, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 30 {
		name := strings.Repeat("d", 200)
		if err := unix.Mkdirat(fd, name, 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, name, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err := errors.Join(err, unix.Close(fd)); err != nil {
			t.Fatal(err)
		}
		fd = next
	}
	_ = unix.Close(fd)
}

func TestTooDeep(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()+"/to"
	deep(t, from)
	if err := treecopy.Copy(context.Background(), from, to); !errors.Is(err, unix.ENAMETOOLONG) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something is left: %v", err)
	}
}

// bury puts a file of a mebibyte below nested directories and closes those that
// are to be closed to their owner.
func bury(t *testing.T, root string, levels int, closed bool) {
	t.Helper()
	fd, err := unix.Open(root, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range levels {
		name := strings.Repeat("d", 100)
		if err := unix.Mkdirat(fd, name, 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, name, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil && closed {
			err = unix.Fchmod(fd, 0)
		}
		if err := errors.Join(err, unix.Close(fd)); err != nil {
			t.Fatal(err)
		}
		fd = next
	}
	defer func() { _ = unix.Close(fd) }()
	file, err := unix.Openat(fd, "file", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_, err = unix.Write(file, make([]byte, 1<<20))
	if err := errors.Join(err, unix.Close(file)); err != nil {
		t.Fatal(err)
	}
}

// TestNothingHidesFromMeasure: programs cannot keep files out of the figures by
// depth or by modes, which stay as they are.
func TestNothingHidesFromMeasure(t *testing.T) {
	for name, closed := range map[string]bool{"deep": false, "closed": true} {
		t.Run(name, func(t *testing.T) {
			const levels = 100 // the path of the last is longer than paths may be
			root := filepath.Join(t.TempDir(), "root")
			for _, dir := range []string{root, root + "/a", root + "/z"} {
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				bury(t, dir, levels, closed && dir != root)
			}
			size, err := treecopy.Measure(context.Background(), root)
			if want := int64(3*(levels+1) + 2); err != nil || size.Inodes != want || size.Bytes < 3<<20 {
				t.Errorf("%+v, %v; want %d inodes", size, err, want)
			}
			if info, err := os.Lstat(root + "/a"); err != nil || closed != (info.Mode().Perm() == 0) {
				t.Errorf("the mode was changed: %v, %v", info.Mode(), err)
			}
			if err := treecopy.Remove(root); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRemove removes what os.RemoveAll cannot: deeper than descriptors are many,
// closed to its owner, with the names that removing itself uses.
func TestRemove(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	few := unix.Rlimit{Cur: 64, Max: limit.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	}()
	outside := t.TempDir()
	root := filepath.Join(t.TempDir(), "root")
	if err := os.WriteFile(outside+"/kept", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", "/moved-1/x", "/moved-3", "/z", "/closed/in/it"} {
		if err := os.MkdirAll(root+dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	bury(t, root+"/z", 300, true)
	bury(t, root+"/closed/in/it", 1, true)
	if err := os.Symlink(outside, root+"/link"); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/closed/in", "/closed", ""} {
		if err := os.Chmod(root+dir, 0); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // what is gone is gone
		if err := treecopy.Remove(root); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left: %v", err)
	}
	if _, err := os.Lstat(outside + "/kept"); err != nil {
		t.Error(err)
	}
	if err := treecopy.Remove(outside + "/kept"); err == nil {
		t.Error("a file was removed as a directory")
	}
}

// TestRemoveEnds: somebody who goes on writing does not keep it for ever.
func TestRemoveEnds(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	if err := os.MkdirAll(root+"/busy", 0o700); err != nil {
		t.Fatal(err)
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			default:
				_ = os.WriteFile(fmt.Sprint(root, "/busy/", i), nil, 0o600) // it may be gone
				_ = os.WriteFile(fmt.Sprint(root, "/", i), nil, 0o600)
			}
		}
	}()
	first := treecopy.Remove(root) // either is right
	close(end)
	<-ended
	if err := treecopy.Remove(root); err != nil {
		t.Errorf("%v, before that %v", err, first)
	}
}

func TestCancelled(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()+"/to"
	many(t, from, 2000)
	ctx, cancel := context.WithCancel(context.Background())
	seen := make(chan error, 1)
	go func() { seen <- treecopy.Copy(ctx, from, to) }()
	for { // in the middle of it
		if _, err := os.Lstat(to); err == nil {
			break
		}
	}
	cancel()
	if err := <-seen; err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	} else if _, lerr := os.Lstat(to); err != nil && !errors.Is(lerr, fs.ErrNotExist) {
		t.Errorf("something is left: %v", lerr)
	}
}

func many(t testing.TB, root string, count int) {
	t.Helper()
	for i := range count {
		dir := fmt.Sprintf("%s/%d", root, i/1000)
		if i%1000 == 0 {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(fmt.Sprintf("%s/f%d", dir, i), []byte(fmt.Sprint("file ", i)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkCopy50k(b *testing.B) {
	from, to := b.TempDir(), b.TempDir()+"/to"
	many(b, from, 50_000)
	for b.Loop() {
		if err := treecopy.Copy(context.Background(), from, to); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := os.RemoveAll(to); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func BenchmarkMeasure50k(b *testing.B) {
	from := b.TempDir()
	many(b, from, 50_000)
	for b.Loop() {
		if _, err := treecopy.Measure(context.Background(), from); err != nil {
			b.Fatal(err)
		}
	}
}
