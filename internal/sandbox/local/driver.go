package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/cgroup"
	"parley/internal/sandbox/hostbox"
	"parley/internal/sandbox/layer"
)

// Directories and files of a box, beside those of hostbox.
const (
	filesDir     = "fs" // upper and work directories, the device node
	workspaceDir = "workspace"
)

// mode is how ids inside relate to ids of the host.
type mode struct {
	base     int  // the host's number of user 0 inside; -1: all have the server's id
	idMapped bool // the host's directories are shown with the ids of the box
}

func (m mode) ranged() bool { return m.base >= 0 }

// driver starts boxes in namespaces.
type driver struct {
	options Options
	root    *hostbox.Root
	exe     *os.File
	groups  *cgroup.Manager
	mode    mode
	found   facts // by the probe
	path    string
	layers  *shared

	mu     sync.Mutex
	owners map[[2]int]*os.File // user namespaces by the owner they map, for mounts
}

var _ hostbox.Driver = (*driver)(nil)

// Name returns the backend's name.
func (d *driver) Name() string { return Name }

// WorkingDir is the working directory inside.
func (d *driver) WorkingDir(_ *hostbox.Dir, spec sandbox.Spec) string { return spec.WorkingDir }

// Close ends the building of layers.
func (d *driver) Close() error {
	if d.layers != nil {
		d.layers.close()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	errs := []error{d.exe.Close()}
	for _, ns := range d.owners {
		errs = append(errs, ns.Close())
	}
	return errors.Join(errs...)
}

// Prepare makes the directories of a new box.
func (d *driver) Prepare(_ context.Context, dir *hostbox.Dir, _ sandbox.Spec) error {
	for _, path := range []string{dir.Path(filesDir), dir.Path(filesDir, upperDir), dir.Path(filesDir, workDir), dir.Path(workspaceDir)} {
		if err := d.mkdir(path); err != nil {
			return err
		}
	}
	if d.mode.ranged() {
		d.makeTunNode(dir.Path(filesDir, tunNode))
	}
	return nil
}

// mkdir makes a directory that belongs to user 0 inside.
func (d *driver) mkdir(path string) error {
	err := os.Mkdir(path, 0o755)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil || !d.mode.ranged() {
		return err
	}
	return os.Lchown(path, d.mode.base, d.mode.base)
}

// makeTunNode makes a device node for the box to open while it is built; many
// hosts keep theirs from ordinary accounts. Programs inside never see it. Where
// it cannot be made the host's is tried.
func (d *driver) makeTunNode(path string) {
	const tunDevice = 10<<8 | 200
	if unix.Mknod(path, unix.S_IFCHR|0o600, tunDevice) == nil {
		_ = os.Lchown(path, d.mode.base, d.mode.base)
	}
}

// Start builds and starts a box.
func (d *driver) Start(ctx context.Context, dir *hostbox.Dir, spec sandbox.Spec) (hostbox.State, error) {
	former, _ := dir.State() // none: a new box
	set, err := d.layers.of(ctx, former.Layer)
	if err != nil {
		return hostbox.State{}, err
	}
	child, err := d.spawn(dir)
	if err != nil {
		return hostbox.State{}, err
	}
	defer child.Close()
	st, err := d.register(dir, spec, child.PID)
	st.Layer = set.Gen
	if err == nil {
		err = dir.SaveState(st)
	}
	if err != nil {
		child.Abort()
		return st, err
	}
	return d.letGo(ctx, dir, spec, set, child, st)
}

// letGo sends the child its orders and waits until it serves.
func (d *driver) letGo(ctx context.Context, dir *hostbox.Dir, spec sandbox.Spec, set *layer.Set, child *hostbox.Child, st hostbox.State) (hostbox.State, error) {
	if err := d.order(dir, spec, set, child); err != nil {
		return st, err
	}
	in := hostbox.Inside{WorkingDir: spec.WorkingDir, Env: d.env(spec)}
	err := child.LetGo(ctx, st.Group, in, func(data json.RawMessage) error {
		var found facts
		if err := json.Unmarshal(data, &found); err != nil {
			return err
		}
		st.TunFD = found.TunFD
		return nil
	})
	if err != nil {
		return st, startFailed(err)
	}
	if st.TunFD == 0 {
		return st, nil
	}
	return st, dir.SaveState(st)
}

// startFailed says what to do about a box that does not come up.
func startFailed(err error) error {
	if fault.KindOf(err) != fault.Internal {
		return err
	}
	return fault.Wrap(err, fault.Unavailable, "sandbox_start", "The sandbox could not be started.").
		WithHint("Run the doctor command to see what this machine lacks.")
}

// register makes the child's group and describes both.
func (d *driver) register(dir *hostbox.Dir, spec sandbox.Spec, pid int) (hostbox.State, error) {
	group, err := d.groups.Create(dir.GroupName(), d.limits(spec.Limits))
	if err != nil {
		return hostbox.State{}, fmt.Errorf("control group: %w", err)
	}
	id, err := hostbox.Identify(pid)
	return hostbox.State{Group: group, Process: id}, err
}

// order sends the child what to build.
func (d *driver) order(dir *hostbox.Dir, spec sandbox.Spec, set *layer.Set, child *hostbox.Child) error {
	s, err := d.newSources(child.PID)
	if err != nil {
		return err
	}
	defer s.close()
	c, err := d.config(dir, spec, set, s)
	if err != nil {
		return err
	}
	return child.Send(c, s.fds...)
}

func (d *driver) config(dir *hostbox.Dir, spec sandbox.Spec, set *layer.Set, s *sources) (config, error) {
	c := config{Hostname: hostname, WorkingDir: spec.WorkingDir,
		Limits:   d.rlimits(spec.Limits),
		Outbound: !spec.Network.Offline() && d.found.TunFD > 0, FakeOwner: !d.mode.ranged()}
	var err error
	if c.Exe, err = s.plain(d.options.Exe); err != nil {
		// The program was moved since the server started: the opened one serves.
		c.Exe = source{}
	}
	if c.Files, err = s.plain(dir.Path(filesDir)); err != nil {
		return c, err
	}
	if c.Layers, err = s.plain(set.Dir); err != nil {
		return c, err
	}
	if c.Overlays, err = d.overlays(dir, set, s); err != nil {
		return c, err
	}
	c.Binds, err = d.binds(dir, spec, s)
	// A set-user-id file of the mount's owner would work outside.
	c.NoSetID = slices.ContainsFunc(spec.Mounts, func(m sandbox.Mount) bool { return !m.ReadOnly })
	return c, err
}

// overlays lists the box's overlays and makes their writable directories. What
// the host removed since the layers were built is left out.
func (d *driver) overlays(dir *hostbox.Dir, set *layer.Set, s *sources) ([]overlay, error) {
	list := []overlay{{Target: "/", Name: rootName}}
	for _, t := range set.Tops {
		lower, err := s.shown(t.Path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, overlay{Target: t.Path, Name: t.Name, Lower: lower})
	}
	for _, o := range list {
		for _, kind := range []string{upperDir, workDir} {
			if err := d.mkdir(dir.Path(filesDir, kind, o.Name)); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// binds lists the mounts of the spec and, unless one of them is it, the box's
// own working directory.
func (d *driver) binds(dir *hostbox.Dir, spec sandbox.Spec, s *sources) ([]bind, error) {
	var list []bind
	covered := false
	for _, m := range spec.Mounts {
		from, err := s.owned(m.Source)
		if err != nil {
			return nil, err
		}
		list = append(list, bind{Target: m.Target, From: from, ReadOnly: m.ReadOnly})
		covered = covered || layer.Within(spec.WorkingDir, m.Target)
	}
	if covered {
		return list, nil
	}
	from, err := s.plain(dir.Path(workspaceDir))
	return append([]bind{{Target: spec.WorkingDir, From: from}}, list...), err
}

// env is the environment of programs inside.
func (d *driver) env(spec sandbox.Spec) map[string]string {
	env := map[string]string{
		"PATH": d.path, "HOME": hostbox.Home, "USER": "root", "LOGNAME": "root", "SHELL": "/bin/sh",
		"LANG": "C.UTF-8", "TERM": "xterm-256color", "TMPDIR": "/tmp", "DEBIAN_FRONTEND": "noninteractive",
	}
	if _, err := os.Stat("/bin/bash"); err == nil {
		env["SHELL"] = "/bin/bash"
	}
	maps.Copy(env, spec.Env)
	return env
}

// limits are what groups enforce.
func (d *driver) limits(l sandbox.Limits) cgroup.Limits {
	return cgroup.Limits{MemoryBytes: memoryLimit(l.MemoryBytes), Processes: processLimit(l.Processes)}
}

// rlimits are what each process is limited by itself. The number of processes is
// only counted per account of the box's user namespace, so it stands in where
// groups cannot count.
func (d *driver) rlimits(l sandbox.Limits) rlimits {
	r := rlimits{OpenFiles: l.OpenFiles}
	if r.OpenFiles == 0 {
		r.OpenFiles = defaultOpenFiles
	}
	if !d.groups.Holds("pids") {
		r.Processes = uint64(processLimit(l.Processes))
	}
	return r
}

func processLimit(n int64) int64 {
	if n == 0 {
		return defaultProcesses
	}
	return n
}

// memoryLimit bounds the default by the machine.
func memoryLimit(n int64) int64 {
	if n > 0 {
		return n
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return defaultMemory
	}
	return min(defaultMemory, int64(info.Totalram)*int64(info.Unit))
}

// Attach takes the box's network device and hands it to the server's side.
func (d *driver) Attach(ctx context.Context, spec sandbox.Spec, st hostbox.State) (io.Closer, error) {
	if d.options.Network == nil || spec.Network.Offline() || st.TunFD == 0 {
		return nil, nil
	}
	tun, err := takeFD(st.Process.PID, st.TunFD)
	if err != nil {
		return nil, fmt.Errorf("network device: %w", err)
	}
	return d.options.Network(ctx, tun, spec.ID)
}

// takeFD copies a descriptor of another process, which may be frozen.
func takeFD(pid, number int) (int, error) {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0, os.NewSyscallError("pidfd_open", err)
	}
	defer func() { _ = unix.Close(pidfd) }()
	fd, err := unix.PidfdGetfd(pidfd, number, 0)
	return fd, os.NewSyscallError("pidfd_getfd", err)
}

// Kill ends the processes of a box and removes its group.
func (d *driver) Kill(ctx context.Context, dir *hostbox.Dir) error {
	st, err := dir.State()
	if err != nil {
		// It was never let go: its process ends by itself, if it was started.
		st = hostbox.State{Group: d.groups.Find(dir.GroupName())}
	}
	return hostbox.KillNamespace(ctx, st)
}
