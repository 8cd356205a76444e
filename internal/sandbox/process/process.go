// Package process runs boxes as plain processes of the server's user, for
// machines that allow nothing better and for development. It isolates nothing:
// programs inside read and write what the server's user can, its data directory
// included, and use the network as they like. It must be asked for, and Caps
// says so.
//
// What it does promise: a cleaned environment, a home and a working directory
// per box, pause and resume, limits where control groups can be used, and that
// nothing that was started stays behind, unless it hides (a program that leaves
// its ancestors and clears its environment, where there are no control groups).
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/cgroup"
	"parley/internal/sandbox/hostbox"
)

// Name is the backend's name in handles and configuration.
const Name = "process"

// Options configure the backend.
type Options struct {
	Dir      string   // holds the boxes
	Exe      string   // this program; "" = /proc/self/exe
	InitArgs []string // the arguments that make Exe call Init with what follows them
	// Env is the server's environment ("NAME=value"); only what is harmless and
	// needed of it reaches programs inside.
	Env    []string
	Logger *slog.Logger // nil discards
}

// Backend makes boxes that are plain processes.
type Backend struct{ *hostbox.Backend }

var _ sandbox.Backend = (*Backend)(nil)

// Directories of a box.
const (
	workspaceDir = "workspace"
	homeDir      = "home"
	tmpDir       = "tmp"
)

// labelName is the variable by which the processes of a box are found again.
const labelName = "PARLEY_SANDBOX_DIR"

// passed are the variables of the server that programs inside get.
var passed = []string{"PATH", "LANG", "LC_ALL", "TERM", "TZ", "USER", "LOGNAME", "SHELL"}

// New returns the backend.
func New(o Options) (*Backend, error) {
	if o.Exe == "" {
		o.Exe = "/proc/self/exe"
	}
	path, err := filepath.EvalSymlinks(o.Exe)
	if err != nil {
		return nil, unavailable(err)
	}
	root, err := hostbox.OpenRoot(o.Dir, Name)
	if err != nil {
		return nil, unavailable(err)
	}
	exe, err := hostbox.OpenExe(path, false)
	if err != nil {
		return nil, unavailable(err)
	}
	d := &driver{options: o, exe: exe, groups: cgroup.Open()}
	return &Backend{hostbox.New(d, root, o.Logger)}, nil
}

func unavailable(err error) error {
	return fault.Wrap(err, fault.Unavailable, "sandbox_unavailable", "Sandboxes cannot be started as processes.").
		WithHint("Is the data directory writable?")
}

type driver struct {
	options Options
	exe     *os.File
	groups  *cgroup.Manager
}

var _ hostbox.Driver = (*driver)(nil)

// Name returns the backend's name.
func (d *driver) Name() string { return Name }

// Close lets go of the program.
func (d *driver) Close() error { return d.exe.Close() }

// Caps says what holds, and above all what does not.
func (d *driver) Caps() sandbox.Caps {
	caps := sandbox.Caps{Pause: true, Snapshot: true, Guarantees: []sandbox.Guarantee{
		{Name: "isolation", Detail: "none: programs run as the server's user and can read and change all that it can. " +
			"Use the local or the docker backend for anything that is not trusted"},
	}}
	for _, l := range []struct{ limit, name, controller string }{
		{sandbox.LimitCPU, "cpu_limit", "cpu"}, {sandbox.LimitMemory, "memory_limit", "memory"}, {sandbox.LimitProcesses, "process_limit", "pids"},
	} {
		g := sandbox.Guarantee{Name: l.name, Holds: d.groups.Holds(l.controller), Detail: "by control group, for the whole sandbox"}
		if g.Holds {
			caps.Limits = append(caps.Limits, l.limit)
		} else {
			g.Detail = "no limit: the server has no control group of its own"
		}
		caps.Guarantees = append(caps.Guarantees, g)
	}
	files := sandbox.Guarantee{Name: "open_files_limit", Holds: !mayRaise(), Detail: "per process"}
	if files.Holds {
		caps.Limits = append(caps.Limits, sandbox.LimitOpenFiles)
	} else {
		files.Detail = "per process, but programs of the host's root can raise it"
	}
	const watched = "not by the kernel: the files of the sandbox are measured every few seconds, and programs that go on writing beyond " +
		"110 % of the limit are killed. What is written elsewhere is not seen"
	caps.Guarantees = append(caps.Guarantees, files, sandbox.Guarantee{Name: "disk_limit", Detail: watched},
		sandbox.Guarantee{Name: "inode_limit", Detail: watched},
		sandbox.Guarantee{Name: "pause", Holds: true, Detail: "of all processes that the sandbox started"})
	return caps
}

// mayRaise reports whether this process, and with it those inside, may raise limits.
func mayRaise() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) != nil || data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// Check completes and validates a spec. The only mount that can be had without a
// file system of its own is one at the working directory.
func (d *driver) Check(spec *sandbox.Spec) error {
	if err := hostbox.CheckSpec(spec); err != nil {
		return err
	}
	for _, m := range spec.Mounts {
		if m.Target != spec.WorkingDir || m.ReadOnly {
			return sandbox.Unsupported(Name, "mount anything but a writable working directory")
		}
	}
	return nil
}

// WorkingDir is the real path: there is no other.
func (d *driver) WorkingDir(dir *hostbox.Dir, spec sandbox.Spec) string {
	for _, m := range spec.Mounts {
		return m.Source
	}
	return dir.Path(workspaceDir)
}

// Prepare makes the directories of a new box.
func (d *driver) Prepare(_ context.Context, dir *hostbox.Dir, _ sandbox.Spec) error {
	for _, name := range []string{workspaceDir, homeDir, tmpDir} {
		if err := os.Mkdir(dir.Path(name), 0o700); err != nil && !errors.Is(err, os.ErrExist) { // those of a snapshot
			return err
		}
	}
	return nil
}

// Files are the directories of a box or a snapshot, but for the one of temporary
// files. Programs that name their directory see another one in a box that was made
// from a snapshot.
func (d *driver) Files(dir *hostbox.Dir) hostbox.Files {
	return hostbox.Plain{Dir: dir, Names: []string{workspaceDir, homeDir}}
}

// orders tell the first process what it needs before it serves.
type orders struct {
	WorkingDir string `json:"working_dir"`
	OpenFiles  uint64 `json:"open_files"`
	FileSize   uint64 `json:"file_size"` // of each, in bytes
}

// Start starts the box's first process.
func (d *driver) Start(ctx context.Context, dir *hostbox.Dir, spec sandbox.Spec) (hostbox.State, error) {
	args := append(slices.Clone(d.options.InitArgs), stageServe)
	child, err := hostbox.Spawn{Exe: d.exe, Args: args, Attr: &syscall.SysProcAttr{}}.Start(dir)
	if err != nil {
		return hostbox.State{}, err
	}
	defer child.Close()
	st, err := d.register(dir, spec, child.PID)
	if err == nil {
		err = dir.SaveState(st)
	}
	if err != nil {
		child.Abort()
		return st, err
	}
	working := d.WorkingDir(dir, spec)
	disk, _ := hostbox.DiskLimits(spec.Limits)
	if err := child.Send(orders{WorkingDir: working, OpenFiles: spec.Limits.OpenFiles, FileSize: uint64(disk)}); err != nil {
		return st, err
	}
	return st, child.LetGo(ctx, st.Group, hostbox.Inside{WorkingDir: working, Env: d.env(dir, spec)}, nil)
}

func (d *driver) register(dir *hostbox.Dir, spec sandbox.Spec, pid int) (hostbox.State, error) {
	group, err := d.groups.Create(dir.GroupName(), cgroup.Limits{CPUs: spec.Limits.CPUs, MemoryBytes: spec.Limits.MemoryBytes, Processes: spec.Limits.Processes})
	if err != nil {
		return hostbox.State{}, fmt.Errorf("control group: %w", err)
	}
	id, err := hostbox.Identify(pid)
	return hostbox.State{Group: group, Process: id}, err
}

// env is the environment of programs inside.
func (d *driver) env(dir *hostbox.Dir, spec sandbox.Spec) map[string]string {
	env := map[string]string{}
	for _, kv := range d.options.Env {
		if name, value, ok := strings.Cut(kv, "="); ok && slices.Contains(passed, name) {
			env[name] = value
		}
	}
	maps.Copy(env, map[string]string{"HOME": dir.Path(homeDir), "TMPDIR": dir.Path(tmpDir)})
	maps.Copy(env, spec.Env)
	env[labelName] = dir.Path()
	return env
}

// Attach has nothing to connect: the box has the host's network.
func (d *driver) Attach(context.Context, sandbox.Spec, hostbox.State) (io.Closer, error) {
	return nil, nil
}

// Kill ends all processes of the box.
func (d *driver) Kill(ctx context.Context, dir *hostbox.Dir) error {
	st, err := dir.State()
	if err != nil || st.Process.PID == 0 {
		// It was never let go: its process ends by itself, if it was started.
		st = hostbox.State{Group: d.groups.Find(dir.GroupName())}
	}
	return hostbox.KillTree(ctx, st, labelName+"="+dir.Path())
}

// stageServe is the argument after InitArgs.
const stageServe = "serve"

// Init is the life of a box's first process; args are what follows InitArgs on
// the command line. It never returns.
func Init(args []string, serve hostbox.ServeFunc) {
	if len(args) == 0 || args[len(args)-1] != stageServe {
		fmt.Fprintln(os.Stderr, "this command is for the server's own use")
		os.Exit(2)
	}
	control := hostbox.OpenControl()
	if err := begin(control); err != nil {
		control.Fail(err)
	}
	if err := hostbox.RunDaemon(control, hostbox.FDListener, serve); err != nil {
		control.Fail(err)
	}
	os.Exit(0)
}

// begin takes the orders, and what else a first process must do: keep the
// server's open files from programs, and take in those that lose their parent.
func begin(control *hostbox.Control) error {
	if err := unix.CloseRange(hostbox.FDExe, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return os.NewSyscallError("close_range", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("child subreaper", err)
	}
	var o orders
	if _, err := control.Receive(&o); err != nil {
		return err
	}
	if err := lower(unix.RLIMIT_NOFILE, o.OpenFiles); err != nil {
		return err
	}
	if err := lower(unix.RLIMIT_FSIZE, o.FileSize); err != nil {
		return err
	}
	return os.Chdir(o.WorkingDir)
}

// lower lowers a limit, never raises it. 0 leaves it as it is.
func lower(resource int, n uint64) error {
	var old unix.Rlimit
	if err := unix.Getrlimit(resource, &old); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	if n == 0 || n >= old.Max {
		return nil
	}
	err := unix.Setrlimit(resource, &unix.Rlimit{Cur: n, Max: n})
	if errors.Is(err, unix.EPERM) {
		return nil
	}
	return os.NewSyscallError("setrlimit", err)
}
