package hostbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// maxSunPath is the longest path that bind and connect take (sun_path less its
// terminating zero). Longer ones go through /proc/self/fd.
const maxSunPath = 107

// Listen makes the box's socket (mode 0600) and returns it listening. The file
// is handed to the box's first process, which alone accepts from it; the path is
// not visible inside.
func (d *Dir) Listen() (*os.File, error) {
	if err := os.Remove(d.Path(sockFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	f := os.NewFile(uintptr(fd), "sock")
	if err := d.bind(fd); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (d *Dir) bind(fd int) error {
	err := d.withSocketPath(func(path string) error {
		if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
			return os.NewSyscallError("bind", err)
		}
		return os.Chmod(path, 0o600)
	})
	if err != nil {
		return err
	}
	return os.NewSyscallError("listen", unix.Listen(fd, unix.SOMAXCONN))
}

// dial connects to the box's socket.
func (d *Dir) dial(ctx context.Context) (conn net.Conn, err error) {
	err = d.withSocketPath(func(path string) error {
		conn, err = new(net.Dialer).DialContext(ctx, "unix", path)
		return err
	})
	return conn, err
}

// withSocketPath calls f with a path of the socket that fits into sun_path.
func (d *Dir) withSocketPath(f func(string) error) error {
	if path := d.Path(sockFile); len(path) <= maxSunPath {
		return f(path)
	}
	dir, err := os.Open(d.path)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return f(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), sockFile))
}
