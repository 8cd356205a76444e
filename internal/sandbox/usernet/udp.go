package usernet

import (
	"io"
	"net"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// dnsIdle is the idle time of flows to other name servers: one answer, and the
// flow is over.
const dnsIdle = 10 * time.Second

// acceptUDP sees packets that belong to no flow. False makes the stack answer
// "port unreachable".
func (s *Stack) acceptUDP(id stack.TransportEndpointID, pkt *stack.PacketBuffer) bool {
	to, err := s.route("udp", id)
	if err != nil {
		return false
	}
	select {
	case s.udpSlots <- struct{}{}:
	default:
		return true // too many flows: the packet is lost
	}
	started := false
	udp.NewForwarder(s.net, func(r *udp.ForwarderRequest) { started = s.startFlow(r, to) }).HandlePacket(id, pkt)
	if !started {
		<-s.udpSlots
	}
	return true
}

// startFlow takes the packet into an endpoint of its own. On true the flow
// gives the slot back.
func (s *Stack) startFlow(r *udp.ForwarderRequest, to route) bool {
	var queue waiter.Queue
	ep, err := r.CreateEndpoint(&queue)
	if err != nil {
		return false
	}
	inside := gonet.NewUDPConn(&queue, ep)
	started := s.goWork(func() {
		defer func() { <-s.udpSlots }()
		defer func() { _ = inside.Close() }()
		s.flow(inside, to)
	})
	if !started {
		_ = inside.Close()
	}
	return started
}

// flow copies datagrams both ways until the flow is idle or fails.
func (s *Stack) flow(inside net.Conn, to route) {
	outside, err := s.dial("udp", to)
	if err != nil {
		return
	}
	told := s.log.opened("udp", to.host, to.to)
	defer told.ended()
	idle := s.cfg.UDPIdle
	if to.to.Port() == dnsPort {
		idle = min(idle, dnsIdle)
	}
	var once sync.Once
	end := func() {
		once.Do(func() {
			_ = inside.Close()
			_ = outside.Close()
		})
	}
	timer := time.AfterFunc(idle, end)
	defer timer.Stop()
	stop := s.onClose(end)
	defer stop()
	var out sync.WaitGroup
	out.Go(func() { s.relay(counted{outside, &told.sent, told}, inside, timer, idle, end) })
	s.relay(counted{inside, &told.received, told}, outside, timer, idle, end)
	out.Wait()
}

// relay copies datagrams of one direction. A refused datagram (ICMP) does not
// end the flow: the other side may come up later.
func (s *Stack) relay(to io.Writer, from net.Conn, timer *time.Timer, idle time.Duration, end func()) {
	defer end()
	buf := s.bufs.packet()
	defer s.bufs.putPacket(buf)
	for {
		n, err := from.Read(buf[:])
		if isRefused(err) {
			continue
		}
		if err != nil {
			return
		}
		timer.Reset(idle)
		if _, err := to.Write(buf[:n]); err != nil && !isRefused(err) && !isTooLong(err) {
			return
		}
	}
}
