package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox"
	"parley/internal/sandbox/cgroup"
	"parley/internal/sandbox/hostbox"
	"parley/internal/sandbox/layer"
)

const probeWait = 10 * time.Second

// namespaces are what every box has of its own.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUTS | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP

// spawn starts the first process of a box in its namespaces; it waits for orders.
func (d *driver) spawn(dir *hostbox.Dir) (*hostbox.Child, error) {
	attr := &syscall.SysProcAttr{Cloneflags: namespaces}
	if d.mode.ranged() {
		ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: d.mode.base, Size: idCount}}
		attr.UidMappings, attr.GidMappings, attr.GidMappingsEnableSetgroups = ids, ids, true
		attr.Credential = &syscall.Credential{Uid: 0, Gid: 0}
	} else {
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	args := append(append([]string{}, d.options.InitArgs...), stageEnter)
	return hostbox.Spawn{Exe: d.exe, Args: args, Attr: attr}.Start(dir)
}

// probe finds the best mode that works, by building a box of almost nothing.
func (d *driver) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	var errs []error
	for _, m := range d.modes() {
		d.mode = m
		found, err := d.try(ctx)
		if err == nil && m.idMapped && !found.CopyUp {
			err = errors.New("overlays over id-mapped directories cannot be written to")
		}
		if err == nil {
			d.found = found
			return nil
		}
		errs = append(errs, err)
	}
	err := errors.Join(errs...)
	return unavailable(err).WithHint("%s", advice(err))
}

// modes are the possible modes, best first. User 0 inside never is user 0 outside.
func (d *driver) modes() []mode {
	if os.Geteuid() != 0 {
		return []mode{{base: -1}}
	}
	base := int(d.options.IDBase)
	if d.options.noIDMap {
		return []mode{{base: base}}
	}
	return []mode{{base: base, idMapped: true}, {base: base}}
}

// advice says what to do about a failed probe.
func advice(err error) string {
	text := err.Error()
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EUSERS):
		return "User namespaces are switched off or used up: raise /proc/sys/user/max_user_namespaces, or choose another backend."
	case strings.Contains(text, "fork/exec") && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)),
		strings.Contains(text, "private mounts"): // namespaces without rights, as AppArmor makes them
		return "User namespaces are not allowed: see kernel.unprivileged_userns_clone and " +
			"kernel.apparmor_restrict_unprivileged_userns; in a container, run it with --security-opt seccomp=unconfined, or choose another backend."
	case strings.Contains(text, "open_tree") && errors.Is(err, unix.EPERM):
		return "Root without CAP_SYS_ADMIN cannot make sandboxes: run the server as an ordinary user, or choose another backend."
	case strings.Contains(text, "overlay"):
		return "The data directory must lie on a file system that overlays can write to, such as ext4, xfs, btrfs or tmpfs."
	case strings.Contains(text, "/proc"):
		return "A container that hides parts of /proc forbids a new one: run it with --security-opt systempaths=unconfined, or choose another backend."
	}
	return "Choose another backend, or see the server's log for the cause."
}

// try builds a box and lets it say what it found.
func (d *driver) try(ctx context.Context) (facts, error) {
	var found facts
	path, err := os.MkdirTemp(d.root.Path(), probeDir)
	if err != nil {
		return found, err
	}
	defer func() { _ = os.RemoveAll(path) }()
	dir := hostbox.NewDir("probe", path)
	spec := sandbox.Spec{ID: filepath.Base(path), WorkingDir: "/"}
	set := &layer.Set{Dir: dir.Path("layers"), Tops: []layer.Top{{Path: "/usr", Name: "usr"}}}
	if err := d.prepareProbe(ctx, dir, set); err != nil {
		return found, err
	}
	child, err := d.spawn(dir)
	if err != nil {
		return found, err
	}
	defer child.Abort()
	s, err := d.newSources(child.PID)
	if err != nil {
		return found, err
	}
	defer s.close()
	c, err := d.config(dir, spec, set, s)
	if err != nil {
		return found, err
	}
	c.Probe, c.Outbound, c.Binds = true, true, nil
	if err := child.Send(c, s.fds...); err != nil {
		return found, err
	}
	err = child.Wait(ctx, func(data json.RawMessage) error { return json.Unmarshal(data, &found) })
	if err != nil {
		return found, err
	}
	tryDevice(&found, child.PID)
	d.tryGroup(ctx, dir.GroupName(), child.PID)
	return found, nil
}

// tryDevice tries whether the server may take the network device of a box.
func tryDevice(found *facts, pid int) {
	if found.TunFD == 0 {
		return
	}
	fd, err := takeFD(pid, found.TunFD)
	if err != nil {
		found.TunFD, found.TunMissing = 0, err.Error()
		return
	}
	_ = unix.Close(fd)
}

// tryGroup gives groups up where the child may not join one: then limits that
// seem to hold would fail every start.
func (d *driver) tryGroup(ctx context.Context, name string, pid int) {
	group, err := d.groups.Create(name, d.limits(sandbox.Limits{}))
	if err == nil && group == nil {
		return
	}
	if err == nil {
		err = group.Add(pid)
		_ = unix.Kill(pid, unix.SIGKILL)
		if rerr := group.Remove(ctx); err == nil {
			err = rerr
		}
	}
	if err != nil {
		d.options.Logger.WarnContext(ctx, "control groups cannot be used", "error", err)
		d.groups = &cgroup.Manager{}
	}
}

func (d *driver) prepareProbe(ctx context.Context, dir *hostbox.Dir, set *layer.Set) error {
	if err := d.Prepare(ctx, dir, sandbox.Spec{}); err != nil {
		return err
	}
	for _, path := range []string{set.Dir, filepath.Join(set.Dir, layer.BaseDir), filepath.Join(set.Dir, "usr")} {
		if err := d.mkdir(path); err != nil {
			return err
		}
	}
	return nil
}

// probeCopyUp tries, inside, whether a directory of the host's can be written to.
func probeCopyUp() bool {
	entries, err := os.ReadDir("/usr")
	if err != nil {
		return false
	}
	for _, e := range entries {
		if e.IsDir() {
			return os.Mkdir(filepath.Join("/usr", e.Name(), ".probe"), 0o755) == nil
		}
	}
	return false
}

// Caps says what holds on this machine.
func (d *driver) Caps() sandbox.Caps {
	return sandbox.Caps{Isolated: true, Pause: true, Guarantees: []sandbox.Guarantee{
		{Name: "user_namespace", Holds: true, Detail: d.idsDetail()},
		{Name: "namespaces", Holds: true, Detail: "own mount, process, IPC, host name, network and control group namespaces"},
		{Name: "overlay", Holds: true, Detail: "the host's programs are read-only below a writable layer of the sandbox"},
		d.installGuarantee(),
		d.changeGuarantee(),
		{Name: "host_files", Holds: true, Detail: "homes, the data directory, sockets and what ordinary accounts may not read are not visible"},
		{Name: "seccomp", Holds: d.found.Seccomp, Detail: "system call filter, no_new_privs and no capabilities outside of the sandbox"},
		d.networkGuarantee(),
		d.memoryGuarantee(),
		d.processGuarantee(),
		d.filesGuarantee(),
		d.pauseGuarantee(),
	}}
}

func (d *driver) idsDetail() string {
	if d.mode.ranged() {
		return fmt.Sprintf("users inside are the host's %d to %d", d.mode.base, d.mode.base+idCount-1)
	}
	return "user 0 inside is the server's user; there are no others inside"
}

func (d *driver) installGuarantee() sandbox.Guarantee {
	g := sandbox.Guarantee{Name: "install_packages", Holds: true, Detail: "packages can be installed inside; nothing changes outside"}
	if !d.mode.ranged() {
		g.Detail += ". Changes of file owners are accepted and forgotten: there is one user inside"
	}
	return g
}

func (d *driver) changeGuarantee() sandbox.Guarantee {
	g := sandbox.Guarantee{Name: "change_packages", Holds: d.mode.idMapped, Detail: "packages of the host can be upgraded and its files changed inside"}
	switch {
	case d.mode.idMapped:
	case d.mode.ranged():
		g.Detail = "files of the host can be replaced or removed inside, not changed, so upgrades of its packages fail: " +
			"id-mapped mounts need kernel 5.19 and a file system that supports them"
	default:
		g.Detail = "files of the host can be replaced or removed inside, not changed, so upgrades of its packages fail. " +
			"Run the server as root for more"
	}
	return g
}

func (d *driver) networkGuarantee() sandbox.Guarantee {
	g := sandbox.Guarantee{Name: "network_outbound", Holds: d.found.TunFD > 0 && d.options.Network != nil,
		Detail: "outgoing connections pass through the server; nothing of the host's network is reachable otherwise"}
	switch {
	case d.found.TunFD == 0:
		g.Detail = "loopback only: " + d.found.TunMissing + ". The tun module must be loaded and the server's user be able to open " + tunPath
	case d.options.Network == nil:
		g.Detail = "loopback only: the server does not connect sandboxes"
	}
	return g
}

func (d *driver) memoryGuarantee() sandbox.Guarantee {
	g := sandbox.Guarantee{Name: "memory_limit", Holds: d.groups.Holds("memory"), Detail: "by control group, for the whole sandbox"}
	if !g.Holds {
		g.Detail = "no limit: the memory controller is not delegated to the server. " + delegation()
	}
	return g
}

func (d *driver) processGuarantee() sandbox.Guarantee {
	g := sandbox.Guarantee{Name: "process_limit", Holds: true, Detail: "by control group, for the whole sandbox"}
	if !d.groups.Holds("pids") {
		g.Detail = "by RLIMIT_NPROC, which counts the processes of the sandbox's user namespace"
	}
	return g
}

func (d *driver) filesGuarantee() sandbox.Guarantee {
	var lim unix.Rlimit
	g := sandbox.Guarantee{Name: "open_files_limit", Holds: d.found.OpenMax, Detail: "per process"}
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &lim) == nil && lim.Max < defaultOpenFiles {
		g.Detail = fmt.Sprintf("per process, at most %d: the server's own hard limit", lim.Max)
	}
	return g
}

func (d *driver) pauseGuarantee() sandbox.Guarantee {
	g := sandbox.Guarantee{Name: "pause", Holds: true, Detail: "by control group version 2"}
	if !d.groups.Holds("freeze") {
		g.Detail = "by SIGSTOP to every process: programs that watch their children can tell. " + delegation()
	}
	return g
}

func delegation() string {
	return "Start the server as root or with: systemd-run --user --scope -p Delegate=yes"
}
