package local

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pointers makes a null-terminated vector of C strings.
func pointers(list []string) ([]*byte, error) {
	vector := make([]*byte, 0, len(list)+1)
	for _, s := range list {
		p, err := unix.BytePtrFromString(s)
		if err != nil {
			return nil, err
		}
		vector = append(vector, p)
	}
	return append(vector, nil), nil
}

// execveat executes the file that fd refers to; the path plays no part.
func execveat(fd int, argv, envv []*byte) error {
	empty := []byte{0}
	_, _, errno := unix.Syscall6(unix.SYS_EXECVEAT, uintptr(fd), uintptr(unsafe.Pointer(&empty[0])),
		uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&envv[0])), unix.AT_EMPTY_PATH, 0)
	runtime.KeepAlive(argv)
	runtime.KeepAlive(envv)
	return os.NewSyscallError("execveat", errno)
}
