package layer_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox/layer"
)

// host makes a directory with public and private entries, as /opt may have.
func host(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "opt")
	for name, mode := range map[string]fs.FileMode{"tool/bin": 0o755, "tool/private/inner": 0o755} {
		if err := os.MkdirAll(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]fs.FileMode{"tool/bin/run": 0o755, "tool/token": 0o600, "tool/public": 0o644,
		"tool/private/inner/key": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "tool/pipe"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "tool"} {
		if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "tool/private"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func options(t *testing.T, top string) layer.Options {
	return layer.Options{Dir: filepath.Join(t.TempDir(), "layers"), Base: -1, Path: "/bin", Hostname: "box",
		Tops: []layer.Top{{Path: top, Name: "opt", Deep: []string{"."}}}}
}

func isWhiteout(t *testing.T, path string) bool {
	t.Helper()
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeCharDevice != 0 && info.Sys().(*syscall.Stat_t).Rdev == 0
}

func TestHidesWhatIsPrivate(t *testing.T) {
	top := host(t)
	set, err := layer.Ensure(context.Background(), options(t, top))
	if err != nil {
		t.Fatal(err)
	}
	for name, hidden := range map[string]bool{"tool/token": true, "tool/private": true, "tool/pipe": true,
		"tool/public": false, "tool/bin/run": false} {
		if got := isWhiteout(t, filepath.Join(set.Dir, "opt", name)); got != hidden {
			t.Errorf("%s is hidden: %v, want %v", name, got, hidden)
		}
	}
	if _, err := os.Lstat(filepath.Join(set.Dir, "opt/tool/bin")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a directory was made that nothing needs")
	}
}

func TestSkeleton(t *testing.T) {
	top := host(t)
	o := options(t, top)
	o.Skeleton = true
	o.Tops[0].Copy = true
	set, err := layer.Ensure(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(set.Dir, "opt")
	for _, name := range []string{"tool", "tool/bin"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if data, err := os.ReadFile(filepath.Join(dir, "tool/public")); err != nil || string(data) != "tool/public" {
		t.Errorf("copied: %q, %v", data, err)
	}
	if !isWhiteout(t, filepath.Join(dir, "tool/private")) || !isWhiteout(t, filepath.Join(dir, "tool/token")) {
		t.Error("private entries are not hidden")
	}
}

func TestBase(t *testing.T) {
	set, err := layer.Ensure(context.Background(), options(t, host(t)))
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(set.Dir, layer.BaseDir)
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(base, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if got := read("etc/resolv.conf"); got != "nameserver "+layer.DNS+"\n" {
		t.Errorf("resolv.conf: %q", got)
	}
	for line := range strings.Lines(read("etc/shadow")) {
		if fields := strings.Split(line, ":"); len(fields) < 2 || fields[1] != "*" {
			t.Errorf("shadow: %q", line)
		}
	}
	if hostID, err := os.ReadFile("/etc/machine-id"); err == nil && read("etc/machine-id") == string(hostID) {
		t.Error("the host's machine id is visible")
	}
	if info, err := os.Stat(filepath.Join(base, "tmp")); err != nil || info.Mode()&fs.ModeSticky == 0 {
		t.Errorf("tmp: %v, %v", info, err)
	}
	err = filepath.WalkDir(filepath.Join(base, "etc"), func(path string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(base, path)
		if info, ierr := os.Stat(filepath.Join("/", rel)); err == nil && ierr == nil && info.Mode().Perm()&0o004 == 0 &&
			!slices.Contains([]string{"etc/shadow", "etc/gshadow"}, rel) {
			t.Errorf("%s is private on the host and was copied", rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestGenerations(t *testing.T) {
	top := host(t)
	o := options(t, top)
	first, err := layer.Ensure(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	again, err := layer.Ensure(context.Background(), o)
	if err != nil || again.Gen != first.Gen {
		t.Fatalf("an unchanged host: %v, %v", again, err)
	}
	if err := os.Mkdir(filepath.Join(top, "new-tool"), 0o755); err != nil {
		t.Fatal(err)
	}
	second, err := layer.Ensure(context.Background(), o)
	if err != nil || second.Gen == first.Gen {
		t.Fatalf("a changed host: %v, %v", second, err)
	}
	if err := os.Mkdir(filepath.Join(o.Dir, ".new-rest"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := layer.Sweep(o.Dir, map[string]bool{second.Gen: true}); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(o.Dir)
	if err != nil || len(left) != 1 || left[0].Name() != second.Gen {
		t.Errorf("left: %v, %v", left, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := layer.Sweep(o.Dir, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := layer.Ensure(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if left, _ := os.ReadDir(o.Dir); len(left) != 0 {
		t.Errorf("a cancelled build left %v", left)
	}
}

func TestTops(t *testing.T) {
	dir := t.TempDir() // below the directory for temporary files: never shown
	tool := filepath.Join(dir, "tool", "bin")
	if err := os.MkdirAll(tool, 0o755); err != nil {
		t.Fatal(err)
	}
	paths := func(path string, hidden ...string) []string {
		var list []string
		for _, top := range layer.Tops(path, hidden) {
			list = append(list, top.Path)
			if strings.Contains(top.Name, "/") || top.Name == "" {
				t.Errorf("name %q", top.Name)
			}
		}
		return list
	}
	got := paths("/usr/bin:/root/bin:relative:" + tool + ":/home/x/bin:/:")
	if !slices.Contains(got, "/usr") {
		t.Errorf("tops: %v", got)
	}
	for _, path := range got {
		for _, never := range []string{"/root", "/home", "/tmp", "/", "/etc", "/var/lib", "/boot"} {
			if path == never || never != "/" && never != "/var/lib" && strings.HasPrefix(path, never+"/") {
				t.Errorf("%s is shown", path)
			}
		}
	}
	around := paths("", "/usr/local/share/secret")
	for path, want := range map[string]bool{"/usr": false, "/usr/local": false, "/usr/local/share": false, "/usr/bin": true, "/usr/local/bin": true} {
		if slices.Contains(around, path) != want {
			t.Errorf("with a hidden directory in /usr/local/share, %s is shown: %v", path, !want)
		}
	}
}
