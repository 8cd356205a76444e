// Package usernet gives a sandbox outbound network access without privileges: a
// TCP/IP stack in this process reads the packets of a TUN device inside the
// sandbox and makes connections of its own for them. Every connection and every
// name that is looked up passes the policy, and every connection is told to the
// recorder of the configuration.
//
// Inside there is IPv4 only: the sandbox is Guest, its gateway Gateway, its name
// server DNS. The gateway answers pings, and stands for the loopback of the
// server's machine: its ports are those of 127.0.0.1, where the policy lists them.
// TCP and UDP go out; nothing comes in. Traffic is not shaped and not looked into,
// but for names that are asked for at DNS: which names a program asks another
// server, or sends to an address that is allowed, is not known.
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
	"gvisor.dev/gvisor/pkg/tcpip/link/ethernet"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"parley/internal/netpolicy"
	"parley/internal/sandbox"
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
	guestAddr   = netip.MustParseAddr(Guest)
	gatewayAddr = netip.MustParseAddr(Gateway)
	dnsAddr     = netip.MustParseAddr(DNS)
	hostAddr    = netip.MustParseAddr("127.0.0.1") // which the gateway stands for
	dnsAddress  = tcpip.AddrFrom4(dnsAddr.As4())
	subnet      = netip.PrefixFrom(gatewayAddr, Prefix).Masked()
)

// Config says what the sandbox may reach and how. The zero value is usable.
type Config struct {
	// Dial makes an outbound connection; network is "tcp4" or "udp4", addr an
	// address and port. nil means net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Policy says what may be reached and looked up; nil is that of the zero
	// sandbox.Network.
	Policy *netpolicy.Policy
	// Record is told of each connection, of those that are made when they open and
	// when they end. It is called by one goroutine at a time and must return: Close
	// waits for it, connections do not. What comes faster than it takes is told of
	// in its latest state only, or as a number. nil: nobody is told.
	Record func(sandbox.Connection)
	// Resolver answers DNS queries; nil means HostResolver("").
	Resolver Resolver
	// Ethernet says that the device is a TAP: it carries ethernet frames, and the
	// stack answers ARP.
	Ethernet bool

	MaxTCP      int           // concurrent TCP connections, 0 = 512
	MaxUDP      int           // concurrent UDP flows, 0 = 128
	UDPIdle     time.Duration // a UDP flow ends after this without a packet, 0 = 60 s
	DialTimeout time.Duration // 0 = 30 s
	Logger      *slog.Logger  // nil = none; refusals are logged at debug level
}

func (c Config) withDefaults() (Config, error) {
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
	if c.Policy == nil {
		var err error
		if c.Policy, err = netpolicy.Compile(sandbox.Network{}); err != nil {
			return c, err
		}
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
	return c, nil
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
	names  *names
	log    *journal
	ctx    context.Context // ends with the stack
	cancel context.CancelFunc
	reader sync.WaitGroup

	tcpSlots chan struct{}
	udpSlots chan struct{}

	mu     sync.Mutex
	closed bool
	work   sync.WaitGroup // goroutines of connections
}

// Start serves the device (IFF_TUN|IFF_NO_PI, or IFF_TAP|IFF_NO_PI) behind
// tunFD until Close. It works on a duplicate: the descriptor stays the caller's, is
// made non-blocking, and must not be read by anybody else meanwhile.
func Start(tunFD int, cfg Config) (*Stack, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("usernet: %w", err)
	}
	s := &Stack{cfg: cfg, bufs: &buffers{}, names: newNames(), log: newJournal(cfg.Record, cfg.Logger)}
	dev, err := newDevice(tunFD, cfg.Ethernet, s.bufs)
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
	protocols := []stack.NetworkProtocolFactory{ipv4.NewProtocol}
	if s.cfg.Ethernet {
		protocols = append(protocols, arp.NewProtocol)
	}
	s.net = stack.New(stack.Options{
		NetworkProtocols:   protocols,
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
	var link stack.LinkEndpoint = dev
	if dev.ethernet {
		link = ethernet.New(dev)
	}
	if err := n.CreateNIC(nicID, link); err != nil {
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
	s.reader.Wait() // datagrams are refused until then
	s.log.close()
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

var errNobody = errors.New("nobody is at this address of the sandbox's own network")

// route is where a connection of the sandbox goes.
type route struct {
	host string // by which name; "" = by the address alone
	to   netip.AddrPort
}

// route asks the policy about an address that the sandbox sends to, and tells of
// it if it is refused.
func (s *Stack) route(protocol string, id stack.TransportEndpointID) (route, error) {
	r := route{to: netip.AddrPortFrom(netip.AddrFrom4(id.LocalAddress.As4()), id.LocalPort)}
	var err error
	switch {
	case r.to.Addr() == gatewayAddr:
		r.to = netip.AddrPortFrom(hostAddr, r.to.Port())
		_, err = s.cfg.Policy.Connect(nil, r.to)
	case subnet.Contains(r.to.Addr()):
		err = errNobody
	default:
		r.host, err = s.cfg.Policy.Connect(s.names.hosts(r.to.Addr()), r.to)
	}
	if err != nil {
		s.log.failed(protocol, r.host, r.to, sandbox.VerdictRefused, err.Error())
	}
	return r, err
}

// dial makes the outside connection, and tells of it if it cannot be made.
func (s *Stack) dial(protocol string, r route) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.DialTimeout)
	defer cancel()
	conn, err := s.cfg.Dial(ctx, protocol+"4", r.to.String())
	if err != nil {
		s.log.failed(protocol, r.host, r.to, sandbox.VerdictFailed, reason(err))
	}
	return conn, err
}
