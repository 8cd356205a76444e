package sandboxd

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// children starts and awaits the daemon's own children, and, where the process is
// the daemon's, reaps everybody else's that were left to it. Whoever waits for
// "any child" steals exits from os/exec; so the reaper only looks (WNOWAIT), and
// takes what is not registered as its own.
type children struct {
	mu  sync.Mutex // held over start and register, and over look-up and reap
	own map[int]struct{}
}

func newChildren() *children { return &children{own: map[int]struct{}{}} }

// start starts cmd as an own child; await must follow.
func (c *children) start(cmd *exec.Cmd) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	c.own[cmd.Process.Pid] = struct{}{}
	preferAsVictim(cmd.Process.Pid)
	return nil
}

// victimScore is the oom_score_adj of programs. The daemon's own is 0: when memory
// runs out, a program dies and not the sandbox.
const victimScore = "500"

// preferAsVictim makes a program and what it starts the first to go when memory
// runs out. Where that is refused, the kernel's own choice holds.
func preferAsVictim(pid int) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte(victimScore), 0)
}

// await waits for cmd to end and returns its status. Errors of copying its
// output are not told: what was read is what there is.
func (c *children) await(cmd *exec.Cmd) syscall.WaitStatus {
	_ = cmd.Wait()
	c.mu.Lock()
	delete(c.own, cmd.Process.Pid)
	c.mu.Unlock()
	if cmd.ProcessState == nil {
		return 0xff00 // the kernel gave no status: exit code 255
	}
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return status
}

// exitCode follows the shell's convention: 128+n for signal n.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// reapRetry is how soon the reaper looks again when one of the own children
// stands in front of the queue: os/exec collects it in microseconds.
const reapRetry = 2 * time.Millisecond

// takeProcess makes the process the daemon's: limits, signals, reaping. stop is
// called when a signal asks to end. The returned function kills what is left of
// the children and undoes all but the limits.
func (c *children) takeProcess(log *slog.Logger, stop func()) (release func()) {
	limitProcess()
	if os.Getpid() != 1 {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			log.Warn("orphans of this sandbox are left to the system", "error", err)
		}
	}
	died := make(chan os.Signal, 1) // one pending wake-up stands for any number
	signal.Notify(died, unix.SIGCHLD)
	asked := make(chan os.Signal, 16)
	signal.Notify(asked, handledSignals()...)
	ctx, cancel := context.WithCancel(context.Background())
	var loops sync.WaitGroup
	loops.Go(func() { c.reapLoop(ctx, died) })
	loops.Go(func() { obeySignals(ctx, asked, stop) })
	return func() {
		if os.Getpid() != 1 { // the end of PID 1 is the end of all others
			killChildren()
		}
		signal.Stop(asked)
		signal.Stop(died)
		cancel()
		loops.Wait()
	}
}

// handledSignals are those that have a handler in the daemon. All of them need
// one: PID 1 does not get signals without, and a signal that whoever started us
// ignored (nohup, a shell's "&") would stay ignored in every program we start, so
// that Ctrl-C does nothing; a handler is reset on exec.
func handledSignals() []os.Signal {
	return []os.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE, unix.SIGALRM,
		unix.SIGUSR1, unix.SIGUSR2, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGCONT, unix.SIGWINCH}
}

func obeySignals(ctx context.Context, asked <-chan os.Signal, stop func()) {
	for {
		select {
		case sig := <-asked:
			if sig == unix.SIGTERM || sig == unix.SIGINT {
				stop()
			}
		case <-ctx.Done():
			return
		}
	}
}

// limitProcess keeps a daemon small: there is one in every sandbox.
func limitProcess() {
	runtime.GOMAXPROCS(min(2, runtime.NumCPU()))
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(96 << 20)
}

func (c *children) reapLoop(ctx context.Context, died <-chan os.Signal) {
	for {
		var retry <-chan time.Time
		if c.reap() {
			retry = time.After(reapRetry)
		}
		select {
		case <-died:
		case <-retry:
		case <-ctx.Done():
			c.reap()
			return
		}
	}
}

// reap collects orphans until none is dead. It reports true if it had to stop at
// an own child, which hides those behind it until os/exec has collected it.
func (c *children) reap() (blocked bool) {
	for {
		pid := deadChild()
		if pid == 0 {
			return false
		}
		if !c.collect(pid) {
			return true
		}
	}
}

func (c *children) collect(pid int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, own := c.own[pid]; own {
		return false
	}
	_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	return true
}

// deadChild returns the pid of a dead child, which stays dead; 0 if there is none.
func deadChild() int {
	var info struct { // siginfo_t of SIGCHLD
		signo, errno, code int32
		_                  [unsafe.Sizeof(uintptr(0))/4 - 1]int32 // the union is aligned like a pointer
		pid                int32
		_                  [128]byte
	}
	for {
		err := unix.Waitid(unix.P_ALL, 0, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0
		}
		return int(info.pid)
	}
}
