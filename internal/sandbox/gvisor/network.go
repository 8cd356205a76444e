package gvisor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// The box's side of its network. runsc takes addresses and routes of the device
// over into the box; on the host's side it then has none.
const (
	tapName = "eth0"
	tapMTU  = 65521 - 1 // the kernel's largest for an ethernet device, less one
	tunPath = "/dev/net/tun"
)

var (
	boxAddr     = []byte{10, 0, 2, 100}
	boxMask     = []byte{255, 255, 255, 0}
	gatewayAddr = []byte{10, 0, 2, 2}
)

// makeNetwork furnishes this process's network namespace: loopback, and the device
// to the server, which stays when its descriptor is closed. -1: there is none.
func makeNetwork(outbound bool) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	defer func() { _ = unix.Close(fd) }()
	// Only IPv4 goes out; the host's kernel must not speak on the device by itself.
	_ = os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0) // a kernel without IPv6 has no such file
	if err := up(fd, "lo"); err != nil || !outbound {
		return -1, err
	}
	tap, err := openDevice()
	if err != nil {
		return -1, err
	}
	for _, step := range []func() error{
		func() error { return os.NewSyscallError("TUNSETPERSIST", unix.IoctlSetInt(tap, unix.TUNSETPERSIST, 1)) },
		func() error { return setAddr(fd, unix.SIOCSIFADDR, boxAddr) },
		func() error { return setAddr(fd, unix.SIOCSIFNETMASK, boxMask) },
		func() error { return setMTU(fd) },
		func() error { return up(fd, tapName) },
		defaultRoute,
	} {
		if err := step(); err != nil {
			return -1, errors.Join(err, unix.Close(tap))
		}
	}
	return tap, nil
}

// openDevice opens the device in this thread's network namespace.
func openDevice() (int, error) {
	fd, err := unix.Open(tunPath, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: tunPath, Err: err}
	}
	ifr, err := unix.NewIfreq(tapName)
	if err == nil {
		ifr.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	}
	if err != nil {
		return -1, errors.Join(os.NewSyscallError("TUNSETIFF", err), unix.Close(fd))
	}
	return fd, nil
}

// openTap opens the device of the box that a process belongs to.
func openTap(pid int) (int, error) {
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return -1, err
	}
	defer func() { _ = ns.Close() }()
	type opened struct {
		fd  int
		err error
	}
	result := make(chan opened)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, and nothing else runs in the box's namespace
		err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
		if err != nil {
			result <- opened{-1, os.NewSyscallError("setns", err)}
			return
		}
		fd, err := openDevice()
		result <- opened{fd, err}
	}()
	r := <-result
	return r.fd, r.err
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
	ifr, err := unix.NewIfreq(tapName)
	if err != nil {
		return err
	}
	if err := ifr.SetInet4Addr(addr); err != nil {
		return err
	}
	return os.NewSyscallError("ioctl address", unix.IoctlIfreq(fd, request, ifr))
}

func setMTU(fd int) error {
	ifr, err := unix.NewIfreq(tapName)
	if err != nil {
		return err
	}
	ifr.SetUint32(tapMTU)
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
	if errno := int32(binary.NativeEndian.Uint32(reply[unix.SizeofNlMsghdr:])); errno != 0 {
		return os.NewSyscallError("netlink", unix.Errno(-errno))
	}
	return nil
}
