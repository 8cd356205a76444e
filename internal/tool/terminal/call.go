package terminal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"parley/internal/fault"
	"parley/internal/tool"
)

const (
	// inputQuiet is how long a program that was typed into may print nothing after
	// its answer began: it waits for the next input, most likely.
	inputQuiet = 3 * time.Second
	// runLimit is how long a call waits at most for a command that prints on and
	// on, where no time-out is given.
	runLimit = 10 * time.Minute
)

// call is one use of the tool.
type call struct {
	session *session
	env     *tool.Env
	action  Action
	soft    time.Duration
	out     capture
	reset   bool   // the shell was reset by this call
	retried bool   // the shell was started anew for this call
	earlier string // output that is not this command's, with its heading
}

func (c *call) run(ctx context.Context) (tool.Result, error) {
	result, err := c.dispatch(ctx)
	if err == nil || ctx.Err() == nil {
		return result, err
	}
	cause := context.Cause(ctx)
	if !errors.Is(cause, tool.ErrDetach) && (c.session.phase == sent || c.session.phase == busy) {
		c.session.interrupt(ctx, c.env.Hands)
	}
	return tool.Result{}, cause
}

func (c *call) dispatch(ctx context.Context) (tool.Result, error) {
	if c.action.Reset {
		if err := c.resetShell(ctx); err != nil || c.blank() {
			return c.resetDone(ctx, err)
		}
	}
	if err := c.session.attach(ctx, c.env); err != nil {
		return tool.Result{}, err
	}
	if c.session.phase != idle {
		return c.whileBusy(ctx)
	}
	switch {
	case c.action.IsInput:
		return c.refuse(ctx, "No command is running that could read this input. Run a command first, with is_input=false.")
	case c.blank():
		return c.nothingRuns(ctx)
	}
	return c.execute(ctx)
}

func (c *call) blank() bool { return strings.TrimSpace(c.action.Command) == "" }

func (c *call) resetShell(ctx context.Context) error {
	c.reset = true
	c.session.phase = unknown
	return c.env.Hands.CloseTerminal(ctx, c.session.id)
}

func (c *call) resetDone(ctx context.Context, err error) (tool.Result, error) {
	if err != nil {
		return tool.Result{}, err
	}
	c.session.last = status{job: -1, cwd: c.env.WorkingDir}
	return c.say(ctx, "The shell was reset. The next command starts in a new one, in "+c.env.WorkingDir+".", 0)
}

// execute runs a command in the idle shell.
func (c *call) execute(ctx context.Context) (tool.Result, error) {
	err := c.session.start(ctx, c.env, c.action.Command)
	if isGone(err) && ctx.Err() == nil {
		return c.again(ctx)
	}
	if err != nil {
		return tool.Result{}, err
	}
	return c.follow(ctx)
}

// again runs a command for which the shell turned out to be gone, before it began,
// in a new shell.
func (c *call) again(ctx context.Context) (tool.Result, error) {
	if c.retried {
		return c.refuse(ctx, "The shell ends as soon as it is started. Use reset=true to try again.")
	}
	c.retried = true
	c.out = capture{}
	c.earlier += "[The shell had ended since the last call. This command ran in a new one, in " + c.env.WorkingDir + ".]\n"
	if err := c.session.attach(ctx, c.env); err != nil {
		return tool.Result{}, err
	}
	if c.session.phase != idle {
		return c.whileBusy(ctx)
	}
	return c.execute(ctx)
}

// whileBusy handles a call that finds a command running. The command may have
// ended since; then a new one can run.
func (c *call) whileBusy(ctx context.Context) (tool.Result, error) {
	var before capture
	p, err := c.session.drain(ctx, c.env.Hands, &before)
	if isGone(err) && ctx.Err() == nil {
		return c.afterLoss(ctx)
	}
	if err != nil {
		return tool.Result{}, err
	}
	ended := p.end != nil || p.exited
	if !ended && (c.blank() || c.action.IsInput) {
		c.out = before
		return c.goOn(ctx)
	}
	if ended && c.blank() && !c.action.IsInput {
		c.out = before
		return c.finish(ctx, p)
	}
	c.earlier = heading("Output of the earlier command since the last call", before.text())
	switch {
	case !ended:
		return c.refuse(ctx, "The earlier command is still running, so this one was not run. "+howToGoOn)
	case c.action.IsInput:
		return c.refuse(ctx, "The earlier command has ended, so there is nothing to type this into.")
	}
	if p.exited {
		if err := c.session.attach(ctx, c.env); err != nil {
			return tool.Result{}, err
		}
	}
	return c.execute(ctx)
}

// afterLoss handles a call that finds its terminal gone with what ran in it: the
// sandbox was started again.
func (c *call) afterLoss(ctx context.Context) (tool.Result, error) {
	if c.blank() || c.action.IsInput {
		return c.refuse(ctx, "The shell is gone, and the command that ran in it. The next command starts a new one.")
	}
	return c.again(ctx)
}

// goOn types the input, if there is one, and follows the running command.
func (c *call) goOn(ctx context.Context) (tool.Result, error) {
	if c.action.IsInput {
		c.session.unsure = true
		err := c.session.write(ctx, c.env.Hands, typed(c.action.Command))
		if fault.Is(err, fault.Timeout) {
			return c.refuse(ctx, "The running program does not read its input; not all of it could be typed. "+howToGoOn)
		}
		if err != nil && !isGone(err) {
			return tool.Result{}, err
		}
		if err != nil {
			return c.refuse(ctx, "The shell ended before the input could be typed.")
		}
	}
	return c.follow(ctx)
}

// nothingRuns answers the question for more output when no command runs: there
// may be some of background jobs.
func (c *call) nothingRuns(ctx context.Context) (tool.Result, error) {
	p, err := c.session.drain(ctx, c.env.Hands, &c.out)
	switch {
	case err != nil && !isGone(err):
		return tool.Result{}, err
	case err != nil || p.exited:
		return c.refuse(ctx, "No command is running, and the shell has ended. The next command starts a new one.")
	}
	text := c.session.background()
	if strings.TrimSpace(text) == "" {
		return c.refuse(ctx, "No command is running, and there is no new output.")
	}
	return c.say(ctx, "[No command is running. Background jobs printed:]\n"+text, c.session.last.code)
}

// clock decides how long a call waits.
type clock struct {
	start, last time.Time     // of the call; of its last output
	quiet       time.Duration // allowed time without output; 0 = any
	answered    time.Duration // the same once there was output; 0 = quiet
	limit       time.Duration
	output      bool
}

func (c *call) clock() *clock {
	now := time.Now()
	k := &clock{start: now, last: now, quiet: c.soft, limit: runLimit}
	if c.action.Timeout != nil {
		k.quiet, k.limit = 0, time.Duration(*c.action.Timeout*float64(time.Second))
	} else if c.action.IsInput {
		k.answered = min(inputQuiet, c.soft)
	}
	return k
}

// left returns how long to wait at most, and why not longer.
func (k *clock) left() (time.Duration, string) {
	now := time.Now()
	wait, why := k.limit-now.Sub(k.start), fmt.Sprintf("did not end within %v", seconds(k.limit))
	quiet := k.quiet
	if k.output && k.answered > 0 {
		quiet = k.answered
	}
	if quiet > 0 && quiet-now.Sub(k.last) < wait {
		wait, why = quiet-now.Sub(k.last), fmt.Sprintf("printed nothing new for %v", seconds(quiet))
	}
	return wait, why
}

func seconds(d time.Duration) string { return fmt.Sprintf("%g seconds", d.Seconds()) }

// follow reads until the command ends or the time is over.
func (c *call) follow(ctx context.Context) (tool.Result, error) {
	k := c.clock()
	for first := true; ; first = false {
		wait, why := k.left()
		if wait <= 0 && !first {
			return c.leave(ctx, why)
		}
		p, err := c.session.read(ctx, c.env.Hands, min(max(wait, 0), readWait), &c.out)
		if err != nil {
			return tool.Result{}, err
		}
		switch {
		case p.exited && !p.begun:
			return c.again(ctx)
		case p.end != nil || p.exited:
			return c.finish(ctx, p)
		case p.output:
			k.last, k.output = time.Now(), true
		}
		if err := c.session.resend(ctx, c.env.Hands); err != nil {
			return tool.Result{}, err
		}
		if err := c.pace(ctx); err != nil {
			return tool.Result{}, err
		}
	}
}

// pace slows down the reading of an output of which most is dropped anyway, so
// that a runaway command does not keep the server busy.
func (c *call) pace(ctx context.Context) error {
	if !c.out.full() {
		return nil
	}
	timer := time.NewTimer(lag)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
