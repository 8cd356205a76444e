package forge_test

import (
	"context"
	"strings"
	"testing"

	"parley/internal/fault"
	"parley/internal/forge"
	"parley/internal/forge/forgetest"
)

func TestFilesOfARepository(t *testing.T) {
	everywhere(t, func(t *testing.T, s *forgetest.Server, h forge.Host, _ string) {
		alpha := s.Name("acme", "alpha")
		const dir = ".openhands/microagents"
		got, err := h.Files(t.Context(), alpha, dir)
		check(t, err)
		expect(t, "files", got, []string{dir + "/repo.md", dir + "/a/db.md", dir + "/bad.md", dir + "/notes", dir + "/README.md"})
		got, err = h.Files(t.Context(), alpha, "not/there")
		check(t, err)
		expect(t, "of a directory that is not there", got, nil)
		for _, p := range []string{".cursorrules", dir + "/a/db.md"} {
			data, err := h.File(t.Context(), alpha, p)
			check(t, err)
			if string(data) != forgetest.Files()[p] {
				t.Errorf("%s: %q", p, data)
			}
		}
		if _, err := h.File(t.Context(), alpha, "gone.md"); !fault.Is(err, fault.NotFound) {
			t.Errorf("one that is not there: %v", err)
		}
		if _, err := h.File(t.Context(), alpha, "large.bin"); !fault.Is(err, fault.TooLarge) {
			t.Errorf("one that is too large: %v", err)
		}
		before := len(s.Seen())
		for _, p := range []string{"", "/etc/passwd", "../../user", "a/../b", "a//b", "a/", `a\b`, "a\nb", strings.Repeat("a/", 300) + "b"} {
			if _, err := h.File(t.Context(), alpha, p); !fault.Is(err, fault.Invalid) {
				t.Errorf("%q: %v", p, err)
			}
			if _, err := h.Files(t.Context(), alpha, p); !fault.Is(err, fault.Invalid) {
				t.Errorf("%q: %v", p, err)
			}
		}
		if _, err := h.File(t.Context(), "../x", "a"); !fault.Is(err, fault.Invalid) || len(s.Seen()) != before {
			t.Errorf("the service was asked for what is no path: %v", err)
		}
	})
}

func TestWhetherAPullRequestIsOpen(t *testing.T) {
	everywhere(t, func(t *testing.T, s *forgetest.Server, h forge.Host, _ string) {
		for n, want := range map[int]bool{4: true, 3: false} {
			open, err := h.IsOpen(t.Context(), s.Name("acme", "alpha"), n)
			check(t, err)
			if open != want {
				t.Errorf("%d: %v", n, open)
			}
		}
		if _, err := h.IsOpen(t.Context(), s.Name("acme", "alpha"), 99); !fault.Is(err, fault.NotFound) {
			t.Errorf("one that is not there: %v", err)
		}
	})
}

// A service that lists directories for ever is not followed.
func TestDirectoriesAreBounded(t *testing.T) {
	asked := 0
	files, err := forge.WalkContents(t.Context(), "d", func(_ context.Context, dir string) ([]forge.Entry, error) {
		asked++
		return []forge.Entry{{Type: "dir", Path: dir + "/d"}, {Type: "file", Path: dir + "/f"}, {Type: "symlink", Path: dir + "/l"},
			{Type: "file", Path: "elsewhere/f"}, {Type: "dir", Path: "d/../.."}}, nil
	})
	check(t, err)
	if asked > 20 || len(files) != asked {
		t.Errorf("%d directories, %q", asked, files)
	}
}
