package local

import (
	"encoding/binary"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// The box's side of its network.
const (
	tunName = "tun0"
	tunMTU  = 65520
	tunPath = "/dev/net/tun"
)

// Addresses inside and of the server's side.
var (
	boxAddr     = []byte{10, 0, 2, 100}
	boxMask     = []byte{255, 255, 255, 0}
	gatewayAddr = []byte{10, 0, 2, 2}
)

// openTun makes the network device. A device node of the box's own comes first:
// the host's may be closed to the box's user. Without one the box has loopback
// only, and says so.
func (b *builder) openTun(files int) {
	if !b.config.Outbound {
		return
	}
	fd, err := unix.Openat(files, tunNode, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		fd, err = unix.Open(tunPath, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	}
	if err != nil {
		b.tunMissing = tunPath + ": " + err.Error()
		return
	}
	ifr, err := unix.NewIfreq(tunName)
	if err == nil {
		ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	}
	if err != nil {
		_ = unix.Close(fd)
		b.tunMissing = tunPath + ": " + err.Error()
		return
	}
	b.tun = fd
}

// loopback switches the loopback device on.
func (b *builder) loopback() error {
	return withSocket(func(fd int) error { return up(fd, "lo") })
}

// route gives the network device its address and makes it the way out.
func (b *builder) route() error {
	return withSocket(func(fd int) error {
		steps := []func() error{
			func() error { return setAddr(fd, unix.SIOCSIFADDR, boxAddr) },
			func() error { return setAddr(fd, unix.SIOCSIFNETMASK, boxMask) },
			func() error { return setMTU(fd) },
			func() error { return up(fd, tunName) },
			defaultRoute,
		}
		for _, step := range steps {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
}

func withSocket(f func(fd int) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer func() { _ = unix.Close(fd) }()
	return f(fd)
}

func up(fd int, name string) error {
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return os.NewSyscallError("SIOCSIFFLAGS", unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr))
}

func setAddr(fd int, request uint, addr []byte) error {
	ifr, err := unix.NewIfreq(tunName)
	if err != nil {
		return err
	}
	if err := ifr.SetInet4Addr(addr); err != nil {
		return err
	}
	return os.NewSyscallError("ioctl address", unix.IoctlIfreq(fd, request, ifr))
}

func setMTU(fd int) error {
	ifr, err := unix.NewIfreq(tunName)
	if err != nil {
		return err
	}
	ifr.SetUint32(tunMTU)
	return os.NewSyscallError("SIOCSIFMTU", unix.IoctlIfreq(fd, unix.SIOCSIFMTU, ifr))
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
	errno := int32(binary.NativeEndian.Uint32(reply[unix.SizeofNlMsghdr:]))
	if errno != 0 {
		return os.NewSyscallError("netlink", unix.Errno(-errno))
	}
	return nil
}
