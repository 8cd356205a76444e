package sandboxd

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"parley/internal/tool"
)

const (
	consoleProtocol = "sandboxd-console" // the Upgrade token
	// frameSize is a window's new size: rows and columns, two bytes each. All other
	// frames of a console's connection are those of a program's.
	frameSize = 's'
)

// startConsole runs a program on a pseudo terminal until it has ended and its output
// was taken, or the connection is gone, which ends it.
func (d *daemon) startConsole(w http.ResponseWriter, r *http.Request) error {
	if r.Header.Get("Upgrade") != consoleProtocol {
		return invalid("A console's connection needs the header Upgrade: %s.", consoleProtocol)
	}
	body, err := readBody(w, r, maxOpenBody)
	if err != nil {
		return err
	}
	req, err := decodeConsole(body)
	if err != nil {
		return err
	}
	release, err := d.countProgram()
	if err != nil {
		return err
	}
	defer release()
	cmd, err := consoleCommand(d.launch, d.opt.Shell, req)
	if err != nil {
		return err
	}
	c, err := d.children.startOnPTY(cmd, orDefault(req.Rows, 24), orDefault(req.Cols, 80))
	if err != nil {
		return err
	}
	conn, in, err := switchProtocol(w, consoleProtocol)
	if err != nil {
		c.hangUp(d.stopping)
		return err
	}
	defer func() { _ = conn.Close() }()
	c.serve(r.Context(), conn, in, d.stopping)
	return nil
}

func decodeConsole(body []byte) (tool.ConsoleRequest, error) {
	var req tool.ConsoleRequest
	if err := decodeJSON(body, &req); err != nil {
		return req, err
	}
	if len(req.Argv) == 0 {
		return req, nil
	}
	return req, checkArgv(req.Argv)
}

// consoleCommand is the program, or else the shell, which is told by its name that
// somebody has just logged in.
func consoleCommand(launch launcher, shell string, req tool.ConsoleRequest) (*exec.Cmd, error) {
	cmd, err := terminalCommand(launch, shell, tool.TerminalRequest{Argv: req.Argv, Dir: req.Dir, Env: req.Env})
	if err == nil && len(req.Argv) == 0 {
		cmd.Args = []string{"-" + filepath.Base(shell)}
	}
	return cmd, err
}

// console is a program on a pseudo terminal and the connection that it lives for.
type console struct {
	tree   *tree
	master *os.File
	ended  chan struct{}
	code   int // valid once ended is closed

	conn    net.Conn
	out     *frameWriter
	input   *inbox        // typed
	room    *credit       // of the client, for output
	lost    chan struct{} // closed when the connection is gone
	drained chan struct{} // closed when the client has got all output
}

// startOnPTY starts cmd as the leader of a session of its own on a terminal of its
// own, and awaits it.
func (c *children) startOnPTY(cmd *exec.Cmd, rows, cols uint16) (*console, error) {
	master, slave, err := openPTY(rows, cols)
	if err != nil {
		return nil, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.start(cmd); err != nil {
		_ = master.Close()
		_ = slave.Close()
		return nil, startFault(err, cmd.Path)
	}
	t := &console{master: master, ended: make(chan struct{})}
	t.tree = newTree(cmd.Process.Pid, t.ended)
	go func() {
		defer close(t.ended)
		t.code = exitCode(c.await(cmd))
		_ = slave.Close() // open until now: a program may close its terminal and open it again
	}()
	return t, nil
}

// serve carries what is typed and shown until the program has ended and the client has
// got all of it, or the connection or ctx ends. hurry is closed when nothing has time to
// end by itself.
func (c *console) serve(ctx context.Context, conn net.Conn, in io.Reader, hurry <-chan struct{}) {
	c.conn, c.out = conn, &frameWriter{conn: conn}
	c.input, c.room = newInbox(), newCredit()
	c.lost, c.drained = make(chan struct{}), make(chan struct{})
	unhook := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer unhook()
	var ways sync.WaitGroup
	ways.Go(func() { c.listen(in) })
	ways.Go(c.feed)
	ways.Go(c.pump)
	select {
	case <-c.ended:
		c.conclude(hurry)
	case <-c.lost:
	}
	c.hangUp(hurry)
	_ = conn.Close()
	ways.Wait()
}

// conclude sends the rest of the output and how the program ended. What it left behind
// has a moment to write, then it ends as well.
func (c *console) conclude(hurry <-chan struct{}) {
	grace := time.NewTimer(pipeGrace)
	defer grace.Stop()
	select {
	case <-c.drained:
	case <-c.lost:
		return
	case <-grace.C:
	}
	c.endTree(hurry)
	select {
	case <-c.drained:
	case <-c.lost:
		return
	}
	if c.out.sendNumber(frameExit, c.code) == nil {
		_ = closeWrite(c.conn) // the client hangs up when it has read all
		<-c.lost
	}
}

// hangUp takes the terminal away, which tells its shell to end, and ends what is left.
func (c *console) hangUp(hurry <-chan struct{}) {
	c.tree.look()
	_ = c.master.Close()
	c.endTree(hurry)
}

func (c *console) endTree(hurry <-chan struct{}) {
	if c.tree.terminate() {
		c.tree.await(programGrace, hurry)
		c.tree.kill()
	}
}

// listen takes what the client sends, until the connection ends or what comes makes no
// sense.
func (c *console) listen(in io.Reader) {
	takeFrames(in, c.accept)
	_ = c.conn.Close()
	c.input.discard(net.ErrClosed)
	c.room.end(net.ErrClosed)
	close(c.lost)
}

// accept does what a frame of the client says. It never blocks.
func (c *console) accept(f frame) error {
	switch f.kind {
	case frameStdin:
		return c.input.put(f.payload)
	case frameSize:
		rows, cols, err := f.size()
		if err != nil {
			return err
		}
		_ = control(c.master, func(fd int) error { return setSize(fd, rows, cols) }) // one that has ended has no size
		return nil
	case frameMore:
		n, err := f.number(programWindow)
		if err != nil {
			return err
		}
		return c.room.give(n)
	}
	return errFrame
}

// size reads the payload of a frameSize.
func (f frame) size() (rows, cols uint16, err error) {
	if len(f.payload) != 4 {
		return 0, 0, errFrame
	}
	rows, cols = binary.BigEndian.Uint16(f.payload), binary.BigEndian.Uint16(f.payload[2:])
	if rows == 0 || cols == 0 {
		return 0, 0, errFrame
	}
	return rows, cols, nil
}

// feed types what the client sends.
func (c *console) feed() {
	buf := make([]byte, 4<<10)
	for {
		n, more, err := c.input.read(buf)
		if err != nil {
			return
		}
		if _, err := c.master.Write(buf[:n]); err != nil {
			return // the program has ended, which the client is told
		}
		if more > 0 && c.out.sendNumber(frameMore, more) != nil {
			return
		}
	}
}

// pump sends what the terminal shows, as far as the client has room: beyond that the
// program waits.
func (c *console) pump() {
	defer close(c.drained)
	buf := make([]byte, maxFrame)
	for {
		room, err := c.room.take(len(buf))
		if err != nil {
			return
		}
		n, err := c.read(buf[:room])
		if n > 0 && c.out.send(frameStdout, buf[:n]) != nil {
			return
		}
		_ = c.room.give(room - n)
		if err != nil {
			return
		}
	}
}

// read gathers output that streams for a moment: a pseudo terminal hands out pieces of
// 4 KiB at most.
func (c *console) read(buf []byte) (n int, err error) {
	n, err = c.master.Read(buf)
	if err != nil || n < coalesceOver {
		return n, err
	}
	_ = c.master.SetReadDeadline(time.Now().Add(coalesceTime))
	for n < len(buf) && err == nil {
		var more int
		more, err = c.master.Read(buf[n:])
		n += more
	}
	_ = c.master.SetReadDeadline(time.Time{})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	return n, err
}
