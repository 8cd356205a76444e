package treecopy

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Remove deletes a directory with all that is below it, also what its owner closed
// to itself and what lies deeper than any path is long. Nothing may run in it. It
// needs three descriptors whatever the tree: directories are moved up before they
// are emptied. Removing what is not there is no error.
func Remove(dir string) error {
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err == nil {
		r := remover{root: root}
		err = r.empty(unix.AT_FDCWD, dir)
		_ = unix.Close(root)
	}
	if err == nil {
		err = unix.Rmdir(dir)
	}
	if err != nil {
		return &os.PathError{Op: "remove", Path: dir, Err: err}
	}
	return nil
}

// remover empties one tree.
type remover struct {
	root  int // its directory, by which nothing is listed
	moved int // directories that were moved up
}

// manyPasses is how often a directory is looked through before it counts as one that
// somebody writes to.
const manyPasses = 100

// empty removes all that is in a directory, or moves it up. In the root itself
// directories are emptied in their place.
func (r *remover) empty(parent int, name string) error {
	fd, err := openAny(parent, name)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(fd), name)
	defer func() { _ = dir.Close() }()
	top := parent == unix.AT_FDCWD
	for pass := 0; ; pass++ {
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return err
		}
		foreign := false
		seen, err := eachName(dir, func(name string) error {
			foreign = foreign || !top || !strings.HasPrefix(name, movedPrefix)
			return r.entry(fd, name, top)
		})
		if err != nil || seen == 0 {
			return err
		}
		if foreign && pass > manyPasses {
			return unix.ENOTEMPTY
		}
	}
}

// entry removes what a name is, or moves it up.
func (r *remover) entry(dir int, name string, top bool) error {
	err := unix.Unlinkat(dir, name, 0)
	switch {
	case !errors.Is(err, unix.EISDIR):
		return os.NewSyscallError("unlink", err)
	case !top:
		return r.up(dir, name)
	}
	if err := r.empty(dir, name); err != nil {
		return err
	}
	return os.NewSyscallError("rmdir", unix.Unlinkat(dir, name, unix.AT_REMOVEDIR))
}

// movedPrefix begins the names of directories that were moved up.
const movedPrefix = "moved-"

// up moves a directory into the root, if it is not empty.
func (r *remover) up(parent int, name string) error {
	if unix.Unlinkat(parent, name, unix.AT_REMOVEDIR) == nil {
		return nil
	}
	if os.Geteuid() != 0 { // its own ".." changes, which needs the right to write
		if err := chmodAt(parent, name, 0o700); err != nil {
			return err
		}
	}
	for {
		r.moved++
		err := unix.Renameat2(parent, name, r.root, movedPrefix+strconv.Itoa(r.moved), unix.RENAME_NOREPLACE)
		if !errors.Is(err, unix.EEXIST) {
			return os.NewSyscallError("rename", err)
		}
	}
}

// eachName calls f for what is in a directory and returns how much that was.
func eachName(dir *os.File, f func(string) error) (int, error) {
	count := 0
	for {
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			if err := f(name); err != nil {
				return count, err
			}
		}
		count += len(names)
		if errors.Is(err, io.EOF) {
			return count, nil
		}
		if err != nil {
			return count, err
		}
	}
}

// openAny opens a directory for listing and changing, also one that its owner
// closed to itself.
func openAny(parent int, name string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(parent, name, flags, 0)
	if errors.Is(err, unix.EACCES) {
		if err := chmodAt(parent, name, 0o700); err != nil {
			return 0, err
		}
		fd, err = unix.Openat(parent, name, flags, 0)
	}
	if err != nil {
		return 0, os.NewSyscallError("open", err)
	}
	if os.Geteuid() != 0 {
		err = os.NewSyscallError("chmod", unix.Fchmod(fd, 0o700))
	}
	if err != nil {
		return 0, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// chmodAt sets the mode of what name is, which is no symbolic link. The call that
// does the same is younger than kernels in use (6.6).
func chmodAt(parent int, name string, mode uint32) error {
	fd, err := unix.Openat(parent, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	defer func() { _ = unix.Close(fd) }()
	return os.NewSyscallError("chmod", unix.Chmod(self(fd), mode))
}
