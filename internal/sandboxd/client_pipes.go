package sandboxd

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"parley/internal/fault"
	"parley/internal/tool"
)

// StartProgram starts a program in a session of its own that lives as long as the
// Program and the connection under it. It ends as a whole: its session, its
// descendants, and the sessions that they made; only what left the session and
// lost its parent too goes on. At most 64 run at a time (CodeProgramLimit).
//
// Output for a reader who does not read is held (some 200 KiB on the way), then the
// program waits; input likewise. When the program itself has ended, Done closes (at
// most 250 ms later if others hold its standard error), and what it left behind is
// ended after another second, and with it the standard output.
//
// Write fails with Conflict after the end of the program (CodeProgramEnded) or of its
// standard input (CodeStdinClosed); Read and Write fail with CodeClosed after Close, and
// with CodeGone when the sandbox is gone. Read gives io.EOF at the end of the
// standard output. Close does not wait for the program's end.
func (c *Client) StartProgram(ctx context.Context, req tool.ProgramRequest) (tool.Program, error) {
	body, err := jsonBody(req)
	if err != nil {
		return nil, err
	}
	if body.Len() > maxOpenBody {
		return nil, bodyTooLarge(maxOpenBody)
	}
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sandbox/programs", body)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, CodeBadRequest, "The request to the sandbox cannot be made.")
	}
	conn, err := c.upgrade(ctx, call, programProtocol)
	if err != nil {
		return nil, err
	}
	p := newProgramConn(conn)
	go p.listen(c)
	return p, nil
}

// programConn is a program at the other end of a connection. One goroutine belongs
// to it, which reads the connection to its end.
type programConn struct {
	conn   io.ReadWriteCloser // read by listen, written by out
	out    frameWriter
	output *inbox  // of the program
	room   *credit // of the program, for input

	writing sync.Mutex // held by a Write, so that two do not mix
	done    chan struct{}
	over    chan struct{} // closed when the connection is not read any more
	code    atomic.Int64

	mu     sync.Mutex
	stderr ring
}

func newProgramConn(conn io.ReadWriteCloser) *programConn {
	p := &programConn{
		conn: conn, out: frameWriter{conn: conn}, output: newInbox(), room: newCredit(),
		done: make(chan struct{}), over: make(chan struct{}), stderr: newRing(stderrTail),
	}
	p.code.Store(-1)
	return p
}

// listen takes what the daemon sends, until the connection ends or what comes makes
// no sense.
func (p *programConn) listen(c *Client) {
	defer close(p.over)
	r := newFrameReader(p.conn)
	for {
		f, err := readFrame(r)
		if err != nil {
			p.lose(c.broken(context.Background(), err))
			return
		}
		if err := p.accept(f); err != nil {
			p.lose(badAnswer(err))
			return
		}
	}
}

// lose ends what has not ended before the connection did.
func (p *programConn) lose(err error) {
	_ = p.conn.Close()
	p.room.end(err)
	p.output.finish(err)
	if !p.hasEnded() {
		close(p.done)
	}
}

// accept does what a frame of the daemon says. It never blocks.
func (p *programConn) accept(f frame) error {
	switch f.kind {
	case frameStdout:
		return p.output.put(f.payload)
	case frameStdoutEnd:
		p.output.finish(io.EOF)
		return f.empty()
	case frameStderr:
		p.mu.Lock()
		p.stderr.write(f.payload)
		p.mu.Unlock()
		return nil
	case frameStdinGone:
		p.room.end(stdinClosed())
		return f.empty()
	case frameMore:
		n, err := f.number(programWindow)
		if err != nil {
			return err
		}
		return p.room.give(n)
	case frameExit:
		return p.exited(f)
	}
	return errFrame
}

func (p *programConn) exited(f frame) error {
	code, err := f.number(255)
	if err != nil || p.hasEnded() {
		return errFrame
	}
	p.code.Store(int64(code))
	p.room.end(programEnded())
	close(p.done)
	return nil
}

func (p *programConn) hasEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Read reads the program's standard output.
func (p *programConn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, more, err := p.output.read(b)
	if more > 0 {
		_ = p.out.sendNumber(frameMore, more) // a broken connection shows when all was read
	}
	return n, err
}

// Write writes to the program's standard input.
func (p *programConn) Write(b []byte) (n int, err error) {
	p.writing.Lock()
	defer p.writing.Unlock()
	for n < len(b) {
		room, err := p.room.take(min(len(b)-n, maxFrame))
		if err != nil {
			return n, err
		}
		if p.out.send(frameStdin, b[n:n+room]) != nil {
			<-p.over // which says why
			_, err := p.room.take(1)
			return n, err
		}
		n += room
	}
	return n, nil
}

// CloseWrite ends the program's standard input, and a Write that waits.
func (p *programConn) CloseWrite() error {
	if !p.room.end(stdinClosed()) {
		return nil // it has an end already
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	_ = p.out.send(frameStdinEnd, nil) // a broken connection is an end as well
	return nil
}

// Close ends the program and all calls that wait.
func (p *programConn) Close() error {
	closed := fault.New(fault.Canceled, CodeClosed, "The program was closed.")
	p.room.end(closed)
	p.output.discard(closed)
	_ = p.conn.Close()
	<-p.over
	return nil
}

// Stderr returns the end of the program's standard error.
func (p *programConn) Stderr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.stderr.copy(p.stderr.start, p.stderr.end))
}

// Done is closed when the program has ended or the connection is gone.
func (p *programConn) Done() <-chan struct{} { return p.done }

// ExitCode is how the program ended, or -1.
func (p *programConn) ExitCode() int { return int(p.code.Load()) }

func programEnded() error {
	return fault.Wrap(io.ErrClosedPipe, fault.Conflict, CodeProgramEnded, "The program has ended.").WithHint("Start it again.")
}

func stdinClosed() error {
	return fault.Wrap(io.ErrClosedPipe, fault.Conflict, CodeStdinClosed, "The program's standard input was closed: nothing can be written to it any more.")
}
