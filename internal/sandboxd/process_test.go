package sandboxd_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/sandboxd"
	"parley/internal/tool"
)

// socketVariable names the socket of a daemon process.
const socketVariable = "SANDBOXD_TEST_SOCKET"

// noMount is the exit code of a daemon process that may not mount /proc.
const noMount = 77

// play is the daemon process: the test binary, called again.
func play(mode string) int {
	if mode == "pid1" {
		if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
			fmt.Fprintln(os.Stderr, "mount /proc:", err)
			return noMount
		}
	}
	lis, err := net.Listen("unix", os.Getenv(socketVariable))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := sandboxd.Serve(context.Background(), lis, sandboxd.Options{PID1: true, Logger: log, Version: "test"}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// daemonProcess is a daemon in a process of its own.
type daemonProcess struct {
	*exec.Cmd
	exited chan struct{}
}

func spawn(t testing.TB, socket, mode string, argv ...string) *daemonProcess {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	attr := &syscall.SysProcAttr{}
	if mode == "pid1" {
		attr.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return spawnWith(t, socket, mode, append(argv, self), attr)
}

func spawnWith(t testing.TB, socket, mode string, argv []string, attr *syscall.SysProcAttr) *daemonProcess {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), modeVariable+"="+mode, socketVariable+"="+socket)
	cmd.Stderr = os.Stderr
	cmd.Dir = "/"
	cmd.SysProcAttr = attr
	if err := cmd.Start(); err != nil {
		if attr.Cloneflags != 0 && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC)) {
			t.Skip("this machine forbids user namespaces:", err)
		}
		t.Fatal(err)
	}
	p := &daemonProcess{Cmd: cmd, exited: make(chan struct{})}
	go func() {
		defer close(p.exited)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.exited
	})
	p.await(t, socket)
	return p
}

// await returns when the daemon answers.
func (p *daemonProcess) await(t testing.TB, socket string) {
	t.Helper()
	c := connect(t, socket)
	defer c.Close()
	eventually(t, "daemon ready", func() bool {
		select {
		case <-p.exited:
			if p.ProcessState.ExitCode() == noMount {
				t.Skip("this machine forbids mounting /proc in a user namespace")
			}
			t.Fatal("the daemon died: ", p.ProcessState)
		default:
		}
		_, err := c.Health(t.Context())
		return err == nil
	})
}

func newSocket(t testing.TB) string { return filepath.Join(shortDir(t), "s") }

// Both as PID 1 and as child subreaper: no zombies, no lost exit codes.
func TestReapsOrphansAndNothingElse(t *testing.T) {
	for _, mode := range []string{"pid1", "subreaper"} {
		t.Run(mode, func(t *testing.T) {
			socket := newSocket(t)
			p := spawn(t, socket, mode)
			c := connect(t, socket)
			health, err := c.Health(t.Context())
			if err != nil || (health.PID == 1) != (mode == "pid1") || health.Version != "test" {
				t.Fatalf("%+v %v", health, err)
			}
			var load sync.WaitGroup
			for i := range 4 {
				load.Go(func() { makeOrphans(t, c, 50) })
				load.Go(func() { checkExecCodes(t, c, i) })
			}
			load.Go(func() { checkTerminalCodes(t, c) })
			load.Wait()
			orphans := []string{"sh", "-c", fmt.Sprintf(`for f in /proc/[0-9]*/stat; do read -r line < $f && echo "${line##*) }"; done 2>/dev/null | grep -c '^Z %d '`, health.PID)}
			eventually(t, "no zombies", func() bool {
				got := run(t, c, orphans...)
				return strings.TrimSpace(string(got.Stdout)) == "0"
			})
			terminate(t, p)
		})
	}
}

func terminate(t *testing.T, p *daemonProcess) {
	t.Helper()
	if err := p.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.exited:
	case <-time.After(10 * time.Second):
		t.Fatal("SIGTERM does not end the daemon")
	}
	if code := p.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("exit code %d after SIGTERM", code)
	}
}

func makeOrphans(t *testing.T, c *sandboxd.Client, n int) {
	for range n / 10 {
		script := strings.Repeat("(setsid sh -c 'exit 3' </dev/null >/dev/null 2>&1 &) & ", 10) + "wait"
		got, err := c.Exec(t.Context(), tool.ExecRequest{Argv: []string{"sh", "-c", script}})
		if err != nil || got.ExitCode != 0 {
			t.Errorf("%+v %v", got, err)
		}
	}
}

func checkExecCodes(t *testing.T, c *sandboxd.Client, salt int) {
	for i := range 50 {
		want := (i*4 + salt) % 128
		got, err := c.Exec(t.Context(), tool.ExecRequest{Argv: []string{"sh", "-c", "exit " + strconv.Itoa(want)}})
		if err != nil || got.ExitCode != want {
			t.Errorf("want code %d: %+v %v", want, got, err)
		}
	}
}

func checkTerminalCodes(t *testing.T, c *sandboxd.Client) {
	for i := range 20 {
		id := fmt.Sprint("t", i)
		if _, err := c.OpenTerminal(t.Context(), tool.TerminalRequest{ID: id, Argv: []string{"sh", "-c", "exit " + strconv.Itoa(i)}}); err != nil {
			t.Error(err)
			return
		}
		out, err := c.ReadTerminal(t.Context(), id, tool.TerminalRead{Wait: 20 * time.Second, Until: "never"})
		if err != nil || !out.Exited || out.Code != i {
			t.Errorf("want code %d: %+v %v", i, out, err)
		}
	}
}

func TestTheEndOfTheDaemonIsTheEndOfItsOrphans(t *testing.T) {
	socket, file := newSocket(t), filepath.Join(t.TempDir(), "pid")
	p := spawn(t, socket, "subreaper")
	c := connect(t, socket)
	run(t, c, "sh", "-c", "(setsid sh -c 'echo $$ > "+file+"; trap \"\" TERM; while :; do sleep 1000; done' </dev/null >/dev/null 2>&1 &) &")
	pid := readPID(t, file)
	if !alive(pid) {
		t.Fatal("the orphan must live as long as its sandbox")
	}
	terminate(t, p)
	eventually(t, "end of the orphan", func() bool { return !alive(pid) })
}

// Whoever starts a server with "&" from a script ignores SIGINT in all of it.
func TestIgnoredSignalsAreNotInherited(t *testing.T) {
	socket := newSocket(t)
	spawn(t, socket, "subreaper", "sh", "-c", `trap '' INT HUP QUIT TSTP; exec "$0"`)
	c := connect(t, socket)
	got := run(t, c, "sh", "-c", "kill -INT $$; echo survived")
	if got.ExitCode != 128+int(unix.SIGINT) {
		t.Fatalf("SIGINT is ignored: %+v", got)
	}
}

func TestHangupDoesNotEndTheDaemon(t *testing.T) {
	socket := newSocket(t)
	p := spawn(t, socket, "subreaper")
	c := connect(t, socket)
	for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGUSR1, unix.SIGQUIT} {
		if err := p.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		run(t, c, "true")
	}
}

// A frozen sandbox only makes its callers wait.
func TestRequestsWaitForAFrozenDaemon(t *testing.T) {
	socket := newSocket(t)
	p := spawn(t, socket, "subreaper")
	c := connect(t, socket)
	run(t, c, "true") // leaves a connection in the pool
	for range 3 {
		if err := p.Process.Signal(unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		eventually(t, "freeze", func() bool { return processState(p.Process.Pid) == "T" })
		const calls = 6
		results := make(chan error, calls)
		for range calls {
			go func() {
				got, err := c.Exec(context.Background(), tool.ExecRequest{Argv: []string{"echo", "thawed"}})
				if err == nil && string(got.Stdout) != "thawed\n" {
					err = fmt.Errorf("got %+v", got)
				}
				results <- err
			}()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := c.Stat(ctx, "/"); fault.KindOf(err) != fault.Timeout {
			t.Fatalf("a frozen daemon answered: %v", err)
		}
		cancel()
		if err := p.Process.Signal(unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
		for range calls {
			if err := <-results; err != nil {
				t.Fatal(err)
			}
		}
	}
}

// No request may notice that the pool's connections lead to a dead daemon, if
// another one listens by now.
func TestPooledConnectionsSurviveARestart(t *testing.T) {
	socket := newSocket(t)
	p := spawn(t, socket, "subreaper")
	c := connect(t, socket)
	calls := map[string]func() error{
		"exec": func() error {
			_, err := c.Exec(t.Context(), tool.ExecRequest{Argv: []string{"true"}})
			return err
		},
		"stat": func() error { _, err := c.Stat(t.Context(), "/"); return err },
		"open": func() error {
			_, err := c.OpenTerminal(t.Context(), tool.TerminalRequest{ID: "t", Argv: []string{"cat"}})
			return err
		},
		"write": func() error {
			return c.WriteFile(t.Context(), filepath.Join(filepath.Dir(socket), "f"), []byte("x"), tool.WriteOptions{})
		},
	}
	for name, call := range calls {
		fillPool(t, c)
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-p.exited
		if err := os.Remove(socket); err != nil {
			t.Fatal(err)
		}
		p = spawn(t, socket, "subreaper")
		if err := call(); err != nil {
			t.Fatalf("%s after the restart: %v", name, err)
		}
	}
}

func fillPool(t *testing.T, c *sandboxd.Client) {
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() { run(t, c, "sleep", "0.05") })
	}
	all.Wait()
}

// asNobody is a daemon without rights, whose directory belongs to the test.
func asNobody(t *testing.T) *server {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("becoming another user takes root")
	}
	s := &server{socket: newSocket(t)}
	dir := shortDir(t)
	s.dir = filepath.Join(dir, "w")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "daemon") // go test's own is in a closed directory
	if err := os.WriteFile(copied, program, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{dir: 0o755, filepath.Dir(s.socket): 0o777} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	spawnWith(t, s.socket, "nobody", []string{copied}, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
	return s
}
