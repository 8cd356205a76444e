package local

import (
	"fmt"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox"
	"parley/internal/sandbox/landlock"
	"parley/internal/sandbox/tun"
)

// Caps says what holds on this machine.
func (d *driver) Caps() sandbox.Caps {
	return sandbox.Caps{Isolated: true, Pause: true, Snapshot: true, Images: d.images(), Mounts: d.mode.idMapped || !d.mode.ranged(), NetworkPolicy: true,
		Limits: d.limited(), Guarantees: d.guarantees()}
}

// limited names the limits that hold.
func (d *driver) limited() []string {
	var list []string
	for _, l := range []struct {
		name  string
		holds bool
	}{
		{sandbox.LimitCPU, d.groups.Holds("cpu")},
		{sandbox.LimitMemory, d.groups.Holds("memory")},
		// Counted by account, the limit is one of the box if it has a single account.
		{sandbox.LimitProcesses, d.groups.Holds("pids") || !d.mode.ranged()},
		{sandbox.LimitOpenFiles, d.found.OpenMax},
		{sandbox.LimitDisk, d.disks != nil},
		{sandbox.LimitInodes, d.disks != nil},
	} {
		if l.holds {
			list = append(list, l.name)
		}
	}
	return list
}

func (d *driver) guarantees() []sandbox.Guarantee {
	return append([]sandbox.Guarantee{
		{Name: "user_namespace", Holds: true, Detail: d.idsDetail()},
		{Name: "namespaces", Holds: true, Detail: "own mount, process, IPC, host name, network and control group namespaces"},
		{Name: "overlay", Holds: true, Detail: "the host's programs are read-only below a writable layer of the sandbox"},
		d.installGuarantee(),
		d.changeGuarantee(),
		{Name: "host_files", Holds: true, Detail: "homes, the data directory, sockets and what ordinary accounts may not read are not visible"},
		{Name: "seccomp", Holds: d.found.Seccomp, Detail: "system call filter, no_new_privs and no capabilities outside of the sandbox"},
		d.domainGuarantee(),
		{Name: "kernel_files", Holds: true, Detail: "what /proc and /sys tell of the machine is hidden, and nothing of it can be written to"},
		d.networkGuarantee(),
		d.cpuGuarantee(),
		d.memoryGuarantee(),
		d.processGuarantee(),
		d.filesGuarantee(),
		d.pauseGuarantee(),
		d.imageGuarantee(),
	}, d.diskGuarantees()...)
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

func (d *driver) domainGuarantee() sandbox.Guarantee {
	g := sandbox.Guarantee{Name: "landlock", Holds: d.found.Domain > 0}
	if !g.Holds {
		g.Detail = "this kernel has no Landlock, or only its first version: the other guarantees stand without it. " +
			"It comes with kernel 5.19; lsm= on the kernel's command line must name it"
		return g
	}
	g.Detail = fmt.Sprintf("version %d: %s", d.found.Domain, landlock.Adds(d.found.Domain))
	return g
}

func (d *driver) networked() bool { return d.found.TunFD > 0 && d.options.Network != nil }

func (d *driver) networkGuarantee() sandbox.Guarantee {
	g := sandbox.Guarantee{Name: "network_outbound", Holds: d.networked(),
		Detail: "outgoing connections pass through the server; nothing of the host's network is reachable otherwise"}
	switch {
	case d.found.TunFD == 0:
		g.Detail = "loopback only: " + d.found.TunMissing + ". The tun module must be loaded and the server's user be able to open " + tun.Path
	case d.options.Network == nil:
		g.Detail = "loopback only: the server does not connect sandboxes"
	}
	return g
}

func (d *driver) cpuGuarantee() sandbox.Guarantee {
	g := sandbox.Guarantee{Name: "cpu_limit", Holds: d.groups.Holds("cpu"),
		Detail: "by control group, for the whole sandbox; programs see as many processors as they may use"}
	if !g.Holds {
		g.Detail = "no limit: the cpu controller is not delegated to the server. " + delegation()
	}
	return g
}

func (d *driver) memoryGuarantee() sandbox.Guarantee {
	g := sandbox.Guarantee{Name: "memory_limit", Holds: d.groups.Holds("memory"), Detail: "by control group, for the whole sandbox; /proc/meminfo says so inside"}
	if !g.Holds {
		g.Detail = "no limit, but if the machine runs out of memory sandboxes are ended before other programs: the memory controller is not delegated to the server. " + delegation()
	}
	return g
}

func (d *driver) processGuarantee() sandbox.Guarantee {
	g := sandbox.Guarantee{Name: "process_limit", Holds: true, Detail: "by control group, for the whole sandbox"}
	if !d.groups.Holds("pids") {
		g.Holds = !d.mode.ranged()
		g.Detail = "by RLIMIT_NPROC, which counts the processes of each account inside"
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

func (d *driver) imageGuarantee() sandbox.Guarantee {
	g := sandbox.Guarantee{Name: "images", Holds: d.images(), Detail: "sandboxes can stand on container images"}
	switch {
	case g.Holds && !d.mode.ranged():
		g.Detail += ". Every file of an image belongs to the one user inside"
	case g.Holds:
	case d.options.Images == nil:
		g.Detail = "the server does not unpack container images"
	default:
		g.Detail = "ids cannot be mapped here: run the server as an ordinary user, or as root on a kernel from 5.19 on"
	}
	return g
}

func delegation() string {
	return "Start the server as root or with: systemd-run --user --scope -p Delegate=yes"
}
