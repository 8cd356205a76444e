package gvisor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/cgroup"
	"parley/internal/sandbox/hostbox"
	"parley/internal/sandbox/layer"
)

// Defaults of Limits.
const (
	defaultMemory    = 4 << 30
	defaultOpenFiles = 65536
	defaultProcesses = 2048
)

// Bounds of what a box takes of the host's threads, gVisor's own included. A process
// inside takes two of them and one for each processor that it keeps busy, a thread
// inside none. What goes beyond them ends the box; so they leave room for all that
// the limit inside allows.
const (
	leastThreads      = 8192
	threadsPerProcess = 4
)

// orders tell the process that starts a box what to do, in the box's namespaces on
// the host. With them comes the mount of the box's disk.
type orders struct {
	Runsc    string    `json:"runsc"`
	Args     []string  `json:"args"`
	Bundle   string    `json:"bundle"`
	PIDFile  string    `json:"pid_file"`
	Overlays []overlay `json:"overlays"`
	Mounts   []mapped  `json:"mounts"`
	Outbound bool      `json:"outbound"`
	Memory   int64     `json:"memory"` // what the box is to take for the machine's, in bytes
	CPUs     int       `json:"cpus"`   // on how many processors it runs; 0 = all
}

// overlay is one directory of the box's root file system. Its writable side is on
// the disk, by its name.
type overlay struct {
	Target string   `json:"target"` // inside; "/" comes first
	Name   string   `json:"name"`
	Lower  []string `json:"lower"` // the upper first
}

// mapped is a directory of the host whose owner is user 0 inside.
type mapped struct {
	Source   string `json:"source"`
	At       string `json:"at"` // below the bundle
	ReadOnly bool   `json:"read_only"`
}

// Places on the disk, and in a bundle.
const (
	upperDir  = "upper"
	workDir   = "work"
	rootName  = "root"
	rootfsDir = "rootfs"
	mountsDir = "mounts"
	mountDisk = "disk"
)

// start starts the processes of a box, or with image restores them, and attaches to
// them.
func (b *Backend) start(ctx context.Context, d dir, rec record, image string) (*Box, error) {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	o, err := b.bundle(d, rec, image)
	if err != nil {
		return nil, err
	}
	if rec.Process, rec.Group, err = b.launch(ctx, d, rec, o); err != nil {
		return nil, startFailed(err)
	}
	if err := d.save(rec); err != nil {
		return nil, err
	}
	network, err := b.connect(ctx, rec)
	if err != nil {
		return nil, err
	}
	box, err := b.attach(d, rec, network)
	if err != nil {
		return nil, err
	}
	conn, err := box.Dial(ctx)
	if err != nil {
		return nil, startFailed(err)
	}
	return box, conn.Close()
}

func startFailed(err error) error {
	if fault.KindOf(err) != fault.Internal {
		return err
	}
	return fault.Wrap(err, fault.Unavailable, "sandbox_start", "The sandbox could not be started.").
		WithHint("Run the doctor command to see what this machine lacks.")
}

// launch runs runsc in new namespaces and returns the sentry.
func (b *Backend) launch(ctx context.Context, d dir, rec record, o orders) (hostbox.Ident, *cgroup.Group, error) {
	var none hostbox.Ident
	disk, err := b.disks.Mount(ctx, d.path(diskFile))
	if err != nil {
		return none, nil, fmt.Errorf("disk image: %w", err)
	}
	defer func() { _ = disk.Close() }()
	if err := makeDirs(disk.Dir(), o.Overlays); err != nil {
		return none, nil, err
	}
	group, err := b.groups.Create(d.groupName(), groupLimits(rec.Spec.Limits))
	if err != nil {
		return none, nil, fmt.Errorf("control group: %w", err)
	}
	args := append(slices.Clone(b.options.InitArgs), stageLaunch)
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET}
	child, err := hostbox.Spawn{Exe: b.exe, Args: args, Attr: attr}.Start(hostbox.NewDir(d.id(), string(d)))
	if err != nil {
		return none, group, err
	}
	defer child.Abort() // it has nothing more to do, and is our child
	if err := group.Add(child.PID); err != nil {
		return none, group, err
	}
	if err := child.Send(o, disk.FD()); err != nil {
		return none, group, err
	}
	var first hostbox.Ident
	err = child.Wait(ctx, func(data json.RawMessage) error { return json.Unmarshal(data, &first) })
	return first, group, err
}

// makeDirs makes the writable sides of overlays on the disk, and /tmp in them.
func makeDirs(disk string, overlays []overlay) error {
	for _, o := range overlays {
		for _, kind := range []string{upperDir, workDir} {
			if err := os.MkdirAll(filepath.Join(disk, kind, o.Name), 0o755); err != nil {
				return err
			}
		}
	}
	return keepTemporary(filepath.Join(disk, upperDir, rootName))
}

// onDisk is a name in /tmp. Where /tmp is empty, runsc mounts a file system in
// memory on it, which no limit of the disk counts.
const onDisk = "tmp/.parley-on-disk"

// keepTemporary makes /tmp in the writable side of a root file system and puts
// something into it. What a former life of the box made of it never leads out of
// that side, and is left as it is.
func keepTemporary(upper string) error {
	root, err := os.OpenRoot(upper)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := root.Mkdir(filepath.Dir(onDisk), 0o700); err == nil {
		if err := root.Chmod(filepath.Dir(onDisk), 0o777|fs.ModeSticky); err != nil {
			return err
		}
	}
	if f, err := root.OpenFile(onDisk, os.O_CREATE|os.O_EXCL, 0o600); err == nil {
		return f.Close()
	}
	return nil
}

func groupLimits(l sandbox.Limits) cgroup.Limits {
	return cgroup.Limits{CPUs: l.CPUs, MemoryBytes: memoryLimit(l), Processes: hostThreads(l)}
}

func processLimit(l sandbox.Limits) int64 { return cmp.Or(l.Processes, defaultProcesses) }

func hostThreads(l sandbox.Limits) int64 {
	return max(leastThreads, threadsPerProcess*processLimit(l))
}

// memoryLimit bounds the default by the machine.
func memoryLimit(l sandbox.Limits) int64 {
	if l.MemoryBytes > 0 {
		return l.MemoryBytes
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return defaultMemory
	}
	return min(defaultMemory, int64(info.Totalram)*int64(info.Unit))
}

// overlays lists what the root file system is made of. What the host removed since
// the layers were built is left out.
func (b *Backend) overlays(g ground) ([]overlay, error) {
	if g.Layer == "" {
		return []overlay{{Target: "/", Name: rootName, Lower: []string{b.path(settingsDir), g.Image.Rootfs}}}, nil
	}
	set, err := layer.Load(b.path(layersDir), g.Layer)
	if err != nil {
		return nil, err
	}
	list := []overlay{{Target: "/", Name: rootName, Lower: []string{filepath.Join(set.Dir, layer.BaseDir)}}}
	for _, t := range set.Tops {
		if info, err := os.Lstat(t.Path); err == nil && info.IsDir() {
			list = append(list, overlay{Target: t.Path, Name: t.Name, Lower: []string{filepath.Join(set.Dir, t.Name), t.Path}})
		}
	}
	return list, nil
}

// bundle writes the OCI bundle of a box and returns the orders to start it.
func (b *Backend) bundle(d dir, rec record, image string) (orders, error) {
	list, err := b.overlays(rec.Ground)
	if err != nil {
		return orders{}, err
	}
	bundle := d.path(bundleDir)
	for _, path := range []string{d.path(stateDir), d.path(bundleDir, rootfsDir), d.path(bundleDir, mountDisk), d.path(bundleDir, mountsDir)} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return orders{}, err
		}
	}
	o := orders{Runsc: b.options.Runsc, Bundle: bundle, PIDFile: d.path(pidFile), Overlays: list,
		Outbound: b.options.Network != nil && !rec.Spec.Network.Offline(), Memory: memoryLimit(rec.Spec.Limits)}
	if n := int(math.Ceil(rec.Spec.Limits.CPUs)); n > 0 && n < runtime.NumCPU() {
		o.CPUs = n
	}
	for i, m := range rec.Spec.Mounts {
		o.Mounts = append(o.Mounts, mapped{Source: m.Source, At: filepath.Join(bundle, mountsDir, fmt.Sprint(i)), ReadOnly: m.ReadOnly})
		if err := os.MkdirAll(o.Mounts[i].At, 0o700); err != nil {
			return o, err
		}
	}
	config, err := b.ociConfig(rec, bundle, o.Mounts)
	if err != nil {
		return o, err
	}
	command := []string{"run"}
	if image != "" {
		command = []string{"restore", "--image-path=" + image}
	}
	o.Args = slices.Concat(b.flags(d), command,
		[]string{"--detach", "--bundle=" + bundle, "--pid-file=" + o.PIDFile, containerID})
	return o, os.WriteFile(filepath.Join(bundle, "config.json"), config, 0o600)
}

// env is the environment of programs inside.
func env(rec record) map[string]string {
	env := map[string]string{
		"PATH": basePath, "HOME": hostbox.Home, "USER": "root", "LOGNAME": "root", "SHELL": "/bin/sh",
		"LANG": "C.UTF-8", "TERM": "xterm-256color", "TMPDIR": "/tmp", "DEBIAN_FRONTEND": "noninteractive",
	}
	for _, kv := range rec.Ground.Image.Env {
		if name, value, ok := strings.Cut(kv, "="); ok {
			env[name] = value
		}
	}
	maps.Copy(env, rec.Spec.Env)
	return env
}

// connect hands the box's network device to the server's side.
func (b *Backend) connect(ctx context.Context, rec record) (io.Closer, error) {
	if b.options.Network == nil || rec.Spec.Network.Offline() {
		return nil, nil
	}
	tap, err := openTap(rec.Process.PID)
	if err == nil && !rec.Process.Alive() { // the number is another's by now
		err = errors.Join(os.ErrProcessDone, unix.Close(tap))
	}
	if err != nil {
		return nil, fmt.Errorf("network device: %w", err)
	}
	return b.options.Network(ctx, tap, rec.Spec.ID, rec.Spec.Network)
}
