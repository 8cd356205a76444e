package usernet

import (
	"errors"
	"io"
	"net"
	"sync"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
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
		s.cfg.Logger.Debug("connection refused", "network", "tcp4", "to", target(r.ID()), "reason", "too many connections")
		r.Complete(true)
	}
}

// connect dials first, so that the sandbox sees a refused connection as refused.
func (s *Stack) connect(r *tcp.ForwarderRequest) {
	to := target(r.ID())
	if to.Addr() == dnsAddr && to.Port() == dnsPort {
		s.accept(r, s.serveDNSConn)
		return
	}
	outside, err := s.dial("tcp4", to)
	if err != nil {
		r.Complete(true)
		return
	}
	if !s.accept(r, func(inside insideConn) { s.join(inside, outside) }) {
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
func (s *Stack) join(inside insideConn, outside net.Conn) {
	var once sync.Once
	abort := func() {
		once.Do(func() {
			inside.reset()
			resetOutside(outside)
		})
	}
	var out sync.WaitGroup
	out.Go(func() { s.forward(outside, inside, abort) })
	s.forward(inside, outside, abort)
	out.Wait()
	_ = inside.Close()  // both directions have ended
	_ = outside.Close() // likewise
}

// forward copies one direction.
func (s *Stack) forward(to, from net.Conn, abort func()) {
	buf := s.bufs.chunk()
	defer s.bufs.putChunk(buf)
	_, err := io.CopyBuffer(onlyWriter{to}, onlyReader{from}, buf[:])
	half, ok := to.(interface{ CloseWrite() error })
	if err != nil || !ok {
		abort()
		return
	}
	if err := half.CloseWrite(); err != nil && !errors.Is(err, net.ErrClosed) {
		abort()
	}
}

// onlyWriter and onlyReader hide the shortcuts of io.Copy, which allocate.
type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)

func resetOutside(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // only shapes the close
	}
	_ = c.Close()
}
