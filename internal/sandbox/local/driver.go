package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/cgroup"
	"parley/internal/sandbox/diskimage"
	"parley/internal/sandbox/hostbox"
	"parley/internal/sandbox/layer"
	"parley/internal/sandbox/tun"
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
	options  Options
	root     *hostbox.Root
	exe      *os.File
	groups   *cgroup.Manager
	mode     mode
	found    facts // by the probe
	path     string
	layers   *shared
	disks    *diskimage.Store // nil: not possible here, diskless says why
	diskless error
	meters   meters
	spare    spare
	cores    []int         // processors that boxes may have
	turn     atomic.Uint64 // of the next box to be given some of them

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
	d.meters.close()
	d.spare.close()
	d.mu.Lock()
	defer d.mu.Unlock()
	errs := []error{d.exe.Close()}
	for _, ns := range d.owners {
		errs = append(errs, ns.Close())
	}
	return errors.Join(errs...)
}

// Prepare makes the directories of a new box.
func (d *driver) Prepare(ctx context.Context, dir *hostbox.Dir, spec sandbox.Spec) error {
	if spec.From != nil {
		if err := checkGround(dir, spec); err != nil {
			return err
		}
	} else if err := d.chooseImage(ctx, dir, spec); err != nil {
		return err
	}
	return d.makeFiles(ctx, dir, spec)
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
	if unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(tun.Major, tun.Minor))) == nil {
		_ = os.Lchown(path, d.mode.base, d.mode.base)
	}
}

// Start builds and starts a box.
func (d *driver) Start(ctx context.Context, dir *hostbox.Dir, spec sandbox.Spec) (hostbox.State, error) {
	former, serr := dir.State() // none: a new box
	g, err := d.ground(ctx, dir, spec, former.Layer)
	if err != nil {
		return hostbox.State{}, err
	}
	g.fresh = serr != nil && spec.From == nil
	defer d.spare.fill() // for the next one
	child, err := d.spawn(dir)
	if err != nil {
		return hostbox.State{}, err
	}
	defer child.Close()
	st, err := d.register(dir, spec, child.PID)
	st.Layer = g.gen()
	if err == nil {
		err = dir.SaveState(st)
	}
	if err != nil {
		child.Abort()
		return st, err
	}
	return d.letGo(ctx, dir, spec, g, child, st)
}

// letGo sends the child its orders and waits until it serves.
func (d *driver) letGo(ctx context.Context, dir *hostbox.Dir, spec sandbox.Spec, g ground, child *hostbox.Child, st hostbox.State) (hostbox.State, error) {
	if err := d.order(ctx, dir, spec, g, child); err != nil {
		return st, err
	}
	in := hostbox.Inside{WorkingDir: spec.WorkingDir, Env: d.env(spec, g)}
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
func (d *driver) order(ctx context.Context, dir *hostbox.Dir, spec sandbox.Spec, g ground, child *hostbox.Child) error {
	s, err := d.newSources(child.PID)
	if err != nil {
		return err
	}
	defer s.close()
	k, err := d.openDisk(ctx, dir, s)
	if err != nil {
		return err
	}
	defer k.close()
	c, err := d.config(dir, spec, g, k, s)
	if err != nil {
		return err
	}
	return child.Send(c, s.fds...)
}

func (d *driver) config(dir *hostbox.Dir, spec sandbox.Spec, g ground, k disk, s *sources) (config, error) {
	c := config{Hostname: hostname, WorkingDir: spec.WorkingDir,
		Limits: d.rlimits(spec.Limits), CPUs: cores(d.cores, spec.Limits.CPUs, d.turn.Add(1)),
		Outbound: !spec.Network.Offline() && d.found.TunFD > 0, FakeOwner: !d.mode.ranged()}
	var err error
	if c.Exe, err = s.plain(d.options.Exe); err != nil {
		// The program was moved since the server started: the opened one serves.
		c.Exe = source{}
	}
	if c.Files, err = k.source(s, filesDir); err != nil {
		return c, err
	}
	if c.Meminfo, err = d.meminfo(dir, spec, s); err != nil {
		return c, err
	}
	if err := d.stand(&c, g, k, s); err != nil {
		return c, err
	}
	c.Binds, err = d.binds(k, spec, s)
	// A set-user-id file of the mount's owner would work outside.
	c.Memory = memoryLimit(spec.Limits.MemoryBytes)
	c.NoSetID = slices.ContainsFunc(spec.Mounts, func(m sandbox.Mount) bool { return !m.ReadOnly })
	return c, err
}

// meminfo makes the file that programs inside read as /proc/meminfo. Where memory
// is not limited the host's is the truth.
func (d *driver) meminfo(dir *hostbox.Dir, spec sandbox.Spec, s *sources) (source, error) {
	if !d.groups.Holds("memory") {
		return source{}, nil
	}
	limit, path := memoryLimit(spec.Limits.MemoryBytes), dir.Path(meminfoFile)
	if err := os.WriteFile(path, meminfo(limit, min(limit, hostFree())), 0o644); err != nil {
		return source{}, err
	}
	if err := os.Chmod(path, 0o644); err != nil { // whatever the umask is
		return source{}, err
	}
	return s.plain(path)
}

// stand lists the box's overlays and makes their writable directories.
func (d *driver) stand(c *config, g ground, k disk, s *sources) error {
	var err error
	if g.image != nil {
		c.Image, c.Fresh = true, g.fresh
		c.Overlays = []overlay{{Target: "/", Name: rootName}}
		c.Overlays[0].Lower, err = s.shown(g.image.Rootfs)
	} else if c.Layers, err = s.plain(g.set.Dir); err == nil {
		c.Overlays, err = d.overlays(g.set, s)
	}
	if err != nil {
		return err
	}
	for _, o := range c.Overlays {
		for _, kind := range []string{upperDir, workDir} {
			if err := d.mkdir(filepath.Join(k.base, filesDir, kind, o.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// overlays lists what of the host the box sees. What the host removed since the
// layers were built is left out.
func (d *driver) overlays(set *layer.Set, s *sources) ([]overlay, error) {
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
	return list, nil
}

// binds lists the mounts of the spec and, unless one of them is it, the box's
// own working directory.
func (d *driver) binds(k disk, spec sandbox.Spec, s *sources) ([]bind, error) {
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
	from, err := k.source(s, workspaceDir)
	return append([]bind{{Target: spec.WorkingDir, From: from}}, list...), err
}

// env is the environment of programs inside.
func (d *driver) env(spec sandbox.Spec, g ground) map[string]string {
	env := map[string]string{"PATH": d.path, "LANG": "C.UTF-8", "TERM": "xterm-256color", "DEBIAN_FRONTEND": "noninteractive"}
	rootfs := "/"
	if g.image != nil {
		rootfs = g.image.Rootfs
		env["PATH"] = basePath
		maps.Copy(env, imageEnv(*g.image))
	}
	maps.Copy(env, map[string]string{"HOME": hostbox.Home, "USER": "root", "LOGNAME": "root", "TMPDIR": "/tmp", "SHELL": "/bin/sh"})
	if programIn(rootfs, "/bin/bash") {
		env["SHELL"] = "/bin/bash"
	}
	maps.Copy(env, spec.Env)
	return env
}

// limits are what groups enforce.
func (d *driver) limits(l sandbox.Limits) cgroup.Limits {
	return cgroup.Limits{CPUs: l.CPUs, MemoryBytes: memoryLimit(l.MemoryBytes), Processes: processLimit(l.Processes)}
}

// rlimits are what each process is limited by itself. The number of processes is
// only counted per account of the box's user namespace, so it stands in where
// groups cannot count.
func (d *driver) rlimits(l sandbox.Limits) rlimits {
	r := rlimits{OpenFiles: l.OpenFiles}
	if r.OpenFiles == 0 {
		r.OpenFiles = defaultOpenFiles
	}
	if d.disks == nil {
		disk, _ := hostbox.DiskLimits(l)
		r.FileSize = uint64(disk)
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

// Attach takes the box's network device and hands it to the server's side, and
// follows the memory that the box uses.
func (d *driver) Attach(ctx context.Context, spec sandbox.Spec, st hostbox.State) (io.Closer, error) {
	network, err := d.connect(ctx, spec, st)
	if err != nil {
		return nil, err
	}
	var all closers
	if network != nil {
		all = append(all, network)
	}
	if d.groups.Holds("memory") {
		path := filepath.Join(d.root.Path(), spec.ID, meminfoFile)
		all = append(all, d.meters.add(path, st.Group, memoryLimit(spec.Limits.MemoryBytes)))
	}
	return all, nil
}

func (d *driver) connect(ctx context.Context, spec sandbox.Spec, st hostbox.State) (io.Closer, error) {
	if d.options.Network == nil || spec.Network.Offline() || st.TunFD == 0 {
		return nil, nil
	}
	device, err := takeFD(st.Process.PID, st.TunFD)
	if err == nil {
		if err = tun.Check(device); err != nil {
			_ = unix.Close(device)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("network device: %w", err)
	}
	return d.options.Network(ctx, device, spec.ID, spec.Network)
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
	if err != nil || st.Process.PID == 0 {
		// It was never let go: its process ends by itself, if it was started.
		st = hostbox.State{Group: d.groups.Find(dir.GroupName())}
	}
	return hostbox.KillNamespace(ctx, st)
}
