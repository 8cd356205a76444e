package sandboxd_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/internal/fault"
	"parley/internal/sandboxd"
	"parley/internal/tool"
)

// modeVariable makes the test binary play another program.
const modeVariable = "SANDBOXD_TEST_MODE"

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeVariable); mode != "" {
		os.Exit(play(mode))
	}
	goleak.VerifyTestMain(m)
}

// server is a daemon in the test process.
type server struct {
	socket string
	dir    string
	cancel context.CancelFunc
	done   chan error
}

// serve starts a daemon that ends with the test.
func serve(t testing.TB, opt sandboxd.Options) (*server, *sandboxd.Client) {
	t.Helper()
	s := listen(t, opt)
	return s, connect(t, s.socket)
}

func listen(t testing.TB, opt sandboxd.Options) *server {
	t.Helper()
	s := &server{socket: filepath.Join(shortDir(t), "s"), dir: t.TempDir()}
	if opt.WorkingDir == "" {
		opt.WorkingDir = s.dir
	}
	s.start(t, opt)
	t.Cleanup(func() { s.stop(t) })
	return s
}

func (s *server) start(t testing.TB, opt sandboxd.Options) {
	t.Helper()
	lis, err := net.Listen("unix", s.socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.done = cancel, make(chan error, 1)
	go func() { s.done <- sandboxd.Serve(ctx, lis, opt) }()
}

func (s *server) stop(t testing.TB) {
	t.Helper()
	s.cancel()
	select {
	case err := <-s.done:
		if err != nil {
			t.Errorf("Serve: %v", err)
		}
		s.done <- nil
	case <-time.After(20 * time.Second):
		t.Fatal("Serve does not end")
	}
}

func connect(t testing.TB, socket string) *sandboxd.Client {
	t.Helper()
	c := sandboxd.NewClient(func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	})
	t.Cleanup(c.Close)
	return c
}

// shortDir is a directory whose name fits into a socket's address.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func wantFault(t *testing.T, err error, kind fault.Kind, code string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %v %s", kind, code)
	}
	if fault.KindOf(err) != kind || fault.CodeOf(err) != code {
		t.Fatalf("got %v %q (%v), want %v %q", fault.KindOf(err), fault.CodeOf(err), err, kind, code)
	}
	if text := fault.PublicText(err); !strings.Contains(text, ".") {
		t.Fatalf("public text %q is no sentence", text)
	}
}

// eventually polls until ok or a deadline far beyond what is expected.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		if ok() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func run(t testing.TB, c *sandboxd.Client, argv ...string) tool.ExecResult {
	t.Helper()
	res, err := c.Exec(t.Context(), tool.ExecRequest{Argv: argv})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// alive reports whether a process exists that is no zombie.
func alive(pid int) bool {
	state := processState(pid)
	return state != "" && state != "Z"
}

// processState is the letter of a process's state, "" if there is no process.
func processState(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	return strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))[0]
}
