package local

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/hostbox"
)

// sources makes what a starting box mounts. With an id range the server makes
// detached mounts, since the box may not walk the host's paths; otherwise the
// box has the server's id and takes the paths itself.
type sources struct {
	driver *driver
	userNS int // the box's user namespace; -1: not needed
	fds    []int
}

func (d *driver) newSources(pid int) (*sources, error) {
	s := &sources{driver: d, userNS: -1}
	if !d.mode.idMapped {
		return s, nil
	}
	fd, err := openUserNS(pid)
	s.userNS = fd
	return s, err
}

func openUserNS(pid int) (int, error) {
	path := fmt.Sprintf("/proc/%d/ns/user", pid)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

func (s *sources) close() {
	for _, fd := range s.fds {
		_ = unix.Close(fd)
	}
	if s.userNS >= 0 {
		_ = unix.Close(s.userNS)
	}
}

// plain shows a file or directory as it is.
func (s *sources) plain(path string) (source, error) { return s.add(path, -1) }

// shown shows a directory of the host with its ids mapped to the box's, if that
// is possible.
func (s *sources) shown(path string) (source, error) { return s.add(path, s.userNS) }

// owned shows a directory so that its owner is user 0 inside, and what is made
// inside belongs to that owner outside. Other ids do not exist in it: nothing
// inside can make files of theirs.
func (s *sources) owned(path string) (source, error) {
	if !s.driver.mode.ranged() {
		return source{Path: path}, nil
	}
	if !s.driver.mode.idMapped {
		return source{}, sandbox.Unsupported(Name, "mount directories of the host here: the server may not map ids").
			WithHint("Run it as an ordinary user, or as root with CAP_SYS_ADMIN on a kernel from 5.12 on.")
	}
	dir, err := openExact(path)
	if err != nil {
		return source{}, err
	}
	defer func() { _ = dir.Close() }()
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return source{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	ns, err := s.driver.ownerNS(int(st.Uid), int(st.Gid))
	if err != nil {
		return source{}, err
	}
	src, err := s.add(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), int(ns.Fd()))
	if err != nil {
		return src, fault.Wrap(err, fault.Unsupported, "sandbox_mount",
			"The directory cannot be mounted in a sandbox: its file system does not map ids.").
			WithHint("Use a directory on ext4, xfs, btrfs or tmpfs.")
	}
	return src, nil
}

func (s *sources) add(path string, userNS int) (source, error) {
	if !s.driver.mode.ranged() {
		_, err := os.Lstat(path)
		return source{Path: path}, err
	}
	fd, err := cloneTree(path, 0)
	if err != nil {
		return source{}, err
	}
	s.fds = append(s.fds, fd)
	if userNS >= 0 {
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(userNS)}
		if err := setAttr(fd, 0, &attr); err != nil {
			return source{}, fmt.Errorf("map ids of %s: %w", path, err)
		}
	}
	return source{FD: len(s.fds)}, nil
}

// openExact opens a directory by a path without links. The path was checked when
// the box was made and is opened again at each start: whoever may write above it
// could have put a link in its place, and the server may see more than they do.
func openExact(path string) (*os.File, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "sandbox_mount", "The mounted directory is not there any more, or became a link.")
	}
	return os.NewFile(uintptr(fd), path), nil
}

// ownerNS returns a user namespace that maps one owner to user and group 0 of
// boxes. It is made once per owner.
func (d *driver) ownerNS(uid, gid int) (*os.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := [2]int{uid, gid}
	if ns := d.owners[key]; ns != nil {
		return ns, nil
	}
	ns, err := d.makeUserNS(
		[]syscall.SysProcIDMap{{ContainerID: uid, HostID: d.mode.base, Size: 1}},
		[]syscall.SysProcIDMap{{ContainerID: gid, HostID: d.mode.base, Size: 1}})
	if err != nil {
		return nil, err
	}
	d.owners[key] = ns
	return ns, nil
}

// makeUserNS makes a user namespace that lives as long as its file. It takes a
// process to make one: this program, which is killed before it does anything.
func (d *driver) makeUserNS(uids, gids []syscall.SysProcIDMap) (*os.File, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = null.Close() }()
	pid, err := syscall.ForkExec(fmt.Sprintf("/proc/self/fd/%d", hostbox.FDExe), []string{filepath.Base(d.options.Exe)},
		&syscall.ProcAttr{Dir: "/", Env: []string{}, Files: []uintptr{null.Fd(), null.Fd(), null.Fd(), d.exe.Fd()},
			Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: uids, GidMappings: gids}})
	if err != nil {
		return nil, os.NewSyscallError("user namespace", err)
	}
	fd, err := openUserNS(pid)
	_ = unix.Kill(pid, unix.SIGKILL)
	if _, werr := unix.Wait4(pid, nil, 0, nil); err == nil && werr != nil {
		err = os.NewSyscallError("wait4", werr)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "userns"), nil
}
