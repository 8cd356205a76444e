package sandboxd

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/tool"
)

// replacement is a file beside the one it is to replace.
type replacement struct {
	file   *os.File
	target string
	mode   uint32
	owner  *syscall.Stat_t // of the file replaced; nil if there is none
}

// newReplacement opens a file for what will be target, which is no link.
func newReplacement(target string, opt tool.WriteOptions) (*replacement, error) {
	r := &replacement{target: target, mode: uint32(opt.Mode.Perm())}
	if r.mode == 0 {
		r.mode = defaultFileMode
	}
	info, err := os.Lstat(target)
	switch {
	case err == nil:
		if err := checkRegular(info); err != nil {
			return nil, err
		}
		r.owner, _ = info.Sys().(*syscall.Stat_t)
		if err := unix.Access(target, unix.W_OK); err != nil {
			return nil, err // a rename would not ask the file
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	name := directory(target) + ".parley-" + rand.Text()[:16] + ".tmp"
	r.file, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	return r, err
}

func (r *replacement) fill(data []byte) error {
	if _, err := r.file.Write(data); err != nil {
		return err
	}
	if r.owner != nil {
		r.mode = r.owner.Mode & 0o7777
		if err := r.keepOwner(); err != nil {
			return err
		}
	}
	// After chown, which clears set-id bits.
	return unix.Fchmod(int(r.file.Fd()), r.mode)
}

func (r *replacement) keepOwner() error {
	var now unix.Stat_t
	if err := unix.Fstat(int(r.file.Fd()), &now); err != nil {
		return err
	}
	if now.Uid == r.owner.Uid && now.Gid == r.owner.Gid {
		return nil
	}
	err := r.file.Chown(int(r.owner.Uid), int(r.owner.Gid))
	switch {
	case errors.Is(err, unix.EINVAL):
		return nil // an owner that has no number in the sandbox: nobody can keep it
	case errors.Is(err, unix.EPERM):
		return fault.Wrap(err, fault.Forbidden, CodeKeepOwner,
			"Cannot write %s: it belongs to another user or group, and replacing it would change that.", r.target).
			WithHint("Change it in place with a command.")
	}
	return err
}

// commit gives the replacement its name; exclusive refuses one that is taken.
func (r *replacement) commit(exclusive bool) error {
	temp := r.file.Name()
	err := r.file.Close()
	if err == nil && exclusive {
		err = renameNew(temp, r.target)
	} else if err == nil {
		err = unix.Rename(temp, r.target)
	}
	if err != nil {
		_ = unix.Unlink(temp)
	}
	return err
}

func (r *replacement) discard() {
	_ = r.file.Close()
	_ = unix.Unlink(r.file.Name())
}

// renameNew renames unless to exists, whatever the file system can do.
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if err != unix.EINVAL && err != unix.ENOSYS {
		return err
	}
	if err := unix.Link(from, to); err != nil {
		return err
	}
	return unix.Unlink(from)
}
