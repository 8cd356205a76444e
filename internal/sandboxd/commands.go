package sandboxd

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"parley/internal/tool"
)

const (
	commandProtocol = "sandboxd-command" // the Upgrade token
	// frameErrors carries bytes of a command's standard error. Both outputs share
	// the window of the connection.
	frameErrors = 'b'
	// codeTimedOut is the exit code on the wire of a command whose time was up.
	codeTimedOut = 256
)

// startCommand runs a command and sends what it writes, until it has ended and its
// output was taken, or the connection is gone, which ends it.
func (d *daemon) startCommand(w http.ResponseWriter, r *http.Request) error {
	if r.Header.Get("Upgrade") != commandProtocol {
		return invalid("A command's connection needs the header Upgrade: %s.", commandProtocol)
	}
	body, err := readBody(w, r, maxOpenBody)
	if err != nil {
		return err
	}
	req, err := decodeCommand(body)
	if err != nil {
		return err
	}
	release, err := d.countProgram()
	if err != nil {
		return err
	}
	defer release()
	cmd, err := d.launch.command(req.Argv, req.Dir, req.Env)
	if err != nil {
		return err
	}
	cmd.Env = slices.DeleteFunc(cmd.Env, func(line string) bool {
		return slices.ContainsFunc(req.Without, func(name string) bool { return len(line) > len(name) && line[:len(name)+1] == name+"=" })
	})
	outputs, err := d.children.startApart(cmd)
	if err != nil {
		return err
	}
	defer closeAll(outputs[:])
	conn, in, err := switchProtocol(w, commandProtocol)
	if err != nil {
		gone, cancel := context.WithCancel(r.Context())
		cancel()
		d.supervise(gone, cmd, 0)
		return err
	}
	defer func() { _ = conn.Close() }()
	c := &command{conn: conn, out: &frameWriter{conn: conn}, room: newCredit(), lost: make(chan struct{})}
	c.serve(r.Context(), d, cmd, in, outputs, req.Timeout)
	return nil
}

func decodeCommand(body []byte) (tool.CommandRequest, error) {
	var req tool.CommandRequest
	if err := decodeJSON(body, &req); err != nil {
		return req, err
	}
	if req.Timeout < 0 {
		return req, invalid("timeout must not be negative.")
	}
	return req, checkArgv(req.Argv)
}

// startApart starts cmd as the leader of a session of its own, with a pipe for each of
// its outputs (ours is the first of the two ends).
func (c *children) startApart(cmd *exec.Cmd) (pipes [2][2]*os.File, err error) {
	for i := range pipes {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(pipes[:i])
			return pipes, pathFault(err, "start", cmd.Path)
		}
		pipes[i] = [2]*os.File{r, w}
	}
	cmd.Stdout, cmd.Stderr = pipes[0][1], pipes[1][1]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.start(cmd); err != nil {
		closeAll(pipes[:])
		return pipes, startFault(err, cmd.Path)
	}
	for _, pipe := range pipes {
		_ = pipe[1].Close()
	}
	return pipes, nil
}

// command is a running command and the connection that it lives for.
type command struct {
	conn net.Conn
	out  *frameWriter
	room *credit       // of the client, for output
	lost chan struct{} // closed when the connection is gone
}

func (c *command) serve(ctx context.Context, d *daemon, cmd *exec.Cmd, in io.Reader, outputs [2][2]*os.File, timeout time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	unhook := context.AfterFunc(ctx, func() { _ = c.conn.Close() })
	defer unhook()
	var ways, pumps sync.WaitGroup
	ways.Go(func() {
		c.listen(in)
		cancel()
	})
	for i, kind := range []byte{frameStdout, frameErrors} {
		pumps.Go(func() { c.pump(outputs[i][0], kind) })
	}
	status, timedOut := d.supervise(ctx, cmd, timeout)
	for _, pipe := range outputs { // others may hold them
		_ = pipe[0].SetReadDeadline(time.Now().Add(pipeGrace))
	}
	pumps.Wait()
	code := exitCode(status)
	if timedOut {
		code = codeTimedOut
	}
	if c.out.sendNumber(frameExit, code) == nil {
		_ = closeWrite(c.conn) // the client hangs up when it has read all
		<-c.lost
	}
	_ = c.conn.Close()
	ways.Wait()
}

// listen takes what the client sends, until the connection ends or what comes makes no
// sense.
func (c *command) listen(in io.Reader) {
	defer close(c.lost)
	defer c.room.end(net.ErrClosed)
	defer func() { _ = c.conn.Close() }()
	r := newFrameReader(in)
	for {
		f, err := readFrame(r)
		if err != nil || f.kind != frameMore {
			return
		}
		n, err := f.number(programWindow)
		if err != nil || c.room.give(n) != nil {
			return
		}
	}
}

// pump sends what comes out of a pipe, as far as the client has room; when nobody
// wants it any more it is dropped, so that the command can end.
func (c *command) pump(pipe *os.File, kind byte) {
	err := c.forward(pipe, kind)
	if os.IsTimeout(err) {
		err = c.forward(waiting(pipe), kind)
	}
	if err != nil {
		_, _ = io.Copy(io.Discard, pipe)
	}
}

// forward sends all of r. It reads first, so that an output that says nothing takes no
// room from the other.
func (c *command) forward(r io.Reader, kind byte) error {
	buf := make([]byte, maxFrame)
	for {
		n, err := r.Read(buf)
		for rest := buf[:n]; len(rest) > 0; {
			room, err := c.room.take(len(rest))
			if err != nil {
				return err
			}
			if err := c.out.send(kind, rest[:room]); err != nil {
				return err
			}
			rest = rest[room:]
		}
		if err == io.EOF { //nolint:errorlint // readers return it as it is
			return nil
		}
		if err != nil {
			return err
		}
	}
}
