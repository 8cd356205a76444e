package hostbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

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

// openFiles makes what a box's first process gets: its socket and its log.
func (d *Dir) openFiles() (lis, log *os.File, err error) {
	if lis, err = d.Listen(); err != nil {
		return nil, nil, err
	}
	if log, err = d.OpenLog(); err != nil {
		return nil, nil, errors.Join(err, lis.Close())
	}
	return lis, log, nil
}

func (d *Dir) bind(fd int) error {
	err := WithShortPath(d.Path(sockFile), func(path string) error {
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
	err = WithShortPath(d.Path(sockFile), func(path string) error {
		conn, err = new(net.Dialer).DialContext(ctx, "unix", path)
		return err
	})
	return conn, err
}

// WithShortPath calls f with a path of the socket at path that fits into sun_path.
func WithShortPath(path string, f func(string) error) error {
	if len(path) <= maxSunPath {
		return f(path)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return f(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
}
