package usernet

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"

	"parley/internal/sandbox"
)

// insideConn is the sandbox's end of a TCP connection.
type insideConn struct {
	*gonet.TCPConn
	endpoint tcpip.Endpoint
}

// reset ends the connection at once; the program inside sees ECONNRESET.
func (c insideConn) reset() { c.endpoint.Abort() }

// acceptTCP answers a SYN. The stack runs it on a goroutine of its own.
func (s *Stack) acceptTCP(r *tcp.ForwarderRequest) {
	if !s.enter() {
		r.Complete(true)
		return
	}
	defer s.work.Done()
	select {
	case s.tcpSlots <- struct{}{}:
		defer func() { <-s.tcpSlots }()
		s.connect(r)
	default:
		if to, err := s.route("tcp", r.ID()); err == nil {
			s.log.failed("tcp", to.host, to.to, sandbox.VerdictRefused,
				fmt.Sprintf("the sandbox has %d connections already, the most it can have", s.cfg.MaxTCP))
		}
		r.Complete(true)
	}
}

// connect dials first, so that the sandbox sees a refused connection as refused.
func (s *Stack) connect(r *tcp.ForwarderRequest) {
	if id := r.ID(); id.LocalAddress == dnsAddress && id.LocalPort == dnsPort {
		s.accept(r, s.serveDNSConn)
		return
	}
	to, err := s.route("tcp", r.ID())
	if err != nil {
		r.Complete(true)
		return
	}
	outside, err := s.dial("tcp", to)
	if err != nil {
		r.Complete(true)
		return
	}
	told := s.log.opened("tcp", to.host, to.to)
	defer told.ended()
	if !s.accept(r, func(inside insideConn) { s.join(inside, outside, told) }) {
		_ = outside.Close() // the sandbox gave up meanwhile
	}
}

// accept finishes the handshake and serves the connection.
func (s *Stack) accept(r *tcp.ForwarderRequest, serve func(insideConn)) bool {
	var queue waiter.Queue
	ep, err := r.CreateEndpoint(&queue)
	if err != nil {
		r.Complete(true)
		return false
	}
	r.Complete(false)
	inside := insideConn{gonet.NewTCPConn(&queue, ep), ep}
	if s.ctx.Err() != nil { // Close may have come before the endpoint was known to the stack
		inside.reset()
	}
	serve(inside)
	return true
}

// join copies both directions until both have ended. An end of input is passed
// on as such; a failure of one direction resets both ends.
func (s *Stack) join(inside insideConn, outside net.Conn, told *entry) {
	var once sync.Once
	abort := func() {
		once.Do(func() {
			inside.reset()
			resetOutside(outside)
		})
	}
	var out sync.WaitGroup
	out.Go(func() { s.forward(counted{outside, &told.sent, told}, inside, outside, abort) })
	s.forward(counted{inside, &told.received, told}, outside, inside, abort)
	out.Wait()
	_ = inside.Close()  // both directions have ended
	_ = outside.Close() // likewise
}

// forward copies one direction, which ends at the connection that end is.
func (s *Stack) forward(to counted, from, end net.Conn, abort func()) {
	buf := s.bufs.chunk()
	defer s.bufs.putChunk(buf)
	_, err := io.CopyBuffer(to, onlyReader{from}, buf[:])
	half, ok := end.(interface{ CloseWrite() error })
	if err != nil || !ok {
		abort()
		return
	}
	if err := half.CloseWrite(); err != nil && !errors.Is(err, net.ErrClosed) {
		abort()
	}
}

// counted and onlyReader hide the shortcuts of io.Copy, which allocate.
type (
	counted struct {
		io.Writer
		n    *atomic.Int64
		told *entry
	}
	onlyReader struct{ io.Reader }
)

func (c counted) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.n.Add(int64(n))
	c.told.moved()
	return n, err
}

func resetOutside(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // only shapes the close
	}
	_ = c.Close()
}
