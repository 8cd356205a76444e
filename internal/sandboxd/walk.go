package sandboxd

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"parley/internal/glob"
	"parley/internal/tool"
)

const (
	walkBatch     = 1024      // entries read at a time
	maxIgnoreFile = 256 << 10 // bytes of a .gitignore
)

// walk finds the regular files below a directory. It follows no symbolic links,
// so that it ends, and enters nothing hidden and nothing that git ignores.
type walk struct {
	ctx   context.Context
	root  string
	names *glob.Pattern // nil = all
	max   int           // found at most
	keep  int           // > 0: only so many of the newest are wanted

	found      []tool.FileInfo
	seen       int
	partial    string
	excluded   bool
	unreadable int
}

// branch is a directory to read, relative to the root, with the rules above it.
type branch struct {
	rel   string
	rules *rules
}

// run walks. It returns an error only if the root cannot be searched; the end of
// the context is a partial result unless the caller has gone.
func (w *walk) run() error {
	info, err := os.Stat(w.root)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		w.found = append(w.found, fileInfo(w.root, info))
		return checkRegular(info)
	}
	start := ""
	if w.names != nil {
		start = w.names.Dir()
	}
	if !isDirectory(below(w.root, start)) {
		return nil // nothing can match
	}
	todo := []branch{{start, rulesAbove(below(w.root, start))}}
	for len(todo) > 0 && w.partial == "" {
		last := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		more, err := w.read(last)
		if err != nil && last.rel == start && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		todo = append(todo, more...)
	}
	if w.ctx.Err() != nil {
		w.partial = tool.PartialTime
	}
	return nil
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// read looks at one directory and returns those in it.
func (w *walk) read(b branch) (dirs []branch, err error) {
	path := below(w.root, b.rel)
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		w.unreadable++
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	b.rules = b.rules.enter(path)
	for w.partial == "" {
		batch, err := dir.ReadDir(walkBatch)
		for _, entry := range batch {
			rel := below(b.rel, entry.Name())
			if b.rel == "" {
				rel = entry.Name()
			}
			if w.entry(rel, entry, b.rules) {
				dirs = append(dirs, branch{rel, b.rules})
			}
		}
		w.compact()
		if err == io.EOF {
			return dirs, nil
		}
		if err != nil {
			w.unreadable++
			return dirs, err
		}
		if w.ctx.Err() != nil {
			w.partial = tool.PartialTime
		}
	}
	return dirs, nil
}

// entry takes a file that matches; true is a directory to enter.
func (w *walk) entry(rel string, entry fs.DirEntry, in *rules) (enter bool) {
	if w.seen++; w.seen > maxSearchEntries {
		w.partial = tool.PartialSize
		return false
	}
	name := entry.Name()
	if name == ".git" || name[0] == '.' && (w.names == nil || !w.names.Hidden()) {
		return false
	}
	dir := entry.IsDir()
	if !dir && !entry.Type().IsRegular() || !dir && w.names != nil && !w.names.Match(rel) {
		return false
	}
	path := below(w.root, rel)
	if in.ignore(path, dir) {
		w.excluded = true
		return false
	}
	if dir {
		return !isPseudo(path)
	}
	if len(w.found) == w.max {
		w.partial = tool.PartialSize
		return false
	}
	if info, err := entry.Info(); err == nil { // else it went away meanwhile
		w.found = append(w.found, fileInfo(path, info))
	}
	return false
}

// compact forgets all but the newest, if no others are wanted.
func (w *walk) compact() {
	if w.keep == 0 || len(w.found) < 2*w.keep+walkBatch {
		return
	}
	newestFirst(w.found)
	clear(w.found[w.keep:])
	w.found = w.found[:w.keep]
}

// rules are the .gitignore rules of a directory, and of those above it in the
// same repository. nil has none.
type rules struct {
	dir   string
	files []*glob.Ignore
	above *rules
}

// ignore tells whether a path is ignored: the nearest rule that is about it counts.
func (r *rules) ignore(path string, dir bool) bool {
	for ; r != nil; r = r.above {
		rel, ok := relative(r.dir, path)
		if !ok {
			return false
		}
		for _, ig := range r.files {
			if ignored, decided := ig.Match(rel, dir); decided {
				return ignored
			}
		}
	}
	return false
}

// enter returns the rules for what is in dir.
func (r *rules) enter(dir string) *rules {
	inner := &rules{dir: dir, above: r}
	if own := readIgnore(filepath.Join(dir, ".gitignore")); own != nil {
		inner.files = append(inner.files, own)
	}
	if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil { // another repository
		inner.above = nil
		if own := readIgnore(filepath.Join(dir, ".git", "info", "exclude")); own != nil {
			inner.files = append(inner.files, own)
		}
	}
	if inner.files == nil && inner.above != nil {
		return inner.above
	}
	return inner
}

func readIgnore(path string) *glob.Ignore {
	text, err := readRegular(path, maxIgnoreFile)
	if err != nil {
		return nil
	}
	if ig := glob.ParseIgnore(string(text)); ig.Len() > 0 {
		return ig
	}
	return nil
}

// rulesAbove returns the rules of the directories above dir in its repository. Who
// searches in a directory that is itself ignored means it: then there are none.
func rulesAbove(dir string) *rules {
	var chain []string // from the nearest up
	for at := dir; ; at = filepath.Dir(at) {
		chain = append(chain, at)
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			break
		}
		if at == "/" || strings.Count(at, "/") > 100 {
			return nil // no repository
		}
	}
	var r *rules
	for i := len(chain) - 1; i > 0; i-- {
		r = r.enter(chain[i])
		if r.ignore(chain[i-1], true) {
			return nil
		}
	}
	return r
}
