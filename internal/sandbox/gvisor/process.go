package gvisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox/hostbox"
)

// stopPoll is the pause between two looks at a process that is being stopped.
const stopPoll = 200 * time.Microsecond

// halt stops a process and returns when all its threads stand still.
//
// It is for the sentry alone, never for the whole group of a box: the processes
// that hold the address spaces of programs wait for the sentry in a system call
// (seccomp_unotify(2)) that being frozen interrupts. The sentry copes with one
// interruption between two uses of an address space; after the second it takes the
// process for dead and kills the program.
func halt(ctx context.Context, p hostbox.Ident) error {
	if err := signal(p, unix.SIGSTOP); err != nil {
		return err
	}
	for {
		still, err := standsStill(p.PID)
		if still || err != nil {
			return err
		}
		if err := hostbox.Sleep(ctx, stopPoll); err != nil {
			return err
		}
	}
}

// proceed lets a stopped process go on. One that runs is left alone.
func proceed(p hostbox.Ident) error { return signal(p, unix.SIGCONT) }

// signal sends a signal to exactly this process.
func signal(p hostbox.Ident, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if !p.Alive() { // looked at after the open: the number may be another's by now
		return os.ErrProcessDone
	}
	return os.NewSyscallError("pidfd_send_signal", unix.PidfdSendSignal(fd, sig, nil, 0))
}

// standsStill reports whether every thread of a process is stopped.
func standsStill(pid int) (bool, error) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	threads, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	for _, t := range threads {
		data, err := os.ReadFile(filepath.Join(dir, t.Name(), "stat"))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it has ended
		}
		if err != nil || !stopped(data) {
			return false, err
		}
	}
	return true, nil
}

// stopped reads the state in proc_pid_stat(5), which follows the command name; that
// may hold anything.
func stopped(stat []byte) bool {
	end := bytes.LastIndexByte(stat, ')')
	return end >= 0 && bytes.HasPrefix(stat[end+1:], []byte(" T "))
}
