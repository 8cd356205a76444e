package treecopy

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Size is what a tree takes.
type Size struct {
	Bytes  int64 // of the disk; a file with several names counts in parts
	Inodes int64 // names: files, directories and all else
}

// Measure walks through a tree, which may change meanwhile: what is moved then may
// be left out. Neither depth nor the mode of a directory hides what is in it: what
// its owner, an ordinary user, closed to itself is opened as long as it is visited.
// It never follows a link.
func Measure(ctx context.Context, dir string) (Size, error) {
	root, err := openRoot(dir)
	if err != nil {
		return Size{}, err
	}
	m := meter{user: os.Geteuid()}
	defer m.close()
	if err := m.enter(ctx, root, 0); err != nil {
		return m.sum, err
	}
	for len(m.levels) > 0 {
		if err := m.next(ctx); err != nil {
			return m.sum, err
		}
	}
	return m.sum, nil
}

// keepOpen is how many directories above the present one stay open. Those further
// up are found again as parents of what lies in them.
const keepOpen = 32

// meter walks through one tree, depth first.
type meter struct {
	user   int
	sum    Size
	levels []level // the present directory is the last
}

// level is a directory on the way to the present one.
type level struct {
	fd       int // -1 = not open
	dev, ino uint64
	dirs     []subdir // those in it that were not visited yet
	restore  uint32   // the mode it had; 0 = it has it
}

// subdir is a directory that is still to be visited.
type subdir struct {
	name string
	mode uint32
}

// next visits a directory, or goes up where none is left.
func (m *meter) next(ctx context.Context) error {
	here := &m.levels[len(m.levels)-1]
	if len(here.dirs) == 0 {
		m.leave()
		return ctx.Err()
	}
	dir := here.dirs[len(here.dirs)-1]
	here.dirs = here.dirs[:len(here.dirs)-1]
	fd, changed, err := m.open(here.fd, dir)
	if err != nil {
		return ctx.Err() // it was removed meanwhile, or is not ours to look into
	}
	restore := uint32(0)
	if changed {
		restore = dir.mode
	}
	return m.enter(ctx, fd, restore)
}

// open opens a directory, also one that its owner closed to itself, and reports
// whether that changed its mode.
func (m *meter) open(parent int, dir subdir) (fd int, changed bool, err error) {
	if m.user != 0 && dir.mode&0o500 != 0o500 {
		changed = chmodAt(parent, dir.name, dir.mode&0o7777|0o500) == nil
	}
	fd, err = openDir(parent, dir.name)
	if err != nil && changed {
		_ = chmodAt(parent, dir.name, dir.mode&0o7777)
	}
	return fd, changed, err
}

// enter counts what is in an open directory, which becomes the present one.
func (m *meter) enter(ctx context.Context, fd int, restore uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return errors.Join(os.NewSyscallError("fstat", err), unix.Close(fd))
	}
	here := level{fd: fd, dev: st.Dev, ino: st.Ino, restore: restore}
	err := m.count(ctx, &here)
	m.levels = append(m.levels, here)
	if far := len(m.levels) - 1 - keepOpen; far >= 0 && m.levels[far].fd >= 0 {
		_ = unix.Close(m.levels[far].fd)
		m.levels[far].fd = -1
	}
	return err
}

// count adds what is in a directory to the sum.
func (m *meter) count(ctx context.Context, here *level) error {
	copied, err := unix.FcntlInt(uintptr(here.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("dup", err)
	}
	dir := os.NewFile(uintptr(copied), "")
	defer func() { _ = dir.Close() }()
	_, err = eachName(dir, func(name string) error {
		var st unix.Stat_t
		if unix.Fstatat(here.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			return ctx.Err() // it was removed meanwhile
		}
		m.sum.Inodes++
		names := int64(st.Nlink) //nolint:unconvert // 32 bits wide on some architectures
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			names = 1 // its links are its own
			here.dirs = append(here.dirs, subdir{name, st.Mode})
		}
		m.sum.Bytes += st.Blocks * 512 / max(1, names)
		return ctx.Err()
	})
	return err
}

// leave goes up. A directory that is not where it was any more is not ours to go
// up from: what is left above it is given up.
func (m *meter) leave() {
	here := m.levels[len(m.levels)-1]
	m.levels = m.levels[:len(m.levels)-1]
	if len(m.levels) > 0 && m.levels[len(m.levels)-1].fd < 0 {
		above := &m.levels[len(m.levels)-1]
		if above.fd = parentOf(here.fd, above); above.fd < 0 {
			m.levels = nil
		}
	}
	here.close()
}

// parentOf opens the directory above an open one; -1 if it is not the expected one.
func parentOf(fd int, want *level) int {
	up, err := unix.Openat(fd, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	var st unix.Stat_t
	if unix.Fstat(up, &st) != nil || st.Dev != want.dev || st.Ino != want.ino {
		_ = unix.Close(up)
		return -1
	}
	return up
}

// close gives a directory its mode back and lets go of it.
func (l *level) close() {
	if l.fd < 0 {
		return
	}
	if l.restore != 0 {
		_ = unix.Fchmod(l.fd, l.restore&0o7777)
	}
	_ = unix.Close(l.fd)
}

// close lets go of what is open.
func (m *meter) close() {
	for len(m.levels) > 0 {
		m.leave()
	}
}
