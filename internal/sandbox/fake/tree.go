package fake

import (
	"bytes"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// maxLinks bounds the symbolic links that one path may lead through.
const maxLinks = 40

// node is a file, a directory or a symbolic link.
type node struct {
	mode    fs.FileMode // type and permissions
	data    []byte
	target  string           // of a symbolic link
	entries map[string]*node // of a directory
	names   int              // entries that lead here
	changed time.Time
}

// tree is a file system in memory. Its owner serialises access.
type tree struct {
	root               *node
	bytes, count       int64 // of what was written and made since it was new
	maxBytes, maxCount int64 // 0 = no bound
}

// newTree makes a file system with empty directories.
func newTree(dirs ...string) *tree {
	t := &tree{root: newDir(0o755)}
	for _, dir := range dirs {
		_ = t.mkdirAll(dir, 0o755) // nothing is in the way of a new tree
	}
	t.bytes, t.count = 0, 0
	return t
}

func newDir(perm fs.FileMode) *node {
	return &node{mode: fs.ModeDir | perm, entries: map[string]*node{}, changed: time.Now()}
}

// clone copies everything; files with several names keep them.
func (t *tree) clone() *tree {
	seen := map[*node]*node{}
	var deep func(*node) *node
	deep = func(n *node) *node {
		if c := seen[n]; c != nil {
			return c
		}
		c := *n
		seen[n] = &c
		c.data, c.entries = bytes.Clone(n.data), maps.Clone(n.entries)
		for name, entry := range c.entries {
			c.entries[name] = deep(entry)
		}
		return &c
	}
	c := *t
	c.root = deep(t.root)
	return &c
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// find returns what an absolute path leads to.
func (t *tree) find(op, name string, follow bool) (*node, error) {
	_, _, n, err := t.walk(op, name, follow)
	if err == nil && n == nil {
		err = pathError(op, name, fs.ErrNotExist)
	}
	return n, err
}

// walk returns what an absolute path leads to, nil if nothing is there yet, and
// the directory and the name under which it is or would be.
func (t *tree) walk(op, name string, follow bool) (dir *node, last string, n *node, err error) {
	todo := strings.Split(name, "/") // not cleaned: ".." after a link is the parent of its target
	trail := []*node{t.root}         // the directories above, for ".."
	n = t.root
	for links := 0; len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		switch {
		case part == "" || part == ".":
			continue
		case n == nil:
			return nil, "", nil, pathError(op, name, fs.ErrNotExist)
		case !n.mode.IsDir():
			return nil, "", nil, pathError(op, name, syscall.ENOTDIR)
		case part == "..":
			trail = trail[:max(1, len(trail)-1)]
			dir, last, n = nil, "", trail[len(trail)-1]
			continue
		}
		dir, last, n = n, part, n.entries[part]
		if n != nil && n.mode&fs.ModeSymlink != 0 && (follow || len(todo) > 0) {
			if links++; links > maxLinks {
				return nil, "", nil, pathError(op, name, syscall.ELOOP)
			}
			todo = append(strings.Split(n.target, "/"), todo...)
			if n = dir; todo[0] == "" { // an absolute target
				n, trail = t.root, trail[:1]
			}
			continue
		}
		if n != nil && n.mode.IsDir() {
			trail = append(trail, n)
		}
	}
	return dir, last, n, nil
}

// add puts a node under a path that must be free.
func (t *tree) add(op, name string, n *node) error {
	dir, last, old, err := t.walk(op, name, false)
	if err != nil {
		return err
	}
	if old != nil {
		return pathError(op, name, fs.ErrExist)
	}
	if n.names == 0 {
		if t.maxCount > 0 && t.count >= t.maxCount {
			return pathError(op, name, syscall.ENOSPC)
		}
		t.count++
	}
	n.names++
	dir.entries[last] = n
	return nil
}

func (t *tree) mkdirAll(name string, perm fs.FileMode) error {
	for at := ""; at != path.Clean(name); {
		rest, _, _ := strings.Cut(strings.TrimPrefix(path.Clean(name), at+"/"), "/")
		at += "/" + rest
		n, err := t.find("mkdir", at, true)
		if err == nil && n.mode.IsDir() {
			continue
		}
		if err := t.add("mkdir", at, newDir(perm)); err != nil {
			return err
		}
	}
	return nil
}

// create makes an empty file where none is, also through a dangling link.
func (t *tree) create(name string, perm fs.FileMode) (*node, error) {
	dir, last, n, err := t.walk("open", name, true)
	if err != nil || n != nil {
		return n, err
	}
	if t.maxCount > 0 && t.count >= t.maxCount {
		return nil, pathError("open", name, syscall.ENOSPC)
	}
	n = &node{mode: perm.Perm(), names: 1, changed: time.Now()}
	dir.entries[last] = n
	t.count++
	return n, nil
}

// write replaces what follows offset, as far as there is room.
func (t *tree) write(n *node, offset int, data []byte) (int, error) {
	var err error
	if grows := int64(offset + len(data) - len(n.data)); t.maxBytes > 0 && grows > 0 && t.bytes+grows > t.maxBytes {
		data, err = data[:max(0, int64(len(data))-(t.bytes+grows-t.maxBytes))], syscall.ENOSPC
	}
	if gap := offset + len(data) - len(n.data); gap > 0 {
		n.data = append(n.data, make([]byte, gap)...)
		t.bytes += int64(gap)
	}
	copy(n.data[offset:], data)
	n.changed = time.Now()
	return len(data), err
}

func (t *tree) truncate(n *node) {
	t.bytes -= int64(len(n.data))
	n.data, n.changed = nil, time.Now()
}

// remove takes a name away, and all below it if asked.
func (t *tree) remove(name string, all bool) error {
	dir, last, n, err := t.walk("remove", name, false)
	switch {
	case err != nil:
		return err
	case n == nil:
		return pathError("remove", name, fs.ErrNotExist)
	case dir == nil:
		return pathError("remove", name, syscall.EBUSY)
	case len(n.entries) > 0 && !all:
		return pathError("remove", name, syscall.ENOTEMPTY)
	}
	delete(dir.entries, last)
	t.release(n)
	return nil
}

// release counts what no name leads to any more.
func (t *tree) release(n *node) {
	if n.names--; n.names > 0 {
		return
	}
	t.count--
	t.bytes -= int64(len(n.data))
	for _, entry := range n.entries {
		t.release(entry)
	}
}

// full reports whether nothing more fits.
func (t *tree) full() bool {
	return t.maxBytes > 0 && t.bytes >= t.maxBytes || t.maxCount > 0 && t.count >= t.maxCount
}

// info is what is known of a node at one moment.
type info struct {
	name    string
	size    int64
	mode    fs.FileMode
	changed time.Time
}

func infoOf(name string, n *node) info {
	return info{name: path.Base(name), size: int64(len(n.data)), mode: n.mode, changed: n.changed}
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return i.changed }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }

// list returns the entries of a directory, sorted by name.
func (t *tree) list(name string) ([]info, error) {
	n, err := t.find("readdir", name, true)
	if err != nil {
		return nil, err
	}
	if !n.mode.IsDir() {
		return nil, pathError("readdir", name, syscall.ENOTDIR)
	}
	var all []info
	for _, entry := range slices.Sorted(maps.Keys(n.entries)) {
		all = append(all, infoOf(entry, n.entries[entry]))
	}
	return all, nil
}
