package sandboxd_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/sandboxd"
	"parley/internal/tool"
)

func startProgram(t testing.TB, c *sandboxd.Client, argv ...string) tool.Program {
	t.Helper()
	p, err := c.StartProgram(context.Background(), tool.ProgramRequest{Argv: argv})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func awaitEnd(t testing.TB, p tool.Program) int {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("Done is not closed")
	}
	return p.ExitCode()
}

func say(t testing.TB, p tool.Program, text string) {
	t.Helper()
	if _, err := io.WriteString(p, text); err != nil {
		t.Fatal(err)
	}
}

func TestProgramResults(t *testing.T) {
	t.Setenv("SERVER_SECRET", "do not show")
	s, c := serve(t, sandboxd.Options{Env: map[string]string{"BASE": "one", "BOTH": "base"}})
	if err := os.Mkdir(filepath.Join(s.dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, script, dir string
		env               map[string]string
		stdin             string
		stdout, stderr    string
		code              int
	}{
		{name: "exits at once", script: ":"},
		{name: "both outputs", script: "echo out; echo err >&2", stdout: "out\n", stderr: "err\n"},
		{name: "exit code", script: "exit 7", code: 7},
		{name: "signal", script: "kill -9 $$", code: 137},
		{name: "input", script: "cat", stdin: "a\nb", stdout: "a\nb"},
		{name: "empty input", script: "cat; echo end", stdout: "end\n"},
		{name: "input not read", script: ":", stdin: "nobody reads this"},
		{name: "environment", script: `echo "$BASE,$SERVER_SECRET,$BOTH,$ADDED"`, stdout: "one,,mine,two\n",
			env: map[string]string{"BOTH": "mine", "ADDED": "two"}},
		{name: "working directory", script: "pwd", stdout: s.dir + "\n"},
		{name: "relative directory", script: "pwd", dir: "sub", stdout: s.dir + "/sub\n"},
		{name: "output after the end of input", script: "exec <&-; echo on", stdout: "on\n"},
		{name: "exit after the end of output", script: "exec >&-; sleep 0.1; exit 3", code: 3},
		{name: "long output before the exit", script: "head -c 60000 /dev/zero | tr '\\0' x", stdout: strings.Repeat("x", 60000)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p, err := c.StartProgram(t.Context(), tool.ProgramRequest{Argv: []string{"sh", "-c", test.script}, Dir: test.dir, Env: test.env})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = p.Close() }()
			if _, err := io.WriteString(p, test.stdin); err != nil && !errors.Is(err, io.ErrClosedPipe) {
				t.Fatal(err)
			}
			if err := p.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			out, err := io.ReadAll(p)
			if code := awaitEnd(t, p); err != nil || string(out) != test.stdout || code != test.code || p.Stderr() != test.stderr {
				t.Fatalf("code %d, %q, %q, %v", code, out, p.Stderr(), err)
			}
			for range 2 {
				if err := p.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if p.ExitCode() != test.code || p.Stderr() != test.stderr {
				t.Fatalf("after Close: %d %q", p.ExitCode(), p.Stderr())
			}
		})
	}
}

func TestProgramAnswersLineByLine(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	p := startProgram(t, c, "sh", "-c", `while read -r line; do echo "got $line"; echo "seen $line" >&2; done`)
	if p.ExitCode() != -1 {
		t.Errorf("exit code %d of a program that runs", p.ExitCode())
	}
	in := bufio.NewReader(p)
	for i := range 100 {
		say(t, p, fmt.Sprintln(i))
		if line, err := in.ReadString('\n'); err != nil || line != fmt.Sprintf("got %d\n", i) {
			t.Fatalf("%q %v", line, err)
		}
	}
	eventually(t, "standard error while it runs", func() bool { return strings.HasSuffix(p.Stderr(), "seen 99\n") })
	if err := p.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_, err := p.Write([]byte("x"))
	wantFault(t, err, fault.Conflict, sandboxd.CodeStdinClosed)
	if code := awaitEnd(t, p); code != 0 {
		t.Error("exit code", code)
	}
}

func TestProgramRefusals(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	plain, garbage := filepath.Join(s.dir, "plain"), filepath.Join(s.dir, "garbage")
	for path, mode := range map[string]os.FileMode{plain: 0o644, garbage: 0o755} {
		if err := os.WriteFile(path, []byte{1, 2, 3}, mode); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name string
		req  tool.ProgramRequest
		kind fault.Kind
		code string
	}{
		{"no program", tool.ProgramRequest{}, fault.Invalid, sandboxd.CodeBadRequest},
		{"unknown program", tool.ProgramRequest{Argv: []string{"no-such-program-here"}}, fault.NotFound, sandboxd.CodeProgramNotFound},
		{"unknown path", tool.ProgramRequest{Argv: []string{"/no/no-such-program-here"}}, fault.NotFound, sandboxd.CodeProgramNotFound},
		{"not executable", tool.ProgramRequest{Argv: []string{plain}}, fault.Forbidden, sandboxd.CodeNotExecutable},
		{"no program format", tool.ProgramRequest{Argv: []string{garbage}}, fault.Invalid, "not_a_program"},
		{"directory missing", tool.ProgramRequest{Argv: []string{"true"}, Dir: "/no/such"}, fault.NotFound, sandboxd.CodeDirNotFound},
		{"bad variable", tool.ProgramRequest{Argv: []string{"true"}, Env: map[string]string{"A=B": "c"}}, fault.Invalid, sandboxd.CodeBadRequest},
		{"request too long", tool.ProgramRequest{Argv: []string{"true", strings.Repeat("x", 3<<20)}}, fault.TooLarge, sandboxd.CodeTooLarge},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := c.StartProgram(t.Context(), test.req)
			wantFault(t, err, test.kind, test.code)
			if test.kind == fault.NotFound && test.code == sandboxd.CodeProgramNotFound && !strings.Contains(fault.PublicText(err), "no-such-program-here") {
				t.Errorf("the name is missing in %q", fault.PublicText(err))
			}
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("not wanted any more")
	cancel(cause)
	if _, err := c.StartProgram(ctx, tool.ProgramRequest{Argv: []string{"cat"}}); !errors.Is(err, cause) {
		t.Errorf("a start that was cancelled: %v", err)
	}
}

// ctx is for the start only.
func TestProgramOutlivesTheContextOfItsStart(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	p, err := c.StartProgram(ctx, tool.ProgramRequest{Argv: []string{"cat"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	cancel()
	say(t, p, "hi")
	got := make([]byte, 2)
	if _, err := io.ReadFull(p, got); err != nil || string(got) != "hi" {
		t.Fatalf("%q %v", got, err)
	}
}

func TestProgramCarriesMuchBothWaysAtOnce(t *testing.T) {
	const size = 100 << 20
	_, c := serve(t, sandboxd.Options{})
	p := startProgram(t, c, "cat")
	go func() {
		chunk := make([]byte, 1<<20)
		for at := 0; at < size; at += len(chunk) {
			fill(chunk, at)
			if _, err := p.Write(chunk); err != nil {
				return
			}
		}
		_ = p.CloseWrite()
	}()
	got, want := make([]byte, 1<<20), make([]byte, 1<<20)
	for at := 0; at < size; at += len(got) {
		fill(want, at)
		if _, err := io.ReadFull(p, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("at %d: %v", at, err)
		}
	}
	if n, err := p.Read(got); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %d %v", n, err)
	}
	if code := awaitEnd(t, p); code != 0 {
		t.Error("exit code", code)
	}
}

// fill makes bytes that differ from place to place.
func fill(b []byte, at int) {
	for i := 0; i < len(b); i += 4 {
		n := uint32(at+i) * 2654435761
		b[i], b[i+1], b[i+2], b[i+3] = byte(n), byte(n>>8), byte(n>>16), byte(n>>24)
	}
}

// What nobody reads stays with the program; what nobody's program reads stays here.
func TestProgramHoldsBackBothWays(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	count := filepath.Join(s.dir, "count")
	flood := startProgram(t, c, "bash", "-c", `exec 3>count; chunk=$(printf '%01000d' 0); n=0; while :; do printf %s "$chunk"; n=$((n+1)); printf '%08d\n' $n >&3; done`)
	deaf := startProgram(t, c, "sleep", "1000")
	written, much := make(chan error, 1), make([]byte, 64<<20)
	go func() {
		_, err := deaf.Write(much)
		written <- err
	}()
	before := heap()
	standsStill(t, func() int64 {
		info, err := os.Stat(count)
		if err != nil {
			return 0
		}
		return info.Size()
	})
	info, err := os.Stat(count)
	if sent := info.Size() / 9 * 1000; err != nil || sent > 1<<20 {
		t.Errorf("%d bytes went to a client that does not read, %v", sent, err)
	}
	if grown := heap() - before; grown > 8<<20 {
		t.Errorf("%d bytes of memory hold what nobody reads", grown)
	}
	select {
	case err := <-written:
		t.Errorf("a program that does not read took 64 MiB: %v", err)
	default:
	}
	_ = deaf.Close()
	wantFault(t, <-written, fault.Canceled, sandboxd.CodeClosed)
	if n, err := io.CopyN(io.Discard, flood, 3<<20); err != nil {
		t.Errorf("after the wait: %d %v", n, err)
	}
}

func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// standsStill waits until a number that has grown does not grow any more.
func standsStill(t *testing.T, number func() int64) {
	t.Helper()
	last, same := int64(0), 0
	eventually(t, "a standstill", func() bool {
		n := number()
		if n != last || n == 0 {
			last, same = n, 0
			return false
		}
		same++
		return same > 100
	})
}

func TestProgramErrorsAreKeptToTheirEnd(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	p := startProgram(t, c, "sh", "-c", "head -c 30000000 /dev/zero | tr '\\0' e >&2; echo; echo the last words >&2")
	if code := awaitEnd(t, p); code != 0 {
		t.Error("exit code", code)
	}
	got := p.Stderr()
	if len(got) != 16<<10 || !strings.HasSuffix(got, "eee"+"the last words\n") || strings.Trim(got[:100], "e") != "" {
		t.Errorf("%d bytes, ends with %q", len(got), got[max(0, len(got)-40):])
	}
	if err := p.Close(); err != nil || p.Stderr() != got {
		t.Error("Close loses standard error")
	}
}

// All of the tree ends, however it ends: by itself, by the client's will, with its
// connections, and with the daemon.
func TestProgramEndsWithAllItStarted(t *testing.T) {
	const family = `echo $$ > a
(echo $BASHPID > b; exec sleep 1000) &
(set -m; (echo $BASHPID > c; exec sleep 1000) & wait) &
setsid bash -c 'echo $$ > d; (echo $BASHPID > e; exec sleep 1000) & wait' &
`
	scripts := map[string]string{
		"obedient":      family + "wait",
		"deaf":          "trap '' TERM\n" + family + "while :; do wait; done",
		"blocked":       family + "exec yes",
		"gone already":  family + "for f in a b c d e; do until [ -s $f ]; do sleep 0.01; done; done",
		"end of input":  family + "cat; exit 0",
		"reads nothing": family + "exec sleep 1000",
	}
	ways := map[string]func(*testing.T, *server, *sandboxd.Client, tool.Program){
		"close":  func(_ *testing.T, _ *server, _ *sandboxd.Client, p tool.Program) { _ = p.Close() },
		"client": func(_ *testing.T, _ *server, c *sandboxd.Client, _ tool.Program) { c.Close() },
		"daemon": func(t *testing.T, s *server, _ *sandboxd.Client, _ tool.Program) { s.stop(t) },
	}
	for name, script := range scripts {
		for way, end := range ways {
			t.Run(name+", "+way, func(t *testing.T) {
				t.Parallel()
				s, c := serve(t, sandboxd.Options{})
				p := startProgram(t, c, "bash", "-c", script)
				pids := map[string]int{}
				members := []string{"a", "b", "c", "d", "e"}
				if name == "gone already" {
					members = members[:3] // whose parent is gone and who has another session is lost
				}
				for _, file := range []string{"a", "b", "c", "d", "e"} {
					pids[file] = readPID(t, filepath.Join(s.dir, file))
				}
				t.Cleanup(func() { // the lost ones
					for _, file := range []string{"d", "e"} {
						_ = unix.Kill(pids[file], unix.SIGKILL)
					}
				})
				if name == "end of input" {
					_ = p.CloseWrite()
				} else {
					end(t, s, c, p)
				}
				code := awaitEnd(t, p)
				if ended := name == "gone already" || name == "end of input"; !ended && code != -1 {
					t.Errorf("exit code %d of a program that was left", code)
				}
				for _, file := range members {
					eventually(t, "end of "+file, func() bool { return !alive(pids[file]) })
				}
			})
		}
	}
}

// Who ends on TERM has time to say good-bye.
func TestProgramMayCleanUp(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	for name, script := range map[string]string{
		"itself":  `trap 'sleep 0.3; echo bye; echo bye >&2; echo done > bye; exit' TERM; echo $$ > pid; while :; do sleep 0.01; done`,
		"a child": `(trap 'sleep 0.3; echo bye; echo done > bye; exit' TERM; echo $BASHPID > pid; while :; do sleep 0.01; done) & wait`,
	} {
		for _, file := range []string{"bye", "pid"} {
			_ = os.Remove(filepath.Join(s.dir, file))
		}
		p := startProgram(t, c, "bash", "-c", script)
		pid := readPID(t, filepath.Join(s.dir, "pid"))
		_ = p.Close()
		eventually(t, "the end", func() bool { return !alive(pid) })
		if text, err := os.ReadFile(filepath.Join(s.dir, "bye")); err != nil || string(text) != "done\n" {
			t.Errorf("%s: %q %v", name, text, err)
		}
	}
}

// What a program leaves behind holds neither Done nor the end of the output.
func TestProgramEndsThoughItsPipesAreHeld(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	for name, script := range map[string]string{
		"silent":            `(trap '' TERM; echo $BASHPID > pid; exec sleep 1000) & until [ -s pid ]; do :; done; echo last; exit 5`,
		"noisy":             `(trap '' TERM; echo $BASHPID > pid; while :; do echo more; echo more >&2; done) & until [ -s pid ]; do :; done; echo last; exit 5`,
		"where none can go": `setsid bash -c 'trap "" TERM; echo $$ > pid; exec sleep 1000' & until [ -s pid ]; do :; done; echo last; exit 5`,
	} {
		t.Run(name, func(t *testing.T) {
			_ = os.Remove(filepath.Join(s.dir, "pid"))
			p := startProgram(t, c, "bash", "-c", script)
			pid := readPID(t, filepath.Join(s.dir, "pid"))
			t.Cleanup(func() { _ = unix.Kill(pid, unix.SIGKILL) })
			if code := awaitEnd(t, p); code != 5 {
				t.Errorf("exit code %d", code)
			}
			out, err := io.ReadAll(p)
			if err != nil || !bytes.Contains(out, []byte("last\n")) {
				t.Errorf("%.100q %v", out, err)
			}
			if name != "where none can go" {
				eventually(t, "end of the rest", func() bool { return !alive(pid) })
			}
			_, err = p.Write([]byte("x"))
			wantFault(t, err, fault.Conflict, sandboxd.CodeProgramEnded)
		})
	}
}

// A slow reader gets all that the program wrote before it ended.
func TestProgramOutputWaitsForASlowReader(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	const size = 135_000 // more than may be on the way, less than with the pipe
	p := startProgram(t, c, "sh", "-c", "sleep 1000 & echo $! > pid; exec head -c "+strconv.Itoa(size)+" /dev/zero")
	if code := awaitEnd(t, p); code != 0 {
		t.Error("exit code", code)
	}
	left := readPID(t, filepath.Join(s.dir, "pid"))
	eventually(t, "end of what was left behind", func() bool { return !alive(left) })
	if n, err := io.Copy(io.Discard, p); err != nil || n != size {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func TestProgramLimit(t *testing.T) {
	const limit = 64
	_, c := serve(t, sandboxd.Options{})
	programs := make([]tool.Program, limit)
	for i := range programs {
		programs[i] = startProgram(t, c, "cat")
	}
	_, err := c.StartProgram(t.Context(), tool.ProgramRequest{Argv: []string{"cat"}})
	wantFault(t, err, fault.TooLarge, sandboxd.CodeProgramLimit)
	run(t, c, "true")
	for i, p := range programs {
		say(t, p, fmt.Sprintln(i))
		if line, err := bufio.NewReader(p).ReadString('\n'); err != nil || line != fmt.Sprintln(i) {
			t.Fatalf("%d: %q %v", i, line, err)
		}
	}
	_ = programs[0].Close()
	eventually(t, "a free place", func() bool {
		p, err := c.StartProgram(t.Context(), tool.ProgramRequest{Argv: []string{"true"}})
		return err == nil && awaitEnd(t, p) == 0 && p.Close() == nil
	})
}

func TestProgramsOpenAndCloseTogether(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			for range 8 {
				p, err := c.StartProgram(t.Context(), tool.ProgramRequest{Argv: []string{"cat"}})
				if err != nil {
					t.Error(err)
					return
				}
				var users sync.WaitGroup
				users.Go(func() { _, _ = io.Copy(io.Discard, p) })
				users.Go(func() { _, _ = io.Copy(p, bytes.NewReader(make([]byte, 1<<20))) })
				users.Go(func() { _ = p.Stderr() + strconv.Itoa(p.ExitCode()) })
				if i%3 == 0 {
					users.Go(func() { _ = p.CloseWrite() })
				}
				if i%2 == 0 {
					users.Go(func() { _ = p.Close() })
				}
				_ = p.Close()
				<-p.Done()
				users.Wait()
			}
		})
	}
	all.Wait()
}

func TestProgramCloseUnblocksAll(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	p := startProgram(t, c, "sleep", "1000")
	failed := make(chan error, 2)
	go func() {
		_, err := p.Read(make([]byte, 1))
		failed <- err
	}()
	go func() {
		_, err := p.Write(make([]byte, 16<<20))
		failed <- err
	}()
	_ = p.Close()
	for range 2 {
		wantFault(t, <-failed, fault.Canceled, sandboxd.CodeClosed)
	}
	awaitEnd(t, p)
}

// A frozen sandbox only makes its programs' users wait.
func TestProgramsWaitInAFrozenSandbox(t *testing.T) {
	socket := newSocket(t)
	d := spawn(t, socket, "subreaper")
	c := connect(t, socket)
	p := startProgram(t, c, "cat")
	other := startProgram(t, c, "sh", "-c", "echo $$; exec cat")
	line, err := bufio.NewReader(other).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(line))
	if err := d.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "freeze", func() bool { return processState(d.Process.Pid) == "T" })
	want := bytes.Repeat([]byte("frozen "), 1<<20)
	go func() {
		_, _ = p.Write(want)
		_ = p.CloseWrite()
	}()
	go func() { _, _ = other.Write(want) }()
	_ = other.Close() // does not wait for the thaw
	if err := d.Process.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(p); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	eventually(t, "end of the one that was closed", func() bool { return !alive(pid) })
}

// The death of the daemon is not the end of standard output.
func TestProgramTellsALossFromAnEnd(t *testing.T) {
	socket := newSocket(t)
	d := spawn(t, socket, "subreaper")
	c := connect(t, socket)
	p := startProgram(t, c, "sh", "-c", "echo begun; exec cat")
	in := bufio.NewReader(p)
	if line, err := in.ReadString('\n'); err != nil || line != "begun\n" {
		t.Fatalf("%q %v", line, err)
	}
	if err := d.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if code := awaitEnd(t, p); code != -1 {
		t.Errorf("exit code %d", code)
	}
	_, err := in.ReadByte()
	wantFault(t, err, fault.Unavailable, sandboxd.CodeGone)
	_, err = p.Write([]byte("x"))
	wantFault(t, err, fault.Unavailable, sandboxd.CodeGone)
}

// The daemon survives clients that do not keep to the protocol, their program does not.
func TestProgramEndsOnGarbage(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	for name, garbage := range map[string]string{
		"no frame":         "GET / HTTP/1.1\r\n\r\n",
		"unknown kind":     "?\x00\x00\x00\x00",
		"too long":         "i\xff\xff\xff\xff",
		"after the end":    "e\x00\x00\x00\x00i\x00\x00\x00\x01x",
		"over the window":  strings.Repeat("i\x00\x00\x80\x00"+strings.Repeat("x", 32<<10), 20),
		"too much credit":  "m\x00\x00\x00\x04\x00\x02\x00\x01",
		"half a frame":     "i\x00\x00\x00\x05x",
		"end with payload": "e\x00\x00\x00\x01x",
	} {
		t.Run(name, func(t *testing.T) {
			_ = os.Remove(filepath.Join(s.dir, "pid"))
			conn := rawProgram(t, s.socket, `{"argv":["sh","-c","echo $$ > pid; exec sleep 1000"]}`)
			pid := readPID(t, filepath.Join(s.dir, "pid"))
			_, _ = io.WriteString(conn, garbage)
			if name == "half a frame" {
				_ = conn.(*net.UnixConn).CloseWrite()
			}
			_, _ = io.Copy(io.Discard, conn) // to the end, which the daemon makes
			eventually(t, "end of the program", func() bool { return !alive(pid) })
		})
	}
	run(t, c, "true")
}

func rawProgram(t *testing.T, socket, body string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST /programs HTTP/1.1\r\nHost: sandbox\r\nConnection: Upgrade\r\nUpgrade: sandboxd-program\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if err != nil {
		t.Fatal(err)
	}
	for seen := ""; !strings.HasSuffix(seen, "\r\n\r\n"); {
		b := make([]byte, 1)
		if _, err := conn.Read(b); err != nil {
			t.Fatal(seen, err)
		}
		seen += string(b)
	}
	return conn
}

// A daemon that talks nonsense is an error, not a wait.
func TestProgramOfAFalseDaemon(t *testing.T) {
	const ok = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: sandboxd-program\r\n\r\n"
	for name, test := range map[string]struct {
		frames, code string
	}{
		"nothing":         {"", sandboxd.CodeGone},
		"half a frame":    {"o\x00\x00", sandboxd.CodeGone},
		"unknown kind":    {"?\x00\x00\x00\x00", "sandbox_protocol"},
		"over the window": {strings.Repeat("o\x00\x00\x80\x00"+strings.Repeat("x", 32<<10), 5), "sandbox_protocol"},
		"two exits":       {"x\x00\x00\x00\x04\x00\x00\x00\x01x\x00\x00\x00\x04\x00\x00\x00\x01", "sandbox_protocol"},
		"strange exit":    {"x\x00\x00\x00\x04\x00\x00\x01\x00", "sandbox_protocol"},
	} {
		t.Run(name, func(t *testing.T) {
			p := startProgram(t, talk(t, ok+test.frames), "cat")
			awaitEnd(t, p)
			_, err := io.Copy(io.Discard, p)
			if fault.CodeOf(err) != test.code {
				t.Errorf("%v, want %s", err, test.code)
			}
		})
	}
	_, err := talk(t, "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n").
		StartProgram(t.Context(), tool.ProgramRequest{Argv: []string{"cat"}})
	wantFault(t, err, fault.Unsupported, "sandboxd_too_old")
}
