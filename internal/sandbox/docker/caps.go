package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"parley/internal/sandbox"
)

// limits are those that the engine and the first process hold.
func (b *Backend) limits() []string {
	list := []string{sandbox.LimitOpenFiles}
	add := func(name string, holds bool) {
		if holds {
			list = append(list, name)
		}
	}
	add(sandbox.LimitCPU, b.machine.CPUCfsQuota && b.machine.CPUCfsPeriod)
	add(sandbox.LimitMemory, b.machine.MemoryLimit)
	add(sandbox.LimitProcesses, b.machine.PidsLimit)
	add(sandbox.LimitDisk, b.disk)
	return list
}

func has(list []string, name string) bool { return slices.Contains(list, name) }

// Caps says what holds with this engine.
func (b *Backend) Caps() sandbox.Caps {
	return sandbox.Caps{Isolated: true, Pause: true, Snapshot: true, Images: true, NetworkPolicy: true, Mounts: true, Slow: true,
		Limits: b.limits(), Guarantees: b.guarantees()}
}

func (b *Backend) guarantees() []sandbox.Guarantee {
	seccomp := slices.ContainsFunc(b.machine.SecurityOptions, func(o string) bool {
		return strings.HasPrefix(o, "name=seccomp") && !strings.Contains(o, "unconfined")
	})
	mapped := slices.ContainsFunc(b.machine.SecurityOptions, func(o string) bool {
		return strings.HasPrefix(o, "name=userns") || strings.HasPrefix(o, "name=rootless")
	})
	limit := func(name, limit, how string) sandbox.Guarantee {
		g := sandbox.Guarantee{Name: name, Holds: has(b.limits(), limit), Detail: how}
		if !g.Holds {
			g.Detail = "the engine cannot: its kernel lacks the control group"
		}
		return g
	}
	return []sandbox.Guarantee{
		{Name: "isolation", Holds: true, Detail: fmt.Sprintf("containers of the engine at %s, version %s", b.engine.socket, quotable(b.machine.ServerVersion))},
		said("user_namespace", mapped, "root inside is an ordinary account outside",
			"root inside is the machine's root, without most of its rights; userns-remap in the engine's configuration, or a rootless engine, changes that"),
		said("seccomp", true, map[bool]string{true: "the engine's filter and the server's own", false: "the server's own filter; the engine has none"}[seccomp], ""),
		{Name: "change_packages", Holds: true, Detail: "the image's files can be changed inside"},
		limit("memory_limit", sandbox.LimitMemory, "by control group, for the whole sandbox"),
		limit("process_limit", sandbox.LimitProcesses, "by control group, for the whole sandbox"),
		limit("cpu_limit", sandbox.LimitCPU, "by control group, for the whole sandbox"),
		{Name: "open_files_limit", Holds: true, Detail: "per process"},
		said("disk_limit", b.disk, "by the engine's storage driver, if a limit is asked for",
			fmt.Sprintf("none: sandboxes share the engine's file system, and its storage driver %s cannot limit them (overlay2 on xfs mounted with pquota can)", quotable(b.machine.Driver))),
		{Name: "pause", Holds: true, Detail: "by the engine"},
		b.network(),
	}
}

// said chooses the text.
func said(name string, holds bool, yes, no string) sandbox.Guarantee {
	if holds {
		no = yes
	}
	return sandbox.Guarantee{Name: name, Holds: holds, Detail: no}
}

func (b *Backend) network() sandbox.Guarantee {
	g := sandbox.Guarantee{Name: "network_outbound"}
	_, err := os.Stat(tunPath)
	switch {
	case b.options.Network == nil:
		g.Detail = "switched off: sandboxes have loopback only"
	case err != nil:
		g.Detail = tunPath + " is missing: sandboxes that may reach something are refused (modprobe tun)"
	default:
		g.Holds, g.Detail = true, "through the server; the engine's networks are not used"
	}
	return g
}

// probeDisk finds out whether the storage driver limits the size of a container:
// the engine says so when it makes one.
func (b *Backend) probeDisk(ctx context.Context) bool {
	backing := ""
	for _, status := range b.machine.DriverStatus {
		if status[0] == "Backing Filesystem" {
			backing = status[1]
		}
	}
	if b.machine.Driver == "overlay2" && backing != "xfs" || b.machine.Driver == "vfs" {
		return false
	}
	img, err := b.anyImage(ctx)
	if err != nil {
		return false
	}
	id := fmt.Sprintf("probe-%d", os.Getpid()) // of a box, so that a lost answer is swept
	err = b.engine.create(ctx, b.container(id), config{Image: img, Entrypoint: []string{exePath}, Cmd: []string{},
		Labels:     map[string]string{labelInstallation: b.options.Installation, labelBox: id, labelVersion: strconv.Itoa(handleVersion)},
		HostConfig: hostConfig{NetworkMode: "none", StorageOpt: map[string]string{"size": strconv.Itoa(1 << 30)}}})
	if removeErr := b.engine.remove(ctx, b.container(id)); removeErr != nil && !refused(removeErr, 404) {
		b.options.Logger.WarnContext(ctx, "the container of a trial stays", "container", b.container(id), "error", removeErr)
	}
	return err == nil
}

// anyImage returns the id of an image that the engine has.
func (b *Backend) anyImage(ctx context.Context) (string, error) {
	if b.options.DefaultImage != "" {
		if img, err := b.engine.image(ctx, b.options.DefaultImage); err == nil {
			return img.ID, nil
		}
	}
	all, err := b.engine.images(ctx)
	if err != nil || len(all) == 0 {
		return "", errors.Join(err, errors.New("the engine has no image"))
	}
	return all[0].ID, nil
}
