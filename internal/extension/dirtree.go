package extension

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"parley/internal/fault"
	"parley/internal/glob"
)

// maxEntries bounds how many entries of directories one call looks at.
const maxEntries = 100_000

var _ ModeTree = (*Dir)(nil)

// Dir is a Tree over a directory of the server's own machine.
type Dir struct{ root *os.Root }

// DirTree opens a directory. The error is NotFound, or Forbidden.
func DirTree(dir string) (*Dir, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, dirFault(err, dir)
	}
	return &Dir{root}, nil
}

// Close releases the directory. The tree is of no use then.
func (d *Dir) Close() error { return d.root.Close() }

// List implements Tree.
func (d *Dir) List(ctx context.Context, dir string, depth, limit int) ([]string, error) {
	w := walker{root: d.root, max: limit}
	if err := w.walk(ctx, dir, depth, func(string) bool { return true }, func(string) bool { return true }); err != nil {
		return nil, err
	}
	return w.found, nil
}

// Find implements Tree.
func (d *Dir) Find(ctx context.Context, pattern string, limit int) ([]string, error) {
	p, err := glob.Compile(pattern)
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "bad_pattern", "The pattern %q cannot be used.", pattern)
	}
	w := walker{root: d.root, max: limit}
	enter := func(dir string) bool {
		base := path.Base(dir)
		return !strings.HasPrefix(base, ".") && base != "node_modules" && base != "vendor"
	}
	const anyDepth = 1000
	if err := w.walk(ctx, "", anyDepth, p.Match, enter); err != nil {
		return nil, err
	}
	return w.found, nil
}

// walker finds files level by level, in order, so that one large directory does not
// hide its neighbours and the same tree gives the same files.
type walker struct {
	root  *os.Root
	max   int
	seen  int
	found []string
}

func (w *walker) walk(ctx context.Context, dir string, depth int, want, enter func(string) bool) error {
	level := []string{dir}
	linked := map[string]bool{} // directories that a link led to, and those in them
	for ; depth > 0 && len(level) > 0; depth-- {
		var next []string
		for _, dir := range level {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			entries, err := w.entries(dir)
			if err != nil {
				return err
			}
			for _, e := range entries {
				name := path.Join(dir, e.Name())
				mode := w.mode(name, e)
				switch {
				case mode.IsDir() && enter(name) && (e.IsDir() || !linked[dir]):
					next = append(next, name)
					linked[name] = linked[dir] || !e.IsDir()
				case mode.IsRegular() && len(w.found) < w.max && want(name):
					w.found = append(w.found, name)
				}
			}
		}
		level = next
	}
	slices.Sort(w.found)
	return nil
}

// entries reads a directory, sorted. One that is not there or may not be read has
// none.
func (w *walker) entries(dir string) ([]fs.DirEntry, error) {
	file, err := w.root.OpenFile(local(dir), os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, broken(err, dir)
	}
	defer func() { _ = file.Close() }()
	var all []fs.DirEntry
	for w.seen < maxEntries {
		batch, err := file.ReadDir(min(1024, maxEntries-w.seen))
		w.seen += len(batch)
		all = append(all, batch...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, broken(err, dir)
		}
	}
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return all, nil
}

// mode is what an entry is, or what a link inside the place leads to.
func (w *walker) mode(name string, e fs.DirEntry) fs.FileMode {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.Type()
	}
	info, err := w.root.Stat(name)
	if err != nil {
		return fs.ModeIrregular
	}
	return info.Mode()
}

// Read implements Tree. It looks before it opens, because opening a device or a pipe
// may already do something, and again after, in case it changed.
func (d *Dir) Read(ctx context.Context, name string, limit int64) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	info, err := d.root.Stat(local(name))
	if err == nil && !info.Mode().IsRegular() {
		err = errIrregular
	}
	if err != nil {
		return nil, dirFault(err, name)
	}
	file, err := d.root.OpenFile(local(name), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, dirFault(err, name)
	}
	defer func() { _ = file.Close() }()
	if info, err = file.Stat(); err != nil {
		return nil, dirFault(err, name)
	}
	if !info.Mode().IsRegular() {
		return nil, dirFault(errIrregular, name)
	}
	if info.Size() > limit {
		return nil, tooLarge(name, limit)
	}
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, dirFault(err, name)
	}
	if int64(len(data)) > limit { // it grew
		return nil, tooLarge(name, limit)
	}
	return data, nil
}

// Executable implements ModeTree.
func (d *Dir) Executable(name string) bool {
	info, err := d.root.Stat(local(name))
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

var errIrregular = errors.New("no regular file")

func local(name string) string {
	if name == "" {
		return "."
	}
	return name
}

func tooLarge(name string, limit int64) error {
	return fault.New(fault.TooLarge, "file_too_large", "The file %q has more than the %d bytes allowed.", name, limit)
}

// dirFault classifies an error of the file system. What is no fault of the machine
// is one of the file: it is a link that leads out, or may not be read.
func dirFault(err error, name string) error {
	var number syscall.Errno
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return fault.Wrap(err, fault.NotFound, "file_not_found", "There is no file %q.", name)
	case errors.As(err, &number) && slices.Contains([]syscall.Errno{syscall.EIO, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ESTALE}, number),
		errors.Is(err, fs.ErrClosed):
		return fault.Wrap(err, fault.Unavailable, "directory_unavailable", "The directory cannot be read now.")
	}
	return fault.Wrap(err, fault.Forbidden, "file_forbidden", "The file %q cannot be read: it is no regular file, leads out of its directory, or is not open to the server.", name)
}

// broken returns the error for a directory only if the machine is at fault.
func broken(err error, dir string) error {
	if err = dirFault(err, dir); fault.Is(err, fault.Unavailable) {
		return err
	}
	return nil
}
