package collection

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"parley/internal/extension"
	"parley/internal/fault"
)

// memoryTree is a tree without git: of texts, links as "-> target", and programs that
// begin with "#!".
func memoryTree(ctx context.Context, files map[string]string) (*gitTree, error) {
	var list []gitFile
	for name, text := range files {
		target, link := strings.CutPrefix(text, "-> ")
		list = append(list, gitFile{name: name, id: target, size: int64(len(target)), link: link, exec: strings.HasPrefix(text, "#!")})
	}
	slices.SortFunc(list, func(a, b gitFile) int { return strings.Compare(a.name, b.name) })
	return newTree(ctx, list, func(_ context.Context, f gitFile) ([]byte, error) { return []byte(f.id), nil })
}

// TestTreeIsLikeADirectory compares what a tree in git shows with the same files on
// a disk.
func TestTreeIsLikeADirectory(t *testing.T) {
	parent := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		dir := filepath.Join(parent, fmt.Sprint(n))
		files := drawFiles(t)
		for name, text := range files {
			write(t, filepath.Join(dir, name), text)
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		disk, err := extension.DirTree(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = disk.Close() }()
		tree, err := memoryTree(context.Background(), files)
		if err != nil {
			t.Fatal(err)
		}
		compareTrees(t, files, tree, disk)
	})
}

func write(t *rapid.T, name, text string) {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	err := error(nil)
	if target, link := strings.CutPrefix(text, "-> "); link {
		err = os.Symlink(target, name)
	} else {
		mode := os.FileMode(0o600)
		if strings.HasPrefix(text, "#!") {
			mode = 0o700
		}
		err = os.WriteFile(name, []byte(text), mode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

var parts = []string{"a", "b.md", ".h", "skills", "vendor", "a-b", "c."}

// drawFiles draws files and links; no name is both a file and a directory.
func drawFiles(t *rapid.T) map[string]string {
	drawName := rapid.Custom(func(t *rapid.T) string {
		return path.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 1, 3).Draw(t, "parts")...)
	})
	files := map[string]string{}
	for range rapid.IntRange(0, 8).Draw(t, "files") {
		name := drawName.Draw(t, "name")
		taken := false
		for other := range files {
			taken = taken || name == other || strings.HasPrefix(name, other+"/") || strings.HasPrefix(other, name+"/")
		}
		if taken {
			continue
		}
		files[name] = rapid.SampledFrom([]string{"text of ", "#!"}).Draw(t, "kind") + name
		if rapid.Bool().Draw(t, "link") {
			up := strings.Repeat("../", rapid.IntRange(0, 3).Draw(t, "up"))
			files[name] = "-> " + rapid.SampledFrom([]string{"", "/"}).Draw(t, "absolute") + up + drawName.Draw(t, "target")
		}
	}
	return files
}

func compareTrees(t *rapid.T, files map[string]string, tree, disk extension.ModeTree) {
	ctx := context.Background()
	dirs := []string{"", "skills", "a", "a/skills", ".h"}
	for _, dir := range dirs {
		for _, depth := range []int{1, 2, 9} {
			for _, limit := range []int{1, 2, 100} {
				got, err1 := tree.List(ctx, dir, depth, limit)
				want, err2 := disk.List(ctx, dir, depth, limit)
				if err1 != nil || err2 != nil || !slices.Equal(got, want) {
					t.Fatalf("files %v\nlist %q %d %d: %v (%v), on disk %v (%v)", files, dir, depth, limit, got, err1, want, err2)
				}
			}
		}
	}
	for _, pattern := range []string{"**/*.md", "**/a", "skills/**", "**"} {
		got, err1 := tree.Find(ctx, pattern, 100)
		want, err2 := disk.Find(ctx, pattern, 100)
		if err1 != nil || err2 != nil || !slices.Equal(got, want) {
			t.Fatalf("files %v\nfind %q: %v (%v), on disk %v (%v)", files, pattern, got, err1, want, err2)
		}
	}
	names, _ := disk.List(ctx, "", 9, 100)
	for name := range files {
		names = append(names, name)
	}
	for _, dir := range dirs[1:] {
		names = append(names, dir, dir+"/b.md", dir+"/a/b.md")
	}
	for _, name := range names {
		got, err1 := tree.Read(ctx, name, 1000)
		want, err2 := disk.Read(ctx, name, 1000)
		if string(got) != string(want) || (err1 == nil) != (err2 == nil) {
			t.Fatalf("files %v\nread %q: %q (%v), on disk %q (%v)", files, name, got, err1, want, err2)
		}
		if got, want := tree.Executable(name), disk.Executable(name); got != want {
			t.Fatalf("files %v\n%q is a program: %v, on disk %v", files, name, got, want)
		}
	}
}

func TestTreeBounds(t *testing.T) {
	files := map[string]string{"big": strings.Repeat("x", 100), "long": "-> " + strings.Repeat("x/../", 300) + "big",
		"round": "-> about", "about": "-> round", "self": "-> self/x", "out": "-> ../big", "abs": "-> /big", "ok": "-> ./big", "empty": "-> "}
	tree, err := memoryTree(t.Context(), files)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := tree.List(t.Context(), "", 1, 10); !slices.Equal(got, []string{"big", "ok"}) {
		t.Errorf("list: %v", got)
	}
	if _, err := tree.Read(t.Context(), "ok", 99); !fault.Is(err, fault.TooLarge) {
		t.Errorf("read of a large file: %v", err)
	}
	if got, err := tree.Read(t.Context(), "ok", 100); err != nil || len(got) != 100 {
		t.Errorf("read: %d bytes, %v", len(got), err)
	}
	for _, name := range []string{"", ".", "..", "../big", "/nothing", "out", "abs", "round", "self", "big/x", "empty"} {
		if _, err := tree.Read(t.Context(), name, 100); !fault.Is(err, fault.NotFound) {
			t.Errorf("read %q: %v", name, err)
		}
	}
	if _, err := tree.Find(t.Context(), "../x", 1); !fault.Is(err, fault.Invalid) {
		t.Errorf("find with a bad pattern: %v", err)
	}
	many := map[string]string{"file": "x"}
	for i := range maxLinks + 50 {
		many[fmt.Sprintf("link%03d", i)] = "-> file"
	}
	if tree, err = memoryTree(t.Context(), many); err != nil {
		t.Fatal(err)
	}
	if got, _ := tree.List(t.Context(), "", 1, 1000); len(got) != maxLinks+1 {
		t.Errorf("%d files of %d links", len(got), maxLinks)
	}
}

func FuzzParseTree(f *testing.F) {
	const id = "0123456789012345678901234567890123456789"
	f.Add([]byte("100644 blob " + id + "      12\ta/b.md\x00120000 blob " + id + " 3\tl\x00160000 commit " + id + "       -\tsub\x00"))
	f.Add([]byte("100644 blob " + id + " 1\t../x\x00100755 blob " + id + " -1\ta\x00100644 blob " + id + " 1\t/a\x00\t\x00"))
	f.Fuzz(func(t *testing.T, out []byte) {
		files := parseTree(out)
		for i, file := range files {
			if !filepath.IsLocal(file.name) || path.Clean(file.name) != file.name || file.size < 0 || !commitID.MatchString(file.id) ||
				i > 0 && files[i-1].name >= file.name {
				t.Fatalf("%+v of %q", file, out)
			}
		}
		tree, err := newTree(t.Context(), files, func(_ context.Context, f gitFile) ([]byte, error) { return []byte(f.name + "/../x"), nil })
		if err != nil {
			t.Fatal(err)
		}
		names, err := tree.List(t.Context(), "", 100, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if f, ok := tree.find(name); !ok || f.link {
				t.Fatalf("%q is listed and not there (%+v)", name, f)
			}
		}
	})
}

func FuzzParseRefs(f *testing.F) {
	f.Add([]byte("0123456789012345678901234567890123456789\tHEAD\n0123456789012345678901234567890123456789\trefs/tags/v^{}\n"))
	f.Add([]byte("-x\tHEAD\n\t\n"))
	f.Fuzz(func(t *testing.T, out []byte) {
		for name, id := range parseRefs(out) {
			if !commitID.MatchString(id) || strings.Contains(name, "\n") {
				t.Fatalf("%q %q of %q", name, id, out)
			}
		}
	})
}
