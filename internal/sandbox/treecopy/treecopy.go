// Package treecopy copies directory trees that programs wrote who are not trusted
// and do not run meanwhile: with modes, times, extended attributes, symbolic and
// hard links, pipes, sockets, device nodes (an overlay's marks of removed files)
// and holes, and with owners where the server may set them.
//
// It never follows a symbolic link of the tree, never leaves its file system and
// never opens anything but directories and regular files.
package treecopy

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// Copy copies the directory from, with all that is below it, to to, which must not
// exist. It changes nothing of the source, but for a moment the modes of what its
// owner, an ordinary user, may not read. Paths below it are shorter than 4,096
// bytes, or Copy fails. On error, also that of ctx, nothing is left.
func Copy(ctx context.Context, from, to string) error {
	var st unix.Stat_t
	if err := unix.Lstat(from, &st); err != nil {
		return &os.PathError{Op: "stat", Path: from, Err: err}
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Mode&0o500 != 0o500 && os.Geteuid() != 0 {
		if err := unix.Chmod(from, st.Mode&0o7777|0o500); err != nil {
			return &os.PathError{Op: "chmod", Path: from, Err: err}
		}
		defer func() { _ = unix.Chmod(from, st.Mode&0o7777) }()
	}
	src, err := openRoot(from)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(src) }()
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	err = copyRoot(ctx, src, to, st)
	if err != nil {
		return errors.Join(err, Remove(to))
	}
	return nil
}

func copyRoot(ctx context.Context, src int, to string, st unix.Stat_t) error {
	dst, err := openRoot(to)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dst) }()
	c := &copier{ctx: ctx, src: src, dst: dst, root: os.Geteuid() == 0, links: map[inode]*link{}, failed: make(chan struct{})}
	c.wake = sync.NewCond(&c.mu)
	c.push(&node{stat: st, pending: 1})
	var workers sync.WaitGroup
	for range min(8, 2*runtime.GOMAXPROCS(0)) {
		workers.Go(c.work)
	}
	workers.Wait()
	c.restore()
	return c.err
}

// openRoot opens a directory that is named by the server.
func openRoot(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// openDir opens a directory below a root. The tree's programs chose the path: it
// cannot lead out of the root.
func openDir(root int, path string) (int, error) {
	fd, err := unix.Openat2(root, path, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return 0, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// node is a directory of the tree. Its path is not kept: many long ones would take
// much room.
type node struct {
	parent *node
	name   string
	stat   unix.Stat_t

	// Of the copier's lock:
	pending int // itself and its directories, as far as they are not complete
}

// path is relative to the root.
func (n *node) path() string {
	if n.parent == nil {
		return "."
	}
	length := 0
	for x := n; x.parent != nil; x = x.parent {
		length += len(x.name) + 1
	}
	buf := make([]byte, length)
	for x := n; x.parent != nil; x = x.parent {
		length -= len(x.name) + 1
		copy(buf[length:], x.name)
		buf[length+len(x.name)] = '/'
	}
	return string(buf[:len(buf)-1])
}

type inode struct{ dev, ino uint64 }

// link is the copy of a file with several names.
type link struct {
	dir  *node
	name string
	made chan struct{} // closed when it is complete, or never: then all fails
}

// copier copies one tree with several workers.
type copier struct {
	ctx      context.Context
	src, dst int
	root     bool // may set owners, and read everything

	mu     sync.Mutex
	wake   *sync.Cond
	todo   []*node // directories to be copied; the last comes first
	active int     // workers that copy one
	err    error
	failed chan struct{} // closed when err is set
	links  map[inode]*link
	opened []*node // directories whose mode was changed for reading
}

func (c *copier) push(n *node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.parent != nil {
		n.parent.pending++
	}
	c.todo = append(c.todo, n)
	c.wake.Signal()
}

// work copies directories until none is left or something failed.
func (c *copier) work() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for len(c.todo) == 0 && c.active > 0 && c.err == nil {
			c.wake.Wait()
		}
		if len(c.todo) == 0 || c.err != nil {
			c.wake.Broadcast()
			return
		}
		n := c.todo[len(c.todo)-1]
		c.todo = c.todo[:len(c.todo)-1]
		c.active++
		c.mu.Unlock()
		err := c.directory(n)
		if err == nil {
			err = c.complete(n)
		}
		c.mu.Lock()
		c.active--
		if err != nil {
			c.failLocked(err)
		}
		if c.active == 0 || c.err != nil {
			c.wake.Broadcast()
		}
	}
}

// fail ends all workers; the first error counts.
func (c *copier) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failLocked(err)
}

func (c *copier) failLocked(err error) {
	if c.err == nil {
		c.err = err
		close(c.failed)
	}
}

// errElsewhere ends a worker that waits for another one, which failed.
var errElsewhere = errors.New("the copy failed elsewhere")

// complete gives a directory its mode and times once nothing is made in it any
// more, and so on upwards.
func (c *copier) complete(n *node) error {
	for ; n != nil; n = n.parent {
		c.mu.Lock()
		n.pending--
		left := n.pending
		c.mu.Unlock()
		if left > 0 {
			return nil
		}
		fd, err := openDir(c.dst, n.path())
		if err != nil {
			return err
		}
		err = c.finish(fd, n.stat)
		if err := errors.Join(err, unix.Close(fd)); err != nil {
			return err
		}
	}
	return nil
}

// restore gives directories back the modes that were changed for reading, the
// deepest first.
func (c *copier) restore() {
	for i := len(c.opened) - 1; i >= 0; i-- {
		n := c.opened[i]
		if n.parent == nil {
			continue
		}
		if fd, err := openDir(c.src, n.parent.path()); err == nil {
			_ = chmodAt(fd, n.name, n.stat.Mode&0o7777)
			_ = unix.Close(fd)
		}
	}
}
