package hookrun

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"parley/internal/fault"
	"parley/internal/hook"
	"parley/internal/tool"
)

// script checks the pinned files and becomes the command.
//
//go:embed command.sh
var script string

const (
	// maxOutput is what is read of each stream. Only its beginning is shown: maskRoom
	// is so much more that a secret which the bound cuts in half is not in it.
	maxOutput = 4*maxText + maskRoom
	maskRoom  = 64 << 10
	// slack is what the sandbox gets on top of a hook's own time to end it and to
	// answer. A sandbox that is frozen does not answer at all.
	slack = 15 * time.Second
)

// Exit codes of shells that say that a command did not run to its end.
const (
	exitBlock     = 2
	exitNotRun    = 126 // found, but it cannot be executed; also what script says
	exitNotFound  = 127
	exitSignal    = 128 // and the number of the signal that ended it
	exitMaxSignal = exitSignal + 64
)

var errSilent = errors.New("the sandbox did not answer in time")

// command runs a command hook.
func (r *Runner) command(ctx context.Context, src *Source, d hook.Definition, c *call) result {
	timeout := time.Duration(d.Timeout) * time.Second
	if timeout <= 0 {
		return failed("It has no time to run in.")
	}
	if r.Hands == nil {
		return failed("There is no sandbox.")
	}
	hands, err := r.Hands(ctx)
	if err != nil {
		return failed("The sandbox cannot be reached. %s", fault.PublicText(err))
	}
	within, done := context.WithTimeoutCause(ctx, timeout+slack, errSilent)
	defer done()
	res, err := hands.Exec(within, tool.ExecRequest{Argv: arguments(src, d), Dir: r.dir(src), Env: r.env(src, d, c.Input),
		Stdin: c.stdin, Timeout: timeout, MaxOutput: maxOutput})
	switch {
	case errors.Is(err, errSilent):
		return failed("The sandbox did not answer within %d seconds.", int((timeout + slack).Seconds()))
	case err != nil:
		return failed("%s", fault.PublicText(err))
	}
	return r.ended(d, res)
}

func (r *Runner) dir(src *Source) string {
	if src.Dir != "" {
		return src.Dir
	}
	return r.WorkingDir
}

// arguments never become part of the shell's text.
func arguments(src *Source, d hook.Definition) []string {
	argv := []string{"/bin/sh", "-c", script, "hook", d.Command}
	for _, p := range src.Pins {
		argv = append(argv, p.Path, strings.ToLower(p.SHA256))
	}
	return argv
}

// env lets nothing take the place of what the protocol names.
func (r *Runner) env(src *Source, d hook.Definition, in Input) map[string]string {
	env := map[string]string{}
	if r.Secrets != nil {
		maps.Copy(env, r.Secrets(d.Command))
	}
	maps.Copy(env, src.Env)
	for _, prefix := range []string{"OPENHANDS_", "PARLEY_"} {
		env[prefix+"PROJECT_DIR"] = r.WorkingDir
		env[prefix+"SESSION_ID"] = r.SessionID
		env[prefix+"EVENT_TYPE"] = string(in.Event)
		env[prefix+"TOOL_NAME"] = in.Tool
	}
	return env
}

// ended reads what a command that was started came to.
func (r *Runner) ended(d hook.Definition, exec tool.ExecResult) result {
	res := result{exitCode: exec.ExitCode, stdout: r.output(exec.Stdout), stderr: r.output(exec.Stderr)}
	code := exec.ExitCode
	if res.failure = notRun(d, exec, clip(strings.TrimSpace(res.stderr), maxQuoted)); res.failure != "" {
		return res
	}
	said, err := readOutput(exec.Stdout)
	res.success, res.blocked = code == 0, code == exitBlock || err == nil && said.block
	res.context = r.mask(said.context)
	stderr := strings.TrimSpace(res.stderr)
	switch {
	case code == exitBlock && stderr != "":
		res.reason = stderr
	case err != nil && code != exitBlock:
		res.failure = "Its decision cannot be read: " + r.mask(err.Error()) + "."
	default:
		res.reason = r.mask(said.reason)
	}
	return res
}

// notRun says why a command did not run to its end, "" if it did.
func notRun(d hook.Definition, exec tool.ExecResult, stderr string) string {
	said := ""
	if stderr != "" {
		said = " It wrote: " + stderr
	}
	code := exec.ExitCode
	switch {
	case exec.TimedOut:
		return fmt.Sprintf("It did not end within %d seconds.%s", d.Timeout, said)
	case code == exitNotRun:
		return "It cannot be executed (exit code 126)." + said
	case code == exitNotFound:
		return "It was not found (exit code 127)." + said
	case code > exitSignal && code <= exitMaxSignal:
		return fmt.Sprintf("It was ended by signal %d.%s", code-exitSignal, said)
	case code < 0:
		return "It was ended." + said
	}
	return ""
}
