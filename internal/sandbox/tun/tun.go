// Package tun furnishes the network namespace of a box from inside: loopback, and
// the device whose other end is the server's, which is the only way out.
package tun

import (
	"encoding/binary"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Path is where hosts have the node that makes devices, and Major and Minor its
// number.
const (
	Path  = "/dev/net/tun"
	Major = 10
	Minor = 200
)

// MTU is the largest packet of a layer 3 device, in bytes.
const MTU = 65520

// Addresses inside, a /24, and of the server's side.
var (
	boxAddr     = []byte{10, 0, 2, 100}
	boxMask     = []byte{255, 255, 255, 0}
	gatewayAddr = []byte{10, 0, 2, 2}
)

// kind is that of the devices made here: layer 3, without packet information.
const kind = unix.IFF_TUN | unix.IFF_NO_PI

// Make makes a layer 3 device of this name. fd is the opened node; it is the device
// from then on.
func Make(fd int, name string) error { return makeDevice(fd, name, kind) }

// MakeEthernet makes a device of ethernet frames, without packet information, or
// opens the one of that name. fd is as in Make.
func MakeEthernet(fd int, name string) error {
	return makeDevice(fd, name, unix.IFF_TAP|unix.IFF_NO_PI)
}

func makeDevice(fd int, name string, flags uint16) error {
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	ifr.SetUint16(flags)
	return os.NewSyscallError("TUNSETIFF", unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr))
}

// Check refuses what is not a device that Make made. A descriptor that comes from a
// box will be read and written for ever.
func Check(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != unix.Mkdev(Major, Minor) {
		return errors.New("what the box has is not a network device")
	}
	ifr, err := unix.NewIfreq("")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.TUNGETIFF, ifr); err != nil {
		return os.NewSyscallError("TUNGETIFF", err)
	}
	const kinds = unix.IFF_TUN | unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR
	if ifr.Uint16()&kinds != kind {
		return errors.New("what the box has is a network device of another kind")
	}
	return nil
}

// Loopback switches the loopback device on.
func Loopback() error { return configure("lo", up) }

// Route gives a device the box's address and the size of its largest packet, in
// bytes, and makes it the way out.
func Route(name string, mtu uint32) error {
	err := configure(name,
		setting{unix.SIOCSIFADDR, "SIOCSIFADDR", func(r *unix.Ifreq) error { return r.SetInet4Addr(boxAddr) }},
		setting{unix.SIOCSIFNETMASK, "SIOCSIFNETMASK", func(r *unix.Ifreq) error { return r.SetInet4Addr(boxMask) }},
		setting{unix.SIOCSIFMTU, "SIOCSIFMTU", func(r *unix.Ifreq) error { r.SetUint32(mtu); return nil }},
		up)
	if err != nil {
		return err
	}
	return defaultRoute()
}

// setting is something that a device is told.
type setting struct {
	request uint
	name    string
	set     func(*unix.Ifreq) error
}

var up = setting{unix.SIOCSIFFLAGS, "SIOCSIFFLAGS", func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }}

func configure(device string, settings ...setting) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer func() { _ = unix.Close(fd) }()
	for _, s := range settings {
		ifr, err := unix.NewIfreq(device)
		if err == nil {
			err = s.set(ifr)
		}
		if err == nil {
			err = os.NewSyscallError(s.name, unix.IoctlIfreq(fd, s.request, ifr))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// defaultRoute adds 0.0.0.0/0 via the gateway, by rtnetlink(7).
func defaultRoute() error {
	const headerLen, routeLen, attrLen = unix.SizeofNlMsghdr, unix.SizeofRtMsg, unix.SizeofRtAttr + 4
	msg := make([]byte, headerLen+routeLen+attrLen)
	order := binary.NativeEndian
	order.PutUint32(msg[0:], uint32(len(msg)))
	order.PutUint16(msg[4:], unix.RTM_NEWROUTE)
	order.PutUint16(msg[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	order.PutUint32(msg[8:], 1)
	route := msg[headerLen:]
	route[0] = unix.AF_INET
	route[4] = unix.RT_TABLE_MAIN
	route[5] = unix.RTPROT_BOOT
	route[6] = unix.RT_SCOPE_UNIVERSE
	route[7] = unix.RTN_UNICAST
	attr := route[routeLen:]
	order.PutUint16(attr[0:], attrLen)
	order.PutUint16(attr[2:], unix.RTA_GATEWAY)
	copy(attr[4:], gatewayAddr)
	return netlink(msg)
}

// netlink sends a request to the routing tables and returns their verdict.
func netlink(msg []byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return os.NewSyscallError("netlink", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Sendto(fd, msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("netlink", err)
	}
	reply := make([]byte, 512)
	n, _, err := unix.Recvfrom(fd, reply, 0)
	if err != nil {
		return os.NewSyscallError("netlink", err)
	}
	if n < unix.SizeofNlMsghdr+4 || binary.NativeEndian.Uint16(reply[4:]) != unix.NLMSG_ERROR {
		return errors.New("netlink: no answer")
	}
	if errno := int32(binary.NativeEndian.Uint32(reply[unix.SizeofNlMsghdr:])); errno != 0 {
		return os.NewSyscallError("netlink", unix.Errno(-errno))
	}
	return nil
}
