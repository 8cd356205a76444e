package gvisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"parley/internal/lazyre"
	"parley/internal/sandbox/hostbox"
)

// launch makes what a box stands on, in mount and network namespaces that this
// process has of its own and that runsc and all it starts live in, then starts it.
func launch(control *hostbox.Control) error {
	unix.CloseOnExec(hostbox.FDExe)
	if err := unix.CloseRange(hostbox.FDListener, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return os.NewSyscallError("close_range", err)
	}
	var o orders
	fds, err := control.Receive(&o)
	if err != nil {
		return err
	}
	if len(fds) != 1 {
		return errors.New("the disk is missing")
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := o.mountAll(fds[0]); err != nil {
		return err
	}
	tap, err := makeNetwork(o.Outbound)
	if err != nil {
		return fmt.Errorf("network: %w", err)
	}
	if tap >= 0 {
		defer func() { _ = unix.Close(tap) }()
	}
	if err := restrict(o.CPUs); err != nil {
		return err
	}
	first, err := o.run()
	if err != nil {
		return err
	}
	data, err := json.Marshal(first)
	if err != nil {
		return err
	}
	return control.Say(hostbox.Note{Facts: data, Ready: true})
}

// run starts the box and returns the sentry.
func (o orders) run() (hostbox.Ident, error) {
	var none hostbox.Ident
	if err := os.Remove(o.PIDFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return none, err
	}
	cmd := exec.Command(o.Runsc, o.Args...)
	cmd.Env = []string{}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr // the log of the box
	if err := cmd.Run(); err != nil {
		return none, fmt.Errorf("runsc: %w", err)
	}
	data, err := os.ReadFile(o.PIDFile)
	if err != nil {
		return none, err
	}
	pid, err := parsePID(data)
	if err != nil {
		return none, err
	}
	return hostbox.Identify(pid)
}

// parsePID reads the number of a process that is not the machine's first.
func parsePID(text []byte) (int, error) {
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err == nil && pid <= 1 {
		err = fmt.Errorf("%d is no process of a box", pid)
	}
	return pid, err
}

// mountAll makes the root file system and shows what else the box sees of the host.
func (o orders) mountAll(disk int) error {
	diskPath := filepath.Join(o.Bundle, mountDisk)
	if err := attach(disk, unix.AT_FDCWD, diskPath); err != nil {
		return err
	}
	rootfs := filepath.Join(o.Bundle, rootfsDir)
	root := -1
	for _, v := range o.Overlays {
		fd, err := v.mount(diskPath)
		if err != nil {
			return fmt.Errorf("overlay %s: %w", v.Target, err)
		}
		if root < 0 {
			if err := attach(fd, unix.AT_FDCWD, rootfs); err != nil {
				return err
			}
			root = fd
			continue
		}
		if err := attachBelow(fd, root, v.Target); err != nil {
			return err
		}
	}
	for _, m := range o.Mounts {
		if err := m.mount(); err != nil {
			return fmt.Errorf("mount %s: %w", m.At, err)
		}
	}
	return showMemory(o.Memory, filepath.Join(o.Bundle, "meminfo"))
}

// attachBelow attaches a mount at a path of the box's root. What a former life of
// the box put there never leads out of it; if it is not a directory any more, the
// host's is not shown.
func attachBelow(fd, root int, target string) error {
	defer func() { _ = unix.Close(fd) }()
	at, err := unix.Openat2(root, strings.TrimPrefix(target, "/"), &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: target, Err: err}
	}
	defer func() { _ = unix.Close(at) }()
	return attach(fd, at, "")
}

// attach attaches a mount at path, or with "" at the descriptor.
func attach(fd, at int, path string) error {
	flags := unix.MOVE_MOUNT_F_EMPTY_PATH
	if path == "" {
		flags |= unix.MOVE_MOUNT_T_EMPTY_PATH
	}
	if err := unix.MoveMount(fd, "", at, path, flags); err != nil {
		return &os.PathError{Op: "move_mount", Path: path, Err: err}
	}
	return nil
}

// mount makes the overlay, attached nowhere. Directories are given by descriptor:
// in paths, colons and commas would count.
func (v overlay) mount(disk string) (int, error) {
	var held []int
	defer func() {
		for _, fd := range held {
			_ = unix.Close(fd)
		}
	}()
	byFD := func(path string) (string, error) {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return "", &os.PathError{Op: "open", Path: path, Err: err}
		}
		held = append(held, fd)
		return fmt.Sprintf("/proc/self/fd/%d", fd), nil
	}
	var paths []string
	for _, path := range slices.Concat(v.Lower, []string{filepath.Join(disk, upperDir, v.Name), filepath.Join(disk, workDir, v.Name)}) {
		p, err := byFD(path)
		if err != nil {
			return -1, err
		}
		paths = append(paths, p)
	}
	lower := len(v.Lower)
	return mountFS("overlay", [][2]string{{"lowerdir", strings.Join(paths[:lower], ":")}, {"upperdir", paths[lower]}, {"workdir", paths[lower+1]}})
}

// mountFS makes a file system, attached nowhere.
func mountFS(kind string, options [][2]string) (int, error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen", err)
	}
	defer func() { _ = unix.Close(fs) }()
	for _, o := range options {
		if err := unix.FsconfigSetString(fs, o[0], o[1]); err != nil {
			return -1, fmt.Errorf("option %s: %w", o[0], err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, os.NewSyscallError("fsconfig", err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	return fd, os.NewSyscallError("fsmount", err)
}

// mount shows a directory of the host so that its owner is user 0, and what is made
// inside belongs to that owner outside.
func (m mapped) mount() error {
	dir, err := unix.Openat2(unix.AT_FDCWD, m.Source, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return os.NewSyscallError("openat2", err) // it is gone, or became a link
	}
	defer func() { _ = unix.Close(dir) }()
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	fd, err := unix.OpenTree(dir, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return os.NewSyscallError("open_tree", err)
	}
	defer func() { _ = unix.Close(fd) }()
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if m.ReadOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if st.Uid != 0 || st.Gid != 0 {
		ns, err := ownerNS(int(st.Uid), int(st.Gid))
		if err != nil {
			return err
		}
		defer func() { _ = ns.Close() }()
		attr.Attr_set |= unix.MOUNT_ATTR_IDMAP
		attr.Userns_fd = uint64(ns.Fd())
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return os.NewSyscallError("mount_setattr", err)
	}
	return attach(fd, unix.AT_FDCWD, m.At)
}

// ownerNS returns a user namespace that maps one owner to user and group 0. It takes
// a process to make one.
func ownerNS(uid, gid int) (*os.File, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = null.Close() }()
	args := append(slices.Clone(os.Args[:len(os.Args)-1]), stageHold)
	pid, err := syscall.ForkExec(fmt.Sprintf("/proc/self/fd/%d", hostbox.FDExe), args,
		&syscall.ProcAttr{Dir: "/", Env: []string{}, Files: []uintptr{null.Fd(), null.Fd(), null.Fd(), hostbox.FDExe},
			Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER,
				UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: 0, Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: 0, Size: 1}}}})
	if err != nil {
		return nil, os.NewSyscallError("user namespace", err)
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
	_ = unix.Kill(pid, unix.SIGKILL)
	if _, werr := unix.Wait4(pid, nil, 0, nil); werr != nil && err == nil {
		err = errors.Join(os.NewSyscallError("wait4", werr), ns.Close())
	}
	return ns, err
}

var memTotal = lazyre.MustCompile(`(?m)^MemTotal:.*$`)

// showMemory lets runsc see the limit as the memory of the machine, which it passes
// on: /proc/meminfo inside tells the truth.
func showMemory(bytes int64, path string) error {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return err
	}
	text := memTotal.ReplaceAll(data, fmt.Appendf(nil, "MemTotal: %14d kB", bytes>>10))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	return os.NewSyscallError("mount", unix.Mount(path, "/proc/meminfo", "", unix.MS_BIND, ""))
}

// restrict keeps the box on as many processors as its limit gives it time of, so
// that nproc inside tells the truth. Which they are is left to chance.
func restrict(cpus int) error {
	if cpus <= 0 {
		return nil
	}
	var have, want unix.CPUSet
	if err := unix.SchedGetaffinity(0, &have); err != nil {
		return os.NewSyscallError("sched_getaffinity", err)
	}
	for _, i := range rand.Perm(len(have) * 64) {
		if have.IsSet(i) && want.Count() < cpus {
			want.Set(i)
		}
	}
	// Every thread: which one starts runsc is not known.
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range tasks {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(tid, &want); err != nil && !errors.Is(err, unix.ESRCH) {
			return os.NewSyscallError("sched_setaffinity", err)
		}
	}
	return nil
}
