package sandboxd

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/tool"
)

func (d *daemon) listDir(w http.ResponseWriter, r *http.Request) error {
	q := parseQuery(r.URL.RawQuery)
	path := q.path("path")
	l := listing{ctx: r.Context(), root: path}
	depth := max(1, int(q.number("depth", 1, 1<<20)))
	l.max = int(q.number("max", 1, maxListEntries))
	if q.err != nil {
		return q.err
	}
	if l.max == 0 {
		l.max = defaultListEntries
	}
	if err := l.run(depth); err != nil {
		return pathFault(err, "list", path)
	}
	infos := make([]wireInfo, len(l.found))
	for i, info := range l.found {
		infos[i] = toWireInfo(info)
	}
	return writeJSON(w, infos)
}

// listing lists a tree level by level, so that one large directory does not use
// up the maximum before its neighbours have been named.
type listing struct {
	ctx   context.Context
	root  string
	max   int
	found []tool.FileInfo
}

func (l *listing) run(depth int) error {
	level := []string{""}
	for ; depth > 0 && len(level) > 0 && len(l.found) < l.max; depth-- {
		var next []string
		for _, dir := range level {
			below, err := l.readDir(dir)
			// What goes away or may not be read below the top is named, not entered.
			if err != nil && (dir == "" || l.ctx.Err() != nil) {
				return err
			}
			next = append(next, below...)
		}
		level = next
	}
	slices.SortFunc(l.found, func(a, b tool.FileInfo) int { return comparePaths(a.Path, b.Path) })
	return nil
}

// comparePaths puts the contents of a directory right behind it.
func comparePaths(a, b string) int {
	return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
}

// readDir adds the entries of dir, relative to the root, and returns its directories.
func (l *listing) readDir(dir string) (dirs []string, err error) {
	names, err := sortedNames(filepath.Join(l.root, dir))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if len(l.found) == l.max {
			break
		}
		if err := l.ctx.Err(); err != nil {
			return nil, err
		}
		relative := filepath.Join(dir, name)
		info, err := lstatEntry(filepath.Join(l.root, relative), relative)
		if err != nil {
			continue // it went away meanwhile
		}
		l.found = append(l.found, info)
		if info.IsDir {
			dirs = append(dirs, relative)
		}
	}
	return dirs, nil
}

func lstatEntry(path, name string) (tool.FileInfo, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return tool.FileInfo{}, err
	}
	found := fileInfo(name, info)
	if info.Mode()&os.ModeSymlink != 0 {
		found.Link, err = readLink(path)
	}
	return found, err
}

func sortedNames(path string) ([]string, error) {
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	var names []string
	for {
		batch, err := dir.Readdirnames(4096)
		names = append(names, batch...)
		if len(names) > maxDirNames {
			return nil, fault.New(fault.TooLarge, CodeTooLarge, "The directory %s has more than %d entries.", path, maxDirNames)
		}
		if err == io.EOF {
			slices.Sort(names)
			return names, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
