package gvisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// bridgeEnd is how long a bridge may take to end by itself. In a frozen box it
// cannot.
const bridgeEnd = time.Second

// dial starts a bridge inside and returns the connection over its pipes once the
// daemon has taken it.
func (b *Backend) dial(ctx context.Context, d dir, token string) (net.Conn, error) {
	conn, err := b.startBridge(d)
	if err != nil {
		return nil, err
	}
	if err := conn.greet(ctx, token); err != nil {
		conn.abort(ctx)
		return nil, errors.Join(ctx.Err(), fmt.Errorf("bridge: %w: %s", err, conn.errors))
	}
	return conn, nil
}

// startBridge runs the bridge, which the limit of processes does not stop. Our ends
// of its pipes are not its ends: what is done to one has no effect on the other.
func (b *Backend) startBridge(d dir) (*pipeConn, error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirIn.Close(), in.Close())
	}
	conn := &pipeConn{r: out, w: in, errors: &headBuffer{}, closed: make(chan struct{}), ended: make(chan struct{})}
	cmd := exec.Command(b.options.Runsc, slices.Concat(b.flags(d),
		[]string{"exec", "--cwd=/", "--user=0:0", "--cap=CAP_SYS_RESOURCE", containerID, insideProgram}, b.options.InitArgs, []string{stageBridge})...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = []string{}, theirIn, theirOut, conn.errors
	cmd.WaitDelay = bridgeEnd
	err = errors.Join(cmd.Start(), theirIn.Close(), theirOut.Close())
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	conn.kill = sync.OnceFunc(func() { _ = cmd.Process.Kill() })
	b.wg.Go(func() { conn.follow(b.ctx, cmd) })
	return conn, nil
}

// pipeConn is a connection over two pipes.
type pipeConn struct {
	r, w   *os.File
	errors *headBuffer
	kill   func()
	once   sync.Once
	closed chan struct{} // closed by Close
	ended  chan struct{} // closed when the bridge has ended
}

var _ net.Conn = (*pipeConn)(nil)

// follow waits for the end of the bridge, and makes it end after Close.
func (c *pipeConn) follow(ctx context.Context, cmd *exec.Cmd) {
	go func() { // joined below
		defer close(c.ended)
		_ = cmd.Wait() // its errors are in the buffer
	}()
	select {
	case <-c.ended:
		return
	case <-ctx.Done():
	case <-c.closed:
		grace := time.NewTimer(bridgeEnd)
		defer grace.Stop()
		select {
		case <-c.ended:
		case <-grace.C:
		case <-ctx.Done():
		}
	}
	c.kill()
	<-c.ended
}

// greet shows the token and waits until the daemon takes the connection.
func (c *pipeConn) greet(ctx context.Context, token string) error {
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := c.w.WriteString(token); err != nil {
		return err
	}
	answer := make([]byte, 1)
	if _, err := io.ReadFull(c.r, answer); err != nil {
		return err
	}
	if answer[0] != ack {
		return errors.New("it is not the daemon that answers")
	}
	if !stop() {
		return ctx.Err()
	}
	return nil
}

// abort ends the bridge. If that ended by itself it is waited for: it says why.
func (c *pipeConn) abort(ctx context.Context) {
	grace := time.NewTimer(bridgeEnd)
	defer grace.Stop()
	select {
	case <-c.ended:
	case <-grace.C:
	case <-ctx.Done():
	}
	c.kill()
	_ = c.Close()
}

// Read implements net.Conn.
func (c *pipeConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// Write implements net.Conn.
func (c *pipeConn) Write(p []byte) (int, error) { return c.w.Write(p) }

// CloseWrite ends what the other side reads.
func (c *pipeConn) CloseWrite() error { return c.w.Close() }

// Close implements net.Conn.
func (c *pipeConn) Close() error {
	err := net.ErrClosed
	c.once.Do(func() {
		close(c.closed)
		_ = c.w.Close() // it may be closed already
		err = c.r.Close()
	})
	return err
}

// SetDeadline implements net.Conn.
func (c *pipeConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *pipeConn) SetReadDeadline(t time.Time) error { return c.r.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (c *pipeConn) SetWriteDeadline(t time.Time) error { return c.w.SetWriteDeadline(t) }

// pipeAddr is the address of both ends.
type pipeAddr struct{}

// Network implements net.Addr.
func (pipeAddr) Network() string { return "pipe" }

// String implements net.Addr.
func (pipeAddr) String() string { return Name }

// LocalAddr implements net.Conn.
func (c *pipeConn) LocalAddr() net.Addr { return pipeAddr{} }

// RemoteAddr implements net.Conn.
func (c *pipeConn) RemoteAddr() net.Addr { return pipeAddr{} }
