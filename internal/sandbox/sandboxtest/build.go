package sandboxtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// programs are what was built for the tests that use it at the moment.
type programs struct {
	mu    sync.Mutex
	dirs  map[string]string
	users map[string]int
}

var built = programs{dirs: map[string]string{}, users: map[string]int{}}

// BuildDaemon returns the path of the static program that is the first process of
// boxes under test (boxd): start it with the backend's name and then its
// arguments. Every account may execute it. It is removed with the last test that
// asked for it.
func BuildDaemon(t testing.TB) string { return built.get(t, "boxd") }

// BuildAttack returns the path of the static program that tries to break out, for
// HostileOptions.Attack.
func BuildAttack(t testing.TB) string { return built.get(t, "attack") }

func (p *programs) get(t testing.TB, name string) string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users[name] == 0 {
		dir, err := build(name)
		if err != nil {
			t.Fatal(err)
		}
		p.dirs[name] = dir
	}
	p.users[name]++
	t.Cleanup(func() { p.put(t, name) })
	return filepath.Join(p.dirs[name], name)
}

func (p *programs) put(t testing.TB, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users[name]--; p.users[name] > 0 {
		return
	}
	if err := os.RemoveAll(p.dirs[name]); err != nil {
		t.Errorf("remove %s: %v", name, err)
	}
}

// build compiles a program of this package into a directory that everybody can
// enter.
func build(name string) (string, error) {
	dir, err := os.MkdirTemp("", "sandboxtest-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return dir, err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, name), "parley/internal/sandbox/sandboxtest/"+name)
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		_ = os.RemoveAll(dir)
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return dir, os.Chmod(filepath.Join(dir, name), 0o755)
}
