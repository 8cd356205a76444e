package sandboxd_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/internal/fault"
	"parley/internal/sandboxd"
	"parley/internal/tool"
)

func startCommand(t testing.TB, c *sandboxd.Client, req tool.CommandRequest) tool.Command {
	t.Helper()
	cmd, err := c.StartCommand(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Close() })
	return cmd
}

// collect reads a command to its end.
func collect(t testing.TB, cmd tool.Command) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs strings.Builder
	for {
		o, err := cmd.Next()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case o.Ended:
			return out.String(), errs.String(), o.ExitCode
		case o.Stderr:
			errs.Write(o.Data)
		default:
			out.Write(o.Data)
		}
	}
}

func shell(script string) tool.CommandRequest {
	return tool.CommandRequest{Argv: []string{"/bin/sh", "-c", script}}
}

func TestCommandResults(t *testing.T) {
	t.Parallel()
	_, c := serve(t, sandboxd.Options{Env: map[string]string{"BASE": "one", "BASEMENT": "two"}})
	for name, test := range map[string]struct {
		req            tool.CommandRequest
		stdout, stderr string
		code           int
	}{
		"outputs stay apart":         {shell("echo out; echo err >&2; exit 3"), "out\n", "err\n", 3},
		"no output":                  {shell("true"), "", "", 0},
		"a signal":                   {shell("kill -KILL $$"), "", "", 137},
		"no input":                   {shell("cat; echo end"), "end\n", "", 0},
		"variables are taken away":   {tool.CommandRequest{Argv: shell("echo $BASE,$BASEMENT,$MORE").Argv, Env: map[string]string{"MORE": "3"}, Without: []string{"BASE"}}, ",two,3\n", "", 0},
		"more than the window holds": {shell("head -c 1000000 /dev/zero | tr '\\0' x; head -c 300000 /dev/zero | tr '\\0' y >&2"), strings.Repeat("x", 1000000), strings.Repeat("y", 300000), 0},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := collect(t, startCommand(t, c, test.req))
			if stdout != test.stdout || stderr != test.stderr || code != test.code {
				t.Errorf("got %d bytes %.50q, %d bytes %.50q, code %d", len(stdout), stdout, len(stderr), stderr, code)
			}
		})
	}
	_, err := c.StartCommand(t.Context(), tool.CommandRequest{Argv: []string{"/no/such"}})
	wantFault(t, err, fault.NotFound, sandboxd.CodeProgramNotFound)
	_, err = c.StartCommand(t.Context(), tool.CommandRequest{Argv: []string{"true"}, Dir: "/no/such"})
	wantFault(t, err, fault.NotFound, sandboxd.CodeDirNotFound)
}

func TestCommandOutputComesWhileItRuns(t *testing.T) {
	t.Parallel()
	s, c := serve(t, sandboxd.Options{})
	gate := filepath.Join(s.dir, "gate")
	cmd := startCommand(t, c, shell("echo first; while [ ! -e "+gate+" ]; do sleep 0.01; done; echo second"))
	o, err := cmd.Next()
	if err != nil || string(o.Data) != "first\n" {
		t.Fatalf("%q %v", o.Data, err)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _, code := collect(t, cmd); out != "second\n" || code != 0 {
		t.Errorf("%q %d", out, code)
	}
}

func TestCommandTimeOutIsTermThenKill(t *testing.T) {
	t.Parallel()
	_, c := serve(t, sandboxd.Options{})
	req := shell("trap 'echo asked' TERM; sleep 60 & while :; do wait; done")
	req.Timeout = 200 * time.Millisecond
	began := time.Now()
	out, _, code := collect(t, startCommand(t, c, req))
	if code != -1 || out != "asked\n" {
		t.Errorf("code %d, output %q", code, out)
	}
	if took := time.Since(began); took < 1200*time.Millisecond || took > 10*time.Second {
		t.Errorf("killed after %s, want its time and a second", took)
	}
}

func TestCommandLeavesDaemonsAlone(t *testing.T) {
	t.Parallel()
	_, c := serve(t, sandboxd.Options{})
	for name, script := range map[string]string{
		"detached from the pipes": "sleep 60 >/dev/null 2>&1 & echo $!",
		"holding the pipes":       "sleep 60 & echo $!",
	} {
		out, _, code := collect(t, startCommand(t, c, shell(script)))
		pid, err := strconv.Atoi(strings.TrimSpace(out))
		if err != nil || code != 0 {
			t.Fatalf("%s: %q %d", name, out, code)
		}
		if !alive(pid) {
			t.Errorf("%s: what the command left behind was ended", name)
		}
		run(t, c, "kill", "-KILL", strconv.Itoa(pid))
	}
}

func TestCommandEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	_, c := serve(t, sandboxd.Options{})
	cmd := startCommand(t, c, shell("echo $$; sleep 60 & wait"))
	o, err := cmd.Next()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(o.Data)))
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Close()
	if _, err := cmd.Next(); err == nil {
		t.Error("Next after Close gives no error")
	}
	eventually(t, "the command is gone", func() bool { return !alive(pid) })
}

func TestCommandThatFloodsDoesNotOutliveItsReader(t *testing.T) {
	t.Parallel()
	_, c := serve(t, sandboxd.Options{})
	cmd := startCommand(t, c, shell("echo $$; exec yes"))
	o, err := cmd.Next()
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := strconv.Atoi(strings.SplitN(string(o.Data), "\n", 2)[0])
	_ = cmd.Close()
	eventually(t, "the flood ends", func() bool { return !alive(pid) })
}

func TestCommandStartHonoursItsContext(t *testing.T) {
	t.Parallel()
	_, c := serve(t, sandboxd.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.StartCommand(ctx, shell("true")); err == nil {
		t.Error("started")
	}
}
