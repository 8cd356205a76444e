package docker

import (
	"fmt"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox/tun"
)

// The box's side of its network.
const (
	tunName    = "tun0"
	nameServer = "10.0.2.3"
)

// openTun makes the network device and makes it the way out. Programs inside have
// no use for the device's node, so it is removed where that is possible.
func openTun() (int, error) {
	fd, err := unix.Open(tun.Path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", tun.Path, err)
	}
	_ = unix.Unlink(tun.Path)
	if err = tun.Make(fd, tunName); err == nil {
		err = tun.Route(tunName, tun.MTU)
	}
	if err != nil {
		_ = unix.Close(fd)
		return 0, fmt.Errorf("%s: %w", tun.Path, err)
	}
	return fd, nil
}
