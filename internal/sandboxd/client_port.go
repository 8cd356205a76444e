package sandboxd

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"parley/internal/fault"
)

// DialPort connects to a TCP port on the sandbox's loopback interface. The
// connection's halves can be closed one by one (it has CloseWrite); after the
// client's half is closed the other goes on for a minute at most. CodePortClosed:
// nothing listens there. ctx is for connecting only.
func (c *Client) DialPort(ctx context.Context, port int) (net.Conn, error) {
	if port < 1 || port > 0xffff {
		return nil, invalid("A port is a number from 1 to 65535.")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://sandbox/ports/"+strconv.Itoa(port), nil)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, CodeBadRequest, "The request to the sandbox cannot be made.")
	}
	conn, err := c.upgrade(ctx, req, portProtocol)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// upgrade sends a request on a connection of its own and turns that into one of
// another protocol. ctx is for that only.
func (c *Client) upgrade(ctx context.Context, req *http.Request, protocol string) (*upgradedConn, error) {
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, c.broken(ctx, err)
	}
	interrupted := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = conn.SetDeadline(time.Unix(1, 0))
	})
	in, err := c.switchProtocol(ctx, conn, req, protocol)
	if !unhook() {
		<-interrupted
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &upgradedConn{Conn: conn, in: in}, nil
}

// switchProtocol asks the daemon to let the connection speak another protocol.
func (c *Client) switchProtocol(ctx context.Context, conn net.Conn, req *http.Request, protocol string) (*bufio.Reader, error) {
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", protocol)
	if err := req.Write(conn); err != nil {
		return nil, c.broken(ctx, err)
	}
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, req)
	if err != nil {
		return nil, c.broken(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return in, nil
	}
	if resp.StatusCode < 300 {
		return nil, badAnswer(errors.New("the connection was not upgraded"))
	}
	return nil, c.refusal(ctx, resp)
}

// upgradedConn is a connection whose first bytes may have come with the answer.
type upgradedConn struct {
	net.Conn
	in *bufio.Reader
}

// Read reads what the other side sends.
func (u *upgradedConn) Read(b []byte) (int, error) { return u.in.Read(b) }

// CloseWrite ends the client's half.
func (u *upgradedConn) CloseWrite() error { return closeWrite(u.Conn) }
