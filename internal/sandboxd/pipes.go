package sandboxd

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/tool"
)

const (
	// programGrace is what a program with pipes gets between TERM and KILL.
	programGrace = 2 * time.Second
	// outputGrace is how long what a program left behind may go on, and write to its
	// standard output, after the program has ended.
	outputGrace = time.Second
	// stderrTail is how much is kept of the end of a program's standard error.
	stderrTail = 16 << 10
	// stderrPause is the least time between two reports of it: of a flood only what
	// is kept in the end goes over the connection.
	stderrPause = 20 * time.Millisecond
)

// countProgram counts a program with pipes until release; TooLarge if there are too
// many.
func (d *daemon) countProgram() (release func(), err error) {
	select {
	case d.programs <- struct{}{}:
		return func() { <-d.programs }, nil
	default:
		return nil, fault.New(fault.TooLarge, CodeProgramLimit, "%d programs with pipes run in the sandbox, which is the limit.", cap(d.programs)).
			WithHint("Wait until one has ended, or close those that are not needed.")
	}
}

// startProgram starts a program and serves it until it has ended and its output was
// taken, or the connection is gone.
func (d *daemon) startProgram(w http.ResponseWriter, r *http.Request) error {
	if r.Header.Get("Upgrade") != programProtocol {
		return invalid("A program's connection needs the header Upgrade: %s.", programProtocol)
	}
	body, err := readBody(w, r, maxOpenBody)
	if err != nil {
		return err
	}
	req, err := decodeProgram(body)
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
	p, err := d.children.startPiped(cmd)
	if err != nil {
		return err
	}
	defer p.closePipes()
	conn, in, err := switchProtocol(w, programProtocol)
	if err != nil {
		p.end(d.stopping)
		return err
	}
	defer func() { _ = conn.Close() }()
	p.serve(r.Context(), conn, in, d.stopping)
	return nil
}

func decodeProgram(body []byte) (tool.ProgramRequest, error) {
	var req tool.ProgramRequest
	if err := decodeJSON(body, &req); err != nil {
		return req, err
	}
	return req, checkArgv(req.Argv)
}

// program is a program with pipes and the connection that it lives for.
type program struct {
	tree                  *tree
	stdin, stdout, stderr *os.File // our ends
	ended                 chan struct{}
	code                  int // valid once ended is closed

	conn    net.Conn
	out     *frameWriter
	input   *inbox        // for the program
	room    *credit       // of the client, for output
	lost    chan struct{} // closed when the connection is gone
	drained chan struct{} // closed when the client has got all output
	told    chan struct{} // closed when the client has got the end of standard error

	mu   sync.Mutex
	kept ring          // the end of standard error
	news chan struct{} // has an element if kept has grown
}

// startPiped starts cmd as the leader of a session of its own and awaits it.
func (c *children) startPiped(cmd *exec.Cmd) (*program, error) {
	p := &program{ended: make(chan struct{})}
	var pipes [3][2]*os.File // read end, write end
	for i := range pipes {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(pipes[:i])
			return nil, pathFault(err, "start", cmd.Path)
		}
		pipes[i] = [2]*os.File{r, w}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = pipes[0][0], pipes[1][1], pipes[2][1]
	p.stdin, p.stdout, p.stderr = pipes[0][1], pipes[1][0], pipes[2][0]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.start(cmd); err != nil {
		closeAll(pipes[:])
		return nil, startFault(err, cmd.Path)
	}
	for _, theirs := range []*os.File{pipes[0][0], pipes[1][1], pipes[2][1]} {
		_ = theirs.Close()
	}
	p.tree = newTree(cmd.Process.Pid, p.ended)
	go func() {
		defer close(p.ended)
		p.code = exitCode(c.await(cmd))
	}()
	return p, nil
}

func closeAll(pipes [][2]*os.File) {
	for _, pipe := range pipes {
		_ = pipe[0].Close()
		_ = pipe[1].Close()
	}
}

func (p *program) closePipes() {
	_ = p.stdin.Close()
	_ = p.stdout.Close()
	_ = p.stderr.Close()
}

// serve carries the program's input and output until it has ended and the client has
// got all of it, or the connection or ctx ends. hurry is closed when nothing has time
// to end by itself.
func (p *program) serve(ctx context.Context, conn net.Conn, in io.Reader, hurry <-chan struct{}) {
	p.attach(conn)
	unhook := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer unhook()
	var ways sync.WaitGroup
	ways.Go(func() { p.listen(in) })
	ways.Go(p.feed)
	ways.Go(p.pump)
	ways.Go(p.collectErrors)
	ways.Go(p.reportErrors)
	select {
	case <-p.ended:
		p.conclude()
	case <-p.lost:
	}
	p.end(hurry)
	select {
	case <-p.drained:
		_ = closeWrite(conn) // the client hangs up when it has read all
		<-p.lost
	case <-p.lost:
	}
	p.closePipes()
	ways.Wait()
}

// end ends the program and what it started: the end of its input and TERM, 2 s, KILL.
func (p *program) end(hurry <-chan struct{}) {
	p.tree.look()
	_ = p.stdin.Close()
	if p.tree.terminate() {
		p.tree.await(programGrace, hurry)
		p.tree.kill()
	}
}

func (p *program) attach(conn net.Conn) {
	p.conn, p.out = conn, &frameWriter{conn: conn}
	p.input, p.room = newInbox(), newCredit()
	p.kept, p.news = newRing(stderrTail), make(chan struct{}, 1)
	p.lost, p.drained, p.told = make(chan struct{}), make(chan struct{}), make(chan struct{})
}

// conclude tells how the program ended, and gives what it left behind a moment to
// write the rest.
func (p *program) conclude() {
	_ = p.stdout.SetReadDeadline(time.Now().Add(outputGrace))
	_ = p.stderr.SetReadDeadline(time.Now().Add(pipeGrace))
	<-p.told
	_ = p.out.sendNumber(frameExit, p.code)
	grace := time.NewTimer(outputGrace)
	defer grace.Stop()
	select {
	case <-p.drained:
	case <-p.lost:
	case <-grace.C:
	}
}

// listen takes what the client sends until it has gone.
func (p *program) listen(in io.Reader) {
	takeFrames(in, p.accept)
	_ = p.conn.Close()
	p.input.discard(net.ErrClosed)
	p.room.end(net.ErrClosed)
	close(p.lost)
}

// accept does what a frame of the client says. It never blocks.
func (p *program) accept(f frame) error {
	switch f.kind {
	case frameStdin:
		return p.input.put(f.payload)
	case frameStdinEnd:
		p.input.finish(io.EOF)
		return f.empty()
	case frameMore:
		n, err := f.number(programWindow)
		if err != nil {
			return err
		}
		return p.room.give(n)
	}
	return errFrame
}

// feed writes to the program what the client sends it.
func (p *program) feed() {
	buf := make([]byte, 16<<10)
	for {
		n, more, err := p.input.read(buf)
		if errors.Is(err, io.EOF) {
			p.tree.look()
			_ = p.stdin.Close()
		}
		if err != nil {
			return
		}
		if _, err := p.stdin.Write(buf[:n]); err != nil {
			_ = p.stdin.Close()
			_ = p.out.send(frameStdinGone, nil)
			return
		}
		if more > 0 && p.out.sendNumber(frameMore, more) != nil {
			return
		}
	}
}

// pump sends what the program writes, as far as the client has room; when nobody
// wants it any more it is dropped, so that the program can end in peace.
func (p *program) pump() {
	defer close(p.drained)
	err := p.forward(p.stdout)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = p.forward(waiting(p.stdout))
	}
	if err == nil {
		err = p.out.send(frameStdoutEnd, nil)
	}
	if err != nil {
		_, _ = io.Copy(io.Discard, p.stdout)
	}
}

// forward sends all of r.
func (p *program) forward(r io.Reader) error {
	buf := make([]byte, maxFrame)
	for {
		room, err := p.room.take(len(buf))
		if err != nil {
			return err
		}
		n, err := r.Read(buf[:room])
		if n > 0 {
			if err := p.out.send(frameStdout, buf[:n]); err != nil {
				return err
			}
		}
		_ = p.room.give(room - n)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// waiting is what a pipe holds at this moment, past its deadline.
func waiting(pipe *os.File) io.Reader {
	size := 0
	_ = control(pipe, func(fd int) (err error) {
		size, err = unix.IoctlGetInt(fd, unix.TIOCINQ)
		return err
	})
	_ = pipe.SetReadDeadline(time.Time{})
	return io.LimitReader(pipe, int64(size))
}

// collectErrors keeps the end of what the program writes to its standard error.
func (p *program) collectErrors() {
	defer close(p.news)
	err := p.collect(p.stderr)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = p.collect(waiting(p.stderr))
	}
}

func (p *program) collect(r io.Reader) error {
	buf := make([]byte, 4<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			p.mu.Lock()
			p.kept.write(buf[:n])
			p.mu.Unlock()
			select {
			case p.news <- struct{}{}:
			default:
			}
		}
		if err != nil {
			return err
		}
	}
}

// reportErrors tells the client of them now and then, and of the last ones.
func (p *program) reportErrors() {
	defer close(p.told)
	var sent int64
	for range p.news {
		p.mu.Lock()
		fresh := p.kept.copy(max(sent, p.kept.start), p.kept.end)
		sent = p.kept.end
		p.mu.Unlock()
		if len(fresh) > 0 && p.out.send(frameStderr, fresh) != nil {
			return
		}
		select {
		case <-time.After(stderrPause):
		case <-p.ended:
		case <-p.lost:
			return
		}
	}
}
