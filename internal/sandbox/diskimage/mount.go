package diskimage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Mount is a mount of an image that is attached nowhere. The image stays in use as
// long as it, or a copy of it in a mount namespace, is there.
type Mount struct {
	path string
	fd   int      // the mount; it is dissolved when this is closed, unless it was attached
	dir  *os.File // its root directory: the mount's own descriptor allows no calls
}

// Mount mounts an image, also one that is mounted already. The caller closes it.
func (s *Store) Mount(ctx context.Context, path string) (*Mount, error) {
	dev, err := s.attach(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dev.Close() }() // the mount keeps the device from here on
	fd, err := mountDevice(dev.Name())
	if err != nil {
		return nil, err
	}
	dirFD, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(os.NewSyscallError("open", err), unix.Close(fd))
	}
	return &Mount{path: path, fd: fd, dir: os.NewFile(uintptr(dirFD), path)}, nil
}

// attach returns the open loop device of an image: the one that has it, or a new
// one.
func (s *Store) attach(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return s.attachNew(ctx, f)
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, os.NewSyscallError("flock", err)
		}
		if dev := attached(f); dev != nil {
			return dev, nil
		}
		if err := wait(ctx); err != nil { // it is being detached, or copied
			return nil, fmt.Errorf("the image stays in use: %w", err)
		}
	}
}

// attachNew attaches a locked image. The device has the open file, and its lock,
// as long as it is attached.
func (s *Store) attachNew(ctx context.Context, f *os.File) (*os.File, error) {
	if err := s.check(ctx, f.Name()); err != nil {
		return nil, err
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = control.Close() }()
	for {
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, os.NewSyscallError("LOOP_CTL_GET_FREE", err)
		}
		dev, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", number), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		config := unix.LoopConfig{Fd: uint32(f.Fd()), Size: 4096, Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
		copy(config.Info.File_name[:63], f.Name())
		err = retry(func() error { return unix.IoctlLoopConfigure(int(dev.Fd()), &config) })
		if err == nil {
			return dev, nil
		}
		if cerr := dev.Close(); cerr != nil || !errors.Is(err, unix.EBUSY) {
			return nil, errors.Join(os.NewSyscallError("LOOP_CONFIGURE", err), cerr)
		}
		if err := wait(ctx); err != nil { // somebody else was faster
			return nil, err
		}
	}
}

// attached finds the loop device that has the file. Held open, it stays attached.
func attached(f *os.File) *os.File {
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return nil
	}
	names, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil
	}
	for _, name := range names {
		// The last part of the path narrows down; number and device decide.
		data, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(data), filepath.Base(f.Name())) {
			continue
		}
		dev, err := os.OpenFile("/dev/"+strings.Split(name, "/")[3], os.O_RDWR, 0)
		if err != nil {
			continue
		}
		info, err := unix.IoctlLoopGetStatus64(int(dev.Fd()))
		if err == nil && info.Inode == st.Ino && info.Device == st.Dev {
			return dev
		}
		_ = dev.Close()
	}
	return nil
}

// mountDevice returns a detached mount of a device. Device nodes work on it: boxes
// open their network device through one while they are built, and see the rest of
// it only through mounts that allow none.
func mountDevice(dev string) (int, error) {
	fs, err := unix.Fsopen("ext4", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return 0, os.NewSyscallError("fsopen", err)
	}
	defer func() { _ = unix.Close(fs) }()
	for _, o := range [][2]string{{"source", dev}, {"errors", "remount-ro"}} {
		if err := unix.FsconfigSetString(fs, o[0], o[1]); err != nil {
			return 0, fmt.Errorf("option %s: %w", o[0], err)
		}
	}
	// The tables need no zeros: the file had nothing else.
	if err := unix.FsconfigSetFlag(fs, "noinit_itable"); err != nil {
		return 0, fmt.Errorf("option noinit_itable: %w", err)
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return 0, fmt.Errorf("mount %s: %w%s", dev, err, complaints(fs))
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOATIME)
	return fd, os.NewSyscallError("fsmount", err)
}

// complaints are what the kernel says about a failure.
func complaints(fs int) string {
	var text strings.Builder
	buf := make([]byte, 1024)
	for range 8 {
		n, err := unix.Read(fs, buf)
		if err != nil || n == 0 {
			break
		}
		fmt.Fprintf(&text, " (%s)", strings.TrimSpace(string(buf[:n])))
	}
	return text.String()
}

// FD is the descriptor of the mount, to be attached by whoever gets it. It is the
// Mount's.
func (m *Mount) FD() int { return m.fd }

// Dir is a path of the root directory, good until Close.
func (m *Mount) Dir() string { return fmt.Sprintf("/proc/self/fd/%d", m.dir.Fd()) }

// Close lets go of the mount.
func (m *Mount) Close() error {
	return errors.Join(m.dir.Close(), os.NewSyscallError("close", unix.Close(m.fd)))
}

// Trim gives the space of deleted files back to the host. What was deleted since
// the last commit of the journal is not free before.
func (m *Mount) Trim() error {
	if err := unix.Syncfs(m.root()); err != nil {
		return os.NewSyscallError("syncfs", err)
	}
	return trim(m.root())
}

// root is a descriptor of the root directory.
func (m *Mount) root() int { return int(m.dir.Fd()) }
