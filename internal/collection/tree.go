package collection

import (
	"bytes"
	"context"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"parley/internal/extension"
	"parley/internal/fault"
	"parley/internal/glob"
)

// Bounds of the links in a repository, and of one walk through it.
const (
	maxLinks   = 200
	maxTarget  = 1 << 10 // bytes
	maxHops    = 16
	maxEntries = 100_000
)

// gitTree is the files of a commit, read from git's objects. Nothing is checked
// out, so that attributes, filters and odd names of a repository have nothing to
// act on. A link is a text that is looked up among the names of the same tree.
type gitTree struct {
	files []gitFile           // with links, sorted by name
	links map[string]string   // targets by name
	dirs  map[string][]string // entries by directory, sorted
	blob  func(ctx context.Context, f gitFile) ([]byte, error)
}

var _ extension.ModeTree = (*gitTree)(nil)

type gitFile struct {
	name string // relative to the tree's root
	id   string
	size int64
	link bool
	exec bool
}

// tree lists a directory of a commit. NotFound if there is none.
func (g *git) tree(ctx context.Context, commit, subdir string) (*gitTree, error) {
	out, err := g.run(ctx, maxListing, "ls-tree", "-r", "-z", "-l", "--full-tree", commit+":"+subdir)
	if err != nil {
		if subdir != "" && fault.CodeOf(err) == codeFetch {
			return nil, fault.Wrap(err, fault.NotFound, codeRead, "The repository has no directory %q.", clip(subdir)).
				WithHint("Name one that is there behind the # and : of the location.")
		}
		return nil, err
	}
	return newTree(ctx, parseTree(out), func(ctx context.Context, f gitFile) ([]byte, error) {
		return g.run(ctx, f.size, "cat-file", "blob", f.id)
	})
}

// parseTree reads the files and links of "ls-tree -r -z -l", sorted by name:
// "mode type id size\tname".
func parseTree(out []byte) []gitFile {
	files := []gitFile{}
	for record := range bytes.SplitSeq(out, []byte{0}) {
		head, name, ok := strings.Cut(string(record), "\t")
		fields := strings.Fields(head)
		if !ok || len(fields) != 4 || fields[1] != "blob" || !commitID.MatchString(fields[2]) {
			continue
		}
		f := gitFile{name: name, id: fields[2], link: fields[0] == "120000", exec: fields[0] == "100755"}
		size, err := strconv.ParseInt(fields[3], 10, 64)
		regular := strings.HasPrefix(fields[0], "100")
		if f.size = size; err == nil && size >= 0 && (regular || f.link) && isName(name) {
			files = append(files, f)
		}
	}
	slices.SortFunc(files, func(a, b gitFile) int { return strings.Compare(a.name, b.name) })
	return slices.CompactFunc(files, func(a, b gitFile) bool { return a.name == b.name })
}

func isName(name string) bool {
	return filepath.IsLocal(name) && path.Clean(name) == name && name != "." && utf8.ValidString(name)
}

// newTree reads the links among sorted files. Those beyond maxLinks are not there.
func newTree(ctx context.Context, files []gitFile, blob func(context.Context, gitFile) ([]byte, error)) (*gitTree, error) {
	t := &gitTree{files: files, links: map[string]string{}, dirs: map[string][]string{"": nil}, blob: blob}
	for _, f := range files {
		t.addEntry(f.name)
		if !f.link || f.size > maxTarget || len(t.links) == maxLinks {
			continue
		}
		target, err := blob(ctx, f)
		if err != nil {
			return nil, err
		}
		t.links[f.name] = string(target)
	}
	for _, entries := range t.dirs {
		slices.Sort(entries)
	}
	return t, nil
}

// addEntry adds a name to its directory, and that one to its own.
func (t *gitTree) addEntry(name string) {
	for name != "" {
		dir := parent(name)
		_, known := t.dirs[dir]
		t.dirs[dir] = append(t.dirs[dir], path.Base(name))
		if known {
			return
		}
		name = dir
	}
}

// parent is the directory of a name, "" the root.
func parent(name string) string {
	if dir := path.Dir(name); dir != "." {
		return dir
	}
	return ""
}

// find returns the regular file that a name leads to.
func (t *gitTree) find(name string) (gitFile, bool) {
	real, ok := t.real(name)
	if !ok {
		return gitFile{}, false
	}
	at, ok := slices.BinarySearchFunc(t.files, real, func(f gitFile, n string) int { return strings.Compare(f.name, n) })
	if !ok || t.files[at].link {
		return gitFile{}, false
	}
	return t.files[at], true
}

// real follows the links of a name, one by one. It is false for what leads out of
// the tree or in circles.
func (t *gitTree) real(name string) (string, bool) {
	done, rest := "", name
	for hops := 0; rest != ""; {
		first, after, _ := strings.Cut(rest, "/")
		rest = after
		switch first {
		case "", ".":
			continue
		case "..":
			if done == "" {
				return "", false
			}
			done = parent(done)
			continue
		}
		target, isLink := t.links[path.Join(done, first)]
		if !isLink {
			done = path.Join(done, first)
			continue
		}
		if hops++; hops > maxHops || path.IsAbs(target) {
			return "", false
		}
		rest = target + "/" + after
	}
	return done, true
}

// List implements extension.Tree.
func (t *gitTree) List(ctx context.Context, dir string, depth, limit int) ([]string, error) {
	all := func(string) bool { return true }
	return t.walk(ctx, dir, depth, limit, all, all)
}

// Find implements extension.Tree.
func (t *gitTree) Find(ctx context.Context, pattern string, limit int) ([]string, error) {
	p, err := glob.Compile(pattern)
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "bad_pattern", "The pattern %q cannot be used.", clip(pattern))
	}
	const anyDepth = 1000
	return t.walk(ctx, "", anyDepth, limit, p.Match, func(dir string) bool {
		base := path.Base(dir)
		return !strings.HasPrefix(base, ".") && base != "node_modules" && base != "vendor"
	})
}

// visited is an entry in a walk.
type visited struct {
	name   string // as it was reached
	real   string // without links in its directories
	linked bool   // it is a link, or below one
}

// walk finds files level by level, so that one large directory does not hide its
// neighbours. It follows a link to a directory once, not again below it.
func (t *gitTree) walk(ctx context.Context, dir string, depth, limit int, want, enter func(string) bool) ([]string, error) {
	var found []string
	level, left := []visited{{name: dir, real: dir}}, maxEntries
	for ; depth > 0 && len(level) > 0; depth-- {
		var next []visited
		for _, v := range level {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			entries := t.entries(v)
			entries = entries[:min(len(entries), left)]
			left -= len(entries)
			for _, e := range entries {
				switch {
				case t.isDir(e.real) && enter(e.name) && !(v.linked && t.isLink(e.real)):
					next = append(next, e)
				case t.isFile(e.real) && len(found) < limit && want(e.name):
					found = append(found, e.name)
				}
			}
		}
		level = next
	}
	slices.Sort(found)
	return found, nil
}

// entries of a directory, sorted; none if it is none.
func (t *gitTree) entries(v visited) []visited {
	real, ok := t.real(v.real)
	if !ok {
		return nil
	}
	var out []visited
	for _, base := range t.dirs[real] {
		name := path.Join(real, base)
		out = append(out, visited{name: path.Join(v.name, base), real: name, linked: v.linked || t.isLink(name)})
	}
	return out
}

func (t *gitTree) isLink(name string) bool {
	_, ok := t.links[name]
	return ok
}

func (t *gitTree) isDir(name string) bool {
	real, ok := t.real(name)
	_, isDir := t.dirs[real]
	return ok && isDir
}

func (t *gitTree) isFile(name string) bool {
	_, ok := t.find(name)
	return ok
}

// Executable implements extension.ModeTree.
func (t *gitTree) Executable(name string) bool {
	f, _ := t.find(name)
	return f.exec
}

// Read implements extension.Tree.
func (t *gitTree) Read(ctx context.Context, name string, limit int64) ([]byte, error) {
	f, ok := t.find(name)
	if !ok {
		return nil, fault.New(fault.NotFound, codeRead, "There is no file %q.", clip(name))
	}
	if f.size > limit {
		return nil, fault.New(fault.TooLarge, codeRead, "The file %q has %d bytes; at most %d are read.", clip(name), f.size, limit)
	}
	return t.blob(ctx, f)
}
