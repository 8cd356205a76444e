package terminal

import (
	"fmt"
	"time"
)

// clock decides how long a call waits.
type clock struct {
	start, last time.Time     // of the call; of its last output
	quiet       time.Duration // allowed time without output; 0 = any
	answered    time.Duration // the same once there was output; 0 = quiet
	limit       time.Duration
	soft        time.Duration // bounds limit, which nobody gave, of a program that draws
	output      bool
}

func (c *call) clock() *clock {
	now := time.Now()
	k := &clock{start: now, last: now, quiet: c.soft, limit: runLimit}
	if c.action.Timeout != nil {
		k.quiet, k.limit = 0, time.Duration(*c.action.Timeout*float64(time.Second))
	} else if c.action.IsInput {
		k.answered, k.limit = min(inputQuiet, c.soft), c.soft
	} else if c.out.draws {
		k.limit = c.soft
	}
	k.soft = c.soft
	return k
}

// noteOutput starts the quiet time again. A full-screen program may never be quiet.
func (k *clock) noteOutput(draws bool) {
	k.last, k.output = time.Now(), true
	if draws && k.quiet > 0 {
		k.limit = min(k.limit, k.soft)
	}
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
