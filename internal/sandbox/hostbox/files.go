package hostbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/treecopy"
)

// Defaults of Limits. Small disks have fewer files: each has its place on it.
const (
	defaultDisk   = 10 << 30
	defaultInodes = 1_000_000
	bytesPerInode = 8 << 10
)

// DiskLimits returns the limits of what is written inside, bytes and files.
func DiskLimits(l sandbox.Limits) (disk, inodes int64) {
	disk, inodes = l.DiskBytes, l.Inodes
	if disk == 0 {
		disk = defaultDisk
	}
	if inodes == 0 {
		inodes = min(defaultInodes, max(1024, disk/bytesPerInode))
	}
	return disk, inodes
}

// Disk is what the writable files of a box take.
type Disk struct {
	Bytes  int64
	Inodes int64
	Full   bool // a limit is reached
}

// Files are the writable files of a box or a snapshot, in its directory.
type Files interface {
	// Bounded says that they lie in a file system of their own: it holds the limits,
	// Measure is a few calls, and Copy is of one moment also while programs write.
	Bounded() bool
	// Measure says what they take. first is the first process of the running box.
	Measure(ctx context.Context, first Ident) (Disk, error)
	// Copy copies them to the same places in an empty directory. On error something
	// may be left there.
	Copy(ctx context.Context, to *Dir) error
	// Recover puts right what a server that was killed during Copy left.
	Recover(ctx context.Context) error
	// Trim gives the space of deleted files back to the host, where that does not
	// happen by itself.
	Trim(ctx context.Context) error
}

// Plain are files in directories of the host.
type Plain struct {
	Dir   *Dir
	Names []string // of the directories, relative; what is missing is left out
}

var _ Files = Plain{}

// Bounded returns false.
func (p Plain) Bounded() bool { return false }

// Recover has nothing to do.
func (p Plain) Recover(context.Context) error { return nil }

// Trim has nothing to do.
func (p Plain) Trim(context.Context) error { return nil }

// Measure walks through the files, about a microsecond each.
func (p Plain) Measure(ctx context.Context, _ Ident) (Disk, error) {
	var sum Disk
	for _, name := range p.Names {
		size, err := treecopy.Measure(ctx, p.Dir.Path(name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return sum, err
		}
		sum.Bytes += size.Bytes
		sum.Inodes += size.Inodes
	}
	return sum, nil
}

// Copy copies the directories; those they lie in must be there. Nothing may write
// to them meanwhile.
func (p Plain) Copy(ctx context.Context, to *Dir) error {
	for _, name := range p.Names {
		err := treecopy.Copy(ctx, p.Dir.Path(name), to.Path(name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Room below which no boxes are made on the file system that holds them: the
// smaller of a size and a share.
const (
	floorBytes = 1 << 30
	floorShare = 0.02
)

// room refuses what would take more of a full disk.
func (r *Root) room() error {
	var st unix.Statfs_t
	if err := unix.Statfs(r.path, &st); err != nil {
		return &os.PathError{Op: "statfs", Path: r.path, Err: err}
	}
	return enough(float64(st.Blocks)*float64(st.Bsize), float64(st.Bavail)*float64(st.Bsize))
}

// enough refuses what would take more of a disk of which this much is free.
func enough(total, free float64) error {
	floor := math.Min(floorBytes, floorShare*total)
	if free >= floor {
		return nil
	}
	return fault.New(fault.Unavailable, "disk_full", "The disk that holds the sandboxes is full: %s are free, and %s are kept for those that exist.",
		mebibytes(free), mebibytes(floor)).WithHint("Delete conversations that are not needed, or free space on the server.")
}

func mebibytes(n float64) string { return fmt.Sprintf("%.0f MiB", n/(1<<20)) }
