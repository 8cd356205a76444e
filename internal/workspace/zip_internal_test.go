package workspace

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"io"
	"strings"
	"testing"

	"parley/internal/glob"
)

// archive makes a tar archive of names with their texts.
func archive(t testing.TB, named ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(named); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: named[i], Mode: 0o644, Size: int64(len(named[i+1])), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, named[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestNoNameLeavesAnArchive(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"../x", "/etc/passwd", "a/../../x", "a//b", "./a"} {
		if err := rezip(bytes.NewReader(archive(t, name, "text")), io.Discard); err == nil {
			t.Errorf("%q was taken", name)
		}
	}
}

func TestWhatIsCutHasNoDirectory(t *testing.T) {
	t.Parallel()
	whole := archive(t, "a", strings.Repeat("text", 1000), "b", "more")
	for _, n := range []int{0, 100, 600, 2000, 5000} {
		var out bytes.Buffer
		err := rezip(bytes.NewReader(whole[:n]), &out)
		if n == 0 { // an empty stream is an empty archive
			continue
		}
		if _, opened := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len())); err == nil || opened == nil {
			t.Errorf("%d bytes: %v, %v", n, err, opened)
		}
	}
}

func FuzzRezip(f *testing.F) {
	f.Add(archive(f, "a", "text", "d/b", ""))
	f.Add([]byte("no archive"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var out bytes.Buffer
		if rezip(bytes.NewReader(data), &out) != nil {
			return
		}
		z, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range z.File {
			if strings.HasPrefix(file.Name, "/") || strings.Contains("/"+file.Name+"/", "/../") {
				t.Errorf("%q", file.Name)
			}
		}
	})
}

func TestIgnoredDirectoriesHideWhatIsBelowThem(t *testing.T) {
	t.Parallel()
	rules := glob.ParseIgnore("build/\n*.log\n!keep.log\n/only-top\n")
	for path, want := range map[string]bool{"build/a/b": true, "src/build/x": true, "a.log": true, "keep.log": false, "only-top": true,
		"src/only-top": false, "built": false} {
		if got := ignored(rules, path, false); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}
