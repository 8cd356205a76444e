package terminal

import (
	"context"
	"errors"
	"path"
	"strings"
	"time"

	"parley/internal/fault"
	"parley/internal/tool"
)

const (
	// inputQuiet is how long a program that was typed into may print nothing after
	// its answer began: it waits for the next input, most likely.
	inputQuiet = 3 * time.Second
	// endedBefore is about a shell that did not live until this call.
	endedBefore = "The shell had ended since the last call."
	// deafShell is about one that does not run what it gets.
	deafShell = "The shell did not run commands any more and was ended with all that ran in it."
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
	breaker *breaker // follows an interrupt key
	reset   bool     // the shell was reset by this call
	retried bool     // the shell was started anew for this call
	earlier string   // output that is not this command's, with its heading
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
	c.collect()
	err := c.session.start(ctx, c.env, unixLines(c.action.Command))
	if isGone(err) && ctx.Err() == nil {
		return c.again(ctx, endedBefore)
	}
	if err != nil {
		return tool.Result{}, err
	}
	return c.follow(ctx)
}

// collect makes ready for the output of the command that runs.
func (c *call) collect() {
	c.out = capture{
		base:  c.session.drawing,
		spool: &spool{hands: c.env.Hands, dir: path.Join(c.env.StateDir(), "output")},
	}
	c.out.draws = c.out.base != nil
}

// again runs a command that its shell did not begin in a new shell.
func (c *call) again(ctx context.Context, why string) (tool.Result, error) {
	switch {
	case c.blank() || c.action.IsInput:
		return c.refuse(ctx, why+" The earlier command was not run. The next command starts a new shell.")
	case c.retried:
		return c.refuse(ctx, "The shell ends as soon as it is started. Use reset=true to try again.")
	}
	c.retried = true
	c.earlier += "[" + why + " This command ran in a new one, in " + c.env.WorkingDir + ".]\n"
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
	c.collect()
	p, err := c.session.drain(ctx, c.env.Hands, &c.out)
	if isGone(err) && ctx.Err() == nil {
		return c.afterLoss(ctx)
	}
	if err != nil {
		return tool.Result{}, err
	}
	ended := p.end != nil || p.exited
	if !ended && (c.blank() || c.action.IsInput) {
		return c.goOn(ctx)
	}
	if ended && c.blank() && !c.action.IsInput {
		return c.finish(ctx, p)
	}
	c.putBefore()
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

// putBefore shows the output so far as that of the earlier command.
func (c *call) putBefore() {
	text, drawing := c.out.text()
	c.session.drawing = drawing
	c.earlier += heading("Output of the earlier command since the last call", c.mask(text))
	c.out = capture{}
}

// afterLoss handles a call that finds its terminal gone with what ran in it: the
// sandbox was started again.
func (c *call) afterLoss(ctx context.Context) (tool.Result, error) {
	if c.blank() || c.action.IsInput {
		return c.refuse(ctx, "The shell is gone, and the command that ran in it. The next command starts a new one.")
	}
	return c.again(ctx, endedBefore)
}

// goOn types the input, if there is one, and follows the running command.
func (c *call) goOn(ctx context.Context) (tool.Result, error) {
	if c.action.IsInput {
		c.session.unsure = true
		keys := typed(c.action.Command)
		if string(keys) == interruptKey {
			c.breaker = &breaker{}
		}
		err := c.session.write(ctx, c.env.Hands, keys)
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
	text := c.background()
	if strings.TrimSpace(text) == "" {
		return c.refuse(ctx, "No command is running, and there is no new output.")
	}
	return c.say(ctx, "[No command is running. Background jobs printed:]\n"+text, c.session.last.code)
}

// follow reads until the command ends or the time is over.
func (c *call) follow(ctx context.Context) (tool.Result, error) {
	k := c.clock()
	for first := true; ; first = false {
		wait, why := k.left()
		if wait <= 0 && !first {
			return c.leave(ctx, why)
		}
		p, err := c.session.read(ctx, c.env.Hands, min(max(wait, 0), c.longest()), &c.out)
		if err != nil {
			return tool.Result{}, err
		}
		switch {
		case p.exited && !p.begun:
			return c.again(ctx, endedBefore)
		case p.end != nil || p.exited:
			return c.finish(ctx, p)
		case p.output:
			k.noteOutput(c.out.draws)
		}
		if err := c.tend(ctx); errors.Is(err, errDeaf) {
			return c.replace(ctx)
		} else if err != nil {
			return tool.Result{}, err
		}
	}
}

// longest is how long one read may wait.
func (c *call) longest() time.Duration {
	if c.breaker != nil {
		return breakWait
	}
	return readWait
}

// tend does what is to be done between two reads.
func (c *call) tend(ctx context.Context) error {
	if err := c.session.resend(ctx, c.env.Hands); err != nil {
		return err
	}
	if c.breaker != nil {
		done, err := c.breaker.look(ctx, c.session, c.env.Hands)
		if err != nil {
			return err
		}
		if done {
			c.breaker = nil
		}
	}
	c.out.spool.flush(ctx)
	return c.pace(ctx)
}

// replace runs the command in a new shell, in place of one that runs nothing.
func (c *call) replace(ctx context.Context) (tool.Result, error) {
	c.session.phase = unknown
	if err := c.env.Hands.CloseTerminal(ctx, c.session.id); err != nil {
		return tool.Result{}, err
	}
	return c.again(ctx, deafShell)
}

// pace slows down the reading of an output of which most is dropped anyway, so
// that a runaway command does not keep the server busy.
func (c *call) pace(ctx context.Context) error {
	if !c.out.spool.full() {
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
