package sandboxd_test

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/sandboxd"
	"parley/internal/tool"
)

func sum(text string) []byte {
	s := sha256.Sum256([]byte(text))
	return s[:]
}

// names lists all that is below a directory.
func names(t testing.TB, root string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if path != root {
			out = append(out, path[len(root)+1:])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestChangeFiles(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	at := func(name string) string { return filepath.Join(s.dir, name) }
	tree(t, s.dir, "old=old", "gone=gone", "real=real", "dir/x=x")
	if err := os.Chmod(at("old"), 0o750); err != nil {
		t.Fatal(err)
	}
	link(t, at("real"), at("alias"))
	link(t, at("dir"), at("way"))
	err := c.ChangeFiles(t.Context(), s.dir, []tool.FileChange{
		{Path: at("old"), Data: []byte("new"), Before: sum("old")},
		{Path: at("gone"), Remove: true, Before: sum("gone")},
		{Path: at("a/b/made"), Data: []byte("made"), Mode: 0o755},
		{Path: at("alias"), Data: []byte("through"), Before: sum("real")},
		{Path: at("way/y"), Data: []byte("y")},
	})
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, at("old"), "new")
	wantText(t, at("real"), "through")
	wantText(t, at("dir/y"), "y")
	for name, mode := range map[string]os.FileMode{"old": 0o750, "a/b/made": 0o755} {
		if info, err := os.Stat(at(name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
	want := []string{"a", "a/b", "a/b/made", "alias", "dir", "dir/x", "dir/y", "old", "real", "way"}
	if got := names(t, s.dir); !slices.Equal(got, want) {
		t.Errorf("there is %v", got)
	}
}

func TestChangeFilesAllOrNone(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	outside := t.TempDir()
	write(t, filepath.Join(outside, "f"), "f")
	at := func(name string) string { return filepath.Join(s.dir, name) }
	tree(t, s.dir, "a=a", "b=b", "dir/x=x")
	link(t, outside, at("out"))
	link(t, filepath.Join(outside, "f"), at("file"))
	link(t, filepath.Join(outside, "none"), at("dangling"))
	before := names(t, s.dir)
	good := []tool.FileChange{{Path: at("a"), Data: []byte("changed"), Before: sum("a")}, {Path: at("new/n"), Data: []byte("n")},
		{Path: at("b"), Remove: true, Before: sum("b")}}
	for _, test := range []struct {
		bad  tool.FileChange
		kind fault.Kind
		code string
	}{
		{tool.FileChange{Path: at("dir/x"), Data: []byte("y"), Before: sum("z")}, fault.Conflict, sandboxd.CodeChanged},
		{tool.FileChange{Path: at("dir/x"), Data: []byte("y")}, fault.Conflict, sandboxd.CodeExists},
		{tool.FileChange{Path: at("none"), Data: []byte("y"), Before: sum("")}, fault.NotFound, sandboxd.CodeNotFound},
		{tool.FileChange{Path: at("none"), Remove: true}, fault.NotFound, sandboxd.CodeNotFound},
		{tool.FileChange{Path: at("dir"), Data: []byte("y")}, fault.Invalid, sandboxd.CodeIsDirectory},
		{tool.FileChange{Path: at("a/below"), Data: []byte("y")}, fault.Invalid, sandboxd.CodeNotDirectory},
		{tool.FileChange{Path: at("dir/../a"), Data: []byte("y"), Before: sum("a")}, fault.Invalid, sandboxd.CodeBadRequest},
		{tool.FileChange{Path: at("out/n"), Data: []byte("y")}, fault.Forbidden, sandboxd.CodeOutside},
		{tool.FileChange{Path: at("out/f"), Remove: true, Before: sum("f")}, fault.Forbidden, sandboxd.CodeOutside},
		{tool.FileChange{Path: at("file"), Data: []byte("y"), Before: sum("f")}, fault.Forbidden, sandboxd.CodeOutside},
		{tool.FileChange{Path: at("dangling"), Data: []byte("y")}, fault.NotFound, sandboxd.CodeNotFound},
		{tool.FileChange{Path: at("../escape"), Data: []byte("y")}, fault.Forbidden, sandboxd.CodeOutside},
		{tool.FileChange{Path: s.dir, Data: []byte("y")}, fault.Forbidden, sandboxd.CodeOutside},
		{tool.FileChange{Path: "relative", Data: []byte("y")}, fault.Invalid, sandboxd.CodeBadPath},
	} {
		for _, changes := range [][]tool.FileChange{append([]tool.FileChange{test.bad}, good...), append(slices.Clone(good), test.bad)} {
			wantFault(t, c.ChangeFiles(t.Context(), s.dir, changes), test.kind, test.code)
		}
	}
	wantText(t, at("a"), "a")
	wantText(t, at("b"), "b")
	wantText(t, filepath.Join(outside, "f"), "f")
	if got := names(t, s.dir); !slices.Equal(got, before) {
		t.Errorf("there is %v", got)
	}
}

// TestChangeFilesRollsBack: an immutable file fails only after others were changed.
func TestChangeFilesRollsBack(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	at := func(name string) string { return filepath.Join(s.dir, name) }
	tree(t, s.dir, "a=a", "b=b", "fixed/c=c")
	if err := immutable(at("fixed/c"), true); err != nil {
		t.Skipf("no immutable files here: %v", err)
	}
	defer func() { _ = immutable(at("fixed/c"), false) }()
	before := names(t, s.dir)
	err := c.ChangeFiles(t.Context(), s.dir, []tool.FileChange{
		{Path: at("a"), Data: []byte("changed"), Before: sum("a")}, {Path: at("b"), Remove: true, Before: sum("b")},
		{Path: at("new/n"), Data: []byte("n")}, {Path: at("fixed/c"), Remove: true, Before: sum("c")},
	})
	wantFault(t, err, fault.Forbidden, sandboxd.CodeDenied)
	wantText(t, at("a"), "a")
	wantText(t, at("b"), "b")
	if got := names(t, s.dir); !slices.Equal(got, before) {
		t.Errorf("there is %v", got)
	}
}

// immutable sets or clears the flag of a file that refuses every change.
func immutable(path string, on bool) error {
	const flag = 0x10
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	flags, err := unix.IoctlGetUint32(int(file.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return err
	}
	flags &^= flag
	if on {
		flags |= flag
	}
	return unix.IoctlSetPointerInt(int(file.Fd()), unix.FS_IOC_SETFLAGS, int(flags))
}
