package seccomp_test

import (
	"encoding/binary"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"parley/internal/sandbox/seccomp"
)

const (
	allow = unix.SECCOMP_RET_ALLOW
	kill  = unix.SECCOMP_RET_KILL_PROCESS
)

func errno(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

// judge runs the filter over a call. The virtual machine reads words in network
// order, the kernel in its own: the words are laid out for the former, with the
// lower half of an argument where the latter has it.
func judge(t *testing.T, o seccomp.Options, arch, nr uint32, args ...uint32) uint32 {
	t.Helper()
	prog, err := seccomp.Program(o)
	if err != nil {
		t.Fatal(err)
	}
	vm, err := bpf.NewVM(prog)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data[0:], nr)
	binary.BigEndian.PutUint32(data[4:], arch)
	for i, a := range args {
		binary.BigEndian.PutUint32(data[16+8*i:], a)
	}
	got, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(got)
}

func arch() uint32 {
	if runtime.GOARCH == "arm64" {
		return unix.AUDIT_ARCH_AARCH64
	}
	return unix.AUDIT_ARCH_X86_64
}

func TestProgram(t *testing.T) {
	plain, fake, noSetID := seccomp.Options{}, seccomp.Options{FakeOwner: true}, seccomp.Options{NoSetID: true}
	for name, test := range map[string]struct {
		options seccomp.Options
		nr      uint32
		args    []uint32
		want    uint32
	}{
		"read":                  {plain, unix.SYS_READ, nil, allow},
		"execveat":              {plain, unix.SYS_EXECVEAT, nil, allow},
		"ptrace":                {plain, unix.SYS_PTRACE, nil, allow},
		"mount":                 {plain, unix.SYS_MOUNT, nil, errno(unix.EPERM)},
		"bpf":                   {plain, unix.SYS_BPF, nil, errno(unix.EPERM)},
		"io_uring":              {plain, unix.SYS_IO_URING_SETUP, nil, errno(unix.EPERM)},
		"clone3":                {plain, unix.SYS_CLONE3, nil, errno(unix.ENOSYS)},
		"newer than the list":   {plain, 9999, nil, errno(unix.ENOSYS)},
		"x32":                   {plain, 0x40000000, nil, errno(unix.ENOSYS)},
		"clone a thread":        {plain, unix.SYS_CLONE, []uint32{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_FILES}, allow},
		"clone a user":          {plain, unix.SYS_CLONE, []uint32{unix.CLONE_NEWUSER}, errno(unix.EPERM)},
		"clone among others":    {plain, unix.SYS_CLONE, []uint32{unix.CLONE_NEWNET | unix.CLONE_VM}, errno(unix.EPERM)},
		"unshare files":         {plain, unix.SYS_UNSHARE, []uint32{unix.CLONE_FILES}, allow},
		"unshare mounts":        {plain, unix.SYS_UNSHARE, []uint32{unix.CLONE_NEWNS}, errno(unix.EPERM)},
		"ioctl size":            {plain, unix.SYS_IOCTL, []uint32{0, unix.TIOCGWINSZ}, allow},
		"ioctl type":            {plain, unix.SYS_IOCTL, []uint32{0, unix.TIOCSTI}, errno(unix.EPERM)},
		"personality query":     {plain, unix.SYS_PERSONALITY, []uint32{0xffffffff}, allow},
		"personality no-random": {plain, unix.SYS_PERSONALITY, []uint32{0x40000}, allow},
		"personality readimp":   {plain, unix.SYS_PERSONALITY, []uint32{0x400000}, errno(unix.EPERM)},
		"tcp":                   {plain, unix.SYS_SOCKET, []uint32{unix.AF_INET, 1, 0}, allow},
		"unix":                  {plain, unix.SYS_SOCKET, []uint32{unix.AF_UNIX, 1, 0}, allow},
		"routes":                {plain, unix.SYS_SOCKET, []uint32{unix.AF_NETLINK, 3, unix.NETLINK_ROUTE}, allow},
		"audit":                 {plain, unix.SYS_SOCKET, []uint32{unix.AF_NETLINK, 3, unix.NETLINK_AUDIT}, errno(unix.EPROTONOSUPPORT)},
		"vsock":                 {plain, unix.SYS_SOCKET, []uint32{unix.AF_VSOCK, 1, 0}, errno(unix.EAFNOSUPPORT)},
		"packet":                {plain, unix.SYS_SOCKET, []uint32{unix.AF_PACKET, 3, 0}, errno(unix.EAFNOSUPPORT)},
		"chown":                 {plain, unix.SYS_FCHOWNAT, nil, allow},
		"chown faked":           {fake, unix.SYS_FCHOWNAT, nil, errno(0)},
		"groups faked":          {fake, unix.SYS_SETGROUPS, nil, errno(0)},
		"uid not faked":         {fake, unix.SYS_SETRESUID, nil, allow},
		"chmod":                 {plain, unix.SYS_FCHMODAT, []uint32{0, 0, 0o4755}, allow},
		"chmod plain":           {noSetID, unix.SYS_FCHMODAT, []uint32{0, 0, 0o755}, allow},
		"chmod set-uid":         {noSetID, unix.SYS_FCHMODAT, []uint32{0, 0, 0o4755}, errno(unix.EPERM)},
		"fchmod set-gid":        {noSetID, unix.SYS_FCHMOD, []uint32{0, 0o2755}, errno(unix.EPERM)},
		"create set-uid":        {noSetID, unix.SYS_OPENAT, []uint32{0, 0, unix.O_CREAT, 0o4755}, errno(unix.EPERM)},
		"openat2":               {noSetID, unix.SYS_OPENAT2, nil, errno(unix.ENOSYS)},
	} {
		if got := judge(t, test.options, arch(), test.nr, test.args...); got != test.want {
			t.Errorf("%s: %#x, want %#x", name, got, test.want)
		}
	}
	if got := judge(t, plain, unix.AUDIT_ARCH_I386, 1); got != kill {
		t.Errorf("foreign architecture: %#x, want %#x", got, uint32(kill))
	}
}

// TestInstall installs the filter in a child and looks that the kernel takes it.
func TestInstall(t *testing.T) {
	if os.Getenv("SECCOMP_TEST_CHILD") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestInstall$", "-test.v")
		cmd.Env = append(os.Environ(), "SECCOMP_TEST_CHILD=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := seccomp.Install(seccomp.Options{FakeOwner: true, NoSetID: true}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Unshare(unix.CLONE_NEWUSER); err != unix.EPERM { //nolint:errorlint // a bare errno
		t.Errorf("unshare: %v", err)
	}
	if err := unix.Fchown(0, 1, 1); err != nil {
		t.Errorf("chown: %v", err)
	}
	if fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); err != nil {
		t.Errorf("socket: %v", err)
	} else {
		_ = unix.Close(fd)
	}
}
