package seccomp

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	lastKnown = unix.SYS_FILE_SETATTR
)

// deniedHere exist on this architecture only.
var deniedHere = []uint32{
	unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS__SYSCTL, unix.SYS_USELIB, unix.SYS_USTAT,
	unix.SYS_SYSFS, unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_QUERY_MODULE,
}

var ownersHere = []uint32{unix.SYS_CHOWN, unix.SYS_LCHOWN}

func setIDRulesHere() []rule {
	return []rule{
		denyBits(unix.SYS_CHMOD, 1, setIDBits),
		denyBits(unix.SYS_OPEN, 2, setIDBits),
		denyBits(unix.SYS_CREAT, 1, setIDBits),
		denyBits(unix.SYS_MKNOD, 1, setIDBits),
	}
}
