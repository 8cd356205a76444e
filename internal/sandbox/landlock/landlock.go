// Package landlock puts a process, and all that it starts, into a Landlock
// domain: a second answer, after namespaces and the system call filter, to what
// reaches out of a box. The domain's programs
//
//   - make no device nodes anywhere and give commands to devices below the
//     directories that are named only,
//   - signal and trace nothing outside of the domain, and connect to no abstract
//     socket of a program outside of it.
//
// Landlock grants rights to directories with everything below and can take
// nothing back: programs that may make and fill directories anywhere cannot be
// kept from /proc and /sys this way. That is left to read-only mounts.
//
// It is best effort: a rule that the kernel does not know is left out.
package landlock

import (
	"encoding/binary"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ABI versions, by the right that came with them (landlock(7)).
const (
	abiRefer    = 2 // linking and renaming between directories; impossible before
	abiTruncate = 3
	abiIoctl    = 5
	abiScope    = 6
	abiLog      = 7
)

// everything is all that may be done with files but for making device nodes.
const everything = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
	unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR |
	unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
	unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
	unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER

const makeDevice = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK

// ABI returns the version of Landlock that can be used here; 0 = none.
func ABI() int {
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || n < abiRefer {
		return 0
	}
	return int(n)
}

// Adds says what a domain of this version holds, in words.
func Adds(abi int) string {
	text := "nothing outside of the sandbox can be traced, no device nodes can be made"
	if abi >= abiIoctl {
		text += ", devices outside of /dev take no commands"
	}
	if abi >= abiScope {
		text += ", nothing outside can be signalled or reached by an abstract socket"
	}
	return text
}

// attributes is struct landlock_ruleset_attr; older kernels take a shorter one.
type attributes struct {
	fs, net, scoped uint64
}

// beneath is struct landlock_path_beneath_attr, which is packed.
type beneath [12]byte

// Domain is what stays possible.
type Domain struct {
	Root    string   // everything below may be used, but for devices
	Devices []string // directories whose devices take commands
	Program int      // descriptor of a program outside of Root that may be executed; 0 = none
}

// Restrict puts the calling thread, and what it executes, into the domain. The
// thread must have no_new_privs set; the caller holds it locked. It returns the
// version in force; 0 = the kernel has none, and nothing was done.
func (d Domain) Restrict() (int, error) {
	abi := ABI()
	if abi == 0 {
		return 0, nil
	}
	granted, handled := rights(abi)
	attr := attributes{fs: handled}
	size := unsafe.Offsetof(attr.net)
	if abi >= abiScope {
		attr.scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size = unsafe.Sizeof(attr)
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return 0, os.NewSyscallError("landlock_create_ruleset", errno)
	}
	ruleset := int(fd)
	defer func() { _ = unix.Close(ruleset) }()
	if err := d.rules(ruleset, granted, handled); err != nil {
		return 0, err
	}
	return abi, enforce(ruleset, abi)
}

func (d Domain) rules(ruleset int, granted, handled uint64) error {
	if err := allow(ruleset, d.Root, granted); err != nil {
		return err
	}
	for _, dir := range d.Devices {
		if err := allow(ruleset, dir, handled&^makeDevice); err != nil {
			return err
		}
	}
	if d.Program == 0 {
		return nil
	}
	return add(ruleset, d.Program, unix.LANDLOCK_ACCESS_FS_EXECUTE|unix.LANDLOCK_ACCESS_FS_READ_FILE)
}

// rights returns what is granted everywhere, and what is refused unless granted.
func rights(abi int) (granted, handled uint64) {
	granted = everything
	if abi >= abiTruncate {
		granted |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	handled = granted | makeDevice
	if abi >= abiIoctl {
		handled |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return granted, handled
}

func allow(ruleset int, path string, access uint64) error {
	dir, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(dir) }()
	if err := add(ruleset, dir, access); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func add(ruleset, fd int, access uint64) error {
	var rule beneath
	binary.NativeEndian.PutUint64(rule[0:], access)
	binary.NativeEndian.PutUint32(rule[8:], uint32(fd))
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return os.NewSyscallError("landlock_add_rule", errno)
	}
	return nil
}

// enforce enters the domain. What programs inside do with domains of their own
// does not reach the host's audit log.
func enforce(ruleset, abi int) error {
	var flags uintptr
	if abi >= abiLog {
		flags = unix.LANDLOCK_RESTRICT_SELF_LOG_SUBDOMAINS_OFF
	}
	_, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), flags, 0)
	if errno != 0 {
		return os.NewSyscallError("landlock_restrict_self", errno)
	}
	return nil
}
