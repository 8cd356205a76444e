package sandboxd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

func sh(script string) tool.ExecRequest {
	return tool.ExecRequest{Argv: []string{"sh", "-c", script}}
}

func TestExecResults(t *testing.T) {
	t.Setenv("SERVER_SECRET", "do not show")
	s, c := serve(t, sandboxd.Options{Env: map[string]string{"BASE": "one", "BOTH": "base"}})
	with := func(req tool.ExecRequest, change func(*tool.ExecRequest)) tool.ExecRequest {
		change(&req)
		return req
	}
	if err := os.Mkdir(filepath.Join(s.dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	binary := bytes.Repeat([]byte{0, 1, 0xff, 0xfe, '\n', '\r'}, 50_000)
	tests := []struct {
		name string
		req  tool.ExecRequest
		want tool.ExecResult
	}{
		{"output", sh("echo out; echo err >&2"), tool.ExecResult{Stdout: []byte("out\n"), Stderr: []byte("err\n")}},
		{"silent", sh(":"), tool.ExecResult{}},
		{"exit code", sh("exit 7"), tool.ExecResult{ExitCode: 7}},
		{"signal", sh("kill -9 $$"), tool.ExecResult{ExitCode: 137}},
		{"stdin", with(sh("cat"), func(r *tool.ExecRequest) { r.Stdin = binary }), tool.ExecResult{Stdout: binary}},
		{"stdin not read", with(sh(":"), func(r *tool.ExecRequest) { r.Stdin = binary }), tool.ExecResult{}},
		{"no stdin", sh("cat; echo end"), tool.ExecResult{Stdout: []byte("end\n")}},
		{"base environment only", sh(`echo "$BASE,$SERVER_SECRET,$BOTH,$ADDED"`), tool.ExecResult{Stdout: []byte("one,,base,\n")}},
		{"added environment", with(sh(`echo "$BASE,$BOTH,$ADDED"`), func(r *tool.ExecRequest) {
			r.Env = map[string]string{"BOTH": "mine", "ADDED": "two"}
		}), tool.ExecResult{Stdout: []byte("one,mine,two\n")}},
		{"working directory", sh("pwd"), tool.ExecResult{Stdout: []byte(s.dir + "\n")}},
		{"relative directory", with(sh("pwd"), func(r *tool.ExecRequest) { r.Dir = "sub" }), tool.ExecResult{Stdout: []byte(s.dir + "/sub\n")}},
		{"output exactly at the bound", with(sh("printf 12345"), func(r *tool.ExecRequest) { r.MaxOutput = 5 }),
			tool.ExecResult{Stdout: []byte("12345")}},
		{"output over the bound", with(sh("printf 123456; printf ab >&2"), func(r *tool.ExecRequest) { r.MaxOutput = 5 }),
			tool.ExecResult{Stdout: []byte("12345"), Stderr: []byte("ab"), Truncated: true}},
		{"stderr over the bound", with(sh("printf ab >&2"), func(r *tool.ExecRequest) { r.MaxOutput = 1 }),
			tool.ExecResult{Stderr: []byte("a"), Truncated: true}},
		{"own session", sh(`read -r pid name state parent group session rest < /proc/$$/stat; echo $((pid == group)) $((pid == session))`),
			tool.ExecResult{Stdout: []byte("1 1\n")}},
		{"no terminal to ask on", sh("(echo secret? > /dev/tty) 2>/dev/null || echo none"), tool.ExecResult{Stdout: []byte("none\n")}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := c.Exec(t.Context(), test.req)
			if err != nil {
				t.Fatal(err)
			}
			if got.ExitCode != test.want.ExitCode || !bytes.Equal(got.Stdout, test.want.Stdout) ||
				!bytes.Equal(got.Stderr, test.want.Stderr) || got.Truncated != test.want.Truncated || got.TimedOut {
				t.Fatalf("got %d %.200q %.200q truncated %v timed out %v", got.ExitCode, got.Stdout, got.Stderr, got.Truncated, got.TimedOut)
			}
		})
	}
}

func TestExecDrainsWhatItDrops(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	got, err := c.Exec(t.Context(), tool.ExecRequest{Argv: []string{"head", "-c", "50000000", "/dev/zero"}, MaxOutput: 1000})
	if err != nil || got.ExitCode != 0 || len(got.Stdout) != 1000 || !got.Truncated {
		t.Fatalf("code %d, %d bytes, truncated %v, error %v", got.ExitCode, len(got.Stdout), got.Truncated, err)
	}
}

func TestExecRefusals(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	plain := filepath.Join(s.dir, "plain")
	if err := os.WriteFile(plain, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	garbage := filepath.Join(s.dir, "garbage")
	if err := os.WriteFile(garbage, []byte{1, 2, 3, 4}, 0o755); err != nil {
		t.Fatal(err)
	}
	lost := filepath.Join(s.dir, "lost")
	if err := os.WriteFile(lost, []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		req  tool.ExecRequest
		kind fault.Kind
		code string
	}{
		{"no program", tool.ExecRequest{}, fault.Invalid, sandboxd.CodeBadRequest},
		{"unknown program", tool.ExecRequest{Argv: []string{"no-such-program-here"}}, fault.NotFound, sandboxd.CodeProgramNotFound},
		{"unknown path", tool.ExecRequest{Argv: []string{"/no/such"}}, fault.NotFound, sandboxd.CodeProgramNotFound},
		{"interpreter missing", tool.ExecRequest{Argv: []string{lost}}, fault.NotFound, sandboxd.CodeProgramNotFound},
		{"not executable", tool.ExecRequest{Argv: []string{plain}}, fault.Forbidden, sandboxd.CodeNotExecutable},
		{"not executable in PATH", tool.ExecRequest{Argv: []string{"plain"}, Env: map[string]string{"PATH": s.dir}}, fault.Forbidden, sandboxd.CodeNotExecutable},
		{"no program format", tool.ExecRequest{Argv: []string{garbage}}, fault.Invalid, "not_a_program"},
		{"directory missing", tool.ExecRequest{Argv: []string{"true"}, Dir: "/no/such"}, fault.NotFound, sandboxd.CodeDirNotFound},
		{"directory is a file", tool.ExecRequest{Argv: []string{"true"}, Dir: plain}, fault.Invalid, sandboxd.CodeNotDirectory},
		{"bad variable", tool.ExecRequest{Argv: []string{"true"}, Env: map[string]string{"A=B": "c"}}, fault.Invalid, sandboxd.CodeBadRequest},
		{"NUL", tool.ExecRequest{Argv: []string{"echo", "a\x00b"}}, fault.Invalid, sandboxd.CodeBadRequest},
		{"negative time", tool.ExecRequest{Argv: []string{"true"}, Timeout: -1}, fault.Invalid, sandboxd.CodeBadRequest},
		{"argument too long", tool.ExecRequest{Argv: []string{"true", strings.Repeat("x", 1<<20)}}, fault.TooLarge, sandboxd.CodeTooLarge},
		{"stdin too long", tool.ExecRequest{Argv: []string{"true"}, Stdin: make([]byte, sandboxd.MaxStdinBytes+1)}, fault.TooLarge, sandboxd.CodeTooLarge},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := c.Exec(t.Context(), test.req)
			wantFault(t, err, test.kind, test.code)
		})
	}
}

func TestExecTimeoutEndsTheWholeSession(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	tests := []struct{ name, script string }{
		{"obedient", "echo $$ > a; (echo $BASHPID > b; exec sleep 1000) & wait"},
		{"deaf", "trap '' TERM; echo $$ > a; (echo $BASHPID > b; exec sleep 1000) & while :; do wait; done"},
		{"child in another group", "set -m; echo $$ > a; (trap '' TERM; echo $BASHPID > b; sleep 1000) & wait"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(s.dir, strings.ReplaceAll(test.name, " ", "-"))
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			got, err := c.Exec(t.Context(), tool.ExecRequest{Argv: []string{"bash", "-c", test.script}, Dir: dir, Timeout: 300 * time.Millisecond})
			if err != nil || !got.TimedOut || got.ExitCode != -1 {
				t.Fatalf("%+v %v", got, err)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Fatalf("took %v", took)
			}
			for _, file := range []string{"a", "b"} {
				pid := readPID(t, filepath.Join(dir, file))
				eventually(t, "end of "+file, func() bool { return !alive(pid) })
			}
		})
	}
}

func readPID(t *testing.T, path string) int {
	t.Helper()
	pid := 0
	eventually(t, path, func() bool {
		text, err := os.ReadFile(path)
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	return pid
}

func TestExecEndsWithItsClient(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	cause := errors.New("the user has changed his mind")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	failed := make(chan error, 1)
	go func() {
		_, err := c.Exec(ctx, sh("echo $$ > pid; exec sleep 1000"))
		failed <- err
	}()
	pid := readPID(t, filepath.Join(s.dir, "pid"))
	cancel(cause)
	if err := <-failed; !errors.Is(err, cause) {
		t.Fatalf("got %v, want the cause", err)
	}
	eventually(t, "end of the program", func() bool { return !alive(pid) })
}

func TestExecEndsWithTheDaemon(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	failed := make(chan error, 1)
	go func() {
		_, err := c.Exec(context.Background(), sh("trap '' TERM; echo $$ > pid; sleep 1000; sleep 1000"))
		failed <- err
	}()
	pid := readPID(t, filepath.Join(s.dir, "pid"))
	s.stop(t)
	wantFault(t, <-failed, fault.Unavailable, sandboxd.CodeGone)
	if alive(pid) {
		t.Fatal("the program outlived the daemon")
	}
}

func TestExecDoesNotWaitForInheritedPipes(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	start := time.Now()
	got := run(t, c, "sh", "-c", "sleep 1000 & echo $! > pid; echo done")
	if string(got.Stdout) != "done\n" || got.ExitCode != 0 || time.Since(start) > 10*time.Second {
		t.Fatalf("%+v after %v", got, time.Since(start))
	}
	pid := readPID(t, filepath.Join(s.dir, "pid"))
	if !alive(pid) {
		t.Fatal("what a program leaves behind must go on")
	}
	run(t, c, "kill", "-9", strconv.Itoa(pid))
}

func TestExecInParallel(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			got, err := c.Exec(t.Context(), sh(fmt.Sprintf("echo %d; exit %d", i, i)))
			if err != nil || got.ExitCode != i || string(got.Stdout) != fmt.Sprintln(i) {
				t.Errorf("%d: %+v %v", i, got, err)
			}
		})
	}
	all.Wait()
}
