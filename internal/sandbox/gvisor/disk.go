package gvisor

import (
	"context"
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox"
	"parley/internal/sandbox/diskimage"
	"parley/internal/sandbox/hostbox"
	"parley/internal/sandbox/treecopy"
)

// leastFree is what a full disk may have left, in blocks; programs write more at
// once than that.
const leastFree = 16

// measureDisk asks the file system of the box's disk. While it is being copied it
// does not answer.
func (x *Box) measureDisk(ctx context.Context, u *sandbox.Usage) {
	m, err := x.backend.disks.Mount(ctx, x.dir.path(diskFile))
	if err != nil {
		return
	}
	defer func() { _ = m.Close() }()
	var st unix.Statfs_t
	if unix.Statfs(m.Dir(), &st) != nil {
		return
	}
	u.DiskBytes = int64(st.Blocks-st.Bfree) * st.Bsize //nolint:unconvert // 32 bits wide on some architectures
	u.Inodes = int64(st.Files - st.Ffree)
	u.DiskFull = st.Bavail < leastFree+st.Blocks/1000 || st.Ffree == 0
}

// copyDisk gives a new box the files of a snapshot on a disk within the box's own
// limits: as a whole where the snapshot's is, file by file where it is not.
func (b *Backend) copyDisk(ctx context.Context, from, to dir, l sandbox.Limits) error {
	bytes, inodes := hostbox.DiskLimits(l)
	size := diskimage.Size{Bytes: bytes, Inodes: inodes}
	fits, err := b.disks.Fits(from.path(diskFile), size)
	if err != nil {
		return err
	}
	if fits {
		return b.disks.Copy(ctx, from.path(diskFile), to.path(diskFile))
	}
	if err := b.disks.Create(ctx, to.path(diskFile), size); err != nil {
		return err
	}
	old, err := b.disks.Mount(ctx, from.path(diskFile))
	if err != nil {
		return err
	}
	disk, err := b.disks.Mount(ctx, to.path(diskFile))
	if err != nil {
		return errors.Join(err, old.Close())
	}
	err = treecopy.Copy(ctx, filepath.Join(old.Dir(), upperDir), filepath.Join(disk.Dir(), upperDir))
	return errors.Join(err, disk.Close(), old.Close())
}
