package gvisor

import (
	"context"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox"
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
