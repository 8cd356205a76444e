package terminal

import (
	"bytes"
	"context"
	"strconv"
	"syscall"
	"time"

	"parley/internal/tool"
)

// shellStat is what the system says of the shell.
type shellStat struct {
	group    int  // process group that owns the terminal: the shell's own pid if no program does
	sleeping bool // the shell waits for something
}

func (s *session) stat(ctx context.Context, hands tool.Hands) (shellStat, error) {
	stat, err := hands.ReadFile(ctx, "/proc/"+strconv.Itoa(s.pid)+"/stat", 4096)
	if err != nil {
		return shellStat{}, err
	}
	// pid (name) state ppid pgrp session tty_nr tpgid ...
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 6 {
		return shellStat{}, nil
	}
	group, _ := strconv.Atoi(string(fields[5]))
	return shellStat{group: group, sleeping: string(fields[0]) == "S"}, nil
}

// breakOff interrupts the shell itself, whatever runs in the foreground: it drops
// the rest of its list of commands, or its loop, as soon as the present program
// ends. An interrupt key alone is lost on a shell that is about to start the next
// program.
func (s *session) breakOff(ctx context.Context, hands tool.Hands) error {
	_, err := hands.Exec(ctx, tool.ExecRequest{
		Argv: []string{"bash", "-c", `kill -s "$0" "$1"`, strconv.Itoa(int(syscall.SIGINT)), strconv.Itoa(s.pid)},
	})
	return err
}

// Bounds of a breaker.
const (
	breakAfter = 3                     // programs that followed one another
	breakWait  = 50 * time.Millisecond // between looks
	breakLooks = 20
)

// breaker makes sure that an interrupt key ends a loop. The key reaches only the
// program of that moment; if more and more follow it, the loop goes on, and the
// shell is interrupted.
type breaker struct {
	group int // that owned the terminal at the last look
	moves int // how often another one did
	looks int
}

// look takes a look and tells whether the breaker's work is done.
func (b *breaker) look(ctx context.Context, s *session, hands tool.Hands) (done bool, err error) {
	stat, err := s.stat(ctx, hands)
	if err != nil {
		return true, err
	}
	if b.group != 0 && stat.group != b.group && stat.group != s.pid {
		b.moves++
	}
	b.group = stat.group
	b.looks++
	if b.moves >= breakAfter {
		return true, s.breakOff(ctx, hands)
	}
	return b.looks >= breakLooks, nil
}
