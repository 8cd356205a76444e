package hostbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox/cgroup"
)

// Descriptors of a spawned process.
const (
	FDExe      = 3 // its own program, for starting itself again
	FDControl  = 4 // the control socket: messages of JSON with descriptors
	FDListener = 5 // the box's listening socket
)

// maxMessage bounds a message on the control socket.
const maxMessage = 96 << 10

// Note is what a spawned process says on the control socket.
type Note struct {
	Ready bool            `json:"ready,omitempty"` // it takes connections; the last note
	Error string          `json:"error,omitempty"` // it could not start; the last note
	Facts json.RawMessage `json:"facts,omitempty"` // what it found out, the driver's
}

// Spawn starts a box's first process.
type Spawn struct {
	Exe  *os.File // this program, opened
	Args []string // without the program's name
	Env  []string // the whole environment
	Attr *syscall.SysProcAttr
}

// Child is a spawned process that is not ready yet.
type Child struct {
	PID     int
	control *net.UnixConn
	dir     *Dir // nil: it is a spare one
}

// Start starts the process of a box in a session of its own, with nothing
// of the server's but the log and the box's socket.
func (s Spawn) Start(d *Dir) (*Child, error) {
	lis, log, err := d.openFiles()
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = lis.Close(), log.Close() }()
	c, err := s.start(log, lis)
	if err != nil {
		return nil, err
	}
	c.dir = d
	return c, nil
}

// StartSpare starts a process that is no box's yet: see Child.Settle. It calls
// Control.Settle before all else, and so ends by itself when the server dies.
func (s Spawn) StartSpare() (*Child, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = null.Close() }()
	return s.start(null, null)
}

func (s Spawn) start(log, lis *os.File) (*Child, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = null.Close() }()
	ours, theirs, err := controlPair()
	if err != nil {
		return nil, err
	}
	defer func() { _ = theirs.Close() }()
	s.Attr.Setsid = true
	// Through the descriptor: the process may have no right to walk the path.
	pid, err := syscall.ForkExec(fmt.Sprintf("/proc/self/fd/%d", FDExe),
		append([]string{filepath.Base(s.Exe.Name())}, s.Args...),
		&syscall.ProcAttr{Dir: "/", Env: append([]string{}, s.Env...), Sys: s.Attr,
			Files: []uintptr{null.Fd(), log.Fd(), log.Fd(), s.Exe.Fd(), theirs.Fd(), lis.Fd()}})
	if err != nil {
		return nil, errors.Join(os.NewSyscallError("fork/exec", err), ours.Close())
	}
	return &Child{PID: pid, control: ours}, nil
}

func controlPair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "control")
	conn, err := unixConn(os.NewFile(uintptr(fds[0]), "control"))
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return conn, theirs, nil
}

// unixConn takes over a socket.
func unixConn(f *os.File) (*net.UnixConn, error) {
	defer func() { _ = f.Close() }()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

// Settle makes a spare process a box's: it gets the box's socket and log, as Start
// gives them. The error says that the process is of no use, dead as a rule.
func (c *Child) Settle(d *Dir) error {
	lis, log, err := d.openFiles()
	if err != nil {
		return err
	}
	defer func() { _, _ = lis.Close(), log.Close() }()
	c.dir = d
	return c.Send(struct{}{}, int(lis.Fd()), int(log.Fd()))
}

// Send sends a message with descriptors, which stay the caller's.
func (c *Child) Send(v any, fds ...int) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(data) > maxMessage {
		return fmt.Errorf("control message of %d bytes", len(data))
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	_, _, err = c.control.WriteMsgUnix(data, oob, nil)
	return err
}

// Wait waits until the process is ready and hands each fact to facts, which may
// be nil.
func (c *Child) Wait(ctx context.Context, facts func(json.RawMessage) error) error {
	stop := context.AfterFunc(ctx, func() { _ = c.control.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	buf := make([]byte, maxMessage)
	for {
		n, err := c.control.Read(buf)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, io.EOF) || err == nil && n == 0 || errors.Is(err, unix.ECONNRESET) {
			return fmt.Errorf("the first process died: %s", c.dir.LogTail())
		}
		if err != nil {
			return err
		}
		var note Note
		if err := json.Unmarshal(buf[:n], &note); err != nil {
			return err
		}
		if note.Error != "" {
			return errors.New(note.Error)
		}
		if note.Facts != nil && facts != nil {
			if err := facts(note.Facts); err != nil {
				return err
			}
		}
		if note.Ready {
			return nil
		}
	}
}

// Close ends the conversation; the process goes on if it was let go.
func (c *Child) Close() { _ = c.control.Close() }

// Abort kills a process whose state has not been saved.
func (c *Child) Abort() {
	c.Close()
	_ = unix.Kill(c.PID, unix.SIGKILL)
	for {
		if _, err := unix.Wait4(c.PID, nil, 0, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// OpenExe opens this program for Spawn and checks that it can serve. restricted
// says that boxes run it with ids that own nothing on the host.
func OpenExe(path string, restricted bool) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || restricted && info.Mode().Perm()&0o001 == 0) {
		err = fmt.Errorf("%s is not a file that every account may execute", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// LetGo puts the process into its group, tells it what to serve, and waits until
// it serves. Joining the group waits for the kernel about as long as the process
// needs to prepare, so both happen at once: until it is told what to serve, the
// process runs our code only.
func (c *Child) LetGo(ctx context.Context, group *cgroup.Group, in Inside, facts func(json.RawMessage) error) error {
	joined := make(chan error, 1)
	go func() {
		err := group.Add(c.PID)
		if err == nil {
			err = c.Send(in)
		} else {
			c.Close() // ends the wait below, and the process
		}
		joined <- err
	}()
	err := c.Wait(ctx, facts)
	if jerr := <-joined; jerr != nil && ctx.Err() == nil {
		return fmt.Errorf("join the control group: %w", errors.Join(jerr, err))
	}
	return err
}
