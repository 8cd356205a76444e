package treecopy

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// maxAttrs bounds the names of a file's attributes; the kernel has the same bound.
const maxAttrs = 64 << 10

// owner sets the owner, where the server may.
func (c *copier) owner(fd int, st unix.Stat_t) error {
	if !c.root {
		return nil
	}
	return os.NewSyscallError("chown", unix.Fchown(fd, int(st.Uid), int(st.Gid)))
}

// finish sets owner, mode and times: the mode after the owner, whose change clears
// parts of it. The owner of a file is set before its attributes, since that clears
// capabilities.
func (c *copier) finish(fd int, st unix.Stat_t) error {
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		if err := c.owner(fd, st); err != nil {
			return err
		}
	}
	if err := unix.Fchmod(fd, st.Mode&0o7777); err != nil {
		return os.NewSyscallError("chmod", err)
	}
	times := []unix.Timespec{st.Atim, st.Mtim}
	return os.NewSyscallError("utimensat", unix.UtimesNanoAt(unix.AT_FDCWD, self(fd), times, 0))
}

// finishAt does the same for what is not opened.
func (p *place) finishAt(name string, st unix.Stat_t) error {
	if p.root {
		if err := unix.Fchownat(p.dst, name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return os.NewSyscallError("chown", err)
		}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		if err := unix.Fchmodat(p.dst, name, st.Mode&0o7777, 0); err != nil {
			return os.NewSyscallError("chmod", err)
		}
	}
	times := []unix.Timespec{st.Atim, st.Mtim}
	return os.NewSyscallError("utimensat", unix.UtimesNanoAt(p.dst, name, times, unix.AT_SYMLINK_NOFOLLOW))
}

// copyAttrs copies the extended attributes of an open file or directory.
func copyAttrs(from, to int) error {
	return attributes{
		list: func(buf []byte) (int, error) { return unix.Flistxattr(from, buf) },
		get:  func(name string, buf []byte) (int, error) { return unix.Fgetxattr(from, name, buf) },
		set:  func(name string, value []byte) error { return unix.Fsetxattr(to, name, value, 0) },
	}.copy()
}

// attrs copies the extended attributes of what is not opened.
func (p *place) attrs(name string) error {
	from, to := self(p.src)+"/"+name, self(p.dst)+"/"+name
	return attributes{
		list: func(buf []byte) (int, error) { return unix.Llistxattr(from, buf) },
		get:  func(name string, buf []byte) (int, error) { return unix.Lgetxattr(from, name, buf) },
		set:  func(name string, value []byte) error { return unix.Lsetxattr(to, name, value, 0) },
	}.copy()
}

func self(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

type attributes struct {
	list func([]byte) (int, error)
	get  func(string, []byte) (int, error)
	set  func(string, []byte) error
}

func (a attributes) copy() error {
	var few [256]byte
	names := few[:]
	n, err := a.list(names)
	if errors.Is(err, unix.ERANGE) {
		names = make([]byte, maxAttrs)
		n, err = a.list(names)
	}
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("listxattr", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names[:n]), "\x00"), "\x00") {
		if name == "" || !carried(name) {
			continue
		}
		if err := a.one(name); err != nil {
			return fmt.Errorf("attribute %s: %w", name, err)
		}
	}
	return nil
}

// carried reports whether an attribute belongs to the file, and not to the security
// policy of the host.
func carried(name string) bool {
	return !strings.HasPrefix(name, "security.") || name == "security.capability"
}

func (a attributes) one(name string) error {
	value := make([]byte, maxAttrs)
	n, err := a.get(name, value)
	if errors.Is(err, unix.ENODATA) {
		return nil
	}
	if err != nil {
		return err
	}
	return a.set(name, value[:n])
}
