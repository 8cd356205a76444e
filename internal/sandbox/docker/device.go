package docker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The box's side of its network.
const (
	tunName    = "tun0"
	tunMTU     = 65520
	nameServer = "10.0.2.3"
)

// Addresses inside and of the server's side.
var (
	boxAddr     = []byte{10, 0, 2, 100}
	boxMask     = []byte{255, 255, 255, 0}
	gatewayAddr = []byte{10, 0, 2, 2}
)

// openTun makes the network device and makes it the way out. Programs inside have
// no use for the device's node, so it is removed where that is possible.
func openTun() (int, error) {
	fd, err := unix.Open(tunPath, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", tunPath, err)
	}
	_ = unix.Unlink(tunPath)
	ifr, err := unix.NewIfreq(tunName)
	if err == nil {
		ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = os.NewSyscallError("TUNSETIFF", unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr))
	}
	if err == nil {
		err = route()
	}
	if err != nil {
		_ = unix.Close(fd)
		return 0, fmt.Errorf("%s: %w", tunPath, err)
	}
	return fd, nil
}

// route gives the network device its address and makes it the way out.
func route() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer func() { _ = unix.Close(fd) }()
	for _, step := range []struct {
		request uint
		name    string
		set     func(*unix.Ifreq) error
	}{
		{unix.SIOCSIFADDR, "SIOCSIFADDR", func(r *unix.Ifreq) error { return r.SetInet4Addr(boxAddr) }},
		{unix.SIOCSIFNETMASK, "SIOCSIFNETMASK", func(r *unix.Ifreq) error { return r.SetInet4Addr(boxMask) }},
		{unix.SIOCSIFMTU, "SIOCSIFMTU", func(r *unix.Ifreq) error { r.SetUint32(tunMTU); return nil }},
		{unix.SIOCSIFFLAGS, "SIOCSIFFLAGS", func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }},
	} {
		ifr, err := unix.NewIfreq(tunName)
		if err == nil {
			err = step.set(ifr)
		}
		if err == nil {
			err = os.NewSyscallError(step.name, unix.IoctlIfreq(fd, step.request, ifr))
		}
		if err != nil {
			return err
		}
	}
	return defaultRoute()
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
