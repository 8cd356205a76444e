package local

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox"
	"parley/internal/sandbox/cgroup"
	"parley/internal/sandbox/hostbox"
	"parley/internal/sandbox/layer"
)

const probeWait = 10 * time.Second

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
	c, err := d.config(dir, spec, ground{set: set}, disk{base: dir.Path()}, s)
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
