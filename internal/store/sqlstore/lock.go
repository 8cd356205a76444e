package sqlstore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
)

// LockFile is the name of the lock in the data directory; it holds the pid of
// the process that has it. It stays when the lock is given up.
const LockFile = "lock"

// lockDir makes dir if it is not there and takes its lock until the returned
// file is closed, at the latest when the process dies.
func lockDir(dir string) (io.Closer, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, lockFault(err, dir)
	}
	path := filepath.Join(dir, LockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, lockFault(err, dir)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder := readHolder(f)
		_ = f.Close() // nothing was written
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, inUse(holder, dir)
		}
		return nil, lockFault(err, dir)
	}
	// The pid only serves the message: a full disk must not keep a server from
	// starting and showing what it has.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	}
	return f, nil
}

// readHolder returns the pid in the file, 0 if there is none.
func readHolder(f *os.File) int {
	buf := make([]byte, 32)
	n, _ := f.ReadAt(buf, 0) // a short read is the normal case
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	if err != nil {
		return 0
	}
	return pid
}

func inUse(pid int, dir string) error {
	who := "another parley serve"
	if pid > 0 {
		who = fmt.Sprintf("another parley serve (pid %d)", pid)
	}
	return fault.New(fault.Unavailable, CodeInUse, "%s uses this data directory.", who).
		WithHint("Stop it, or choose another directory than %s.", dir).WithOp("store.open")
}

func lockFault(err error, dir string) error {
	return fault.Wrap(err, fault.Unavailable, "store_unusable", "The data directory cannot be used: %s.", reason(err)).
		WithHint("Make %s writable for the server's user.", dir).WithOp("store.open")
}

// reason returns the operating system's text for err.
func reason(err error) string {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return "unknown reason"
}
