package sandboxd_test

import (
	"os"
	"path/filepath"
	"testing"

	"parley/internal/fault"
	"parley/internal/sandboxd"
	"parley/internal/tool"
)

func TestAppend(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	path := filepath.Join(s.dir, "file")
	more := tool.WriteOptions{Append: true}
	if err := c.WriteFile(t.Context(), path, []byte("x"), more); !fault.Is(err, fault.NotFound) {
		t.Errorf("a file that does not exist: %v", err)
	}
	if err := os.WriteFile(path, []byte("one "), 0o640); err != nil {
		t.Fatal(err)
	}
	other, link := filepath.Join(s.dir, "other"), filepath.Join(s.dir, "link")
	if err := os.Link(path, other); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ path, data string }{{path, "two "}, {link, "three"}, {path, ""}} {
		if err := c.WriteFile(t.Context(), step.path, []byte(step.data), more); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(other); err != nil || string(data) != "one two three" {
		t.Errorf("%q, %v", data, err)
	}
	for path, kind := range map[string]fault.Kind{s.dir: fault.Invalid, "/dev/null": fault.Invalid, "relative": fault.Invalid, path + "/x": fault.NotFound} {
		if err := c.WriteFile(t.Context(), path, []byte("x"), more); !fault.Is(err, kind) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
