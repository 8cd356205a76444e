package treecopy

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Size is what a tree takes.
type Size struct {
	Bytes  int64 // of the disk; a file with several names counts in parts
	Inodes int64 // names: files, directories and all else
}

// Measure walks through a tree, which may change meanwhile. What cannot be read or
// has too long a path is left out. It never follows a link.
func Measure(ctx context.Context, dir string) (Size, error) {
	var sum Size
	root, err := openRoot(dir)
	if err != nil {
		return sum, err
	}
	defer func() { _ = unix.Close(root) }()
	todo := []*node{{}}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		err := entries(root, n, func(name string, st unix.Stat_t) error {
			sum.Inodes++
			names := int64(st.Nlink) //nolint:unconvert // 32 bits wide on some architectures
			if st.Mode&unix.S_IFMT == unix.S_IFDIR {
				names = 1 // its links are its own
				todo = append(todo, &node{parent: n, name: name})
			}
			sum.Bytes += st.Blocks * 512 / max(1, names)
			return ctx.Err()
		})
		if err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// entries calls f for what is in a directory. A directory that cannot be opened has
// nothing.
func entries(root int, n *node, f func(string, unix.Stat_t) error) error {
	fd, err := openDir(root, n.path())
	if err != nil {
		return nil //nolint:nilerr // it was removed, or is closed to us
	}
	dir := os.NewFile(uintptr(fd), "")
	defer func() { _ = dir.Close() }()
	for {
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			var st unix.Stat_t
			if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue // it was removed meanwhile
			}
			if err := f(name, st); err != nil {
				return err
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
