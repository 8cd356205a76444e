package docker

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox/seccomp"
)

// keptCaps are what the user 0 of a box needs to install packages, by their
// names in the engine's API.
var keptCaps = map[string]uintptr{
	"CHOWN": unix.CAP_CHOWN, "DAC_OVERRIDE": unix.CAP_DAC_OVERRIDE, "FOWNER": unix.CAP_FOWNER, "FSETID": unix.CAP_FSETID,
	"KILL": unix.CAP_KILL, "SETGID": unix.CAP_SETGID, "SETUID": unix.CAP_SETUID, "SETFCAP": unix.CAP_SETFCAP,
	"NET_BIND_SERVICE": unix.CAP_NET_BIND_SERVICE, "SYS_CHROOT": unix.CAP_SYS_CHROOT,
}

// enterCaps are what the first stage needs: those, the right to give up rights,
// and the right to make a network device.
func enterCaps(outbound bool) []string {
	list := []string{"SETPCAP"}
	for name := range keptCaps {
		list = append(list, name)
	}
	if outbound {
		list = append(list, "NET_ADMIN")
	}
	return list
}

// dropRights gives up, for this thread and all that it executes, what programs
// inside must not have: capabilities, in every set, and system calls.
func dropRights(who account, o seccomp.Options) error {
	// A new session keyring: the inherited one may hold keys of others.
	_, _ = unix.KeyctlJoinSessionKeyring("") // the engine's filter may refuse it: then there are no keys
	var kept [2]uint32
	for c := range uintptr(64) {
		// Capabilities that are given to a file of the host would work outside.
		if keeps(c) && (c != unix.CAP_SETFCAP || !o.NoSetID) {
			kept[c/32] |= 1 << (c % 32)
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: a kernel without such sets
		return os.NewSyscallError("clear ambient capabilities", err)
	}
	if err := become(who); err != nil {
		return err
	}
	if err := narrow(kept); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("no_new_privs", err)
	}
	return seccomp.Install(o)
}

func keeps(c uintptr) bool {
	for _, kept := range keptCaps {
		if kept == c {
			return true
		}
	}
	return false
}

// become takes on the account, for this thread only: it executes the program
// next. An account other than 0 loses all capabilities by it.
func become(who account) error {
	gid := uintptr(who.GID)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		return os.NewSyscallError("setgroups", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); errno != 0 {
		return os.NewSyscallError("setresgid", errno)
	}
	uid := uintptr(who.UID)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); errno != 0 {
		return os.NewSyscallError("setresuid", errno)
	}
	return nil
}

// narrow leaves no capability but those in kept in the thread's own sets, and
// none to be inherited: with those, files could grant more to accounts other
// than 0.
func narrow(kept [2]uint32) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	for i := range data {
		data[i].Permitted &= kept[i]
		data[i].Effective = data[i].Permitted
		data[i].Inheritable = 0
	}
	return os.NewSyscallError("capset", unix.Capset(&header, &data[0]))
}
