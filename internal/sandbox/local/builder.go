package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox/layer"
)

// builder makes a box's file system, network and identity from inside its new
// namespaces.
//
// While the host's tree is still in place it only makes mounts that are attached
// nowhere; after the root has been changed and the host's tree is gone it
// attaches them. So whatever links a former life of the box left in its own
// files, they lead nowhere but into the box.
type builder struct {
	config     config
	fds        []int
	exe        int // a read-only view of this program, or the inherited descriptor
	tun        int // the network device; 0 = none
	tunMissing string
	attached   map[int]bool // the descriptors whose mounts are attached, for parts of them
}

// mounted is a mount that waits to be attached.
type mounted struct {
	target string
	fd     int
	file   bool // target is a file to be made
	exists bool // skip quietly if target is missing
}

func (b *builder) fileSystem() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := b.openExe(); err != nil {
		return fmt.Errorf("program: %w", err)
	}
	mounts, err := b.mounts()
	if err != nil {
		return err
	}
	root := mounts[0].fd
	if err := changeRoot(root); err != nil {
		return fmt.Errorf("change root: %w", err)
	}
	if b.config.Image {
		if err := settle(b.config.Fresh); err != nil {
			return fmt.Errorf("image: %w", err)
		}
	}
	for _, m := range mounts[1:] {
		if err := m.attach(); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	if err := furnish(); err != nil {
		return err
	}
	return os.NewSyscallError("sethostname", unix.Sethostname([]byte(b.config.Hostname)))
}

// mounts makes everything that is to be attached: the root first, parents before
// what lies in them.
func (b *builder) mounts() ([]mounted, error) {
	// Before the overlays are: those cover a part of the host's tree.
	system, err := b.system()
	if err != nil {
		return nil, err
	}
	covers, err := b.covers()
	if err != nil {
		return nil, fmt.Errorf("covers: %w", err)
	}
	overlays, err := b.overlays()
	if err != nil {
		return nil, err
	}
	binds, err := b.binds()
	return slices.Concat(overlays, system, binds, covers), err
}

// open returns a detached mount of the source.
func (b *builder) open(s source) (int, error) {
	if s.FD > 0 {
		if s.FD > len(b.fds) {
			return 0, errors.New("descriptor missing")
		}
		if s.Sub != "" {
			return b.part(s)
		}
		return b.fds[s.FD-1], nil
	}
	return cloneTree(s.Path, 0)
}

// part returns a directory of a mount as a mount of its own. Only parts of attached
// mounts can be had before kernel 6.15.
func (b *builder) part(s source) (int, error) {
	fd := b.fds[s.FD-1]
	if !b.attached[s.FD] {
		if err := attach(fd, stage); err != nil {
			return 0, err
		}
		if b.attached == nil {
			b.attached = map[int]bool{}
		}
		b.attached[s.FD] = true
	}
	return cloneTree(fdPath(fd, s.Sub), 0)
}

// openExe gets the view of this program that the second stage is executed from.
func (b *builder) openExe() error {
	b.exe = 3
	if b.config.Exe == (source{}) {
		return nil
	}
	fd, err := b.open(b.config.Exe)
	if err != nil {
		return err
	}
	if same(fd, b.exe) { // else it was replaced on disk since the server started
		b.exe = fd
		return setMount(fd, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID)
	}
	return nil
}

func same(a, b int) bool {
	var x, y unix.Stat_t
	return unix.Fstat(a, &x) == nil && unix.Fstat(b, &y) == nil && x.Dev == y.Dev && x.Ino == y.Ino
}

// overlays makes the overlay mounts, the root's first.
func (b *builder) overlays() ([]mounted, error) {
	files, err := b.staged(b.config.Files)
	if err != nil {
		return nil, fmt.Errorf("files: %w", err)
	}
	b.openTun(files)
	layers := -1
	if !b.config.Image {
		if layers, err = b.staged(b.config.Layers); err != nil {
			return nil, fmt.Errorf("layers: %w", err)
		}
	}
	var list []mounted
	for _, o := range b.config.Overlays {
		fd, err := b.overlay(o, files, layers)
		if err != nil {
			return nil, fmt.Errorf("overlay %s: %w", o.Target, err)
		}
		list = append(list, mounted{target: o.Target, fd: fd})
	}
	return list, nil
}

// overlay makes one overlay mount. A directory of the host that has mounts below
// it, which may not be separated from it here, is shown read-only.
func (b *builder) overlay(o overlay, files, layers int) (int, error) {
	var lower []string
	if layers >= 0 {
		lower = append(lower, fdPath(layers, layerName(o.Name)))
	}
	if o.Lower != (source{}) {
		fd, err := b.staged(o.Lower)
		if errors.Is(err, unix.EINVAL) && o.Lower.FD == 0 && layers >= 0 {
			return readOnlyTree(o.Lower.Path)
		}
		if err != nil {
			return 0, err
		}
		lower = append(lower, fdPath(fd))
	}
	fs, err := newFS("overlay", [][2]string{
		{"lowerdir", strings.Join(lower, ":")},
		{"upperdir", fdPath(files, upperDir, o.Name)},
		{"workdir", fdPath(files, workDir, o.Name)},
		{"userxattr", ""},
	})
	if err != nil {
		return 0, err
	}
	return fs.mount(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
}

func readOnlyTree(path string) (int, error) {
	fd, err := cloneTree(path, unix.AT_RECURSIVE)
	if err != nil {
		return 0, err
	}
	return fd, setTree(fd, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

// staged attaches a source somewhere in the host's tree as we see it, where it
// soon disappears with the rest: overlays take only attached mounts. What it
// covers does not matter, its descriptor stays good.
func (b *builder) staged(s source) (int, error) {
	fd, err := b.open(s)
	if err != nil {
		return 0, err
	}
	return fd, attach(fd, stage)
}

// stage is a directory that every host has and that nothing here needs.
const stage = "/sys"

// inMemory is how large a file system in memory may be: a part of what the box has,
// so that files there leave room for programs, to remove them for instance.
func (b *builder) inMemory(most, part int64) string {
	if b.config.Memory > 0 {
		most = min(most, b.config.Memory/part)
	}
	return strconv.FormatInt(most, 10)
}

// system makes the file systems that do not come from the host's disk.
func (b *builder) system() ([]mounted, error) {
	var list []mounted
	for _, s := range []struct {
		target, kind string
		options      [][2]string
		attr         int
	}{
		{"/proc", "proc", nil, unix.MOUNT_ATTR_NOEXEC},
		{"/dev", "tmpfs", [][2]string{{"mode", "755"}, {"size", "1m"}}, unix.MOUNT_ATTR_NOEXEC},
		{"/dev/pts", "devpts", [][2]string{{"newinstance", ""}, {"ptmxmode", "666"}, {"mode", "620"}}, unix.MOUNT_ATTR_NOEXEC},
		{"/dev/shm", "tmpfs", [][2]string{{"mode", "1777"}, {"size", b.inMemory(512<<20, 8)}}, 0},
		{"/run", "tmpfs", [][2]string{{"mode", "755"}, {"size", b.inMemory(256<<20, 16)}}, 0},
		{"/sys", "tmpfs", [][2]string{{"mode", "755"}, {"size", "1m"}}, unix.MOUNT_ATTR_NOEXEC},
	} {
		fs, err := newFS(s.kind, s.options)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.target, err)
		}
		attr := s.attr | unix.MOUNT_ATTR_NOSUID
		if s.kind != "devpts" {
			attr |= unix.MOUNT_ATTR_NODEV
		}
		fd, err := fs.mount(attr)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.target, err)
		}
		list = append(list, mounted{target: s.target, fd: fd})
	}
	devices, err := b.devices()
	return append(list, devices...), err
}

// devices shows the harmless devices of the host, and which processors are there.
func (b *builder) devices() ([]mounted, error) {
	var list []mounted
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		path := "/dev/" + name
		fd, err := cloneTree(path, 0)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if err := setMount(fd, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		list = append(list, mounted{target: path, fd: fd, file: true})
	}
	return append(list, processors()...), nil
}

// processorDir says which processors are there: runtimes size themselves by it.
const processorDir = "/sys/devices/system/cpu"

func processors() []mounted {
	fd, err := cloneTree(processorDir, 0)
	if err != nil {
		return nil // they ask /proc instead
	}
	err = setMount(fd, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return nil
	}
	return []mounted{{target: processorDir, fd: fd}}
}

// binds opens the working directory and the mounts of the spec.
func (b *builder) binds() ([]mounted, error) {
	var list []mounted
	for _, m := range b.config.Binds {
		fd, err := b.open(m.From)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Target, err)
		}
		attr := unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
		if m.ReadOnly {
			attr |= unix.MOUNT_ATTR_RDONLY
		}
		if err := setMount(fd, attr); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Target, err)
		}
		list = append(list, mounted{target: m.Target, fd: fd})
	}
	return list, nil
}

func (m mounted) attach() error {
	switch {
	case m.exists:
		if _, err := os.Lstat(m.target); err != nil {
			return nil //nolint:nilerr // nothing to hide
		}
	case m.file:
		f, err := os.OpenFile(m.target, os.O_CREATE|os.O_RDONLY, 0o666)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	default:
		if err := makeDir(m.target); err != nil {
			return err
		}
	}
	if err := attach(m.fd, m.target); err != nil {
		return err
	}
	return unix.Close(m.fd)
}

// furnish completes the new root: links in /dev, directories in /run, and what of
// /proc and /sys is not to be written to.
func furnish() error {
	for link, target := range map[string]string{"/dev/ptmx": "pts/ptmx", "/dev/fd": "/proc/self/fd",
		"/dev/stdin": "/proc/self/fd/0", "/dev/stdout": "/proc/self/fd/1", "/dev/stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(target, link); err != nil {
			return err
		}
	}
	if err := unix.Mkdir("/run/lock", 0o777); err != nil {
		return err
	}
	if err := unix.Chmod("/run/lock", 0o1777); err != nil {
		return err
	}
	for _, path := range fixed {
		if err := protect(path); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return os.NewSyscallError("mount_setattr", unix.MountSetattr(unix.AT_FDCWD, "/sys", 0,
		&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}))
}

// protect makes a file or directory read-only by mounting it over itself.
func protect(path string) error {
	fd, err := cloneTree(path, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	err = setMount(fd, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return err
	}
	return attach(fd, path)
}

func layerName(name string) string {
	if name == rootName {
		return layer.BaseDir
	}
	return name
}

func fdPath(fd int, elem ...string) string {
	return filepath.Join(append([]string{fmt.Sprintf("/proc/self/fd/%d", fd)}, elem...)...)
}
