package sandboxd_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/sandboxd"
)

// entry is one of an archive; a file unless kind says otherwise.
type entry struct {
	name, text, link string
	kind             byte
	mode             int64
}

func archive(t testing.TB, entries ...entry) *bytes.Buffer {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		if e.kind == 0 {
			e.kind = tar.TypeReg
		}
		if e.mode == 0 {
			e.mode = 0o644
		}
		if err := w.WriteHeader(&tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.link, Mode: e.mode, Size: int64(len(e.text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &buf
}

func TestTarThereAndBack(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	from, to := s.dir+"/from", s.dir+"/new/to"
	big := strings.Repeat("0123456789abcdef", 100_000)
	write(t, from+"/big", big)
	write(t, from+"/dir/empty", "")
	write(t, from+"/dir/node_modules/dep/file", "left out")
	write(t, from+"/dir/keep.log", "left out")
	write(t, from+"/build/out", "left out")
	write(t, from+"/dir/build/in", "kept")
	write(t, from+"/odd \xff name", "kept")
	link(t, "../big", from+"/dir/link")
	if err := os.Chmod(from+"/big", 0o751); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(from+"/fifo", 0o644); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := c.GetTar(t.Context(), from, &buf, []string{"node_modules", "*.log", "build/out"}, 0); err != nil {
		t.Fatal(err)
	}
	if err := c.PutTar(t.Context(), to, &buf, 0); err != nil {
		t.Fatal(err)
	}
	wantText(t, to+"/big", big)
	wantText(t, to+"/dir/build/in", "kept")
	wantText(t, to+"/odd \xff name", "kept")
	wantText(t, to+"/dir/link", big)
	wantEntries(t, to, "big", "build", "dir", "odd \xff name")
	wantEntries(t, to+"/dir", "build", "empty", "link")
	wantEntries(t, to+"/build")
	before, _ := os.Stat(from + "/big")
	after, err := os.Stat(to + "/big")
	if err != nil || after.Mode() != 0o751 || after.ModTime().Unix() != before.ModTime().Unix() {
		t.Fatalf("%v %v", after, err)
	}
}

func TestPutTarReplacesAndDoesNotFollow(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	dir := s.dir + "/in"
	write(t, s.dir+"/outside", "untouched")
	write(t, dir+"/file", "old")
	link(t, "../outside", dir+"/link")
	err := c.PutTar(t.Context(), dir, archive(t,
		entry{name: "./file", text: "new"},
		entry{name: "link", text: "no link any more"},
		entry{name: "made", kind: tar.TypeSymlink, link: "../outside"},
		entry{name: "made", text: "a file now"},
		entry{name: "hard", kind: tar.TypeLink, link: "file"},
		entry{name: "suid", text: "x", mode: 0o4755},
		entry{name: "closed/", kind: tar.TypeDir, mode: 0o500},
		entry{name: "closed/file", text: "fits"},
	), 0)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/file": "new", "/link": "no link any more", "/made": "a file now", "/hard": "new", "/closed/file": "fits", "/../outside": "untouched",
	} {
		wantText(t, dir+path, want)
	}
	if info, err := os.Stat(dir + "/suid"); err != nil || info.Mode() != 0o755 {
		t.Fatalf("%v %v", info.Mode(), err)
	}
}

func TestPutTarRefusals(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	dir := s.dir + "/in"
	write(t, s.dir+"/outside/file", "untouched")
	write(t, dir+"/sub/x", "x")
	link(t, "../outside", dir+"/out")
	link(t, "sub", dir+"/inner")
	whole := archive(t, entry{name: "a", text: strings.Repeat("x", 5000)}).Bytes()
	tests := []struct {
		name  string
		in    io.Reader
		limit int64
		kind  fault.Kind
		code  string
	}{
		{"absolute", archive(t, entry{name: "/etc/passwd", text: "x"}), 0, fault.Invalid, sandboxd.CodeUnsafeArchive},
		{"up", archive(t, entry{name: "../outside/file", text: "x"}), 0, fault.Invalid, sandboxd.CodeUnsafeArchive},
		{"up in the middle", archive(t, entry{name: "sub/../../outside/file", text: "x"}), 0, fault.Invalid, sandboxd.CodeUnsafeArchive},
		{"through a link", archive(t, entry{name: "out/file", text: "x"}), 0, fault.Invalid, sandboxd.CodeUnsafeArchive},
		{"through a link inside", archive(t, entry{name: "inner/file", text: "x"}), 0, fault.Invalid, sandboxd.CodeUnsafeArchive},
		{"through its own link", archive(t, entry{name: "l", kind: tar.TypeSymlink, link: "../outside"}, entry{name: "l/file", text: "x"}),
			0, fault.Invalid, sandboxd.CodeUnsafeArchive},
		{"hard link out", archive(t, entry{name: "l", kind: tar.TypeLink, link: "../outside/file"}), 0, fault.Invalid, sandboxd.CodeUnsafeArchive},
		{"hard link through a link", archive(t, entry{name: "l", kind: tar.TypeLink, link: "out/file"}), 0, fault.Invalid, sandboxd.CodeUnsafeArchive},
		{"device", archive(t, entry{name: "d", kind: tar.TypeBlock}), 0, fault.Invalid, "unsupported_archive_entry"},
		{"pipe", archive(t, entry{name: "p", kind: tar.TypeFifo}), 0, fault.Invalid, "unsupported_archive_entry"},
		{"file over directory", archive(t, entry{name: "sub", text: "x"}), 0, fault.Invalid, sandboxd.CodeIsDirectory},
		{"directory over file", archive(t, entry{name: "sub/x/y", text: "x"}), 0, fault.Invalid, sandboxd.CodeNotDirectory},
		{"over the limit", archive(t, entry{name: "a", text: "12345"}, entry{name: "b", text: "123456"}), 10, fault.TooLarge, sandboxd.CodeTooLarge},
		{"far over the limit", io.MultiReader(bytes.NewReader(whole), zeroes(70<<20)), 10, fault.TooLarge, sandboxd.CodeTooLarge},
		{"cut short", bytes.NewReader(whole[:3000]), 0, fault.Invalid, "bad_archive"},
		{"no archive", strings.NewReader(strings.Repeat("garbage ", 1000)), 0, fault.Invalid, "bad_archive"},
		{"a refusal before much more", io.MultiReader(bytes.NewReader(archive(t, entry{name: "/x", text: "x"}).Bytes()), zeroes(20<<20)),
			0, fault.Invalid, sandboxd.CodeUnsafeArchive},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := c.PutTar(t.Context(), dir, test.in, test.limit)
			wantFault(t, err, test.kind, test.code)
			wantText(t, s.dir+"/outside/file", "untouched")
			wantEntries(t, s.dir+"/outside", "file")
		})
	}
}

func zeroes(n int64) io.Reader { return io.LimitReader(neverEnding{}, n) }

type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestTarErrorsOfTheCaller(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	broken := errors.New("the caller's own trouble")
	err := c.PutTar(t.Context(), s.dir+"/in", io.MultiReader(strings.NewReader("x"), iotest.ErrReader(broken)), 0)
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	write(t, s.dir+"/from/file", "text")
	if err := c.GetTar(t.Context(), s.dir+"/from", failingWriter{broken}, nil, 0); !errors.Is(err, broken) {
		t.Fatal(err)
	}
}

type failingWriter struct{ err error }

func (f failingWriter) Write([]byte) (int, error) { return 0, f.err }

func TestGetTarRefusals(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	write(t, s.dir+"/from/a", strings.Repeat("x", 200_000))
	write(t, s.dir+"/from/b", strings.Repeat("x", 200_000))
	get := func(dir string, exclude []string, limit int64) error {
		return c.GetTar(t.Context(), dir, io.Discard, exclude, limit)
	}
	wantFault(t, get(s.dir+"/absent", nil, 0), fault.NotFound, sandboxd.CodeNotFound)
	wantFault(t, get(s.dir+"/from/a", nil, 0), fault.Invalid, sandboxd.CodeNotDirectory)
	wantFault(t, get("from", nil, 0), fault.Invalid, sandboxd.CodeBadPath)
	wantFault(t, get(s.dir+"/from", []string{"[a"}, 0), fault.Invalid, sandboxd.CodeBadRequest)
	// Found out only after much has been sent.
	wantFault(t, get(s.dir+"/from", nil, 300_000), fault.TooLarge, sandboxd.CodeTooLarge)
	if err := get(s.dir+"/from", nil, 400_000); err != nil {
		t.Fatal(err)
	}
}

func TestGetTarTellsWhatItMayNotRead(t *testing.T) {
	s := asNobody(t)
	c := connect(t, s.socket)
	write(t, s.dir+"/a \"quoted\"\n\x7f", "secret")
	if err := os.Chmod(s.dir+"/a \"quoted\"\n\x7f", 0o600); err != nil {
		t.Fatal(err)
	}
	err := c.GetTar(t.Context(), s.dir, io.Discard, nil, 0)
	wantFault(t, err, fault.Forbidden, sandboxd.CodeDenied)
	if !strings.Contains(err.Error(), "\"quoted\"\n\x7f") {
		t.Fatalf("%q", err)
	}
}

func TestPutTarIntoAFile(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	write(t, s.dir+"/file", "x")
	err := c.PutTar(t.Context(), filepath.Join(s.dir, "file"), archive(t, entry{name: "x"}), 0)
	wantFault(t, err, fault.Invalid, sandboxd.CodeNotDirectory)
	if _, err := os.Stat(s.dir + "/file/x"); !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}
