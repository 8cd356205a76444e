package image

import (
	"context"
	"errors"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// node is an entry of an image's root file system: what of its layers is seen.
type node struct {
	layer    int              // that the entry is from; of a directory that says its owner and mode, -1 = none
	children map[string]*node // nil = not a directory
}

func newDir(layer int) *node { return &node{layer: layer, children: map[string]*node{}} }

// mergedLayer is an unpacked layer.
type mergedLayer struct {
	root *os.File
	info layerInfo
}

// overlay puts one layer above those that are in the tree.
func overlay(ctx context.Context, tree *node, layers []mergedLayer, at int) error {
	info := &layers[at].info
	for _, p := range info.Opaque {
		if n := lookup(tree, string(p)); n != nil && n.children != nil {
			clear(n.children)
		}
	}
	for _, p := range info.Hidden {
		dir, base := path.Split(string(p))
		if n := lookup(tree, path.Clean(dir)); n != nil && n.children != nil {
			delete(n.children, base)
		}
	}
	implicit := map[string]bool{}
	for _, p := range info.Implicit {
		implicit[string(p)] = true
	}
	return layers[at].walk(ctx, ".", func(dir string, entries []os.DirEntry) {
		to := tree
		if dir != "." {
			to = lookup(tree, dir)
		}
		if !implicit[dir] {
			to.layer = at
		}
		for _, e := range entries {
			was := to.children[e.Name()]
			switch {
			case !e.IsDir():
				to.children[e.Name()] = &node{layer: at}
			case was == nil || was.children == nil:
				to.children[e.Name()] = newDir(at)
			}
		}
	})
}

// lookup finds a path, without following links.
func lookup(tree *node, p string) *node {
	if p == "." {
		return tree
	}
	for part := range strings.SplitSeq(p, "/") {
		if tree = tree.children[part]; tree == nil {
			return nil
		}
	}
	return tree
}

// beneath opens a directory of a tree that only we write to.
func beneath(root *os.File, dir string) (*os.File, error) {
	fd, err := unix.Openat2(int(root.Fd()), dir, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV})
	if err != nil {
		return nil, &os.PathError{Op: "openat2", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// walk visits every directory of a layer, parents first.
func (l mergedLayer) walk(ctx context.Context, start string, visit func(dir string, entries []os.DirEntry)) error {
	for queue := []string{start}; len(queue) > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		dir := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		f, err := beneath(l.root, dir)
		if err != nil {
			return err
		}
		entries, err := f.ReadDir(-1)
		_ = f.Close()
		if err != nil {
			return err
		}
		visit(dir, entries)
		for _, e := range entries {
			if e.IsDir() {
				queue = append(queue, path.Join(dir, e.Name()))
			}
		}
	}
	return nil
}

// merger writes a tree into a new directory. Files and links become further names
// of what the layers have; directories are its own.
type merger struct {
	ctx    context.Context
	layers []mergedLayer
	root   *os.File
	owners bool
}

// all writes the whole tree.
func (m *merger) all(tree *node) error {
	queue := []string{"."}
	for i := 0; i < len(queue); i++ {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		dirs, err := m.fill(queue[i], lookup(tree, queue[i]))
		if err != nil {
			return err
		}
		queue = append(queue, dirs...)
	}
	// Modes and times come last, those above after those below: making entries
	// changes times, and needs the right to.
	for _, dir := range slices.Backward(queue) {
		if err := m.describe(dir, lookup(tree, dir)); err != nil {
			return err
		}
	}
	return nil
}

// fill makes the entries of a directory, and returns those that are directories.
func (m *merger) fill(dir string, n *node) (dirs []string, err error) {
	to, err := beneath(m.root, dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = to.Close() }()
	from := map[int]*os.File{}
	defer func() {
		for _, f := range from {
			_ = f.Close()
		}
	}()
	for name, child := range n.children {
		if child.children != nil {
			if err := unix.Mkdirat(int(to.Fd()), name, 0o700); err != nil {
				return nil, &os.PathError{Op: "mkdirat", Path: path.Join(dir, name), Err: err}
			}
			dirs = append(dirs, path.Join(dir, name))
			continue
		}
		if from[child.layer] == nil {
			if from[child.layer], err = beneath(m.layers[child.layer].root, dir); err != nil {
				delete(from, child.layer)
				return nil, err
			}
		}
		if err := unix.Linkat(int(from[child.layer].Fd()), name, int(to.Fd()), name, 0); err != nil {
			return nil, &os.PathError{Op: "linkat", Path: path.Join(dir, name), Err: err}
		}
	}
	return dirs, nil
}

// describe gives a directory what its layer's one has.
func (m *merger) describe(dir string, n *node) error {
	to, err := beneath(m.root, dir)
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }()
	if n.layer < 0 {
		return to.Chmod(0o755)
	}
	from, err := beneath(m.layers[n.layer].root, dir)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	var st unix.Stat_t
	if err := unix.Fstat(int(from.Fd()), &st); err != nil {
		return err
	}
	if m.owners {
		if err := to.Chown(int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	if err := copyAttributes(from, to); err != nil {
		return err
	}
	if err := unix.Fchmod(int(to.Fd()), st.Mode&0o7777); err != nil {
		return err
	}
	return unix.UtimesNanoAt(int(to.Fd()), ".", []unix.Timespec{st.Mtim, st.Mtim}, 0)
}

func copyAttributes(from, to *os.File) error {
	names := make([]byte, 64<<10)
	n, err := unix.Flistxattr(int(from.Fd()), names)
	if errors.Is(err, unix.ENOTSUP) || n == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	value := make([]byte, maxXattr)
	for name := range strings.SplitSeq(strings.TrimRight(string(names[:n]), "\x00"), "\x00") {
		if !keptAttribute(name) {
			continue
		}
		n, err := unix.Fgetxattr(int(from.Fd()), name, value)
		if err != nil {
			return err
		}
		if err := unix.Fsetxattr(int(to.Fd()), name, value[:n], 0); err != nil {
			return err
		}
	}
	return nil
}
