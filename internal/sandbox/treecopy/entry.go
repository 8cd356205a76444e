package treecopy

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// small is the size up to which a file is read and written at once.
const small = 64 << 10

// directory copies what is in a directory; those in it come later.
func (c *copier) directory(n *node) error {
	path := n.path()
	src, err := c.openSource(n, path)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(src), path)
	defer func() { _ = dir.Close() }()
	dst, err := openDir(c.dst, path)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dst) }()
	if err := copyAttrs(src, dst); err != nil {
		return err
	}
	p := &place{copier: c, node: n, src: src, dst: dst}
	for {
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			if err := c.ctx.Err(); err != nil {
				return err
			}
			if err := p.entry(name); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// openSource opens a directory, also one that its owner closed to itself.
func (c *copier) openSource(n *node, path string) (int, error) {
	if !c.root && n.parent != nil && n.stat.Mode&0o500 != 0o500 {
		parent, err := openDir(c.src, n.parent.path())
		if err != nil {
			return 0, err
		}
		err = chmodAt(parent, n.name, n.stat.Mode&0o7777|0o500)
		if err := errors.Join(err, unix.Close(parent)); err != nil {
			return 0, err
		}
		c.mu.Lock()
		c.opened = append(c.opened, n)
		c.mu.Unlock()
	}
	return openDir(c.src, path)
}

// place is a directory while it is copied.
type place struct {
	*copier
	node     *node
	src, dst int
	buf      []byte
}

func (p *place) entry(name string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(p.src, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return os.NewSyscallError("stat", err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return p.subdirectory(name, st)
	}
	if st.Nlink == 1 {
		return p.file(name, st)
	}
	return p.linked(name, st)
}

func (p *place) subdirectory(name string, st unix.Stat_t) error {
	if err := unix.Mkdirat(p.dst, name, 0o700); err != nil {
		return os.NewSyscallError("mkdir", err)
	}
	p.push(&node{parent: p.node, name: name, stat: st, pending: 1})
	return nil
}

// linked copies a file with several names the first time it is met, and links to
// the copy afterwards.
func (p *place) linked(name string, st unix.Stat_t) error {
	key := inode{dev: st.Dev, ino: st.Ino} //nolint:unconvert // 32 bits wide on some architectures
	p.mu.Lock()
	l := p.links[key]
	if l == nil {
		mine := &link{dir: p.node, name: name, made: make(chan struct{})}
		p.links[key] = mine
		p.mu.Unlock()
		if err := p.file(name, st); err != nil {
			p.fail(err) // before anybody waits for it for ever
			return err
		}
		close(mine.made)
		return nil
	}
	p.mu.Unlock()
	select {
	case <-l.made:
	case <-p.failed:
		return errElsewhere
	}
	dir, err := openDir(p.copier.dst, l.dir.path())
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dir) }()
	return os.NewSyscallError("link", unix.Linkat(dir, l.name, p.dst, name, 0))
}

func (p *place) file(name string, st unix.Stat_t) error {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return p.regular(name, st)
	case unix.S_IFLNK:
		return p.symlink(name, st)
	default:
		// Only root can make devices; anybody an overlay's whiteout, number 0:0.
		if err := unix.Mknodat(p.dst, name, st.Mode&unix.S_IFMT|0o600, int(st.Rdev)); err != nil {
			return os.NewSyscallError("mknod", err)
		}
		if err := p.attrs(name); err != nil {
			return err
		}
		return p.finishAt(name, st)
	}
}

func (p *place) symlink(name string, st unix.Stat_t) error {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(p.src, name, buf)
	if err != nil {
		return os.NewSyscallError("readlink", err)
	}
	if err := unix.Symlinkat(string(buf[:n]), p.dst, name); err != nil {
		return os.NewSyscallError("symlink", err)
	}
	if err := p.attrs(name); err != nil {
		return err
	}
	return p.finishAt(name, st)
}

func (p *place) regular(name string, st unix.Stat_t) error {
	if !p.root && st.Mode&0o400 == 0 { // its owner closed it to itself
		if err := chmodAt(p.src, name, st.Mode&0o7777|0o400); err != nil {
			return err
		}
		defer func() { _ = chmodAt(p.src, name, st.Mode&0o7777) }()
	}
	from, err := p.openFile(name, st)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	fd, err := unix.Openat(p.dst, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	to := os.NewFile(uintptr(fd), name)
	err = p.contents(to, from, st.Size)
	if err == nil {
		err = p.owner(fd, st)
	}
	if err == nil {
		err = copyAttrs(int(from.Fd()), fd)
	}
	if err == nil {
		err = p.finish(fd, st)
	}
	return errors.Join(err, to.Close())
}

// openFile opens a regular file. It never waits: what is not a regular file is
// refused before anything is read.
func (p *place) openFile(name string, st unix.Stat_t) (*os.File, error) {
	fd, err := unix.Openat(p.src, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("open", err)
	}
	var now unix.Stat_t
	if err := unix.Fstat(fd, &now); err != nil || now.Mode&unix.S_IFMT != unix.S_IFREG || now.Ino != st.Ino {
		return nil, errors.Join(errors.New("the file was replaced while it was copied"), err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (p *place) contents(to, from *os.File, size int64) error {
	if size > small {
		return Contents(p.ctx, to, from)
	}
	if size == 0 {
		return nil
	}
	if p.buf == nil {
		p.buf = make([]byte, small)
	}
	n, err := io.ReadFull(from, p.buf[:size])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	_, err = to.Write(p.buf[:n])
	return err
}
