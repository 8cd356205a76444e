package hostbox

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"parley/internal/fault"
	"parley/internal/sandbox"
)

// Usage says what the box takes.
func (x *Box) Usage(ctx context.Context) (sandbox.Usage, error) {
	if _, err := os.Lstat(x.dir.path); errors.Is(err, fs.ErrNotExist) {
		return sandbox.Unknown(), fault.New(fault.NotFound, "sandbox_not_found", "The sandbox's files were removed.")
	}
	group := x.state.Group.Usage()
	u := sandbox.Usage{CPU: group.CPU, MemoryBytes: group.MemoryBytes, Processes: group.Processes,
		DiskBytes: -1, Inodes: -1, OOMKills: group.OOMKills, ForksRefused: group.ForksRefused}
	disk, known := x.disk(ctx)
	if known {
		u.DiskBytes, u.Inodes, u.DiskFull = disk.Bytes, disk.Inodes, disk.Full
	}
	return u, nil
}

// disk says what the box's files take, if that is known: the file system's figures,
// or those of the last look.
func (x *Box) disk(ctx context.Context) (Disk, bool) {
	if x.gauge != nil {
		return x.gauge.last()
	}
	d, err := x.backend.driver.Files(x.dir).Measure(ctx, x.state.Process)
	return d, err == nil
}
