package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// suidArg makes this program say who it is.
const suidArg = "who"

// rights are attacks that succeed if programs have or can get more than they
// should.
func rights(p plants) []attack {
	list := []attack{
		{privileges, "no_new_privs is not set", differs("NoNewPrivs", "1")},
		{privileges, "no system call filter", differs("Seccomp", "2")},
		{privileges, "setuid program", raises},
		{privileges, "raise the limit of open files", func() error {
			return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 21, Max: 1 << 21})
		}},
		{privileges, suidArg, who},
	}
	for _, set := range []string{"CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb"} {
		list = append(list, attack{privileges, "capabilities " + set, func() error { return exceeds(set, p.Capabilities) }})
	}
	return list
}

// status reads a line of proc_pid_status(5).
func status(name string) (string, error) {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("no %s", name)
}

// differs succeeds if something is not as it must be. What cannot be read is not.
func differs(name, want string) func() error {
	return func() error {
		got, err := status(name)
		if err == nil && got == want {
			return errors.New("as it must be")
		}
		fmt.Println(got, err)
		return nil
	}
}

func exceeds(set string, allowed uint64) error {
	text, err := status(set)
	if err != nil {
		return err
	}
	held, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		return err
	}
	if held&^allowed == 0 {
		return errors.New("no more than documented")
	}
	fmt.Printf("beyond what is documented: %x\n", held&^allowed)
	return nil
}

// who succeeds if the program acts for the superuser and was not started by it.
func who() error {
	if os.Geteuid() == 0 && os.Getuid() != 0 {
		return nil
	}
	return fmt.Errorf("uid %d, effective %d", os.Getuid(), os.Geteuid())
}

// raises lets another account execute a copy of this program with the set-user-id
// bit of the superuser.
func raises() error {
	dir, err := scratch()
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	data, err := os.ReadFile(os.Args[0])
	if err != nil {
		return err
	}
	program := dir + "/suid"
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(program, data, 0o755),
		os.WriteFile(dir+"/attack.json", []byte("{}"), 0o644)); err != nil {
		return err
	}
	if err := unix.Chmod(program, unix.S_ISUID|0o755); err != nil {
		return err
	}
	const other = 65534
	cmd := exec.Command(program, "one", suidArg)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: other, Gid: other, NoSetGroups: true}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// leaked are the open descriptors beyond the usual three that are not this
// program's own.
func leaked() []string {
	var leaks []string
	for fd := 3; fd < 1024; fd++ {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
			continue
		}
		link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		if err != nil || ofRuntime(link) {
			continue
		}
		leaks = append(leaks, fmt.Sprintf("%d=%s", fd, link))
	}
	return leaks
}

// ofRuntime tells what the Go runtime opens for itself: for waiting, and to follow
// the limit of CPU time.
func ofRuntime(link string) bool {
	return strings.HasPrefix(link, "anon_inode:[event") ||
		slices.Contains([]string{"cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"}, path.Base(link))
}
