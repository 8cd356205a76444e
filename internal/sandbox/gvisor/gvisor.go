// Package gvisor runs boxes on gVisor: runsc, driven directly with OCI bundles. It
// is the tier for code that nobody trusts. Programs inside talk to a kernel of
// their own, written in Go, that runs as an ordinary process (the sentry) behind a
// system call filter; no system call of theirs reaches the host's kernel.
//
// A box stands on a container image or, without one, on the host's programs, below
// a writable overlay whose upper side is a disk image of fixed size. Its mounts and
// its network exist only in namespaces of its own, which end with it: nothing of
// them is seen on the host. Its network device is an ethernet one (TAP) that the
// server reads; a stack in the server makes all outgoing connections.
//
// sandboxd listens on a socket inside the sentry, which survives a restore. The
// server reaches it through a small process that runsc starts inside (Box.Dial),
// over two pipes: no socket, file or port of the host is shared with the box, and
// a checkpoint disturbs neither.
//
// Snapshots hold the running processes as well as the files. A box made from one
// goes on where the other was; connections to the outside are gone in it.
//
// What it does not protect from: flaws of the processor, use of resources that have
// no limit (memory bandwidth, caches), and what a program sends where the policy
// lets it.
package gvisor

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/cgroup"
	"parley/internal/sandbox/diskimage"
	"parley/internal/sandbox/hostbox"
	"parley/internal/sandbox/layer"
)

// Name is the backend's name in handles and configuration.
const Name = "gvisor"

// Images unpacks container images.
type Images interface {
	// Get returns the unpacked files of an image. They stay as long as a box or a
	// snapshot stands on them: see Backend.ImagesInUse.
	Get(ctx context.Context, ref string) (Image, error)
}

// Image is an unpacked container image.
type Image struct {
	Rootfs     string   `json:"rootfs"` // a directory; nobody may write to it
	Env        []string `json:"env"`    // NAME=value
	WorkingDir string   `json:"working_dir"`
	Digest     string   `json:"digest"` // of its content; which image it is
}

// Options configure the backend.
type Options struct {
	// Dir holds the boxes, snapshots and what they share.
	Dir string
	// Runsc is the path of runsc; "" = the one on Path.
	Runsc string
	// Exe is this program; it must be static. "" = /proc/self/exe.
	Exe string
	// InitArgs are the arguments that make Exe call Init with what follows them.
	InitArgs []string
	// Path is the server's PATH: as in package local, directories in it become
	// visible inside. "" = the usual ones.
	Path string
	// Hidden are directories that must not become visible by Path or by a mount,
	// beside Dir.
	Hidden []string
	// Homes are home directories. No mount may show one as a whole.
	Homes []string
	// Images makes images available; nil = there are none.
	Images Images
	// Network connects a box: tap is its ethernet device without packet information;
	// the box has the address 10.0.2.100/24, the gateway 10.0.2.2 and the name server
	// 10.0.2.3. It owns tap from the call on, also when it fails. The closer is called
	// when the box dies or the backend closes. nil = loopback only.
	Network func(ctx context.Context, tap int, boxID string, policy sandbox.Network) (io.Closer, error)
	// Logger gets what does not fail an operation; nil discards.
	Logger *slog.Logger
}

const (
	hostname = "sandbox"
	basePath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Names beside the boxes; no id begins with a dot.
const (
	layersDir   = ".layers"
	disksDir    = ".disks"
	programsDir = ".programs"
	settingsDir = ".settings"
	snapshotDir = ".snapshots"
	probeID     = "probe"
	probeDir    = ".probe"
	triedFile   = ".tried"
)

// Backend makes boxes on gVisor.
type Backend struct {
	options Options
	exe     *os.File // for processes of the host
	program string   // name of the program inside, in programsDir
	groups  *cgroup.Manager
	disks   *diskimage.Store
	layers  layer.Options
	version string

	building sync.Mutex // one at a time builds layers
	wg       sync.WaitGroup
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc

	turns hostbox.Turns // operations on boxes and snapshots

	mu    sync.Mutex
	boxes map[string]*Box // attached and not known dead
}

var _ sandbox.Backend = (*Backend)(nil)

// New returns the backend. Unavailable, with what to do about it, if boxes cannot
// be made on this machine: a trial run is part of it, the first time after the
// machine's start and after a change of runsc or of this program.
func New(ctx context.Context, o Options) (*Backend, error) {
	return newBackend(ctx, o, (*Backend).tryOnce)
}

func newBackend(ctx context.Context, o Options, try func(*Backend, context.Context) error) (*Backend, error) {
	b, err := open(ctx, o)
	if err != nil {
		return nil, unavailable(err)
	}
	if err := errors.Join(b.sweep(ctx), try(b, ctx)); err != nil {
		return nil, errors.Join(unavailable(err), b.Close())
	}
	return b, nil
}

func open(ctx context.Context, o Options) (*Backend, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("the server does not run as root")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Path == "" {
		o.Path = basePath
	}
	var err error
	if o.Runsc, err = exec.LookPath(orElse(o.Runsc, "runsc")); err != nil {
		return nil, err
	}
	if o.Exe, err = filepath.EvalSymlinks(orElse(o.Exe, "/proc/self/exe")); err != nil {
		return nil, err
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(o.Dir)
	if err != nil {
		return nil, err
	}
	o.Dir = real
	b := &Backend{options: o, groups: cgroup.Open(), boxes: map[string]*Box{}}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b, b.prepare(ctx)
}

// prepare makes what all boxes share.
func (b *Backend) prepare(ctx context.Context) error {
	var err error
	if b.version, err = runscVersion(ctx, b.options.Runsc); err != nil {
		return err
	}
	if b.disks, err = diskimage.Open(ctx, b.path(disksDir), 0); err != nil {
		return err
	}
	if err := b.writeSettings(); err != nil {
		return err
	}
	hidden := append(slices.Concat(b.options.Hidden, b.options.Homes), b.options.Dir)
	b.layers = layer.Options{Dir: b.path(layersDir), Tops: layer.Tops(b.options.Path, hidden), Path: basePath, Hostname: hostname}
	if b.program, err = b.keepProgram(); err != nil {
		return err
	}
	b.exe, err = hostbox.OpenExe(b.path(programsDir, b.program), false)
	return err
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// path returns a path below the backend's directory.
func (b *Backend) path(elem ...string) string {
	return filepath.Join(append([]string{b.options.Dir}, elem...)...)
}

// Name returns the backend's name.
func (b *Backend) Name() string { return Name }

// Caps says what holds on this machine.
func (b *Backend) Caps() sandbox.Caps {
	return sandbox.Caps{Isolated: true, Pause: true, Snapshot: true, LiveSnapshot: true, Mounts: true, NetworkPolicy: true, Slow: true,
		Images: b.options.Images != nil, Limits: b.limits(), Guarantees: b.guarantees()}
}

// limits are those that are enforced.
func (b *Backend) limits() []string {
	list := []string{sandbox.LimitOpenFiles, sandbox.LimitProcesses, sandbox.LimitDisk, sandbox.LimitInodes}
	for name, controller := range map[string]string{sandbox.LimitCPU: "cpu", sandbox.LimitMemory: "memory"} {
		if b.groups.Holds(controller) {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

func (b *Backend) guarantees() []sandbox.Guarantee {
	group := func(name, controller, detail string) sandbox.Guarantee {
		if b.groups.Holds(controller) {
			return sandbox.Guarantee{Name: name, Holds: true, Detail: detail}
		}
		return sandbox.Guarantee{Name: name, Detail: "no limit: the " + controller + " controller of control groups cannot be used here"}
	}
	return []sandbox.Guarantee{
		{Name: "own_kernel", Holds: true, Detail: "no system call reaches the host's kernel; runsc " + b.version},
		{Name: "overlay", Holds: true, Detail: "the host's programs or the image are read-only below a writable layer of the sandbox"},
		{Name: "host_files", Holds: true, Detail: "homes, the data directory, sockets and what ordinary accounts may not read are not visible"},
		{Name: "network_outbound", Holds: b.options.Network != nil,
			Detail: "outgoing connections pass through the server; nothing of the host's network is reachable otherwise"},
		group("cpu_limit", "cpu", "by control group, with gVisor's own use"),
		group("memory_limit", "memory", "by control group, with gVisor's own memory; the whole sandbox dies if it is exceeded"),
		{Name: "process_limit", Holds: true, Detail: "with threads, of each user inside; a sandbox whose users together take more threads of the host than its own limit allows ends"},
		{Name: "seccomp", Holds: true, Detail: "calls that programs inside have no need of are refused before gVisor looks at them"},
		{Name: "open_files_limit", Holds: true, Detail: "per process"},
		{Name: "disk_limit", Holds: true, Detail: "by a file system of its own in a file of fixed size"},
		{Name: "inode_limit", Holds: true, Detail: "by a file system of its own, rounded up"},
		{Name: "pause", Holds: true, Detail: "all tasks inside are stopped, and then gVisor itself"},
		{Name: "live_snapshot", Holds: true, Detail: "running processes are part of snapshots"},
	}
}

func unavailable(err error) error {
	return fault.Wrap(err, fault.Unavailable, "sandbox_unavailable", "Sandboxes on gVisor are not possible on this machine: %s", reason(err)).
		WithHint("Install runsc (a release of gVisor, or go install gvisor.dev/gvisor/runsc@VERSION), run the server as root, or choose another backend.")
}

// reason says in words what is missing, without the details of the machine.
func reason(err error) string {
	var missing *exec.Error
	switch {
	case os.Geteuid() != 0:
		return "the server does not run as root."
	case errors.As(err, &missing):
		return "runsc is not installed."
	}
	return "a trial failed; the server's log has the details."
}
