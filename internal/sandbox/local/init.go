package local

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox/hostbox"
	"parley/internal/sandbox/seccomp"
)

// Stages of a box's first process, as arguments after InitArgs.
const (
	stageSpare = "spare" // waits until a box needs it, then enters
	stageEnter = "enter" // has every right in its own namespaces: builds the box
	stageServe = "serve" // has what programs inside have: runs the daemon
)

// Numbers of the descriptors that the second stage keeps.
const (
	serveListener = 3
	serveControl  = hostbox.FDControl
	serveTun      = 5
)

// Init is the life of a box's first process; args are what follows InitArgs on
// the command line. It never returns. It must be called from the main goroutine
// before anything else is started.
//
// The first stage builds the box, gives up its rights and executes the same
// program again, so that every thread of the second is without them and nothing
// of the first is left in memory. The program is seen through a read-only mount:
// what runs inside cannot write to it through /proc.
func Init(args []string, serve hostbox.ServeFunc) {
	stage := ""
	if len(args) > 0 {
		stage = args[len(args)-1]
	}
	switch stage {
	case stageSpare, stageEnter:
		runtime.LockOSThread() // rights and namespaces belong to a thread
		control := hostbox.OpenControl()
		control.Fail(enter(control, stage == stageSpare))
	case stageServe:
		_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // its descriptors are not for programs inside
		debug.SetGCPercent(100)                          // see startEnv
		unix.CloseOnExec(serveTun)
		control := hostbox.OpenControl()
		if err := hostbox.RunDaemon(control, serveListener, serve); err != nil {
			control.Fail(err)
		}
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, "this command is for the server's own use")
	os.Exit(2)
}

// startEnv is the environment of a starting program: it collects no garbage, of
// which it makes little. To look for it, it would read all of its data.
var startEnv = []string{"GOGC=off"}

// enter builds the box and starts the second stage. It returns on failure only.
func enter(control *hostbox.Control, spare bool) error {
	unix.CloseOnExec(hostbox.FDExe)
	// Whatever the server inherited from its own parent stays outside.
	if err := unix.CloseRange(hostbox.FDListener+1, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return os.NewSyscallError("close_range", err)
	}
	if spare {
		if err := control.Settle(); err != nil {
			return err
		}
	}
	var c config
	fds, err := control.Receive(&c)
	if err != nil {
		return err
	}
	b := builder{config: c, fds: fds}
	found := facts{}
	if err := b.fileSystem(); err != nil {
		return err
	}
	if err := b.network(); err != nil {
		return err
	}
	if b.tun > 0 {
		found.TunFD = serveTun
	}
	found.TunMissing = b.tunMissing
	if c.Probe {
		found.TunFD, found.CopyUp = b.tun, probeCopyUp()
	}
	found.OpenMax = limitResources(c.Limits)
	if err := runOn(c.CPUs); err != nil {
		return err
	}
	if found.Domain, err = dropRights(seccomp.Options{FakeOwner: c.FakeOwner, NoSetID: c.NoSetID}, b.exe); err != nil {
		return err
	}
	found.Seccomp = true
	data, err := json.Marshal(found)
	if err != nil {
		return err
	}
	if err := control.Say(hostbox.Note{Facts: data, Ready: c.Probe}); err != nil {
		return err
	}
	if c.Probe {
		_, _ = control.Receive(&c) // until the server leaves
		os.Exit(0)
	}
	return b.serve(control)
}

// serve executes the second stage.
func (b *builder) serve(control *hostbox.Control) error {
	if err := os.Chdir(b.config.WorkingDir); err != nil {
		return err
	}
	moves := []struct{ from, to int }{{hostbox.FDListener, serveListener}, {control.FD(), serveControl}}
	if b.tun > 0 {
		moves = append(moves, struct{ from, to int }{b.tun, serveTun})
	}
	// The program's descriptor moves out of the way first.
	exe, err := unix.FcntlInt(uintptr(b.exe), unix.F_DUPFD_CLOEXEC, 64)
	if err != nil {
		return os.NewSyscallError("dup", err)
	}
	for _, m := range moves {
		if err := place(m.from, m.to); err != nil {
			return err
		}
	}
	if b.tun == 0 {
		unix.CloseOnExec(hostbox.FDListener) // its copy lives on under another number
	}
	args := append(append([]string{}, os.Args[:len(os.Args)-1]...), stageServe)
	return execFD(exe, args, startEnv)
}

// place moves a descriptor to a number, open across exec.
func place(from, to int) error {
	if from == to {
		_, err := unix.FcntlInt(uintptr(from), unix.F_SETFD, 0)
		return os.NewSyscallError("fcntl", err)
	}
	return os.NewSyscallError("dup3", unix.Dup3(from, to, 0))
}

// execFD executes the program of a descriptor.
func execFD(fd int, args, env []string) error {
	argv, err := pointers(args)
	if err != nil {
		return err
	}
	envv, err := pointers(env)
	if err != nil {
		return err
	}
	return execveat(fd, argv, envv)
}
