package workspace_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"parley/internal/fault"
	"parley/internal/tool/tooltest"
	"parley/internal/workspace"
)

func plainBench(t testing.TB) *bench {
	t.Helper()
	box := tooltest.New(t)
	return &bench{box, workspace.New(box.Env.Hands, box.Dir)}
}

func TestListPrunesAndIsBounded(t *testing.T) {
	b := plainBench(t)
	for _, name := range []string{"a", "sub/b", "sub/.hidden", ".git/config", "node_modules/m/x", "sub/target/x", "sub/deep/er/c"} {
		b.write(name, "x")
	}
	if err := os.Symlink("..", b.path("sub/loop")); err != nil {
		t.Fatal(err)
	}
	got, err := b.ws.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	want(t, "files", got, []string{"a", "sub/.hidden", "sub/b", "sub/deep/er/c", "sub/loop"})
	got, err = b.ws.List(t.Context(), "sub/deep")
	if err != nil || !slices.Equal(got, []string{"er/c"}) {
		t.Errorf("%v %v", got, err)
	}
	for _, none := range []string{"missing", "a"} {
		if got, err := b.ws.List(t.Context(), none); err != nil || len(got) != 0 || got == nil {
			t.Errorf("%s: %v %v", none, got, err)
		}
	}
	for i := range 2100 {
		b.write(fmt.Sprintf("many/%04d", i), "")
	}
	if got, err = b.ws.List(t.Context(), ""); err != nil || len(got) != 2000 || got[0] != "a" {
		t.Errorf("%d %v", len(got), err)
	}
}

// TestLevelIsOneLevel: directories, empty ones and links to them too, before files.
func TestLevelIsOneLevel(t *testing.T) {
	b := plainBench(t)
	for _, name := range []string{"b", "A", "sub/b", ".git/config", "node_modules/m/x", ".env"} {
		b.write(name, "x")
	}
	for link, to := range map[string]string{"link": "sub", "gone": "nowhere", "alias": "A"} {
		if err := os.Symlink(to, b.path(link)); err != nil {
			t.Fatal(err)
		}
	}
	for dir, names := range map[string][]string{
		"":             {"link/", "node_modules/", "sub/", ".env", "A", "alias", "b", "gone"},
		b.path("link"): {"b"},
		"A":            {},
		"missing":      {},
	} {
		got, err := b.ws.Level(t.Context(), dir)
		if err != nil || !slices.Equal(got, names) || got == nil {
			t.Errorf("%s: %q %v", dir, got, err)
		}
	}
	for i := range 2100 {
		b.write(fmt.Sprintf("many/%04d", i), "")
	}
	if got, err := b.ws.Level(t.Context(), "many"); err != nil || len(got) != 2000 || got[0] != "0000" {
		t.Errorf("%d %v", len(got), err)
	}
	if _, err := b.ws.Level(t.Context(), "a\x00"); !fault.Is(err, fault.Invalid) {
		t.Errorf("%v", err)
	}
}

func TestWithinStaysBelow(t *testing.T) {
	b := plainBench(t)
	b.write("work/file", "x")
	b.write("secret", "x")
	for link, to := range map[string]string{"work/in": "file", "work/out": "../secret", "work/abs": "/etc", "work/root": "/proc/self/root", "alias": "work"} {
		if err := os.Symlink(to, b.path(link)); err != nil {
			t.Fatal(err)
		}
	}
	for name, ok := range map[string]bool{"file": true, "in": true, "": true, ".": true, "../secret": false, "out": false, "abs/passwd": false,
		"root/etc/passwd": false, "../work/file": true, "x/../../secret": false, "../workx": false, "a\x00": false} {
		_, err := b.ws.Within(t.Context(), b.path("work"), name)
		if (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
		if !ok && !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.NotFound) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if got, err := b.ws.Within(t.Context(), b.path("alias"), "file"); err != nil || got != b.path("work/file") {
		t.Errorf("through a linked directory: %q %v", got, err)
	}
}

// TestSaveIsAllOrNothing: whatever the size and wherever the reader breaks off, the
// file is the new one or the old one, and nothing is left beside it.
func TestSaveIsAllOrNothing(t *testing.T) {
	b := plainBench(t)
	const limit = 10 << 20
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.SampledFrom([]int{0, 1, 4<<20 - 1, 4 << 20, 4<<20 + 1, 9 << 20, limit, limit + 1}).Draw(rt, "size")
		breaks := rapid.Bool().Draw(rt, "breaks off")
		old := []byte("old")
		if err := os.WriteFile(b.path("f"), old, 0o640); err != nil {
			rt.Fatal(err)
		}
		data := bytes.Repeat([]byte{7}, size)
		var r io.Reader = bytes.NewReader(data)
		broken := errors.New("broken")
		if breaks {
			r = io.MultiReader(r, iotest.ErrReader(broken))
		}
		err := b.ws.Save(b.Context(), b.path("f"), r, limit)
		got, readErr := os.ReadFile(b.path("f"))
		info, statErr := os.Stat(b.path("f"))
		if readErr != nil || statErr != nil {
			rt.Fatal(readErr, statErr)
		}
		if fails := breaks || size > limit; fails != (err != nil) || fails && !bytes.Equal(got, old) || !fails && !bytes.Equal(got, data) {
			rt.Fatalf("error %v, %d bytes", err, len(got))
		}
		if info.Mode().Perm() != 0o640 {
			rt.Fatalf("mode %v", info.Mode())
		}
		if names, _ := filepath.Glob(b.path(".parley*")); len(names) > 0 {
			rt.Fatalf("left behind: %v", names)
		}
	})
}

func TestSaveGoesThroughLinks(t *testing.T) {
	b := plainBench(t)
	b.write("real", "old")
	if err := os.Symlink("real", b.path("link")); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{10, 5 << 20} {
		if err := b.ws.Save(t.Context(), b.path("link"), strings.NewReader(strings.Repeat("x", size)), 1<<30); err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(b.path("real")); err != nil || len(data) != size {
			t.Errorf("%d bytes: %d, %v", size, len(data), err)
		}
		if info, err := os.Lstat(b.path("link")); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("the link is gone: %v", err)
		}
	}
}

func TestOpenIsAFile(t *testing.T) {
	b := plainBench(t)
	b.write("large", strings.Repeat("0123456789", 1<<20))
	f, err := b.ws.Open(t.Context(), b.path("large"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(f.Body)
	if err != nil || int64(len(data)) != f.Size || f.Size != 10<<20 {
		t.Errorf("%d of %d bytes, %v", len(data), f.Size, err)
	}
	_ = f.Body.Close()
	if f, err = b.ws.Open(t.Context(), b.path("large")); err != nil {
		t.Fatal(err)
	}
	_ = f.Body.Close() // ends the program that reads, at once
	if _, err := io.ReadAll(f.Body); err == nil {
		t.Error("it can be read after Close")
	}
	if exec.Command("mkfifo", b.path("pipe")).Run() == nil {
		_, err = b.ws.Open(t.Context(), b.path("pipe"))
		wantFault(t, err, fault.Invalid, "not_a_file")
	}
	if text, err := b.ws.Read(t.Context(), "/proc/self/status", 1<<20); err != nil || !strings.Contains(text, "Name:") {
		t.Errorf("a file without a size: %q %v", text, err)
	}
	_, err = b.ws.Read(t.Context(), "large", 1000)
	if !fault.Is(err, fault.TooLarge) {
		t.Errorf("%v", err)
	}
}
