package landlock_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox/landlock"
)

// childArg makes this test binary enter a domain and try what must not work in it.
const childArg = "in-a-domain"

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == childArg {
		runtime.LockOSThread()
		if err := attempts(os.Args[2], os.Args[3]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// attempts enters a domain with the rights of a box and returns what is wrong.
func attempts(dir, abstract string) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	parent := os.Getppid()
	abi, err := landlock.Domain{Root: "/", Devices: []string{"/dev"}}.Restrict()
	if err != nil {
		return err
	}
	errs := []error{
		useful(dir),
		refused("a device node", unix.Mknod(filepath.Join(dir, "device"), unix.S_IFCHR|0o600, 0)),
		refused("tracing the parent", unix.PtraceAttach(parent)),
		unix.Kill(os.Getpid(), 0),
	}
	if abi >= 5 {
		errs = append(errs, commands())
	}
	if abi >= 6 {
		_, err := net.Dial("unix", "@"+abstract)
		errs = append(errs, refused("a signal to the parent", unix.Kill(parent, 0)), refused("an abstract socket of the parent", err))
	}
	return errors.Join(errs...)
}

func refused(what string, err error) error {
	if err == nil {
		return errors.New(what + " succeeded")
	}
	return nil
}

// useful does what programs in boxes do.
func useful(dir string) error {
	deep := filepath.Join(dir, "deep", "er")
	file := filepath.Join(deep, "file")
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err == nil {
		_, err = null.WriteString("x")
	}
	lis, lerr := net.Listen("unix", filepath.Join(dir, "sock"))
	if lerr == nil {
		lerr = lis.Close()
	}
	return errors.Join(err, lerr, os.MkdirAll(deep, 0o755), os.WriteFile(file, []byte("text"), 0o644), os.Truncate(file, 1),
		os.Rename(file, filepath.Join(dir, "moved")), os.Link(filepath.Join(dir, "moved"), file),
		os.Symlink("x", filepath.Join(dir, "link")), unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600),
		os.RemoveAll(filepath.Join(dir, "deep")), exec.Command("/bin/sh", "-c", "kill -0 $$ && true").Run())
}

// commands gives a device a command: below /dev it arrives, and a terminal knows it.
func commands() error {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	_, err = unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
	return err
}

func TestRestrict(t *testing.T) {
	abi := landlock.ABI()
	if abi == 0 {
		t.Skip("this kernel has no Landlock, or its first version only")
	}
	name := fmt.Sprintf("parley-landlock-%d", os.Getpid())
	lis, err := net.Listen("unix", "@"+name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(exe, childArg, t.TempDir(), name).CombinedOutput(); err != nil {
		t.Errorf("version %d: %v: %s", abi, err, out)
	}
}

func TestAddsNamesWhatTheVersionHas(t *testing.T) {
	if old, now := landlock.Adds(2), landlock.Adds(7); strings.Contains(old, "signalled") || !strings.HasPrefix(now, old) ||
		!strings.Contains(now, "signalled") {
		t.Errorf("%q, %q", old, now)
	}
}
