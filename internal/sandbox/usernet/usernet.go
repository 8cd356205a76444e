// Package usernet gives a sandbox outbound network access without privileges: a
// TCP/IP stack in this process reads the packets of a TUN device inside the
// sandbox and makes connections of its own for them. Every connection passes
// the policy and the dialer of the configuration.
//
// Inside there is IPv4 only: the sandbox is Guest, its gateway Gateway (which
// answers pings and nothing else), its name server DNS. TCP and UDP go out;
// nothing comes in. It does not shape traffic and keeps no log of it.
package usernet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
)

// The addresses as the sandbox sees them. MTU is the largest packet that the
// stack handles, in bytes: the larger the device's, the faster.
const (
	Guest   = "10.0.2.100"
	Gateway = "10.0.2.2"
	DNS     = "10.0.2.3"
	Prefix  = 24
	MTU     = 65520
)

const nicID = 1

var (
	gatewayAddr = netip.MustParseAddr(Gateway)
	dnsAddr     = netip.MustParseAddr(DNS)
	subnet      = netip.PrefixFrom(gatewayAddr, Prefix).Masked()
)

// Config says what the sandbox may reach and how. The zero value is usable.
type Config struct {
	// Dial makes an outbound connection; network is "tcp4" or "udp4", addr an
	// address and port. nil means net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Allow refuses an address by returning an error; it is asked right before
	// each Dial. nil means Outbound.
	Allow func(netip.AddrPort) error
	// Resolver answers DNS queries; nil means HostResolver("").
	Resolver Resolver

	MaxTCP      int           // concurrent TCP connections, 0 = 512
	MaxUDP      int           // concurrent UDP flows, 0 = 128
	UDPIdle     time.Duration // a UDP flow ends after this without a packet, 0 = 60 s
	DialTimeout time.Duration // 0 = 30 s
	Logger      *slog.Logger  // nil = none; refusals are logged at debug level
}

func (c Config) withDefaults() Config {
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
	if c.Allow == nil {
		c.Allow = Outbound
	}
	if c.Resolver == nil {
		c.Resolver = HostResolver("")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.MaxTCP = orDefault(c.MaxTCP, 512)
	c.MaxUDP = orDefault(c.MaxUDP, 128)
	c.UDPIdle = orDefault(c.UDPIdle, 60*time.Second)
	c.DialTimeout = orDefault(c.DialTimeout, 30*time.Second)
	return c
}

func orDefault[T int | time.Duration](v, d T) T {
	if v <= 0 {
		return d
	}
	return v
}

// Stack is a running network. Close it once.
type Stack struct {
	cfg    Config
	net    *stack.Stack
	device *device
	bufs   *buffers
	ctx    context.Context // ends with the stack
	cancel context.CancelFunc
	reader sync.WaitGroup

	tcpSlots chan struct{}
	udpSlots chan struct{}

	mu     sync.Mutex
	closed bool
	work   sync.WaitGroup // goroutines of connections
}

// Start serves the TUN device (IFF_TUN|IFF_NO_PI) behind tunFD until Close. It
// works on a duplicate: the descriptor stays the caller's, is made
// non-blocking, and must not be read by anybody else meanwhile.
func Start(tunFD int, cfg Config) (*Stack, error) {
	s := &Stack{cfg: cfg.withDefaults(), bufs: &buffers{}}
	dev, err := newDevice(tunFD, s.bufs)
	if err != nil {
		return nil, fmt.Errorf("usernet: %w", err)
	}
	s.device = dev
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.tcpSlots = make(chan struct{}, s.cfg.MaxTCP)
	s.udpSlots = make(chan struct{}, s.cfg.MaxUDP)
	if err := s.build(); err != nil {
		return nil, errors.Join(fmt.Errorf("usernet: %w", err), s.Close())
	}
	s.reader.Go(dev.readLoop)
	return s, nil
}

func (s *Stack) build() error {
	s.net = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol, icmp.NewProtocol4},
	})
	if err := tune(s.net); err != nil {
		return err
	}
	if err := attach(s.net, s.device); err != nil {
		return err
	}
	s.net.SetTransportProtocolHandler(tcp.ProtocolNumber,
		tcp.NewForwarder(s.net, 0, s.cfg.MaxTCP, s.acceptTCP).HandlePacket)
	s.net.SetTransportProtocolHandler(udp.ProtocolNumber, s.acceptUDP)
	return s.serveDNS()
}

// tune keeps buffers small until a connection needs more, and forgets closed
// connections soon.
func tune(n *stack.Stack) error {
	sack, moderate := tcpip.TCPSACKEnabled(true), tcpip.TCPModerateReceiveBufferOption(true)
	send := tcpip.TCPSendBufferSizeRangeOption{Min: 4 << 10, Default: 256 << 10, Max: 2 << 20}
	receive := tcpip.TCPReceiveBufferSizeRangeOption{Min: 4 << 10, Default: 256 << 10, Max: 2 << 20}
	wait, linger := tcpip.TCPTimeWaitTimeoutOption(2*time.Second), tcpip.TCPLingerTimeoutOption(20*time.Second)
	for _, o := range []tcpip.SettableTransportProtocolOption{&sack, &moderate, &send, &receive, &wait, &linger} {
		if err := n.SetTransportProtocolOption(tcp.ProtocolNumber, o); err != nil {
			return fmt.Errorf("set %T: %s", o, err)
		}
	}
	return nil
}

// attach makes the device the only interface. It accepts packets for every
// address and may answer from every address.
func attach(n *stack.Stack, dev *device) error {
	if err := n.CreateNIC(nicID, dev); err != nil {
		return fmt.Errorf("create interface: %s", err)
	}
	for _, a := range []netip.Addr{gatewayAddr, dnsAddr} {
		p := tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber,
			AddressWithPrefix: tcpip.AddrFrom4(a.As4()).WithPrefix()}
		if err := n.AddProtocolAddress(nicID, p, stack.AddressProperties{}); err != nil {
			return fmt.Errorf("add address %v: %s", a, err)
		}
	}
	if err := n.SetPromiscuousMode(nicID, true); err != nil {
		return fmt.Errorf("accept all addresses: %s", err)
	}
	if err := n.SetSpoofing(nicID, true); err != nil {
		return fmt.Errorf("answer from all addresses: %s", err)
	}
	all, err := tcpip.NewSubnet(tcpip.AddrFrom4([4]byte{}), tcpip.MaskFromBytes(make([]byte, 4)))
	if err != nil {
		return err
	}
	n.SetRouteTable([]tcpip.Route{{Destination: all, NIC: nicID}})
	return nil
}

// Close resets all connections, stops reading the device and joins all
// goroutines. The device stays as it is: another process may start a stack on
// it and the sandbox has its network again.
func (s *Stack) Close() error {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	if again {
		return nil
	}
	s.cancel()
	s.abortConnections()
	err := s.device.stop()
	s.reader.Wait()
	if s.net != nil {
		s.net.Destroy()
	}
	return err
}

// abortConnections resets what is open until all work has ended: a handshake
// that is in progress becomes known to the stack only later.
func (s *Stack) abortConnections() {
	done := make(chan struct{})
	go func() {
		s.work.Wait()
		close(done)
	}()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		if s.net != nil {
			for _, e := range s.net.RegisteredEndpoints() {
				e.Abort()
			}
		}
		select {
		case <-done:
			return
		case <-again.C:
		}
	}
}

// enter makes Close wait for a work.Done. It reports false once the stack is
// closed.
func (s *Stack) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.work.Add(1)
	}
	return !s.closed
}

// goWork runs f on a goroutine that Close joins, unless the stack is closed.
func (s *Stack) goWork(f func()) bool {
	if !s.enter() {
		return false
	}
	go func() {
		defer s.work.Done()
		f()
	}()
	return true
}

// check asks the policy about an address that the sandbox wants to reach.
func (s *Stack) check(network string, to netip.AddrPort) error {
	err := s.cfg.Allow(to)
	if subnet.Contains(to.Addr()) {
		err = errNobody
	}
	if err != nil {
		s.cfg.Logger.Debug("connection refused", "network", network, "to", to, "reason", err)
	}
	return err
}

var errNobody = errors.New("nobody is at this address of the sandbox's own network")

// dial makes the outside connection.
func (s *Stack) dial(network string, to netip.AddrPort) (net.Conn, error) {
	if err := s.check(network, to); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.DialTimeout)
	defer cancel()
	conn, err := s.cfg.Dial(ctx, network, to.String())
	if err != nil {
		s.cfg.Logger.Debug("connection failed", "network", network, "to", to, "error", err)
	}
	return conn, err
}

// target returns the address that the sandbox sent to.
func target(id stack.TransportEndpointID) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4(id.LocalAddress.As4()), id.LocalPort)
}
