// Package seccomp makes the system call filter of a box: a list of what programs
// inside may not ask of the kernel, because it reaches beyond the box or widens
// what an attacker can try. Everything else is allowed; calls newer than the
// list get ENOSYS, so that programs fall back instead of using what nobody has
// judged.
package seccomp

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Options vary the filter.
type Options struct {
	// FakeOwner answers "done" to changes of a file's owner and of the
	// supplementary groups without doing them. It is for boxes that have a single
	// user id, where every such change would fail and package managers stop.
	FakeOwner bool
	// NoSetID refuses to make files set-user-id or set-group-id. It is for boxes
	// that write to a directory of the host: such a file would work there.
	NoSetID bool
	// AllThreads installs the filter in every thread of the process, for a program
	// that does not become another one afterwards. Else it is in this thread and what
	// that executes.
	AllThreads bool
}

// Offsets in struct seccomp_data; arguments are little-endian 64-bit words.
const (
	offNr   = 0
	offArch = 4
	offArgs = 16
)

const (
	retAllow = unix.SECCOMP_RET_ALLOW
	retKill  = unix.SECCOMP_RET_KILL_PROCESS
)

func retErrno(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) }

const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

const setIDBits = unix.S_ISUID | unix.S_ISGID

// Program returns the filter for this machine's architecture.
func Program(o Options) ([]bpf.Instruction, error) {
	prog := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		bpf.RetConstant{Val: retKill},
		bpf.LoadAbsolute{Off: offNr, Size: 4},
		// Includes the x32 calls of amd64, which start at 0x40000000.
		bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: lastKnown, SkipFalse: 1},
		bpf.RetConstant{Val: retErrno(unix.ENOSYS)},
	}
	for _, r := range rules(o) {
		prog = append(prog, r.compile()...)
	}
	return append(prog, bpf.RetConstant{Val: retAllow}), nil
}

// Install filters the calling thread and what it executes from now on. The
// thread must have no_new_privs set. The caller holds the thread locked.
func Install(o Options) error {
	prog, err := Program(o)
	if err != nil {
		return err
	}
	raw, err := bpf.Assemble(prog)
	if err != nil {
		return err
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, ins := range raw {
		filter[i] = unix.SockFilter{Code: ins.Op, Jt: ins.Jt, Jf: ins.Jf, K: ins.K}
	}
	fprog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	flags := uintptr(0)
	if o.AllThreads {
		flags = unix.SECCOMP_FILTER_FLAG_TSYNC
	}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&fprog)))
	runtime.KeepAlive(filter)
	switch {
	case errno != 0:
		return os.NewSyscallError("seccomp", errno)
	case thread != 0:
		return errors.New("seccomp: a thread has another filter")
	}
	return nil
}

// rule answers a system call: with ret, or, if it looks at arguments, with what
// the body returns. A body that returns nothing allows.
type rule struct {
	nr   uint32
	body []bpf.Instruction
}

func (r rule) compile() []bpf.Instruction {
	body := append(slices.Clone(r.body), bpf.RetConstant{Val: retAllow})
	return append([]bpf.Instruction{
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: r.nr, SkipFalse: uint8(len(body))},
	}, body...)
}

func rules(o Options) []rule {
	var list []rule
	add := func(errno unix.Errno, nrs ...uint32) {
		for _, nr := range nrs {
			list = append(list, rule{nr, []bpf.Instruction{bpf.RetConstant{Val: retErrno(errno)}}})
		}
	}
	add(unix.EPERM, denied...)
	add(unix.EPERM, deniedHere...)
	add(unix.ENOSYS, absent...)
	list = append(list, flagRules()...)
	list = append(list, socketRules()...)
	if o.FakeOwner {
		add(0, owners...)
		add(0, ownersHere...)
	}
	if o.NoSetID {
		add(unix.ENOSYS, unix.SYS_OPENAT2) // its mode is out of the filter's sight
		list = append(list, setIDRules()...)
	}
	return list
}

// arg loads the lower half of argument n: every argument looked at is an int.
func arg(n uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: offArgs + 8*n, Size: 4} }

// denyBits refuses a call whose argument n has any of the bits.
func denyBits(nr, n, bits uint32) rule {
	return rule{nr, []bpf.Instruction{
		arg(n),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: bits, SkipFalse: 1},
		bpf.RetConstant{Val: retErrno(unix.EPERM)},
	}}
}

// denyValue refuses a call whose argument n has one of the values.
func denyValue(nr, n uint32, values ...uint32) rule {
	body := []bpf.Instruction{arg(n)}
	for _, v := range values {
		body = append(body,
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipFalse: 1},
			bpf.RetConstant{Val: retErrno(unix.EPERM)})
	}
	return rule{nr, body}
}

// onlyValue answers errno unless argument n has one of the values.
func onlyValue(nr, n uint32, errno unix.Errno, values ...uint32) rule {
	body := []bpf.Instruction{arg(n)}
	for _, v := range values {
		body = append(body,
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipFalse: 1},
			bpf.RetConstant{Val: retAllow})
	}
	return rule{nr, append(body, bpf.RetConstant{Val: retErrno(errno)})}
}

func flagRules() []rule {
	const (
		linux32, uname26, noRandomize = 0x0008, 0x20000, 0x40000
		query                         = 0xffffffff
	)
	return []rule{
		denyBits(unix.SYS_CLONE, 0, newNamespaces),
		denyBits(unix.SYS_UNSHARE, 0, newNamespaces|unix.CLONE_NEWTIME),
		denyValue(unix.SYS_IOCTL, 1, unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD),
		onlyValue(unix.SYS_PERSONALITY, 0, unix.EPERM,
			0, linux32, uname26, linux32|uname26, noRandomize, query),
	}
}

// socketRules leave local and internet sockets and the routing tables, which
// programs read to learn their addresses. The errors are those of a kernel built
// without the rest: libaudit takes EPERM for a fault and gives up.
func socketRules() []rule {
	families := []bpf.Instruction{arg(0)}
	for _, af := range []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6} {
		families = append(families,
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: af, SkipFalse: 1},
			bpf.RetConstant{Val: retAllow})
	}
	families = append(families,
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_NETLINK, SkipTrue: 1},
		bpf.RetConstant{Val: retErrno(unix.EAFNOSUPPORT)},
		arg(2),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.NETLINK_ROUTE, SkipTrue: 1},
		bpf.RetConstant{Val: retErrno(unix.EPROTONOSUPPORT)})
	return []rule{
		{unix.SYS_SOCKET, families},
		onlyValue(unix.SYS_SOCKETPAIR, 0, unix.EAFNOSUPPORT, unix.AF_UNIX),
	}
}

// setIDRules look at the mode argument of everything that takes one.
func setIDRules() []rule {
	list := []rule{
		denyBits(unix.SYS_FCHMOD, 1, setIDBits),
		denyBits(unix.SYS_FCHMODAT, 2, setIDBits),
		denyBits(unix.SYS_FCHMODAT2, 2, setIDBits),
		denyBits(unix.SYS_OPENAT, 3, setIDBits),
		denyBits(unix.SYS_MKNODAT, 2, setIDBits),
	}
	return append(list, setIDRulesHere()...)
}

// denied reach the kernel's global state, other namespaces, or code paths with a
// long record of escapes that nothing inside needs.
var denied = []uint32{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_OPEN_TREE_ATTR, unix.SYS_SETNS,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_FANOTIFY_INIT,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE,
	unix.SYS_DELETE_MODULE, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME,
	unix.SYS_SYSLOG, unix.SYS_VHANGUP, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES,
	unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
}

// absent look unimplemented, so that programs use the older call, whose flags the
// filter can see.
var absent = []uint32{unix.SYS_CLONE3, unix.SYS_NFSSERVCTL}

// owners change who a file belongs to or the groups of a process.
var owners = []uint32{unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_SETGROUPS}
