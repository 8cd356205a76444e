package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// read returns a system file's text without surrounding space, "" if it cannot be read.
func (d *doctor) read(path string) string {
	data, err := fs.ReadFile(d.System, strings.TrimPrefix(path, "/"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func (d *doctor) exists(path string) bool {
	_, err := fs.Stat(d.System, strings.TrimPrefix(path, "/"))
	return err == nil
}

// namespaceFlags are the namespaces of a local sandbox.
const namespaceFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNET

// namespaces starts a program in namespaces of its own.
func (d *doctor) namespaces(ctx context.Context) Finding {
	f := Finding{Check: "user_namespace"}
	err := tryNamespaces(ctx, d.Timeout)
	if err == nil {
		f.Level, f.Found = OK, "a program runs in user, mount, pid, ipc, uts and network namespaces of its own"
		return f
	}
	f.Level, f.Found = d.need(), "namespaces cannot be made: "+err.Error()
	f.Follows = "the local sandbox cannot work; only --sandbox process can, without isolation"
	f.Mend = d.namespaceMend()
	return f
}

func tryNamespaces(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/true")
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  namespaceFlags,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	err := cmd.Run()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("not tried: %w", err)
	}
	return err
}

// namespaceMend names the switch that is off.
func (d *doctor) namespaceMend() string {
	switch {
	case d.read("/proc/sys/user/max_user_namespaces") == "0":
		return "sysctl -w user.max_user_namespaces=15000"
	case d.read("/proc/sys/kernel/unprivileged_userns_clone") == "0":
		return "sysctl -w kernel.unprivileged_userns_clone=1"
	case d.read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
		return "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for parley"
	case d.exists("/.dockerenv") || d.exists("/run/.containerenv"):
		return "this is a container: start it with --security-opt seccomp=unconfined --cap-add SYS_ADMIN, or run parley outside"
	}
	return "allow user namespaces in the kernel's settings, or run parley as root"
}

func (d *doctor) overlay(context.Context) Finding {
	f := Finding{Check: "overlay"}
	for line := range strings.Lines(d.read("/proc/filesystems") + "\n") {
		if strings.HasSuffix(strings.TrimSpace(line), "\toverlay") {
			f.Level, f.Found = OK, "the kernel has the overlay file system"
			return f
		}
	}
	f.Level, f.Found = Limited, "the kernel does not list the overlay file system"
	f.Follows = "sandboxes show the host's tools read-only: packages cannot be installed inside"
	f.Mend = "modprobe overlay"
	return f
}

func (d *doctor) cgroups(context.Context) Finding {
	f := Finding{Check: "cgroup", Level: OK}
	switch {
	case d.exists("/sys/fs/cgroup/cgroup.controllers"):
		f.Found = "cgroup v2, controllers: " + d.read("/sys/fs/cgroup/cgroup.controllers")
	case d.exists("/sys/fs/cgroup/unified/cgroup.procs"):
		f.Found = "cgroup v1 controllers beside a v2 hierarchy"
	case d.exists("/sys/fs/cgroup/memory"):
		f.Found = "cgroup v1"
	default:
		f.Level, f.Found = Limited, "no cgroup hierarchy is mounted at /sys/fs/cgroup"
		f.Follows = "a sandbox's memory and processes are not limited, and pausing falls back to signals"
		f.Mend = "mount cgroup2 at /sys/fs/cgroup"
		return f
	}
	if own := d.ownCgroup(); unix.Access(own, unix.W_OK) != nil {
		f.Level = Limited
		f.Found += "; " + own + " is not writable"
		f.Follows = "a sandbox's memory and processes are not limited, and pausing falls back to signals"
		f.Mend = "run parley as root, or under systemd with Delegate=yes (systemd-run --user --scope -p Delegate=yes parley serve)"
	}
	return f
}

// ownCgroup is the directory of this process's cgroup in the v2 hierarchy, else
// in v1's memory controller.
func (d *doctor) ownCgroup() string {
	var v1 string
	for line := range strings.Lines(d.read("/proc/self/cgroup") + "\n") {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) == 3 && parts[1] == "" && d.exists("/sys/fs/cgroup/cgroup.controllers"):
			return "/sys/fs/cgroup" + parts[2]
		case len(parts) == 3 && parts[1] == "":
			v1 = orElse(v1, "/sys/fs/cgroup/unified"+parts[2])
		case len(parts) == 3 && strings.Contains(","+parts[1]+",", ",memory,"):
			v1 = "/sys/fs/cgroup/memory" + parts[2]
		}
	}
	return orElse(v1, "/sys/fs/cgroup")
}

// landlockVersionFlag asks landlock_create_ruleset for the ABI's number.
const landlockVersionFlag = 1

func (d *doctor) landlock(context.Context) Finding {
	f := Finding{Check: "landlock"}
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, landlockVersionFlag)
	if errno == 0 {
		f.Level, f.Found = OK, fmt.Sprintf("Landlock ABI %d", abi)
		return f
	}
	f.Level, f.Found = Limited, "no Landlock: "+errno.Error()
	f.Follows = "sandboxes do without this second wall around files"
	f.Mend = "Linux 5.13 or later with landlock among the lsm= boot parameters"
	return f
}

func (d *doctor) seccomp(context.Context) Finding {
	f := Finding{Check: "seccomp"}
	if actions := d.read("/proc/sys/kernel/seccomp/actions_avail"); strings.Contains(actions, "errno") {
		f.Level, f.Found = OK, "seccomp filters, actions: "+actions
		return f
	}
	f.Level, f.Found = Limited, "the kernel lists no seccomp filter actions"
	f.Follows = "dangerous system calls are not filtered in sandboxes"
	f.Mend = "a kernel with CONFIG_SECCOMP_FILTER"
	return f
}

func (d *doctor) tun(context.Context) Finding {
	f := Finding{Check: "tun"}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd)
		f.Level, f.Found = OK, "/dev/net/tun can be opened"
		return f
	}
	f.Level, f.Found = Limited, "/dev/net/tun cannot be opened: "+err.Error()
	f.Follows = "sandboxes may have no network of their own"
	f.Mend = "modprobe tun; in a container, pass the device in with --device /dev/net/tun"
	return f
}
