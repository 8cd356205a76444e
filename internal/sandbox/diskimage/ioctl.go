package diskimage

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Calls on file systems, of linux/fs.h: the numbers hold on all architectures whose
// ioctl direction bits are the common ones, amd64 and arm64 among them.
const (
	fiFreeze = 0xc0045877
	fiThaw   = 0xc0045878
	fiTrim   = 0xc0185879
)

// fstrimRange is struct fstrim_range.
type fstrimRange struct{ start, length, least uint64 }

func freeze(fd int) error {
	return retry(func() error { return unix.IoctlSetInt(fd, fiFreeze, 0) })
}

func thaw(fd int) error {
	return retry(func() error { return unix.IoctlSetInt(fd, fiThaw, 0) })
}

func trim(fd int) error {
	all := fstrimRange{length: ^uint64(0)}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), fiTrim, uintptr(unsafe.Pointer(&all)))
	if errno != 0 {
		return os.NewSyscallError("FITRIM", errno)
	}
	return nil
}
