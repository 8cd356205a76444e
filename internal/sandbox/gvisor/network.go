package gvisor

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox/tun"
)

// The box's side of its network. runsc takes addresses and routes of the device
// over into the box; on the host's side it then has none.
const (
	tapName = "eth0"
	tapMTU  = 65521 - 1 // the kernel's largest for an ethernet device, less one
)

// makeNetwork furnishes this process's network namespace: loopback, and the device
// to the server, which stays when its descriptor is closed. -1: there is none.
func makeNetwork(outbound bool) (int, error) {
	// Only IPv4 goes out; the host's kernel must not speak on the device by itself.
	_ = os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0) // a kernel without IPv6 has no such file
	if err := tun.Loopback(); err != nil || !outbound {
		return -1, err
	}
	tap, err := openDevice()
	if err != nil {
		return -1, err
	}
	err = os.NewSyscallError("TUNSETPERSIST", unix.IoctlSetInt(tap, unix.TUNSETPERSIST, 1))
	if err == nil {
		err = tun.Route(tapName, tapMTU)
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(tap))
	}
	return tap, nil
}

// openDevice opens the device in this thread's network namespace.
func openDevice() (int, error) {
	fd, err := unix.Open(tun.Path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: tun.Path, Err: err}
	}
	if err := tun.MakeEthernet(fd, tapName); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
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
	fd := -1
	err = onOtherThread(func() error {
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return os.NewSyscallError("setns", err)
		}
		var err error
		fd, err = openDevice()
		return err
	})
	return fd, err
}

// onOtherThread runs do on a thread that ends with it, whatever it did to itself. The
// first thread of a process cannot end, and the system shows its namespaces as those of
// the whole process.
func onOtherThread(do func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if unix.Gettid() == unix.Getpid() {
			err := onOtherThread(do) // which is another one as long as this goroutine holds the first
			runtime.UnlockOSThread()
			result <- err
			return
		}
		result <- do()
	}()
	return <-result
}
