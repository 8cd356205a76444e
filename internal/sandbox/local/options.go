package local

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"strings"

	"parley/internal/sandbox"
	"parley/internal/sandbox/hostbox"
	"parley/internal/sandbox/layer"
)

// Options configure the backend.
type Options struct {
	// Dir holds the boxes and what they share. It must lie on a file system that
	// can be the upper side of an overlay (ext4, xfs, btrfs, tmpfs).
	Dir string
	// Exe is this program; "" = /proc/self/exe. Every account must be able to
	// execute it if the server runs as root.
	Exe string
	// InitArgs are the arguments that make Exe call Init with what follows them.
	InitArgs []string
	// Path is the server's PATH: the directories in it, but for those in homes,
	// are visible inside; "" = the usual ones.
	Path string
	// Hidden are directories of the host that must not become visible by Path or by
	// a mount, beside Dir: the home of the server's user if it is not in /home.
	Hidden []string
	// Homes are home directories. Path does not make them visible, and no mount may
	// show one as a whole; directories in them may be mounted.
	Homes []string
	// Network connects a box: tun is its network device, layer 3 without packet
	// information, address 10.0.2.100/24, gateway 10.0.2.2, name server 10.0.2.3.
	// policy is the spec's. It owns tun from the call on, also when it fails. The
	// closer is called when the box dies or the backend closes. nil: boxes have no
	// outbound network.
	Network func(ctx context.Context, tun int, boxID string, policy sandbox.Network) (io.Closer, error)
	// Images unpacks the container images that specs name; nil: there are none.
	Images Images
	// Logger gets what does not fail an operation; nil discards.
	Logger *slog.Logger
	// IDBase is the host's number of user 0 inside when the server is root; 65536
	// ids follow. 0 = 1879048192, a range that distributions hand to nobody.
	IDBase uint32

	noDisks bool // leaves disk images out, as on a machine without loop devices
	noIDMap bool // leaves id-mapped mounts out, as an old kernel does
}

const (
	defaultIDBase = 0x70000000
	idCount       = 65536
	hostname      = "sandbox"
	basePath      = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Defaults of Limits.
const (
	defaultMemory    = 4 << 30
	defaultProcesses = 1024
	defaultOpenFiles = 65536
)

func (o Options) withDefaults() (Options, error) {
	if o.Exe == "" {
		o.Exe = "/proc/self/exe"
	}
	exe, err := filepath.EvalSymlinks(o.Exe)
	if err != nil {
		return o, err
	}
	if o.IDBase == 0 {
		o.IDBase = defaultIDBase
	}
	if o.Path == "" {
		o.Path = basePath
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Exe = exe
	o.Dir, err = filepath.Abs(o.Dir)
	return o, err
}

// insidePath is PATH inside: the usual directories and what else of the server's
// is visible there.
func insidePath(path string, tops []layer.Top) string {
	var dirs []string
	seen := map[string]bool{}
	add := func(list string, keep func(string) bool) {
		for _, dir := range filepath.SplitList(list) {
			if !seen[dir] && keep(dir) {
				seen[dir] = true
				dirs = append(dirs, dir)
			}
		}
	}
	usual := map[string]bool{}
	for _, dir := range filepath.SplitList(basePath) {
		usual[dir] = true
	}
	add(path, func(dir string) bool { return !usual[dir] && visible(dir, tops) })
	add(basePath, func(string) bool { return true })
	return strings.Join(dirs, ":")
}

func visible(dir string, tops []layer.Top) bool {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	for _, t := range tops {
		if layer.Within(dir, t.Path) && layer.Within(real, t.Path) {
			return true
		}
	}
	return false
}

// Check completes and validates a spec.
func (d *driver) Check(spec *sandbox.Spec) error {
	if err := hostbox.CheckSpec(spec); err != nil {
		return err
	}
	if err := d.checkImage(spec); err != nil {
		return err
	}
	for i := range spec.Mounts {
		if err := hostbox.CheckSource(spec.Mounts[i].Source, d.options.Hidden, d.options.Homes); err != nil {
			return err
		}
	}
	return nil
}
