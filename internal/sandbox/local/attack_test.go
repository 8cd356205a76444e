package local_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox"
)

// attackArg makes this test binary, inside of a box, try what must not work. It
// prints what did.
const attackArg = "attack"

// attack is one attempt; no error means that it succeeded.
type attack struct {
	name string
	try  func() error
}

func call(nr uintptr, args ...uintptr) func() error {
	return func() error {
		var a [6]uintptr
		copy(a[:], args)
		_, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
		if errno != 0 {
			return errno
		}
		return nil
	}
}

func opens(path string, flags int) func() error {
	return func() error {
		fd, err := unix.Open(path, flags, 0)
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	}
}

func reads(path string) func() error {
	return func() error {
		data, err := os.ReadFile(path)
		if err == nil && len(data) == 0 {
			return errors.New("empty")
		}
		return err
	}
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
		cmd := exec.Command("/bin/true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		return cmd.Run()
	}
}

func attacks() []attack {
	text, _ := unix.BytePtrFromString("/tmp")
	kind, _ := unix.BytePtrFromString("tmpfs")
	path, fs := uintptr(unsafe.Pointer(text)), uintptr(unsafe.Pointer(kind))
	buf := make([]byte, 256)
	mem := uintptr(unsafe.Pointer(&buf[0]))
	list := []attack{
		{"mount", call(unix.SYS_MOUNT, fs, path, fs, 0, 0)},
		{"bind mount", call(unix.SYS_MOUNT, path, path, 0, unix.MS_BIND, 0)},
		{"remount /usr", func() error { return unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND, "") }},
		{"umount /proc/sys", func() error { return unix.Unmount("/proc/sys", unix.MNT_DETACH) }},
		{"pivot_root", func() error { return unix.PivotRoot("/", "/tmp") }},
		{"open_tree", func() error { _, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE); return err }},
		{"fsopen", func() error { _, err := unix.Fsopen("tmpfs", 0); return err }},
		{"mount_setattr", func() error { return unix.MountSetattr(unix.AT_FDCWD, "/usr", 0, &unix.MountAttr{}) }},
		{"setns", func() error {
			fd, err := unix.Open("/proc/self/ns/net", unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			return unix.Setns(fd, unix.CLONE_NEWNET)
		}},
		{"clone3", call(unix.SYS_CLONE3, mem, 88)},
		{"block device", func() error { return unix.Mknod("/tmp/sda", unix.S_IFBLK|0o600, 254<<8) }},
		{"character device", func() error { return unix.Mknod("/tmp/mem", unix.S_IFCHR|0o600, 1<<8|1) }},
		{"packet socket", socket(unix.AF_PACKET, unix.SOCK_RAW, 0)},
		{"raw socket", socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)},
		{"vsock", socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)},
		{"crypto socket", socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0)},
		{"audit socket", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT)},
		{"netfilter socket", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER)},
		{"bpf", call(unix.SYS_BPF, 0, mem, 72)},
		{"perf_event_open", call(unix.SYS_PERF_EVENT_OPEN, mem, 0, ^uintptr(0), ^uintptr(0), 0)},
		{"userfaultfd", call(unix.SYS_USERFAULTFD, 1)},
		{"io_uring", call(unix.SYS_IO_URING_SETUP, 1, mem)},
		{"keyctl", call(unix.SYS_KEYCTL, 0, ^uintptr(2), 1)},
		{"init_module", call(unix.SYS_INIT_MODULE, mem, 1, mem)},
		{"finit_module", call(unix.SYS_FINIT_MODULE, 0, mem, 0)},
		{"kexec_load", call(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0)},
		{"open_by_handle_at", call(unix.SYS_OPEN_BY_HANDLE_AT, 0, mem, 0)},
		{"set the clock", func() error { return unix.ClockSettime(unix.CLOCK_REALTIME, &unix.Timespec{Sec: 1}) }},
		{"sethostname", func() error { return unix.Sethostname([]byte("x")) }},
		{"syslog", call(unix.SYS_SYSLOG, 3, mem, 16)},
		{"odd personality", call(unix.SYS_PERSONALITY, 0x0400000)},
		{"raise open files", func() error {
			return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20})
		}},
		{"loopback down", loopbackDown},
		{"type into the terminal", typeIn},
		{"ptrace the first process", func() error { return unix.PtraceAttach(1) }},
		{"memory of the first process", opens("/proc/1/mem", unix.O_RDWR)},
		{"root of the first process", opens("/proc/1/root/etc", unix.O_RDONLY)},
		{"environment of the first process", opens("/proc/1/environ", unix.O_RDONLY)},
		{"descriptors of the first process", func() error { _, err := os.Readlink("/proc/1/fd/3"); return err }},
		{"steal a descriptor", stealFD},
		{"kill the first process", killFirst},
		{"overwrite the program", opens("/proc/1/exe", unix.O_WRONLY)},
		{"core pattern", opens("/proc/sys/kernel/core_pattern", unix.O_WRONLY)},
		{"forwarding", opens("/proc/sys/net/ipv4/ip_forward", unix.O_WRONLY)},
		{"sysrq", opens("/proc/sysrq-trigger", unix.O_WRONLY)},
		{"kernel memory", reads("/proc/kcore")},
		{"kernel addresses", reads("/proc/kallsyms")},
		{"kernel command line", reads("/proc/cmdline")},
		{"kernel log", opens("/dev/kmsg", unix.O_RDONLY)},
		{"memory device", opens("/dev/mem", unix.O_RDONLY)},
		{"disk", opens("/dev/vda", unix.O_RDONLY)},
		{"network device node", opens("/dev/net/tun", unix.O_RDWR)},
		{"docker", opens("/var/run/docker.sock", unix.O_RDWR)},
		{"firmware", opens("/sys/firmware", unix.O_RDONLY)},
		{"control groups", func() error { return os.Mkdir("/sys/fs/cgroup/x", 0o755) }},
		{"chroot out", chrootOut},
	}
	for name, flag := range map[string]uintptr{"user": unix.CLONE_NEWUSER, "mount": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID,
		"network": unix.CLONE_NEWNET, "ipc": unix.CLONE_NEWIPC, "host name": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP} {
		list = append(list, attack{"unshare " + name, call(unix.SYS_UNSHARE, flag)}, attack{"clone " + name, spawns(flag)})
	}
	return list
}

func loopbackDown() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}

func typeIn() error {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	c := byte('x')
	return call(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))()
}

func stealFD() error {
	fd, err := unix.PidfdOpen(1, 0)
	if err != nil {
		return err
	}
	_, err = unix.PidfdGetfd(fd, 3, 0)
	return err
}

// killFirst succeeds, as an attack, if the first process dies, which would end us
// too; the kernel ignores the signal without an error.
func killFirst() error {
	_ = unix.Kill(1, unix.SIGKILL)
	_ = unix.Kill(1, unix.SIGSTOP)
	return errors.New("still here")
}

// chrootOut is the classic way out of a chroot: it must end at the box's root.
func chrootOut() error {
	dir, err := unix.Open("/", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	if err := os.MkdirAll("/tmp/jail", 0o755); err != nil {
		return err
	}
	if err := unix.Chroot("/tmp/jail"); err != nil {
		return err
	}
	if err := unix.Fchdir(dir); err != nil {
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
	if _, err := os.Stat("/workspace"); err == nil {
		return errors.New("the box's own root")
	}
	return nil
}

// runAttacks tries all attacks, each in a process of its own, since the filter
// may kill and a success may change the process.
func runAttacks(args []string) {
	if len(args) > 0 {
		for _, a := range attacks() {
			if a.name == args[0] {
				if err := a.try(); err != nil {
					fmt.Println(err)
					os.Exit(1)
				}
				os.Exit(0)
			}
		}
		os.Exit(3)
	}
	for _, a := range attacks() {
		cmd := exec.Command("/attack/test", attackArg, a.name)
		if out, err := cmd.CombinedOutput(); err == nil {
			fmt.Printf("SUCCEEDED: %s\n", a.name)
		} else if cmd.ProcessState.ExitCode() == 3 {
			fmt.Printf("UNKNOWN: %s %s\n", a.name, out)
		}
	}
	fmt.Println("done")
}

// attacker makes a box that has this binary at /attack/test.
func attacker(t *testing.T, spec sandbox.Spec) sandbox.Box {
	t.Helper()
	dir := t.TempDir()
	copyFile(t, "/proc/self/exe", filepath.Join(dir, "test"))
	spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: dir, Target: "/attack", ReadOnly: true})
	return create(t, newBackend(t), spec)
}

func TestEscapes(t *testing.T) {
	box := attacker(t, sandbox.Spec{ID: "escapes"})
	out := sh(t, box, "/attack/test "+attackArg)
	if strings.TrimSpace(out) != "done" {
		t.Errorf("inside: %s", out)
	}
}

// TestAttacksAreReal runs some of the attacks outside: one that fails everywhere
// proves nothing.
func TestAttacksAreReal(t *testing.T) {
	for _, a := range attacks() {
		switch a.name {
		case "vsock", "userfaultfd", "odd personality", "clone user", "kernel command line":
			if err := a.try(); err != nil {
				t.Logf("%s fails outside too: %v", a.name, err)
			}
		}
	}
}
