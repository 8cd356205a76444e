package sandboxd

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"

	"parley/internal/fault"
	"parley/internal/tool"
)

// StartCommand starts a command whose outputs come apart while it runs. It ends with
// the connection. When it ends by itself, what it left behind goes on, and output of
// that is awaited for 250 ms. At most 64 programs and commands run at a time
// (CodeProgramLimit).
func (c *Client) StartCommand(ctx context.Context, req tool.CommandRequest) (tool.Command, error) {
	body, err := jsonBody(req)
	if err != nil {
		return nil, err
	}
	if body.Len() > maxOpenBody {
		return nil, bodyTooLarge(maxOpenBody)
	}
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sandbox/commands", body)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, CodeBadRequest, "The request to the sandbox cannot be made.")
	}
	conn, err := c.upgrade(ctx, call, commandProtocol)
	if err != nil {
		return nil, err
	}
	return &commandConn{client: c, conn: conn, in: newFrameReader(conn), out: frameWriter{conn: conn}}, nil
}

// commandConn is a command at the other end of a connection.
type commandConn struct {
	client *Client
	conn   io.Closer
	in     *bufio.Reader
	out    frameWriter
	used   int // bytes that the daemon was not told of
}

// Next returns what the command wrote next, or its end.
func (c *commandConn) Next() (tool.CommandOutput, error) {
	if c.used > 0 {
		_ = c.out.sendNumber(frameMore, c.used) // a broken connection shows when all was read
		c.used = 0
	}
	f, err := readFrame(c.in)
	if err != nil {
		return tool.CommandOutput{}, c.client.broken(context.Background(), err)
	}
	switch f.kind {
	case frameStdout, frameErrors:
		c.used = len(f.payload)
		return tool.CommandOutput{Data: f.payload, Stderr: f.kind == frameErrors}, nil
	case frameExit:
		code, err := f.number(codeTimedOut)
		if err != nil {
			return tool.CommandOutput{}, badAnswer(err)
		}
		if code == codeTimedOut {
			code = -1
		}
		return tool.CommandOutput{Ended: true, ExitCode: code}, nil
	}
	return tool.CommandOutput{}, badAnswer(errors.New("an unknown frame"))
}

// Close ends the command and a Next that waits.
func (c *commandConn) Close() error { return c.conn.Close() }
