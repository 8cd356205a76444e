// Package local runs boxes in Linux namespaces, without a daemon, as root or as
// an ordinary user.
//
// A box has its own user, mount, process, IPC, host name, network and control
// group namespaces. It sees the host's programs below a writable overlay, a
// private rest of the file system, and its working directory; see package layer
// for what is visible. Its first process and all others run without capabilities
// outside of the box, with no_new_privs and a system call filter, within limits.
// A box outlives the server and is adopted by the next one.
//
// As root, ids inside are a range of the host's that nobody else has, and the
// host's directories are shown id-mapped: packages can be installed, changed and
// removed inside. As an ordinary user everything inside has that user's id: new
// packages and files can be added anywhere, but files that belong to the host's
// root can only be replaced or removed, not changed in place; changes of owners
// are accepted and forgotten; limits on memory need a delegated control group.
// What holds on a machine, Caps and Probe say.
//
// It does not protect from flaws of the kernel: programs inside talk to it
// directly, if only through the calls that the filter leaves.
package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/cgroup"
	"parley/internal/sandbox/hostbox"
	"parley/internal/sandbox/layer"
)

// Name is the backend's name in handles and configuration.
const Name = "local"

// layersDir and probeDir lie beside the boxes; no id starts with a dot.
const (
	layersDir = ".layers"
	probeDir  = ".probe-"
)

// Backend makes boxes in namespaces.
type Backend struct {
	*hostbox.Backend
	root string // the directory of the boxes
}

var _ sandbox.Backend = (*Backend)(nil)

// New returns the backend. Unavailable, with what to do about it, if this
// machine does not allow boxes. It starts to build what boxes share.
func New(o Options) (*Backend, error) {
	d, root, err := open(o)
	if err != nil {
		return nil, err
	}
	keep, err := root.Layers()
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.layers.start(keep)
	if d.mode.idMapped {
		d.spare.start = func() (*hostbox.Child, error) { return d.first(stageSpare).StartSpare() }
		d.spare.fill()
	}
	return &Backend{hostbox.New(d, root, d.options.Logger), root.Path()}, nil
}

// Probe tries what the backend needs and says what holds on this machine. It
// leaves nothing behind.
func Probe(ctx context.Context, o Options) []sandbox.Guarantee {
	d, _, err := open(o)
	if err != nil {
		return []sandbox.Guarantee{{Name: "user_namespace", Detail: fault.PublicText(err)}}
	}
	defer func() { _ = d.Close() }()
	return d.Caps().Guarantees
}

// open finds out what is possible.
func open(o Options) (*driver, *hostbox.Root, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, nil, unavailable(err)
	}
	root, err := hostbox.OpenRoot(o.Dir, Name)
	if err != nil {
		return nil, nil, unavailable(err)
	}
	// Shown directories must not contain the data directory, wherever it is.
	real, err := filepath.EvalSymlinks(o.Dir)
	if err != nil {
		return nil, nil, unavailable(err)
	}
	o.Hidden = append([]string{o.Dir, real}, o.Hidden...)
	sweepProbes(root.Path())
	d := &driver{options: o, root: root, groups: cgroup.Open(), cores: usable(), owners: map[[2]int]*os.File{}}
	d.exe, err = hostbox.OpenExe(o.Exe, os.Geteuid() == 0)
	if err != nil {
		return nil, nil, unavailable(err)
	}
	if err := d.probe(context.Background()); err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	d.openDisks(context.Background())
	tops := layer.Tops(o.Path, slices.Concat(o.Hidden, o.Homes))
	d.path = insidePath(o.Path, tops)
	d.layers = newShared(layer.Options{Dir: root.Path() + "/" + layersDir, Tops: tops, Base: d.mode.base,
		Skeleton: !d.mode.idMapped, Path: d.path, Hostname: hostname}, o.Logger)
	return d, root, nil
}

// sweepProbes removes what probes that were killed have left. Younger ones may
// still be at work.
func sweepProbes(dir string) {
	left, err := filepath.Glob(filepath.Join(dir, probeDir+"*"))
	if err != nil {
		return
	}
	for _, path := range left {
		if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > 10*probeWait {
			_ = os.RemoveAll(path)
		}
	}
}

func unavailable(err error) *fault.Error {
	return fault.Wrap(err, fault.Unavailable, "sandbox_unavailable", "Isolated sandboxes are not possible on this machine.")
}
