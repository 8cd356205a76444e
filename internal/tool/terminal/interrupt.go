package terminal

import (
	"context"
	"syscall"
	"time"

	"parley/internal/tool"
)

// How long each step of an interrupt may take. Together with the calls they stay
// below a second, which is how long an interrupted run may take. Closing takes
// milliseconds; only a machine that is busy beyond that needs more.
const (
	beginWait = 150 * time.Millisecond // for a command that was only just typed
	intWait   = 250 * time.Millisecond
	termWait  = 150 * time.Millisecond
	killWait  = 400 * time.Millisecond // what was killed is gone; only a busy machine makes the shell late
	allWaits  = 850 * time.Millisecond
	closeWait = time.Second
)

// interrupt stops the running command, more and more firmly. Where nothing else
// helps, the shell goes with it: what a user stopped must not go on. If even that
// does not succeed in time, the next call finds the command still running.
func (s *session) interrupt(ctx context.Context, hands tool.Hands) {
	s.unsure = true
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), allWaits)
	defer cancel()
	if !s.stop(stopping, hands) && s.phase == busy {
		s.kill(context.WithoutCancel(ctx), hands)
	}
	if s.phase == sent { // it never began: the shell's output says where it stands
		s.phase = unknown
	}
}

// stop interrupts what runs in the foreground and, so that nothing comes after it,
// the shell. It tells whether the command ended. Signals of the other kinds spare
// the shell: in the foreground itself, it runs a loop that ignores the interrupt.
func (s *session) stop(ctx context.Context, hands tool.Hands) bool {
	if s.phase == sent && s.settle(ctx, hands, beginWait) {
		return true
	}
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGINT, intWait}, {syscall.SIGTERM, termWait}, {syscall.SIGKILL, killWait}} {
		stat, err := s.stat(ctx, hands)
		if err != nil {
			return false
		}
		if stat.group != s.pid || step.signal == syscall.SIGINT {
			err = hands.SignalTerminal(ctx, s.id, int(step.signal))
		}
		if err == nil {
			err = s.breakOff(ctx, hands)
		}
		if err != nil || s.settle(ctx, hands, step.wait) {
			return s.phase != busy
		}
	}
	return false
}

// kill ends the shell with all that runs in it.
func (s *session) kill(ctx context.Context, hands tool.Hands) {
	ctx, cancel := context.WithTimeout(ctx, closeWait)
	defer cancel()
	if hands.CloseTerminal(ctx, s.id) != nil {
		return
	}
	s.phase = unknown
	s.note = "[The earlier command could not be interrupted, so its shell was ended with all that ran in it. " +
		"There is a new shell: variables and the working directory are lost.]\n"
}

// settle reads until the command has ended or the time is over, and tells whether
// there is nothing left to interrupt. A command that was only sent settles also by
// beginning, with something left to interrupt. Of a lot of output only the end is
// read: the marker is there, and nobody will see the rest.
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
			return s.phase != busy
		case p.end != nil || p.exited:
			return true
		case was == sent && s.phase == busy:
			return false
		case time.Now().After(deadline):
			return false
		}
		if s.phase == busy {
			s.offset = max(s.offset, p.all-readMax)
		}
	}
}
