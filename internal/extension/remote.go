package extension

import (
	"context"
	"path"
	"slices"
	"strings"

	"parley/internal/fault"
)

// Remote are the files of a sandbox, as far as a Tree over them needs them. Paths are
// absolute. Errors are faults; NotFound where nothing is.
type Remote struct {
	// Real returns a path without symbolic links in it, and whether a regular file is
	// there.
	Real func(ctx context.Context, path string) (real string, regular bool, err error)
	// List returns the entries below a directory, links not followed.
	List func(ctx context.Context, path string, depth, max int) ([]Entry, error)
	// Find returns the regular files below a directory whose path below it matches a
	// pattern (package glob), hidden directories left out.
	Find func(ctx context.Context, path, pattern string, max int) ([]string, error)
	// Read reads a regular file; TooLarge above max bytes.
	Read func(ctx context.Context, path string, max int64) ([]byte, error)
}

// Entry is an entry of a directory. What is neither regular nor a link is a directory
// or something that is not read.
type Entry struct {
	Name    string // relative to the directory that was listed
	Regular bool
	Link    bool
}

// RemoteTree returns the Tree below a directory of a sandbox. It is for one goroutine.
func RemoteTree(root string, files Remote) Tree { return &remote{root: path.Clean(root), files: files} }

type remote struct {
	root  string
	real  string // root without links, "" = not looked up yet
	files Remote
}

// inside follows the links of a name, and refuses those that lead out.
func (r *remote) inside(ctx context.Context, name string) (real string, regular bool, err error) {
	if r.real == "" {
		if r.real, _, err = r.files.Real(ctx, r.root); err != nil {
			return "", false, err
		}
	}
	real, regular, err = r.files.Real(ctx, path.Join(r.root, name))
	if err != nil {
		return "", false, err
	}
	if _, ok := below(real, r.real); !ok && real != r.real {
		return "", false, fault.New(fault.Forbidden, "file_forbidden", "The file %q cannot be read: it leads out of its directory.", name)
	}
	return real, regular, nil
}

// below returns what of a path is below a directory.
func below(name, dir string) (rest string, ok bool) {
	return strings.CutPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}

// List implements Tree.
func (r *remote) List(ctx context.Context, dir string, depth, limit int) ([]string, error) {
	found, err := r.list(ctx, dir, depth, limit, true)
	slices.Sort(found)
	return found[:min(len(found), limit)], err
}

// list lists a directory; follow says whether links in it may lead to directories.
func (r *remote) list(ctx context.Context, dir string, depth, limit int, follow bool) (found []string, err error) {
	real, regular, err := r.inside(ctx, dir)
	if err != nil || regular {
		return nil, unlessOfFile(err)
	}
	// Directories count, too.
	entries, err := r.files.List(ctx, real, depth, 4*limit)
	if err != nil {
		return nil, unlessOfFile(err)
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name)
		switch {
		case len(found) >= limit:
			return found, nil
		case e.Regular:
			found = append(found, name)
		case e.Link:
			more, err := r.link(ctx, name, depth-strings.Count(e.Name, "/")-1, limit-len(found), follow)
			if err != nil {
				return nil, err
			}
			found = append(found, more...)
		}
	}
	return found, nil
}

// link returns the files that a link stands for.
func (r *remote) link(ctx context.Context, name string, depth, limit int, follow bool) ([]string, error) {
	_, regular, err := r.inside(ctx, name)
	switch {
	case err != nil:
		return nil, unlessOfFile(err)
	case regular:
		return []string{name}, nil
	case !follow || depth < 1:
		return nil, nil
	}
	return r.list(ctx, name, depth, limit, false)
}

// Find implements Tree.
func (r *remote) Find(ctx context.Context, pattern string, limit int) ([]string, error) {
	real, _, err := r.inside(ctx, "")
	if err != nil {
		return nil, unlessOfFile(err)
	}
	paths, err := r.files.Find(ctx, real, pattern, limit)
	if err != nil {
		return nil, unlessOfFile(err)
	}
	var found []string
	for _, p := range paths {
		if name, ok := below(p, real); ok && len(found) < limit {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found, nil
}

// Read implements Tree.
func (r *remote) Read(ctx context.Context, name string, limit int64) ([]byte, error) {
	real, regular, err := r.inside(ctx, name)
	if err != nil {
		return nil, err
	}
	if !regular {
		return nil, fault.New(fault.Forbidden, "file_forbidden", "The file %q cannot be read: it is no regular file.", name)
	}
	return r.files.Read(ctx, real, limit)
}

// unlessOfFile returns an error that means that nothing can be read.
func unlessOfFile(err error) error {
	if ofFile(err) {
		return nil
	}
	return err
}
