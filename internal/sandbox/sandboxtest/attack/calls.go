package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func call(nr uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	if errno != 0 {
		return errno
	}
	return nil
}

// reaches succeeds if the kernel looks at what it is asked, whatever it thinks of
// it: the arguments are senseless.
func reaches(nr uintptr, args ...uintptr) func() error {
	return func() error {
		err := call(nr, args...)
		if err == nil || !slices.Contains([]error{unix.EPERM, unix.EACCES, unix.ENOSYS}, err) {
			return nil
		}
		return err
	}
}

func text(s string) uintptr {
	p, _ := unix.BytePtrFromString(s) // no zero in constants
	return uintptr(unsafe.Pointer(p))
}

func socket(family, kind, protocol int) func() error {
	return func() error {
		fd, err := unix.Socket(family, kind, protocol)
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	}
}

func spawns(flags uintptr) func() error {
	return func() error {
		cmd := exec.Command(os.Args[0], "one", "nothing")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		err := cmd.Run()
		var exit *exec.ExitError
		if errors.As(err, &exit) { // it was started
			return nil
		}
		return err
	}
}

// scratch returns a new directory that every account can reach.
func scratch() (string, error) { return os.MkdirTemp("/tmp", "attack-") }

// mounts mounts something on a directory of its own, and undoes it.
func mounts(source, kind string, flags uintptr) func() error {
	return func() error {
		dir, err := scratch()
		if err != nil {
			return err
		}
		defer func() { _ = os.Remove(dir) }()
		if source == "" {
			source = dir
		}
		if err := unix.Mount(source, dir, kind, flags, ""); err != nil {
			return err
		}
		return unix.Unmount(dir, unix.MNT_DETACH)
	}
}

func makesDevice(mode uint32, device int) func() error {
	return func() error {
		dir, err := scratch()
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		path := dir + "/device"
		if err := unix.Mknod(path, mode|0o600, device); err != nil {
			return err
		}
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return fmt.Errorf("made, but: %w", err)
		}
		return unix.Close(fd)
	}
}

// systemCalls are attacks by calls that programs inside have no need of.
func systemCalls() []attack {
	buf := make([]byte, 256)
	mem := uintptr(unsafe.Pointer(&buf[0]))
	list := []attack{
		{kernel, "mount tmpfs", mounts("none", "tmpfs", 0)},
		{kernel, "mount proc", mounts("none", "proc", 0)},
		{kernel, "bind mount", mounts("", "", unix.MS_BIND)},
		{kernel, "remount /usr", remounts},
		{kernel, "umount /proc/sys", func() error { return unix.Unmount("/proc/sys", unix.MNT_DETACH) }},
		{kernel, "pivot_root", func() error { return unix.PivotRoot("/", "/tmp") }},
		{kernel, "open_tree", func() error { _, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE); return err }},
		{kernel, "fsopen", func() error { _, err := unix.Fsopen("tmpfs", 0); return err }},
		{kernel, "mount_setattr", func() error { return unix.MountSetattr(unix.AT_FDCWD, "/usr", 0, &unix.MountAttr{}) }},
		{kernel, "setns", entersNetwork},
		{kernel, "block device", makesDevice(unix.S_IFBLK, 254<<8)},
		{kernel, "character device", makesDevice(unix.S_IFCHR, 1<<8|1)},
		{kernel, "packet socket", socket(unix.AF_PACKET, unix.SOCK_RAW, 0)},
		{kernel, "raw socket", socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)},
		{kernel, "vsock", socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)},
		{kernel, "crypto socket", socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0)},
		{kernel, "audit socket", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT)},
		{kernel, "netfilter socket", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER)},
		{kernel, "bpf", reaches(unix.SYS_BPF, 0, mem, 72)},
		{kernel, "perf_event_open", reaches(unix.SYS_PERF_EVENT_OPEN, mem, 0, ^uintptr(0), ^uintptr(0), 0)},
		{kernel, "userfaultfd", reaches(unix.SYS_USERFAULTFD, 1)},
		{kernel, "io_uring_setup", reaches(unix.SYS_IO_URING_SETUP, 1, mem)},
		{kernel, "init_module", reaches(unix.SYS_INIT_MODULE, mem, 1, mem)},
		{kernel, "finit_module", reaches(unix.SYS_FINIT_MODULE, 0, mem, 0)},
		{kernel, "delete_module", reaches(unix.SYS_DELETE_MODULE, text("no-such-module"), 0)},
		{kernel, "kexec_load", reaches(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0xfff0)},
		{kernel, "open_by_handle_at", opensByHandle},
		{kernel, "swapon", reaches(unix.SYS_SWAPON, text("/no/such/file"), 0)},
		{kernel, "reboot", reaches(unix.SYS_REBOOT, 1, 2, 3, 0)},
		{kernel, "acct", reaches(unix.SYS_ACCT, text("/no/such/file"))},
		{kernel, "fanotify_init", reaches(unix.SYS_FANOTIFY_INIT, 0x4, 0)},
		{kernel, "set the clock", setsClock},
		{kernel, "sethostname", setsHostname},
		{kernel, "syslog", func() error { _, err := unix.Klogctl(unix.SYSLOG_ACTION_SIZE_BUFFER, nil); return err }},
		{kernel, "odd personality", func() error { return call(unix.SYS_PERSONALITY, 0x0400000) }},
		{kernel, "loopback flags", setsLoopback},
		{kernel, "type into the terminal", typesIn},
		{kernel, "chroot out", leavesRoot},
		{keys, "keyctl", reaches(unix.SYS_KEYCTL, 0, ^uintptr(2), 1)},
		{keys, "add_key", reaches(unix.SYS_ADD_KEY, text("user"), text("attack"), mem, 1, ^uintptr(2))},
		{keys, "request_key", reaches(unix.SYS_REQUEST_KEY, text("user"), text("attack"), 0, 0)},
	}
	for name, flag := range map[string]uintptr{"user": unix.CLONE_NEWUSER, "mount": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID,
		"network": unix.CLONE_NEWNET, "ipc": unix.CLONE_NEWIPC, "host name": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP,
		"user and mount": unix.CLONE_NEWUSER | unix.CLONE_NEWNS} {
		list = append(list, attack{kernel, "unshare " + name, func() error { return call(unix.SYS_UNSHARE, flag) }},
			attack{kernel, "clone " + name, spawns(flag)})
	}
	return list
}

// remounts gives a mount the flags that it has.
func remounts() error {
	var st unix.Statfs_t
	if err := unix.Statfs("/usr", &st); err != nil {
		return err
	}
	const same = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC // as ST_*
	return unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND|uintptr(st.Flags)&same, "")
}

func entersNetwork() error {
	fd, err := unix.Open("/proc/self/ns/net", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	return unix.Setns(fd, unix.CLONE_NEWNET)
}

// opensByHandle is the way out of a container that needs CAP_DAC_READ_SEARCH.
func opensByHandle() error {
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, "/etc/passwd", 0)
	if err != nil {
		handle = unix.NewFileHandle(1, make([]byte, 8))
	}
	dir, err := unix.Open("/", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	_, err = unix.OpenByHandleAt(dir, handle, unix.O_RDONLY)
	return err
}

// setsClock sets the time that it is.
func setsClock() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
		return err
	}
	return unix.ClockSettime(unix.CLOCK_REALTIME, &now)
}

func setsHostname() error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	return unix.Sethostname([]byte(name))
}

// setsLoopback sets the flags that the device has.
func setsLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifr); err != nil {
		return err
	}
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}

func typesIn() error {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	c := byte('x')
	return call(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
}

// leavesRoot is the classic way out of a chroot. It must end at the box's root,
// which is told by what it was before.
func leavesRoot() error {
	root, err := os.Stat("/")
	if err != nil {
		return err
	}
	fd, err := unix.Open("/", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	dir, err := scratch()
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(dir) }()
	if err := unix.Chroot(dir); err != nil {
		return err
	}
	if err := unix.Fchdir(fd); err != nil {
		return err
	}
	for range 64 {
		if err := os.Chdir(".."); err != nil {
			return err
		}
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	if now, err := os.Stat("/"); err != nil || os.SameFile(root, now) {
		return errors.Join(err, errors.New("the same root"))
	}
	return nil
}
