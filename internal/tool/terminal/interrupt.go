package terminal

import (
	"context"
	"syscall"
	"time"

	"parley/internal/tool"
)

// How long each step of an interrupt may take. Together with the calls they stay
// below a second, which is how long an interrupted run may take.
const (
	beginWait = 200 * time.Millisecond // for a command that was only just typed
	intWait   = 350 * time.Millisecond
	termWait  = 150 * time.Millisecond
	killWait  = 100 * time.Millisecond
	allWaits  = 900 * time.Millisecond
)

// interrupt stops the running command, more and more firmly, and leaves the shell.
// If it does not succeed in time, the next call finds the command still running.
func (s *session) interrupt(ctx context.Context, hands tool.Hands) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), allWaits)
	defer cancel()
	s.unsure = true
	s.stop(ctx, hands)
	if s.phase == sent { // it never began: the shell's output says where it stands
		s.phase = unknown
	}
}

func (s *session) stop(ctx context.Context, hands tool.Hands) {
	if s.phase == sent && s.settle(ctx, hands, beginWait) {
		return
	}
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGINT, intWait}, {syscall.SIGTERM, termWait}, {syscall.SIGKILL, killWait}} {
		// The shell itself is spared: it runs a loop that ignores the interrupt.
		stat, err := s.stat(ctx, hands)
		if err != nil || stat.foreground && step.signal != syscall.SIGINT {
			s.settle(ctx, hands, termWait)
			return
		}
		if hands.SignalTerminal(ctx, s.id, int(step.signal)) != nil || s.settle(ctx, hands, step.wait) {
			return
		}
	}
}

// settle reads until the command has ended or the time is over, and tells whether
// there is nothing left to interrupt. A command that was only sent settles also by
// beginning, with something left to interrupt.
func (s *session) settle(ctx context.Context, hands tool.Hands, wait time.Duration) bool {
	var lost capture
	was := s.phase
	for deadline := time.Now().Add(wait); ; {
		left := time.Until(deadline)
		if was == sent {
			left = min(left, 5*time.Millisecond) // the begin marker ends no read
		}
		p, err := s.read(ctx, hands, max(0, left), &lost)
		switch {
		case err != nil:
			return true
		case p.end != nil || p.exited:
			return true
		case was == sent && s.phase == busy:
			return false
		case time.Now().After(deadline):
			return false
		}
	}
}
