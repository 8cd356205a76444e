package usernet

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// gatewayMAC is the stack's address on a TAP device, of those that nobody is given
// by a maker.
const gatewayMAC = tcpip.LinkAddress("\x02\x00\x0a\x00\x02\x02")

// device is the TUN or TAP device as a link of the stack. While nothing arrives it
// holds one parked goroutine and no buffer.
type device struct {
	file     *os.File // a duplicate, served by the runtime's poller
	raw      syscall.RawConn
	ethernet bool // a TAP: frames, which package ethernet reads and writes
	bufs     *buffers

	mu         sync.RWMutex
	dispatcher stack.NetworkDispatcher
	stopped    atomic.Bool
}

var _ stack.LinkEndpoint = (*device)(nil)

func newDevice(tunFD int, ethernet bool, bufs *buffers) (*device, error) {
	fd, err := unix.FcntlInt(uintptr(tunFD), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicate the device: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(fmt.Errorf("set up the device: %w", err), unix.Close(fd))
	}
	file := os.NewFile(uintptr(fd), "tun")
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set up the device: %w", err), file.Close())
	}
	return &device{file: file, raw: raw, ethernet: ethernet, bufs: bufs}, nil
}

// readLoop hands packets to the stack until the device is stopped or gone.
func (d *device) readLoop() {
	for !d.stopped.Load() {
		var err error
		if waitErr := d.raw.Read(func(fd uintptr) bool {
			err = d.drain(int(fd))
			return !errors.Is(err, unix.EAGAIN)
		}); waitErr != nil || err != nil {
			return
		}
	}
}

// drain reads packets until there are none, which is EAGAIN, or until the
// device is stopped, which is nil.
func (d *device) drain(fd int) error {
	buf := d.bufs.packet()
	defer d.bufs.putPacket(buf)
	for !d.stopped.Load() {
		n, err := unix.Read(fd, buf[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		}
		if d.welcome(buf[:n]) {
			d.deliver(buf[:n])
		}
	}
	return nil
}

// welcome reports what the stack may see.
func (d *device) welcome(packet []byte) bool {
	if d.ethernet {
		return welcomeFrame(packet)
	}
	return welcome(packet)
}

// welcomeFrame drops frames of other protocols than IPv4 and ARP. The stack would
// answer for every address, also for the sandbox's own, which then asks in vain
// whether it is taken.
func welcomeFrame(frame []byte) bool {
	if len(frame) < header.EthernetMinimumSize {
		return false
	}
	packet := frame[header.EthernetMinimumSize:]
	switch header.Ethernet(frame).Type() {
	case header.IPv4ProtocolNumber:
		return welcome(packet)
	case header.ARPProtocolNumber:
		h := header.ARP(packet)
		return h.IsValid() && netip.AddrFrom4([4]byte(h.ProtocolAddressTarget())) != guestAddr
	}
	return false
}

// welcome drops what the stack must not see: other protocols, packets that do
// not come from the sandbox's network, and pings to anybody but the gateway,
// whom the stack would otherwise answer for.
func welcome(packet []byte) bool {
	h := header.IPv4(packet)
	if !h.IsValid(len(packet)) {
		return false
	}
	from := netip.AddrFrom4(h.SourceAddress().As4())
	if !subnet.Contains(from) || from == gatewayAddr || from == dnsAddr {
		return false
	}
	to := netip.AddrFrom4(h.DestinationAddress().As4())
	return h.TransportProtocol() != header.ICMPv4ProtocolNumber || to == gatewayAddr
}

func (d *device) deliver(packet []byte) {
	d.mu.RLock()
	dispatcher := d.dispatcher
	d.mu.RUnlock()
	if dispatcher == nil {
		return
	}
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(packet)})
	defer pkt.DecRef()
	dispatcher.DeliverNetworkPacket(header.IPv4ProtocolNumber, pkt)
}

// WritePackets implements stack.LinkWriter. A packet that the device does not
// take is lost, as on any wire.
func (d *device) WritePackets(list stack.PacketBufferList) (int, tcpip.Error) {
	n := 0
	for _, pkt := range list.AsSlice() {
		err := d.raw.Write(func(fd uintptr) bool {
			_, _ = unix.Writev(int(fd), pkt.AsSlices())
			return true
		})
		if err != nil {
			return n, &tcpip.ErrClosedForSend{}
		}
		n++
	}
	return n, nil
}

// stop ends readLoop. Only the duplicate is closed.
func (d *device) stop() error {
	d.stopped.Store(true)
	return d.file.Close()
}

// MTU implements stack.LinkEndpoint: with the ethernet header, if there is one.
func (d *device) MTU() uint32 {
	if d.ethernet {
		return MTU + header.EthernetMinimumSize
	}
	return MTU
}

// SetMTU implements stack.LinkEndpoint; the MTU is fixed.
func (d *device) SetMTU(uint32) {}

// MaxHeaderLength implements stack.LinkEndpoint: the link header is package
// ethernet's.
func (d *device) MaxHeaderLength() uint16 { return 0 }

// LinkAddress implements stack.LinkEndpoint: a TUN device has none.
func (d *device) LinkAddress() tcpip.LinkAddress {
	if d.ethernet {
		return gatewayMAC
	}
	return ""
}

// SetLinkAddress implements stack.LinkEndpoint.
func (d *device) SetLinkAddress(tcpip.LinkAddress) {}

// Capabilities implements stack.LinkEndpoint: packets come from the kernel of
// this machine and cannot have been damaged on the way.
func (d *device) Capabilities() stack.LinkEndpointCapabilities {
	return stack.CapabilityRXChecksumOffload
}

// Attach implements stack.LinkEndpoint.
func (d *device) Attach(dispatcher stack.NetworkDispatcher) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dispatcher = dispatcher
}

// IsAttached implements stack.LinkEndpoint.
func (d *device) IsAttached() bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.dispatcher != nil
}

// Wait implements stack.LinkEndpoint; the Stack joins the reader.
func (d *device) Wait() {}

// ARPHardwareType implements stack.LinkEndpoint.
func (d *device) ARPHardwareType() header.ARPHardwareType { return header.ARPHardwareNone }

// AddHeader implements stack.LinkEndpoint.
func (d *device) AddHeader(*stack.PacketBuffer) {}

// ParseHeader implements stack.LinkEndpoint.
func (d *device) ParseHeader(*stack.PacketBuffer) bool { return true }

// Close implements stack.LinkEndpoint; the Stack closes the device.
func (d *device) Close() {}

// SetOnCloseAction implements stack.LinkEndpoint.
func (d *device) SetOnCloseAction(func()) {}
