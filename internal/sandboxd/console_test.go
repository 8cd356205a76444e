package sandboxd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/internal/fault"
	"parley/internal/sandboxd"
	"parley/internal/tool"
)

// screen reads a console to its end and keeps what it showed.
type screen struct {
	tool.Console
	mu    sync.Mutex
	shown bytes.Buffer
	ended chan error
}

func openConsole(t testing.TB, c *sandboxd.Client, req tool.ConsoleRequest) *screen {
	t.Helper()
	console, err := c.StartConsole(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{Console: console, ended: make(chan error, 1)}
	go func() {
		buf := make([]byte, 8<<10)
		for {
			n, err := console.Read(buf)
			s.mu.Lock()
			s.shown.Write(buf[:n])
			s.mu.Unlock()
			if err != nil {
				s.ended <- err
				return
			}
		}
	}()
	t.Cleanup(func() { _ = console.Close() })
	return s
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown.String()
}

func (s *screen) shows(t testing.TB, text string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%q on the screen", text), func() bool { return strings.Contains(s.text(), text) })
}

func (s *screen) types(t testing.TB, text string) {
	t.Helper()
	if _, err := io.WriteString(s, text); err != nil {
		t.Fatal(err)
	}
}

func (s *screen) end(t testing.TB) error {
	t.Helper()
	select {
	case err := <-s.ended:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("the console does not end")
		return nil
	}
}

func onTerminal(script string) tool.ConsoleRequest {
	return tool.ConsoleRequest{Argv: []string{"sh", "-c", script}}
}

func TestConsoleIsALoginShellInTheWorkingDirectory(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, ".profile"), []byte("GREETING=hello-from-profile\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, c := serve(t, sandboxd.Options{Shell: "/bin/sh", Env: map[string]string{"HOME": home}})
	console := openConsole(t, c, tool.ConsoleRequest{Env: map[string]string{"ADDED": "one"}})
	console.types(t, "echo \"[$GREETING|$ADDED|$(pwd)|$(test -t 0 && echo tty)]\"\n")
	console.shows(t, "[hello-from-profile|one|"+s.dir+"|tty]")
	console.types(t, "exit 7\n")
	if err := console.end(t); err != io.EOF || console.ExitCode() != 7 { //nolint:errorlint // Read returns it as it is
		t.Fatalf("%v, exit code %d", err, console.ExitCode())
	}
	_, err := console.Write([]byte("x"))
	wantFault(t, err, fault.Conflict, sandboxd.CodeProgramEnded)
}

func TestConsoleResults(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	tests := map[string]struct {
		script, shows string
		code          int
	}{
		"all output comes before the end":      {"seq 20000", "\r\n20000\r\n", 0},
		"the exit code":                        {"exit 3", "", 3},
		"a signal":                             {"kill -9 $$", "", 137},
		"what is left behind does not hold it": {"trap '' HUP TERM; sleep 1000 & echo left", "left\r\n", 0},
		"a terminal closed and opened again":   {"exec 0<&- 1>&- 2>&-; exec </dev/tty >/dev/tty; echo again", "again\r\n", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			console := openConsole(t, c, onTerminal(test.script))
			if err := console.end(t); err != io.EOF || console.ExitCode() != test.code || !strings.HasSuffix(console.text(), test.shows) { //nolint:errorlint // as it is
				t.Fatalf("%v, code %d, %.200q", err, console.ExitCode(), console.text())
			}
		})
	}
}

func TestConsoleResize(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	req := onTerminal(`trap 'stty size' WINCH; stty size; while :; do sleep 0.05; done`)
	req.Rows, req.Cols = 33, 101
	console := openConsole(t, c, req)
	console.shows(t, "33 101\r\n")
	if err := console.Resize(44, 222); err != nil {
		t.Fatal(err)
	}
	console.shows(t, "44 222\r\n")
	wantFault(t, console.Resize(0, 80), fault.Invalid, sandboxd.CodeBadRequest)
}

func TestConsoleInterruptKey(t *testing.T) {
	_, c := serve(t, sandboxd.Options{Shell: "/bin/sh"})
	console := openConsole(t, c, tool.ConsoleRequest{})
	console.types(t, "PS1='ne''xt> '; sh -c 'echo be\"\"gun; exec sleep 1000'\n")
	console.shows(t, "begun") // by who is in the foreground: before that the key would be the shell's
	console.types(t, "\x03")
	console.shows(t, "next> ") // a shell may drop what is typed before it asks again
	console.types(t, "echo al''ive $?\n")
	console.shows(t, "alive 130")
}

// closeAfterPIDs closes the console once it has said "pids" and those of its shell and of
// the shell's child.
func (s *screen) closeAfterPIDs(t *testing.T) (shell, child int) {
	t.Helper()
	s.shows(t, "\n")
	if _, err := fmt.Sscanf(s.text(), "pids %d %d", &shell, &child); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return shell, child
}

// TestConsoleCloseEndsAll: also what ignores the hang-up, and what made a session.
func TestConsoleCloseEndsAll(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	console := openConsole(t, c, onTerminal(`trap '' HUP TERM; (trap '' HUP TERM; exec setsid sleep 1000) & echo "pids $$ $!"; wait; wait`))
	shell, child := console.closeAfterPIDs(t)
	eventually(t, "the end of all processes", func() bool { return !alive(shell) && !alive(child) })
	_, err := console.Read(make([]byte, 1))
	wantFault(t, err, fault.Canceled, sandboxd.CodeClosed)
}

// TestConsoleCloseEndsWhoLeftLate: also what goes into a session of its own after the
// terminal was closed, as long as it has its parent, ends.
func TestConsoleCloseEndsWhoLeftLate(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	console := openConsole(t, c, onTerminal(`trap '' HUP TERM; (while test ! -e go; do sleep 0.01; done; exec setsid sleep 1000) & echo "pids $$ $!"; wait; wait`))
	shell, child := console.closeAfterPIDs(t)
	if err := os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of all processes", func() bool { return !alive(shell) && !alive(child) })
}

// TestConsoleWaitsForItsReader: who floods is stopped, and nothing is lost.
func TestConsoleWaitsForItsReader(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	const lines = 2000 // of half a KiB
	console, err := c.StartConsole(t.Context(), onTerminal(fmt.Sprintf(
		`p=$(head -c 500 /dev/zero | tr '\0' x); i=0; while [ $i -lt %d ]; do echo "$p $i"; i=$((i+1)); echo $i > progress; done`, lines)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = console.Close() }()
	progress := func() int {
		text, _ := os.ReadFile(filepath.Join(s.dir, "progress"))
		n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		return n
	}
	last, since := 0, time.Now()
	eventually(t, "a standstill", func() bool {
		if n := progress(); n > last {
			last, since = n, time.Now()
		}
		return last > 0 && time.Since(since) > 300*time.Millisecond
	})
	if last > lines/2 {
		t.Fatalf("%d lines were written and nobody read", last)
	}
	all, err := io.ReadAll(console)
	if err != nil || bytes.Count(all, []byte("\r\n")) != lines || !bytes.HasSuffix(all, []byte(fmt.Sprintf("x %d\r\n", lines-1))) {
		t.Fatalf("%v, %d lines", err, bytes.Count(all, []byte("\r\n")))
	}
}

func TestConsolesSideBySide(t *testing.T) {
	_, c := serve(t, sandboxd.Options{Shell: "/bin/sh"})
	one, two := openConsole(t, c, tool.ConsoleRequest{}), openConsole(t, c, tool.ConsoleRequest{})
	one.types(t, "NAME=first; echo \"<$NAME>\"\n")
	two.types(t, "echo \"<$NAME>\"\n")
	one.shows(t, "<first>\r\n")
	two.shows(t, "<>\r\n")
	_ = one.Close()
	two.types(t, "echo sti''ll\n")
	two.shows(t, "still")
}

func TestConsoleTypingWaitsForTheProgram(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	console := openConsole(t, c, onTerminal(`stty raw -echo; echo ready; sleep 1000`))
	console.shows(t, "ready")
	wrote := make(chan error, 1)
	go func() {
		_, err := console.Write(bytes.Repeat([]byte("x"), 2<<20))
		wrote <- err
	}()
	select {
	case err := <-wrote:
		t.Fatalf("2 MiB were taken by a program that does not read: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	_ = console.Close()
	wantFault(t, <-wrote, fault.Canceled, sandboxd.CodeClosed)
}

func TestConsoleRefusals(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	plain := filepath.Join(s.dir, "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		req  tool.ConsoleRequest
		kind fault.Kind
		code string
	}{
		"no such program":   {tool.ConsoleRequest{Argv: []string{"no-such-program"}}, fault.NotFound, sandboxd.CodeProgramNotFound},
		"not executable":    {tool.ConsoleRequest{Argv: []string{plain}}, fault.Forbidden, sandboxd.CodeNotExecutable},
		"no such directory": {tool.ConsoleRequest{Dir: "/no/such/place"}, fault.NotFound, sandboxd.CodeDirNotFound},
		"an empty name":     {tool.ConsoleRequest{Argv: []string{""}}, fault.Invalid, sandboxd.CodeBadRequest},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := c.StartConsole(t.Context(), test.req)
			wantFault(t, err, test.kind, test.code)
		})
	}
}

func TestConsoleEndsWithTheDaemon(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	console := openConsole(t, c, onTerminal("echo $$; trap '' HUP TERM; while :; do sleep 1; done"))
	console.shows(t, "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(console.text()))
	if err != nil {
		t.Fatal(err)
	}
	s.stop(t)
	wantFault(t, console.end(t), fault.Unavailable, sandboxd.CodeGone)
	if alive(pid) || console.ExitCode() != -1 {
		t.Fatalf("alive: %v, exit code %d", alive(pid), console.ExitCode())
	}
}

// TestConsoleOfAnOlderDaemon: sandboxes outlive the server's version.
func TestConsoleOfAnOlderDaemon(t *testing.T) {
	socket := filepath.Join(shortDir(t), "s")
	lis, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	older := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- older.Serve(lis) }()
	t.Cleanup(func() {
		if err := errors.Join(older.Close(), <-served); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	_, err = connect(t, socket).StartConsole(t.Context(), tool.ConsoleRequest{})
	wantFault(t, err, fault.Unsupported, "sandboxd_too_old")
}
