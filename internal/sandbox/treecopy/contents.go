package treecopy

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// chunk bounds what is copied between two looks at the context.
const chunk = 32 << 20

// Contents copies what is in a file into an empty one: by reference where the file
// system can, else only the parts that hold data.
func Contents(ctx context.Context, to, from *os.File) error {
	info, err := from.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	if unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil {
		return nil
	}
	c := contents{to: to, from: from, size: info.Size()}
	if err := c.parts(ctx); err != nil {
		return err
	}
	if c.end == c.size {
		return nil
	}
	return to.Truncate(c.size) // the file ends with a hole
}

type contents struct {
	to, from *os.File
	size     int64
	end      int64 // of what was written
	plain    bool  // copy_file_range is not possible here
}

func (c *contents) parts(ctx context.Context) error {
	for off := int64(0); off < c.size; {
		start, err := c.seek(off, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // no data from here on
			return nil
		}
		if err != nil {
			start = off // a file system that knows no holes
		}
		end, err := c.seek(start, unix.SEEK_HOLE)
		if err != nil {
			end = c.size
		}
		if err := c.part(ctx, start, min(end, c.size)); err != nil {
			return err
		}
		off = end
	}
	return nil
}

func (c *contents) seek(off int64, whence int) (int64, error) {
	return unix.Seek(int(c.from.Fd()), off, whence)
}

func (c *contents) part(ctx context.Context, start, end int64) error {
	for start < end {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := c.some(start, min(end-start, chunk))
		if err != nil {
			return err
		}
		if n == 0 { // it became shorter
			return nil
		}
		start += n
		c.end = start
	}
	return nil
}

func (c *contents) some(off, length int64) (int64, error) {
	if !c.plain {
		in, out := off, off
		n, err := unix.CopyFileRange(int(c.from.Fd()), &in, int(c.to.Fd()), &out, int(length), 0)
		switch {
		case err == nil:
			return int64(n), nil
		case errors.Is(err, unix.EINTR):
			return c.some(off, length)
		case !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EOPNOTSUPP):
			return 0, os.NewSyscallError("copy_file_range", err)
		}
		c.plain = true
	}
	return io.Copy(io.NewOffsetWriter(c.to, off), io.NewSectionReader(c.from, off, length))
}
