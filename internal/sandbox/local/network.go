package local

import (
	"fmt"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox/tun"
)

// tunName is the network device of a box.
const tunName = "tun0"

// openTun makes the network device. A device node of the box's own comes first:
// the host's may be closed to the box's user. Without one the box has loopback
// only, and says so.
func (b *builder) openTun(files int) {
	if !b.config.Outbound {
		return
	}
	fd, err := unix.Openat(files, tunNode, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		fd, err = unix.Open(tun.Path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	}
	if err == nil {
		if err = tun.Make(fd, tunName); err != nil {
			_ = unix.Close(fd)
		}
	}
	if err != nil {
		b.tunMissing = tun.Path + ": " + err.Error()
		return
	}
	b.tun = fd
}

// network switches loopback on, and makes the network device, if there is one, the
// way out.
func (b *builder) network() error {
	if err := tun.Loopback(); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	if b.tun == 0 {
		return nil
	}
	if err := tun.Route(tunName, tun.MTU); err != nil {
		return fmt.Errorf("network device: %w", err)
	}
	return nil
}
