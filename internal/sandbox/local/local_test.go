package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox"
	"parley/internal/sandbox/hostbox"
	"parley/internal/sandbox/local"
	"parley/internal/sandbox/sandboxtest"
)

// userArg makes this test binary run itself as an ordinary user.
const userArg = "as-ordinary-user"

const ordinaryUser = 64738

// place is the data directory that all tests share: what boxes share is built
// once. It lies in the directory that TestMain made.
func options(t testing.TB) local.Options {
	t.Helper()
	return local.Options{Dir: filepath.Join(shared, "boxes"), InitArgs: []string{initArg}, Path: os.Getenv("PATH")}
}

func newBackend(t testing.TB) *local.Backend {
	t.Helper()
	b, err := local.New(options(t))
	if err != nil {
		t.Fatalf("no boxes on this machine: %v", err)
	}
	return b
}

func TestConformance(t *testing.T) {
	m := images{"small": smallImage(t)}
	sandboxtest.Run(t, func(t *testing.T) sandbox.Backend { return imageBackend(t, m) },
		sandboxtest.Options{Remove: removeByHand, Image: "small"})
}

// attackVar names the program with the suite's attacks, as daemonVar does the
// daemon.
const attackVar = "LOCAL_TEST_ATTACK"

// removeByHand takes a box away as an administrator would.
func removeByHand(_ context.Context, box sandbox.Box) error {
	dir := filepath.Join(shared, "boxes", box.Handle().ID)
	st, err := stateOf(box)
	if err != nil {
		return err
	}
	return errors.Join(unix.Kill(st.Process.PID, unix.SIGKILL), os.RemoveAll(dir))
}

// stateOf reads what the backend noted of a box.
func stateOf(box sandbox.Box) (hostbox.State, error) {
	var state hostbox.State
	data, err := os.ReadFile(filepath.Join(shared, "boxes", box.Handle().ID, "state.json"))
	if err == nil {
		err = json.Unmarshal(data, &state)
	}
	return state, err
}

// TestAsOrdinaryUser runs all other tests again as a user without any right.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this test runs as an ordinary user already")
	}
	if testing.Short() {
		t.Skip("short: the tests are not repeated as an ordinary user")
	}
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(dir, ordinaryUser, ordinaryUser); err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "test")
	copyFile(t, "/proc/self/exe", exe)
	boxd := filepath.Join(dir, "boxd")
	copyFile(t, daemon(t), boxd)
	attack := filepath.Join(dir, "attack")
	copyFile(t, sandboxtest.BuildAttack(t), attack)
	args := []string{userArg, exe, "-test.timeout=8m"}
	if testing.Verbose() {
		args = append(args, "-test.v")
	}
	cmd := exec.Command(exe, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir, daemonVar+"="+boxd, attackVar+"="+attack)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("as an ordinary user: %v", err)
	}
}

// becomeUser gives the ordinary user the network device node that most
// distributions give, in a mount namespace of this process's own, and goes on as
// that user.
func becomeUser(args []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	node := filepath.Join(filepath.Dir(args[0]), "tun")
	if unix.Mknod(node, unix.S_IFCHR|0o666, 10<<8|200) == nil && unix.Chmod(node, 0o666) == nil {
		if err := unix.Mount(node, "/dev/net/tun", "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	for _, step := range []func() error{
		func() error { return syscall.Setgroups(nil) },
		func() error { return syscall.Setgid(ordinaryUser) },
		func() error { return syscall.Setuid(ordinaryUser) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return syscall.Exec(args[0], args, os.Environ())
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o755); err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, b *local.Backend, spec sandbox.Spec) sandbox.Box {
	t.Helper()
	box, err := b.Create(context.Background(), spec)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Destroy(context.Background(), box.Handle()); err != nil {
			t.Errorf("destroy: %v", err)
		}
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return box
}
