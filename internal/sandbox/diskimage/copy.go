package diskimage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox/treecopy"
)

// freezeMost bounds how long writing inside stands still for a copy.
const freezeMost = 30 * time.Second

// frozenSuffix ends the name of the file beside an image that says that its file
// system is frozen: a server that was killed meanwhile could not thaw it.
const frozenSuffix = ".frozen"

// Copy copies an image to a path that must not exist. The file system in the copy
// is what it was at one moment, and is clean. If the image is mounted, writing in
// it waits meanwhile, for half a minute at most; then the copy fails. On error
// nothing is left of it.
func (s *Store) Copy(ctx context.Context, from, to string) error {
	f, err := os.OpenFile(from, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if err == nil { // nobody attaches it while this is locked
		return copyFile(ctx, from, to)
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return os.NewSyscallError("flock", err)
	}
	m, err := s.Mount(ctx, from)
	if err != nil {
		return err
	}
	err = m.whileFrozen(ctx, func(ctx context.Context) error { return copyFile(ctx, from, to) })
	return errors.Join(err, m.Close())
}

// whileFrozen calls f while nothing in the file system changes. If the context
// ends or it takes too long, the file system is thawed at once and the result of f
// is worth nothing.
func (m *Mount) whileFrozen(ctx context.Context, f func(context.Context) error) error {
	mark := m.path + frozenSuffix
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		return err
	}
	// Most of what is to be written is written before anybody has to wait.
	if err := unix.Syncfs(m.root()); err != nil {
		return errors.Join(os.NewSyscallError("syncfs", err), os.Remove(mark))
	}
	err := freeze(m.root())
	if errors.Is(err, unix.EBUSY) { // by a server that was killed
		_ = thaw(m.root())
		err = freeze(m.root())
	}
	if err != nil {
		return errors.Join(os.NewSyscallError("FIFREEZE", err), os.Remove(mark))
	}
	ctx, cancel := context.WithTimeout(ctx, freezeMost)
	defer cancel()
	end := sync.OnceValue(func() error {
		return errors.Join(os.NewSyscallError("FITHAW", thaw(m.root())), os.Remove(mark))
	})
	stop := context.AfterFunc(ctx, func() { _ = end() }) // its error is returned below
	err = f(ctx)
	if !stop() && err == nil {
		err = fmt.Errorf("copy of a disk image: %w", ctx.Err())
	}
	return errors.Join(err, end())
}

// Recover thaws an image that a killed server left frozen. Without it what writes
// inside waits for ever and cannot even be killed.
func (s *Store) Recover(ctx context.Context, path string) error {
	mark := path + frozenSuffix
	if _, err := os.Lstat(mark); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	m, err := s.Mount(ctx, path)
	if err != nil {
		return err
	}
	err = thaw(m.root())
	if errors.Is(err, unix.EINVAL) { // it was not frozen
		err = nil
	}
	return errors.Join(os.NewSyscallError("FITHAW", err), m.Close(), os.Remove(mark))
}

// copyFile copies a file of fixed size. If it fails because of a cancelled copy,
// nothing is left.
func copyFile(ctx context.Context, from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, out.Close()); err != nil {
			err = errors.Join(err, os.Remove(to))
		}
	}()
	return treecopy.Contents(ctx, out, in)
}
