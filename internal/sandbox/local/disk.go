package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/diskimage"
	"parley/internal/sandbox/hostbox"
	"parley/internal/sandbox/treecopy"
)

// diskFile is the image that holds the writable files of a box, filesDir and
// workspaceDir, where images are possible. Boxes without one have those as
// directories beside it.
const diskFile = "disk.ext4"

// disksDir, beside the boxes, holds the empty images that those of boxes are
// copies of.
const disksDir = ".disks"

// writable are the directories that hold all that programs wrote.
var writable = []string{filesDir + "/" + upperDir, workspaceDir}

// openDisks finds out whether boxes can have disk images.
func (d *driver) openDisks(ctx context.Context) {
	if !d.mode.ranged() || d.options.noDisks {
		d.diskless = errors.New("disk images need a server that runs as root")
		return
	}
	d.disks, d.diskless = diskimage.Open(ctx, filepath.Join(d.root.Path(), disksDir), d.mode.base)
	if d.diskless != nil {
		d.options.Logger.InfoContext(ctx, "sandboxes have no disk of their own", "error", d.diskless)
	}
}

// Files are the writable files of a box or of a snapshot.
func (d *driver) Files(dir *hostbox.Dir) hostbox.Files {
	if _, err := os.Lstat(dir.Path(diskFile)); err == nil {
		return onDisk{driver: d, dir: dir}
	}
	return inDirs{Plain: hostbox.Plain{Dir: dir, Names: writable}, driver: d}
}

// makeFiles makes the files of a new box. Those of a snapshot stay as they are if
// they have the limits of the box.
func (d *driver) makeFiles(ctx context.Context, dir *hostbox.Dir, spec sandbox.Spec) error {
	if d.disks == nil {
		if _, err := os.Lstat(dir.Path(diskFile)); err == nil {
			return noDisks(d.diskless)
		}
		return d.makeDirs(dir.Path())
	}
	var size diskimage.Size
	size.Bytes, size.Inodes = hostbox.DiskLimits(d.withRoom(ctx, spec.Limits))
	path := dir.Path(diskFile)
	if spec.From == nil {
		return d.disks.Create(ctx, path, size)
	}
	if same, err := d.disks.Fits(path, size); same || err != nil {
		return err
	}
	return d.resize(ctx, dir, size)
}

// withRoom lowers the limit on the disk to what the machine has left: one box by
// itself must not fill it, and the server with it.
func (d *driver) withRoom(ctx context.Context, l sandbox.Limits) sandbox.Limits {
	var fs unix.Statfs_t
	if unix.Statfs(d.root.Path(), &fs) != nil {
		return l
	}
	room := int64(fs.Bavail) * fs.Bsize / 10 * 9 &^ (16<<20 - 1)
	asked, _ := hostbox.DiskLimits(l)
	if asked <= room || room < 64<<20 {
		return l
	}
	d.options.Logger.WarnContext(ctx, "the machine's disk has less room than a sandbox may use", "limit", asked, "lowered_to", room)
	l.DiskBytes = room
	return l
}

// resize moves the files of a snapshot into a new image of the box's own size.
func (d *driver) resize(ctx context.Context, dir *hostbox.Dir, size diskimage.Size) error {
	part := dir.Path(diskFile + ".new")
	if err := d.disks.Create(ctx, part, size); err != nil {
		return err
	}
	to, err := d.disks.Mount(ctx, part)
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }()
	base, former := dir.Path(), (*diskimage.Mount)(nil)
	if _, err := os.Lstat(dir.Path(diskFile)); err == nil {
		if former, err = d.disks.Mount(ctx, dir.Path(diskFile)); err != nil {
			return err
		}
		defer func() { _ = former.Close() }()
		base = former.Dir()
	}
	if err := d.mkdir(filepath.Join(to.Dir(), filesDir)); err != nil {
		return err
	}
	for _, name := range writable {
		if err := treecopy.Copy(ctx, filepath.Join(base, name), filepath.Join(to.Dir(), name)); err != nil {
			if errors.Is(err, unix.ENOSPC) {
				return fault.Wrap(err, fault.Invalid, "sandbox_snapshot", "The files of the snapshot do not fit into the limits of the sandbox.")
			}
			return err
		}
	}
	if former == nil {
		for _, name := range []string{filesDir, workspaceDir} {
			if err := treecopy.Remove(dir.Path(name)); err != nil {
				return err
			}
		}
	}
	return os.Rename(part, dir.Path(diskFile))
}

// makeDirs makes the directories that a box's writable files lie in.
func (d *driver) makeDirs(base string) error {
	for _, name := range []string{filesDir, filepath.Join(filesDir, upperDir), filepath.Join(filesDir, workDir), workspaceDir} {
		if err := d.mkdir(filepath.Join(base, name)); err != nil {
			return err
		}
	}
	if d.mode.ranged() {
		d.makeTunNode(filepath.Join(base, filesDir, tunNode))
	}
	return nil
}

// disk is where a starting box finds its writable files.
type disk struct {
	base  string // the directory that holds them
	mount *diskimage.Mount
	index int // of the mount among the sources; 0: there is none
}

// openDisk mounts the image of a box, if it has one, and adds it to the sources.
func (d *driver) openDisk(ctx context.Context, dir *hostbox.Dir, s *sources) (disk, error) {
	path := dir.Path(diskFile)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return disk{base: dir.Path()}, nil
	}
	if d.disks == nil {
		return disk{}, noDisks(d.diskless)
	}
	m, err := d.disks.Mount(ctx, path)
	if err != nil {
		return disk{}, fmt.Errorf("disk image: %w", err)
	}
	fd, err := unix.FcntlInt(uintptr(m.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		s.fds = append(s.fds, fd)
		err = d.makeDirs(m.Dir())
	}
	if err != nil {
		return disk{}, errors.Join(err, m.Close())
	}
	return disk{base: m.Dir(), mount: m, index: len(s.fds)}, nil
}

// source shows one of the directories.
func (k disk) source(s *sources, name string) (source, error) {
	if k.index > 0 {
		return source{FD: k.index, Sub: name}, nil
	}
	return s.plain(filepath.Join(k.base, name))
}

func (k disk) close() {
	if k.mount != nil {
		_ = k.mount.Close() // whoever attached it keeps it
	}
}

func noDisks(err error) error {
	return fault.Wrap(err, fault.Unavailable, "sandbox_disk", "The sandbox's files are in a disk image, which cannot be mounted now.").
		WithHint("Run the server as root, on a machine with loop devices and e2fsprogs, as it was when the sandbox was made.")
}

// onDisk are files in a disk image.
type onDisk struct {
	driver *driver
	dir    *hostbox.Dir
}

// Bounded returns true.
func (f onDisk) Bounded() bool { return true }

// leastFree is what a full disk may have left, in blocks; programs write more at
// once than that.
const leastFree = 16

// Measure asks the root file system of the box, which answers for its writable side.
func (f onDisk) Measure(_ context.Context, first hostbox.Ident) (hostbox.Disk, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(fmt.Sprintf("/proc/%d/root", first.PID), &st); err != nil {
		return hostbox.Disk{}, os.NewSyscallError("statfs", err)
	}
	if !first.Alive() {
		return hostbox.Disk{}, os.ErrProcessDone
	}
	return hostbox.Disk{
		Bytes:  int64(st.Blocks-st.Bfree) * st.Bsize, //nolint:unconvert // 32 bits wide on some architectures
		Inodes: int64(st.Files - st.Ffree),
		Full:   st.Bavail < leastFree+st.Blocks/1000 || st.Ffree == 0,
	}, nil
}

// Copy copies the image.
func (f onDisk) Copy(ctx context.Context, to *hostbox.Dir) error {
	if f.driver.disks == nil {
		return noDisks(f.driver.diskless)
	}
	if err := f.driver.disks.Copy(ctx, f.dir.Path(diskFile), to.Path(diskFile)); err != nil {
		return err
	}
	return copyGround(f.dir, to)
}

// Recover thaws the image if a server that was killed left it frozen.
func (f onDisk) Recover(ctx context.Context) error {
	if f.driver.disks == nil {
		return nil
	}
	return f.driver.disks.Recover(ctx, f.dir.Path(diskFile))
}

// Trim gives the space of deleted files back to the host.
func (f onDisk) Trim(ctx context.Context) error {
	if f.driver.disks == nil {
		return nil
	}
	m, err := f.driver.disks.Mount(ctx, f.dir.Path(diskFile))
	if err != nil {
		return err
	}
	return errors.Join(m.Trim(), m.Close())
}

// inDirs are files in directories of the host.
type inDirs struct {
	hostbox.Plain
	driver *driver
}

// Copy copies the directories.
func (f inDirs) Copy(ctx context.Context, to *hostbox.Dir) error {
	if err := f.driver.mkdir(to.Path(filesDir)); err != nil {
		return err
	}
	if err := f.Plain.Copy(ctx, to); err != nil {
		return err
	}
	return copyGround(f.Dir, to)
}

// copyGround copies which container image the files belong to.
func copyGround(from, to *hostbox.Dir) error {
	data, err := os.ReadFile(from.Path(imageFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(to.Path(imageFile), data, 0o600)
}

// checkGround refuses to put the files of a snapshot on anything but the image they
// were made on.
func checkGround(dir *hostbox.Dir, spec sandbox.Spec) error {
	_, err := os.Lstat(dir.Path(imageFile))
	if (err == nil) == (spec.Image != "") {
		return nil
	}
	return fault.New(fault.Invalid, "sandbox_snapshot", "A sandbox made from a snapshot needs the container image that the snapshot was made on.")
}

// diskGuarantees say how much may be written inside.
func (d *driver) diskGuarantees() []sandbox.Guarantee {
	if d.disks != nil {
		return []sandbox.Guarantee{
			{Name: "disk_limit", Holds: true, Detail: "by a file system of its own in a file of fixed size"},
			{Name: "inode_limit", Holds: true, Detail: "by a file system of its own, rounded up"},
		}
	}
	detail := "not by the kernel: the files are measured every few seconds, and programs that go on writing beyond 110 % of the limit are killed. "
	if d.diskless != nil {
		detail += "For more: " + d.diskless.Error()
	}
	return []sandbox.Guarantee{{Name: "disk_limit", Detail: detail}, {Name: "inode_limit", Detail: detail}}
}
