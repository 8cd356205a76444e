package sandboxd

import (
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"parley/internal/fault"
	"parley/internal/tool"
)

// StartConsole starts a program (none: the sandbox's shell, as a login shell) on a
// pseudo terminal that lives as long as the connection under it. It counts as one of
// the 64 programs (CodeProgramLimit). Output for a reader who does not read is held
// (some 200 KiB on the way), then the program waits; what is typed likewise.
//
// After the program's end Write fails with Conflict (CodeProgramEnded); Read and Write
// fail with CodeClosed after Close, and with CodeGone when the sandbox is gone.
func (c *Client) StartConsole(ctx context.Context, req tool.ConsoleRequest) (tool.Console, error) {
	body, err := jsonBody(req)
	if err != nil {
		return nil, err
	}
	if body.Len() > maxOpenBody {
		return nil, bodyTooLarge(maxOpenBody)
	}
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sandbox/consoles", body)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, CodeBadRequest, "The request to the sandbox cannot be made.")
	}
	conn, err := c.upgrade(ctx, call, consoleProtocol)
	if err != nil {
		return nil, err
	}
	t := &consoleConn{conn: conn, out: frameWriter{conn: conn}, output: newInbox(), room: newCredit(), over: make(chan struct{})}
	t.code.Store(-1)
	go t.listen(c)
	return t, nil
}

// consoleConn is a console at the other end of a connection. One goroutine belongs to
// it, which reads the connection to its end.
type consoleConn struct {
	conn   io.ReadWriteCloser // read by listen, written by out
	out    frameWriter
	output *inbox  // of the program
	room   *credit // of the program, for what is typed

	writing sync.Mutex    // held by a Write, so that two do not mix
	over    chan struct{} // closed when the connection is not read any more
	code    atomic.Int64
}

// listen takes what the daemon sends, until the program or the connection ends or what
// comes makes no sense.
func (t *consoleConn) listen(c *Client) {
	defer close(t.over)
	r := newFrameReader(t.conn)
	for {
		f, err := readFrame(r)
		if err != nil {
			t.lose(c.broken(context.Background(), err))
			return
		}
		ended, err := t.accept(f)
		if err != nil {
			t.lose(badAnswer(err))
			return
		}
		if ended {
			t.room.end(programEnded())
			t.output.finish(io.EOF)
			_ = t.conn.Close()
			return
		}
	}
}

// accept does what a frame of the daemon says. It never blocks.
func (t *consoleConn) accept(f frame) (ended bool, err error) {
	switch f.kind {
	case frameStdout:
		return false, t.output.put(f.payload)
	case frameMore:
		n, err := f.number(programWindow)
		if err != nil {
			return false, err
		}
		return false, t.room.give(n)
	case frameExit:
		code, err := f.number(255)
		if err != nil {
			return false, err
		}
		t.code.Store(int64(code))
		return true, nil
	}
	return false, errFrame
}

func (t *consoleConn) lose(err error) {
	_ = t.conn.Close()
	t.room.end(err)
	t.output.finish(err)
}

// Read reads what the terminal shows.
func (t *consoleConn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, more, err := t.output.read(b)
	if more > 0 {
		_ = t.out.sendNumber(frameMore, more) // a broken connection shows when all was read
	}
	return n, err
}

// Write types.
func (t *consoleConn) Write(b []byte) (n int, err error) {
	t.writing.Lock()
	defer t.writing.Unlock()
	for n < len(b) {
		room, err := t.room.take(min(len(b)-n, maxFrame))
		if err != nil {
			return n, err
		}
		if t.out.send(frameStdin, b[n:n+room]) != nil {
			<-t.over // which says why
			_, err := t.room.take(1)
			return n, err
		}
		n += room
	}
	return n, nil
}

// Resize changes the window's size.
func (t *consoleConn) Resize(rows, cols uint16) error {
	if rows == 0 || cols == 0 {
		return invalid("rows and cols must be numbers from 1 to 65535.")
	}
	size := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, rows), cols)
	_ = t.out.send(frameSize, size) // a broken connection shows to who reads
	return nil
}

// Close ends the program and all calls that wait.
func (t *consoleConn) Close() error {
	closed := fault.New(fault.Canceled, CodeClosed, "The terminal was closed.")
	t.room.end(closed)
	t.output.discard(closed)
	_ = t.conn.Close()
	<-t.over
	return nil
}

// ExitCode is how the program ended.
func (t *consoleConn) ExitCode() int { return int(t.code.Load()) }
