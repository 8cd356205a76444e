package local

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox/landlock"
	"parley/internal/sandbox/seccomp"
)

// keptCaps are what the user 0 of a box needs to install packages. They count in
// the box's own namespaces only.
var keptCaps = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL,
	unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_SETFCAP, unix.CAP_NET_BIND_SERVICE, unix.CAP_SYS_CHROOT,
}

// endFirst is how much sooner than others the kernel ends a box's programs when
// the machine has no memory left, in thousandths of its memory.
const endFirst = "300"

// limitResources sets the limits that processes inherit and reports whether the
// one on open files is as asked. A limit that must not be raised stays lower.
func limitResources(l rlimits) bool {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte(endFirst), 0) // raising is always allowed
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})              // lowering is always allowed
	if l.Processes > 0 {
		setLimit(unix.RLIMIT_NPROC, l.Processes)
	}
	if l.FileSize > 0 {
		setLimit(unix.RLIMIT_FSIZE, l.FileSize)
	}
	return l.OpenFiles == 0 || setLimit(unix.RLIMIT_NOFILE, l.OpenFiles)
}

// setLimit sets a limit, or leaves the inherited one if that is lower already.
func setLimit(resource int, n uint64) bool {
	var old unix.Rlimit
	if unix.Getrlimit(resource, &old) == nil && old.Max < n {
		n = old.Max
	}
	return unix.Setrlimit(resource, &unix.Rlimit{Cur: n, Max: n}) == nil
}

// runOn puts this thread, and all that it executes, on some processors. Programs
// may change it: what bounds them is their quota of time.
func runOn(cpus []int) error {
	if cpus == nil {
		return nil
	}
	var set unix.CPUSet
	for _, n := range cpus {
		set.Set(n)
	}
	return os.NewSyscallError("sched_setaffinity", unix.SchedSetaffinity(0, &set))
}

// dropRights gives up, for this thread and all that it executes, what programs
// inside must not have: the server's keys, capabilities, what lies outside of
// their domain, and system calls. exe is the program that comes next. It returns
// the version of Landlock in force.
func dropRights(o seccomp.Options, exe int) (int, error) {
	if err := dropCapabilities(o.NoSetID); err != nil {
		return 0, err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, os.NewSyscallError("no_new_privs", err)
	}
	domain, err := landlock.Domain{Root: "/", Devices: []string{"/dev"}, Program: exe}.Restrict()
	if err != nil {
		return 0, err
	}
	return domain, seccomp.Install(o)
}

// dropCapabilities keeps what installing packages needs. hostFiles says that files
// of the host can be written: capabilities that are given to such a file would work
// outside.
func dropCapabilities(hostFiles bool) error {
	// A new session keyring: the inherited one may hold keys of the server.
	_, _ = unix.KeyctlJoinSessionKeyring("") // ENOSYS: then there are no keys
	for c := uintptr(0); c < 64; c++ {
		if slices.Contains(keptCaps, c) && (c != unix.CAP_SETFCAP || !hostFiles) {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return os.NewSyscallError("clear ambient capabilities", err)
	}
	return dropInheritable()
}

// dropInheritable clears the inheritable set: with it, files could grant more
// than the bounding set allows to accounts other than 0.
func dropInheritable() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	data[0].Inheritable, data[1].Inheritable = 0, 0
	return os.NewSyscallError("capset", unix.Capset(&header, &data[0]))
}
