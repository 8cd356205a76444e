package hostbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Inside is what the daemon of a box needs to know.
type Inside struct {
	WorkingDir string            `json:"working_dir"`
	Env        map[string]string `json:"env"` // the whole environment of programs
}

// ServeFunc is the daemon: it serves the listener until the box ends. The
// process is the daemon's alone, orphans become its children, and the box counts
// as ready when it accepts for the first time.
type ServeFunc func(ctx context.Context, lis net.Listener, in Inside) error

// RunDaemon is the last act of a box's first process: it takes its orders from
// the control socket, closes its descriptors to the programs it will start, and
// serves. It returns when the daemon does.
func RunDaemon(control *Control, listener int, serve ServeFunc) error {
	var in Inside
	if _, err := control.Receive(&in); err != nil {
		return err
	}
	unix.CloseOnExec(listener)
	f := os.NewFile(uintptr(listener), "sock")
	lis, err := net.FileListener(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	ready := &readyListener{Listener: lis, announce: sync.OnceFunc(func() {
		_ = control.Say(Note{Ready: true})
	})}
	return serve(context.Background(), ready, in)
}

// readyListener announces the first Accept.
type readyListener struct {
	net.Listener
	announce func()
}

func (l *readyListener) Accept() (net.Conn, error) {
	l.announce()
	return l.Listener.Accept()
}

// Control is the spawned process's end of the control socket.
type Control struct{ fd int }

// OpenControl takes the inherited socket.
func OpenControl() *Control {
	unix.CloseOnExec(FDControl)
	return &Control{fd: FDControl}
}

// FD returns the descriptor.
func (c *Control) FD() int { return c.fd }

// Settle waits, in a spare process, until it is a box's, and takes what others have
// from the start: see Child.Settle.
func (c *Control) Settle() error {
	var nothing struct{}
	fds, err := c.Receive(&nothing)
	if err != nil {
		return err
	}
	if len(fds) != 2 {
		return errors.New("socket or log missing")
	}
	lis, log := fds[0], fds[1]
	for _, m := range [][2]int{{lis, FDListener}, {log, 1}, {log, 2}} {
		if err := unix.Dup3(m[0], m[1], 0); err != nil {
			return os.NewSyscallError("dup3", err)
		}
	}
	return errors.Join(unix.Close(lis), unix.Close(log))
}

// Receive reads a message and its descriptors, which close on exec.
func (c *Control) Receive(v any) ([]int, error) {
	const maxFDs = 128
	buf, oob := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(4*maxFDs))
	n, oobn, flags, _, err := unix.Recvmsg(c.fd, buf, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("recvmsg", err)
	}
	if n == 0 || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		return nil, errors.New("the server left, or its message is too long")
	}
	fds, err := rights(oob[:oobn])
	if err != nil {
		return nil, err
	}
	return fds, json.Unmarshal(buf[:n], v)
}

func rights(oob []byte) ([]int, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var all []int
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return nil, err
		}
		all = append(all, fds...)
	}
	return all, nil
}

// Say sends a note.
func (c *Control) Say(n Note) error {
	data, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return unix.Send(c.fd, data, unix.MSG_NOSIGNAL)
}

// Fail reports err to the server and ends the process.
func (c *Control) Fail(err error) {
	_ = c.Say(Note{Error: err.Error()})
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
