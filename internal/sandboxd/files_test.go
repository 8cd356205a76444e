package sandboxd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/sandboxd"
	"parley/internal/tool"
)

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func link(t testing.TB, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func wantText(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Fatalf("%s: %q %v, want %q", path, got, err, want)
	}
}

// wantEntries checks that a directory holds these names and nothing else, in
// particular nothing half-written.
func wantEntries(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Fatalf("entries %q, want %q", got, want)
	}
}

func TestStat(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	file := filepath.Join(s.dir, "file")
	write(t, file, "12345")
	link(t, "file", filepath.Join(s.dir, "link"))
	link(t, "nowhere", filepath.Join(s.dir, "dangling"))
	link(t, "loop", filepath.Join(s.dir, "loop"))
	info, err := c.Stat(t.Context(), file)
	if err != nil || info.Path != file || info.Size != 5 || info.Mode != 0o644 || info.IsDir || info.Link != "" || time.Since(info.ModTime) > time.Hour {
		t.Fatalf("%+v %v", info, err)
	}
	info, err = c.Stat(t.Context(), filepath.Join(s.dir, "link"))
	if err != nil || info.Size != 5 || info.Link != "file" || !info.Mode.IsRegular() {
		t.Fatalf("%+v %v", info, err)
	}
	link(t, ".", filepath.Join(s.dir, "here"))
	write(t, filepath.Join(s.dir, "\xff"), "")
	real, err := filepath.EvalSymlinks(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"file": "/file", "here/here/link": "/file", "here": "", "here/\xff": "/\xff"} {
		if info, err := c.Stat(t.Context(), s.dir+"/"+name); err != nil || info.Real != real+want {
			t.Errorf("%q is %q, %v", name, info.Real, err)
		}
	}
	info, err = c.Stat(t.Context(), s.dir+"/")
	if err != nil || !info.IsDir || info.Path != s.dir || !info.Mode.IsDir() {
		t.Fatalf("%+v %v", info, err)
	}
	tests := []struct {
		path string
		kind fault.Kind
		code string
	}{
		{s.dir + "/absent", fault.NotFound, sandboxd.CodeNotFound},
		{s.dir + "/dangling", fault.NotFound, sandboxd.CodeNotFound},
		{s.dir + "/file/below", fault.NotFound, sandboxd.CodeNotDirectory},
		{s.dir + "/loop", fault.Invalid, "too_many_links"},
		{"relative", fault.Invalid, sandboxd.CodeBadPath},
		{"", fault.Invalid, sandboxd.CodeBadPath},
		{"/a\x00b", fault.Invalid, sandboxd.CodeBadPath},
		{"/" + strings.Repeat("x", 300), fault.Invalid, sandboxd.CodeNameTooLong},
		{"/" + strings.Repeat("x/", 3000), fault.Invalid, sandboxd.CodeNameTooLong},
	}
	for _, test := range tests {
		_, err := c.Stat(t.Context(), test.path)
		wantFault(t, err, test.kind, test.code)
	}
}

func TestReadFile(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	big := bytes.Repeat([]byte{0, 0xff, '\n', 'x'}, 1<<20)
	write(t, s.dir+"/big", string(big))
	write(t, s.dir+"/empty", "")
	for path, want := range map[string][]byte{"big": big, "empty": {}} {
		got, err := c.ReadFile(t.Context(), filepath.Join(s.dir, path), 0)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s: %d bytes, %v", path, len(got), err)
		}
	}
	if _, err := c.ReadFile(t.Context(), s.dir+"/big", int64(len(big))); err != nil {
		t.Fatal("a file exactly at the bound:", err)
	}
	_, err := c.ReadFile(t.Context(), s.dir+"/big", int64(len(big))-1)
	wantFault(t, err, fault.TooLarge, sandboxd.CodeTooLarge)
	if got, err := c.ReadFile(t.Context(), "/proc/self/status", 0); err != nil || !bytes.Contains(got, []byte("Pid:")) {
		t.Fatalf("a file without a size: %q %v", got, err)
	}
	_, err = c.ReadFile(t.Context(), "/proc/self/status", 10)
	wantFault(t, err, fault.TooLarge, sandboxd.CodeTooLarge)
	_, err = c.ReadFile(t.Context(), s.dir+"/big", sandboxd.MaxFileBytes+1)
	wantFault(t, err, fault.Invalid, sandboxd.CodeBadRequest)
}

func TestReadFileRefusesWhatIsNoFile(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	if err := unix.Mkfifo(s.dir+"/fifo", 0o644); err != nil {
		t.Fatal(err)
	}
	link(t, "fifo", s.dir+"/to-fifo")
	tests := []struct {
		path string
		kind fault.Kind
		code string
	}{
		{s.dir, fault.Invalid, sandboxd.CodeIsDirectory},
		{s.dir + "/fifo", fault.Invalid, sandboxd.CodeNotRegular},
		{s.dir + "/to-fifo", fault.Invalid, sandboxd.CodeNotRegular},
		{"/dev/zero", fault.Invalid, sandboxd.CodeNotRegular},
		{"/dev/ptmx", fault.Invalid, sandboxd.CodeNotRegular},
		{s.socket, fault.Invalid, sandboxd.CodeNotRegular},
		{s.dir + "/absent", fault.NotFound, sandboxd.CodeNotFound},
	}
	for _, test := range tests {
		_, err := c.ReadFile(t.Context(), test.path, 0)
		wantFault(t, err, test.kind, test.code)
		if strings.Contains(test.path, "absent") {
			continue
		}
		err = c.WriteFile(t.Context(), test.path, []byte("x"), tool.WriteOptions{})
		wantFault(t, err, test.kind, test.code)
	}
}

func TestWriteFileMakes(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	put := func(name, text string, opt tool.WriteOptions) error {
		return c.WriteFile(t.Context(), filepath.Join(s.dir, name), []byte(text), opt)
	}
	for name, opt := range map[string]tool.WriteOptions{
		"plain": {}, "program": {Mode: 0o755}, "new": {New: true}, "deep/er/file": {Parents: true}, "secret": {Mode: 0o600, New: true},
	} {
		if err := put(name, name, opt); err != nil {
			t.Fatal(name, err)
		}
		wantText(t, filepath.Join(s.dir, name), name)
		want := opt.Mode
		if want == 0 {
			want = 0o644
		}
		if info, err := os.Stat(filepath.Join(s.dir, name)); err != nil || info.Mode() != want {
			t.Errorf("%s: mode %v, want %v, %v", name, info.Mode(), want, err)
		}
	}
	wantFault(t, put("no/parents", "x", tool.WriteOptions{}), fault.NotFound, sandboxd.CodeNotFound)
	wantFault(t, put("plain/below", "x", tool.WriteOptions{}), fault.Invalid, sandboxd.CodeNotDirectory)
	wantFault(t, put("plain/below", "x", tool.WriteOptions{Parents: true}), fault.Invalid, sandboxd.CodeNotDirectory)
	wantFault(t, put("new", "x", tool.WriteOptions{New: true}), fault.Conflict, sandboxd.CodeExists)
	wantFault(t, put("deep", "x", tool.WriteOptions{New: true}), fault.Conflict, sandboxd.CodeExists)
	wantFault(t, put(strings.Repeat("x", 256), "x", tool.WriteOptions{}), fault.Invalid, sandboxd.CodeNameTooLong)
	wantFault(t, c.WriteFile(t.Context(), s.dir+"/dir/", []byte("x"), tool.WriteOptions{}), fault.Invalid, sandboxd.CodeIsDirectory)
	wantFault(t, c.WriteFile(t.Context(), "plain", nil, tool.WriteOptions{}), fault.Invalid, sandboxd.CodeBadPath)
	wantFault(t, put("huge", strings.Repeat("x", sandboxd.MaxFileBytes+1), tool.WriteOptions{}), fault.TooLarge, sandboxd.CodeTooLarge)
	wantText(t, s.dir+"/new", "new")
	wantEntries(t, s.dir, "deep", "new", "plain", "program", "secret")
}

func TestWriteFileKeepsModeAndOwner(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	path := s.dir + "/file"
	write(t, path, "old")
	if err := os.Chmod(path, 0o750|fs.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	owner := os.Getuid()
	if owner == 0 {
		owner = 12345
		if err := os.Chown(path, owner, 54321); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o750|fs.ModeSetgid); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.WriteFile(t.Context(), path, []byte("new"), tool.WriteOptions{Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	wantText(t, path, "new")
	after, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if after.Mode() != before.Mode() || int(after.Sys().(*syscall.Stat_t).Uid) != owner {
		t.Fatalf("mode %v owner %d", after.Mode(), after.Sys().(*syscall.Stat_t).Uid)
	}
	if os.SameFile(before, after) {
		t.Fatal("written in place, not replaced")
	}
}

func TestWriteFileThroughLinks(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	write(t, s.dir+"/real/target", "old")
	write(t, s.dir+"/trap/target", "untouched")
	if err := os.MkdirAll(s.dir+"/real/deep", 0o755); err != nil {
		t.Fatal(err)
	}
	link(t, "real/target", s.dir+"/relative")
	link(t, s.dir+"/real/target", s.dir+"/absolute")
	link(t, "relative", s.dir+"/chain")
	link(t, "../real/deep", s.dir+"/trap/dir")
	link(t, "trap/dir/../target", s.dir+"/up") // real/target: ".." of the link's target
	link(t, "real/fresh", s.dir+"/dangling")
	link(t, "loop", s.dir+"/loop")
	for _, name := range []string{"relative", "absolute", "chain", "up"} {
		if err := c.WriteFile(t.Context(), filepath.Join(s.dir, name), []byte(name), tool.WriteOptions{}); err != nil {
			t.Fatal(name, err)
		}
		wantText(t, s.dir+"/real/target", name)
		if info, err := os.Lstat(filepath.Join(s.dir, name)); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Fatalf("%s is no link any more (%v)", name, err)
		}
	}
	wantText(t, s.dir+"/trap/target", "untouched")
	if err := c.WriteFile(t.Context(), s.dir+"/dangling", []byte("x"), tool.WriteOptions{New: true}); fault.CodeOf(err) != sandboxd.CodeExists {
		t.Fatalf("New through a link: %v", err)
	}
	if err := c.WriteFile(t.Context(), s.dir+"/dangling", []byte("made"), tool.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	wantText(t, s.dir+"/real/fresh", "made")
	wantFault(t, c.WriteFile(t.Context(), s.dir+"/loop", nil, tool.WriteOptions{}), fault.Invalid, "too_many_links")
	wantEntries(t, s.dir+"/real", "deep", "fresh", "target")
}

// A reader sees the old text or the new one, whole.
func TestWriteFileIsAtomic(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	path := s.dir + "/file"
	texts := []string{strings.Repeat("a", 300_000), strings.Repeat("b", 200_000)}
	write(t, path, texts[0])
	var writers sync.WaitGroup
	for _, text := range texts {
		writers.Go(func() {
			for range 30 {
				if err := c.WriteFile(t.Context(), path, []byte(text), tool.WriteOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
		}
		got, err := os.ReadFile(path)
		if err != nil || (string(got) != texts[0] && string(got) != texts[1]) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	wantEntries(t, s.dir, "file")
}

func TestWriteFileNewHasOneWinner(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	var all sync.WaitGroup
	errs := make(chan error, 16)
	for i := range cap(errs) {
		all.Go(func() {
			errs <- c.WriteFile(t.Context(), s.dir+"/file", []byte(fmt.Sprint(i)), tool.WriteOptions{New: true})
		})
	}
	all.Wait()
	close(errs)
	won := 0
	for err := range errs {
		if err == nil {
			won++
		} else {
			wantFault(t, err, fault.Conflict, sandboxd.CodeExists)
		}
	}
	if won != 1 {
		t.Fatalf("%d made the same file", won)
	}
	wantEntries(t, s.dir, "file")
}

// inTmpfs mounts a small file system, which takes root.
func inTmpfs(t *testing.T, flags uintptr, data string, prepare func(dir string)) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, data); err != nil {
		t.Skip("mounting takes root:", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	prepare(dir)
	if flags != 0 {
		if err := unix.Mount("", dir, "", unix.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestWriteFileOnAFullDisk(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	dir := inTmpfs(t, 0, "size=64k", func(dir string) { write(t, dir+"/file", "old") })
	err := c.WriteFile(t.Context(), dir+"/file", make([]byte, 1<<20), tool.WriteOptions{})
	wantFault(t, err, fault.Unavailable, sandboxd.CodeDiskFull)
	wantText(t, dir+"/file", "old")
	wantEntries(t, dir, "file")
}

func TestReadOnlyFileSystem(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	dir := inTmpfs(t, unix.MS_RDONLY, "", func(dir string) { write(t, dir+"/file", "old") })
	for _, path := range []string{"/file", "/new", "/deep/new"} {
		err := c.WriteFile(t.Context(), dir+path, []byte("x"), tool.WriteOptions{Parents: true})
		wantFault(t, err, fault.Forbidden, sandboxd.CodeReadOnly)
	}
	wantFault(t, c.Remove(t.Context(), dir+"/file"), fault.Forbidden, sandboxd.CodeReadOnly)
	wantFault(t, c.PutTar(t.Context(), dir, archive(t, entry{name: "x", text: "y"}), 0), fault.Forbidden, sandboxd.CodeReadOnly)
}

func TestNoPermission(t *testing.T) {
	s := asNobody(t)
	c := connect(t, s.socket)
	write(t, s.dir+"/closed/file", "secret")
	write(t, s.dir+"/open/mine-not", "old")
	for path, mode := range map[string]fs.FileMode{"/closed": 0o700, "/open": 0o777, "/open/mine-not": 0o666} {
		if err := os.Chmod(s.dir+path, mode); err != nil {
			t.Fatal(err)
		}
	}
	_, err := c.ReadFile(t.Context(), s.dir+"/closed/file", 0)
	wantFault(t, err, fault.Forbidden, sandboxd.CodeDenied)
	_, err = c.ListDir(t.Context(), s.dir+"/closed", 1, 0)
	wantFault(t, err, fault.Forbidden, sandboxd.CodeDenied)
	wantFault(t, c.WriteFile(t.Context(), s.dir+"/closed/new", nil, tool.WriteOptions{}), fault.Forbidden, sandboxd.CodeDenied)
	wantFault(t, c.WriteFile(t.Context(), s.dir+"/open/mine-not", nil, tool.WriteOptions{}), fault.Forbidden, sandboxd.CodeKeepOwner)
	wantText(t, s.dir+"/open/mine-not", "old")
	wantEntries(t, s.dir+"/open", "mine-not")
	infos, err := c.ListDir(t.Context(), s.dir, 3, 0)
	if err != nil || len(infos) != 3 {
		t.Fatalf("a closed directory below is named only: %+v %v", infos, err)
	}
	if err := os.Chmod(s.dir+"/open/mine-not", 0o644); err != nil {
		t.Fatal(err)
	}
	wantFault(t, c.WriteFile(t.Context(), s.dir+"/open/mine-not", nil, tool.WriteOptions{}), fault.Forbidden, sandboxd.CodeDenied)
}

func TestListDir(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	for _, file := range []string{"b/2", "b/1", "b/deep/x", "a", "b-", "c/only", "\xff\xfe"} {
		write(t, filepath.Join(s.dir, "top", file), "text")
	}
	top := s.dir + "/top"
	link(t, "b", top+"/link")
	link(t, "\xfe", top+"/odd")
	tests := []struct {
		depth, max int
		want       string
	}{
		{1, 0, "a b b- c link odd \xff\xfe"},
		{0, 0, "a b b- c link odd \xff\xfe"},
		{2, 0, "a b b/1 b/2 b/deep b- c c/only link odd \xff\xfe"},
		{100, 0, "a b b/1 b/2 b/deep b/deep/x b- c c/only link odd \xff\xfe"},
		{100, 8, "a b b/1 b- c link odd \xff\xfe"},
		{1, 2, "a b"},
	}
	for _, test := range tests {
		infos, err := c.ListDir(t.Context(), top, test.depth, test.max)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, info := range infos {
			names = append(names, info.Path)
			if info.IsDir != (info.Path == "b" || info.Path == "c" || info.Path == "b/deep") {
				t.Errorf("%+v", info)
			}
		}
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("depth %d max %d: %q, want %q", test.depth, test.max, got, test.want)
		}
	}
	infos, err := c.ListDir(t.Context(), top+"/link", 1, 0)
	if err != nil || len(infos) != 3 || infos[0].Size != 4 || infos[0].Mode != 0o644 {
		t.Fatalf("%+v %v", infos, err)
	}
	infos, err = c.ListDir(t.Context(), top, 1, 0)
	if err != nil || infos[4].Link != "b" || infos[4].Mode&fs.ModeSymlink == 0 || infos[5].Link != "\xfe" {
		t.Fatalf("%+v %v", infos, err)
	}
	_, err = c.ListDir(t.Context(), top+"/a", 1, 0)
	wantFault(t, err, fault.Invalid, sandboxd.CodeNotDirectory)
	_, err = c.ListDir(t.Context(), top+"/absent", 1, 0)
	wantFault(t, err, fault.NotFound, sandboxd.CodeNotFound)
	if infos, err := c.ListDir(t.Context(), t.TempDir(), 5, 0); err != nil || len(infos) != 0 {
		t.Fatalf("%+v %v", infos, err)
	}
}

func TestRemove(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	write(t, s.dir+"/file", "x")
	write(t, s.dir+"/kept", "x")
	link(t, "kept", s.dir+"/link")
	for _, name := range []string{"file", "file", "link", "absent", "kept/below"} {
		if err := c.Remove(t.Context(), filepath.Join(s.dir, name)); err != nil {
			t.Fatal(name, err)
		}
	}
	wantEntries(t, s.dir, "kept")
	wantFault(t, c.Remove(t.Context(), s.dir), fault.Invalid, sandboxd.CodeIsDirectory)
}

// An answer that nobody waits for any more is not an error of the sandbox.
func TestCancelledCallsTellTheCause(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	cause := errors.New("superseded")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := c.Stat(ctx, "/"); !errors.Is(err, cause) {
		t.Fatal(err)
	}
	if _, err := c.DialPort(ctx, 1); !errors.Is(err, cause) {
		t.Fatal(err)
	}
}
