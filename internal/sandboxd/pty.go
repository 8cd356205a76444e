package sandboxd

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
)

// openPTY opens a pseudo terminal. The master is non-blocking, so that it has
// deadlines and closing it ends a read; the program's side is an ordinary file.
func openPTY(rows, cols uint16) (master, slave *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, noPTY(err)
	}
	slaveFD, err := unlockPeer(fd)
	if err == nil {
		err = setSize(fd, rows, cols)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, nil, noPTY(err)
	}
	return os.NewFile(uintptr(fd), "ptmx"), os.NewFile(uintptr(slaveFD), "pts"), nil
}

func unlockPeer(master int) (int, error) {
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return -1, err
	}
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	// TIOCGPTPEER needs no path, which may name another terminal in a mount namespace.
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, flags)
	if errno == 0 {
		return int(fd), nil
	}
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return -1, err
	}
	return unix.Open("/dev/pts/"+strconv.Itoa(n), flags, 0)
}

func noPTY(err error) error {
	f := fault.Wrap(err, fault.Unavailable, "no_terminal", "The sandbox cannot open a pseudo terminal.")
	if errors.Is(err, unix.ENOSPC) {
		return f.WithHint("The system's limit of pseudo terminals is reached.")
	}
	return f.WithHint("It needs /dev/ptmx and a devpts file system.")
}

func setSize(master int, rows, cols uint16) error {
	return unix.IoctlSetWinsize(master, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
}

// control runs f with the descriptor of file without making it blocking, as Fd would.
func control(file *os.File, f func(fd int) error) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := conn.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}
