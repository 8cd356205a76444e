package local

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// cloneTree returns a detached copy of the mount at path; flags may ask for what
// is mounted below it too.
func cloneTree(path string, flags uint) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|flags)
	if err != nil {
		return 0, &os.PathError{Op: "open_tree", Path: path, Err: err}
	}
	return fd, nil
}

// setMount sets attributes of a mount.
func setMount(fd int, attr int) error { return setAttr(fd, 0, &unix.MountAttr{Attr_set: uint64(attr)}) }

// setTree sets attributes of a mount and of those below it.
func setTree(fd int, attr int) error {
	return setAttr(fd, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: uint64(attr)})
}

func setAttr(fd int, flags uint, attr *unix.MountAttr) error {
	return os.NewSyscallError("mount_setattr", unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|flags, attr))
}

// attach puts a detached mount at target.
func attach(fd int, target string) error {
	err := unix.MoveMount(fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
	if err != nil {
		return &os.PathError{Op: "move_mount", Path: target, Err: err}
	}
	return nil
}

// fsContext is a file system under configuration.
type fsContext int

// newFS configures a file system. An option without a value is a flag.
func newFS(kind string, options [][2]string) (fsContext, error) {
	fd, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return 0, os.NewSyscallError("fsopen", err)
	}
	fs := fsContext(fd)
	for _, o := range options {
		if o[1] == "" {
			err = unix.FsconfigSetFlag(fd, o[0])
		} else {
			err = unix.FsconfigSetString(fd, o[0], o[1])
		}
		if err != nil {
			return 0, fs.failed("option "+o[0], err)
		}
	}
	if err := unix.FsconfigCreate(fd); err != nil {
		return 0, fs.failed("create", err)
	}
	return fs, nil
}

// mount returns a detached mount of the file system and ends its configuration.
func (fs fsContext) mount(attr int) (int, error) {
	fd, err := unix.Fsmount(int(fs), unix.FSMOUNT_CLOEXEC, attr)
	if err != nil {
		return 0, fs.failed("fsmount", err)
	}
	return fd, unix.Close(int(fs))
}

// failed adds what the kernel says about the failure, and ends the configuration.
func (fs fsContext) failed(what string, err error) error {
	var text strings.Builder
	buf := make([]byte, 1024)
	for {
		n, rerr := unix.Read(int(fs), buf)
		if rerr != nil || n == 0 {
			break
		}
		fmt.Fprintf(&text, " (%s)", strings.TrimSpace(string(buf[:n])))
	}
	_ = unix.Close(int(fs))
	return fmt.Errorf("%s: %w%s", what, err, text.String())
}

// changeRoot makes a detached mount the root of all and lets go of the old one.
func changeRoot(root int) error {
	old, err := unix.Open("/", unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(old) }()
	if err := attach(root, stage); err != nil {
		return err
	}
	if err := unix.Fchdir(root); err != nil {
		return os.NewSyscallError("fchdir", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return os.NewSyscallError("pivot_root", err)
	}
	if err := unix.Fchdir(old); err != nil {
		return os.NewSyscallError("fchdir", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return os.NewSyscallError("umount", err)
	}
	if err := unix.Close(root); err != nil {
		return err
	}
	return os.Chdir("/")
}
