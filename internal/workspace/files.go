package workspace

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"parley/internal/fault"
	"parley/internal/tool"
)

const (
	maxListed    = 2000             // files of one listing
	maxVisited   = 2000             // directories that one listing looks into
	maxEntries   = 100_000          // of one directory
	maxFavorites = 100              // directories that Home names
	wholeFile    = 4 << 20          // bytes of a file that is read in one piece
	openTime     = 30 * time.Second // for a file's first bytes
)

// pruned are directories that no listing looks into: those of version control systems
// and what builds leave behind.
var pruned = []string{".git", ".hg", ".svn", ".jj", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache",
	".pytest_cache", ".ruff_cache", ".gradle", ".next", ".nuxt", ".cache", "dist", "build", "target", "lost+found"}

// List returns the files below a directory, at most 2,000, as sorted paths relative to
// it: those nearest to the top if there are more. Directories of version control and
// of builds are left out. None if there is no such directory.
func (w *Workspace) List(ctx context.Context, dir string) ([]string, error) {
	dir, err := w.Absolute(dir)
	if err != nil {
		return nil, err
	}
	files, level := []string{}, []string{""}
	for visited := 0; len(level) > 0 && len(files) < maxListed; {
		var next []string
		for _, sub := range level {
			if visited++; visited > maxVisited || len(files) >= maxListed {
				break
			}
			entries, err := w.hands.ListDir(ctx, path.Join(dir, sub), 1, maxEntries)
			if isNoDir(err) {
				continue // gone meanwhile, or not ours to read
			}
			if err != nil {
				return nil, err
			}
			for _, e := range entries {
				switch name := path.Join(sub, e.Path); {
				case e.IsDir && !slices.Contains(pruned, path.Base(e.Path)):
					next = append(next, name)
				case !e.IsDir:
					files = append(files, clean(name))
				}
			}
		}
		level = next
	}
	files = files[:min(len(files), maxListed)]
	slices.Sort(files)
	return files, nil
}

// maxLinks is how many links of a directory are followed to see whether they lead to
// a directory.
const maxLinks = 100

// Level returns what is in a directory itself, at most 2,000 entries: directories
// first, with a slash at their end, each group sorted in lower case. The control
// directory of git is left out. None if there is no such directory.
func (w *Workspace) Level(ctx context.Context, dir string) ([]string, error) {
	dir, err := w.Absolute(dir)
	if err != nil {
		return nil, err
	}
	entries, err := w.hands.ListDir(ctx, dir, 1, maxEntries)
	if isNoDir(err) {
		return []string{}, nil
	}
	if err != nil {
		return nil, err
	}
	dirs, others := []string{}, []string{}
	links := 0
	for _, e := range entries {
		if e.Link != "" && links < maxLinks {
			links++
			to, err := w.hands.Stat(ctx, path.Join(dir, e.Path))
			e.IsDir = err == nil && to.IsDir
		}
		switch {
		case e.Path == ".git" && e.IsDir:
		case e.IsDir:
			dirs = append(dirs, clean(e.Path)+"/")
		default:
			others = append(others, clean(e.Path))
		}
	}
	slices.SortFunc(dirs, byLower)
	slices.SortFunc(others, byLower)
	all := append(dirs, others...)
	return all[:min(len(all), maxListed)], nil
}

func byLower(a, b string) int {
	return cmp.Or(strings.Compare(strings.ToLower(a), strings.ToLower(b)), strings.Compare(a, b))
}

func isNoDir(err error) bool {
	return fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid) || fault.Is(err, fault.Forbidden)
}

// Dir is a directory.
type Dir struct {
	Name string
	Path string // absolute
}

// Home returns the home directory of who works in the sandbox, and the directories in
// it.
func (w *Workspace) Home(ctx context.Context, hidden bool) (home string, dirs []Dir, err error) {
	res, err := w.run(ctx, tool.ExecRequest{Argv: []string{"/bin/sh", "-c", `cd 2>/dev/null && pwd -P || pwd -P`}, Dir: w.dir, MaxOutput: maxPath})
	if err != nil {
		return "", nil, err
	}
	home, err = checkPath(strings.TrimSuffix(string(res.Stdout), "\n"))
	if err != nil {
		home = w.dir
	}
	dirs, _, err = w.Subdirs(ctx, home, "", maxFavorites, hidden)
	if isNoDir(err) {
		dirs, err = nil, nil
	}
	return home, dirs, err
}

// Subdirs returns the directories in a directory, sorted by their names in lower case,
// from the one called from on, and the name of the first that follows, "" if none
// does. Links to directories are none. Invalid for a path that is not absolute or no
// directory, NotFound.
func (w *Workspace) Subdirs(ctx context.Context, dir, from string, limit int, hidden bool) (dirs []Dir, next string, err error) {
	if dir, err = checkPath(dir); err != nil {
		return nil, "", err
	}
	entries, err := w.hands.ListDir(ctx, dir, 1, maxEntries)
	if err != nil {
		return nil, "", err
	}
	for _, e := range entries {
		if e.IsDir && e.Link == "" && (hidden || !strings.HasPrefix(e.Path, ".")) {
			dirs = append(dirs, Dir{clean(e.Path), path.Join(dir, clean(e.Path))})
		}
	}
	slices.SortStableFunc(dirs, func(a, b Dir) int {
		return cmp.Or(strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), strings.Compare(a.Name, b.Name))
	})
	if at := slices.IndexFunc(dirs, func(d Dir) bool { return pageOf(d) >= from }); at > 0 {
		dirs = dirs[at:]
	} else if at < 0 {
		dirs = nil
	}
	// Names that are the same in lower case are never parted: a page begins with all of them.
	if len(dirs) > limit {
		end := limit
		for end < len(dirs) && pageOf(dirs[end]) == pageOf(dirs[end-1]) {
			end++
		}
		if end < len(dirs) {
			next = pageOf(dirs[end])
		}
		dirs = dirs[:end]
	}
	return dirs, next, nil
}

// pageOf is what a page that begins with a directory is called.
func pageOf(d Dir) string { return strings.ToLower(d.Name) }

// MakeDir makes a directory and those above it. Invalid for a path that is not
// absolute or where something else is, Forbidden.
func (w *Workspace) MakeDir(ctx context.Context, dir string) error {
	dir, err := checkPath(dir)
	if err != nil {
		return err
	}
	res, err := w.run(ctx, tool.ExecRequest{Argv: []string{"mkdir", "-p", "--", dir}, Dir: "/", Env: map[string]string{"LC_ALL": "C"}, MaxOutput: maxPath})
	switch {
	case err != nil || res.ExitCode == 0:
		return err
	case strings.Contains(string(res.Stderr), "Permission denied"), strings.Contains(string(res.Stderr), "Read-only"):
		return fault.New(fault.Forbidden, "permission_denied", "The directory %.200q may not be made.", dir)
	}
	return fault.New(fault.Invalid, "directory_failed", "The directory cannot be made: %s", said(res))
}

// Read returns a text of at most limit bytes, "" if there is no such file. Bytes that
// are no UTF-8 are U+FFFD in it.
func (w *Workspace) Read(ctx context.Context, file string, limit int64) (string, error) {
	file, err := w.Absolute(file)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, openTime, errSlowFile)
	defer cancel()
	data, err := w.hands.ReadFile(ctx, file, limit)
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid) {
		return "", nil
	}
	return clean(string(data)), err
}

// File is a file on its way out of the sandbox. Close it.
type File struct {
	Name string
	Size int64 // bytes that Body has, unless an error cuts it
	Body io.ReadCloser
}

// Open opens a file for reading; it is not held in memory unless it is small. NotFound;
// Invalid for a path that is not absolute and for what is not a regular file.
func (w *Workspace) Open(ctx context.Context, file string) (*File, error) {
	file, err := checkPath(file)
	if err != nil {
		return nil, err
	}
	open, cancel := context.WithTimeoutCause(ctx, openTime, errSlowFile)
	defer cancel()
	info, err := w.hands.Stat(open, file)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir || !info.Mode.IsRegular():
		return nil, fault.New(fault.Invalid, "not_a_file", "%.200q is not a file.", file)
	case info.Size <= wholeFile:
		data, err := w.hands.ReadFile(open, file, 2*wholeFile)
		if err != nil {
			return nil, err
		}
		return &File{path.Base(file), int64(len(data)), io.NopCloser(bytes.NewReader(data))}, nil
	}
	program, err := w.hands.StartProgram(open, tool.ProgramRequest{Argv: []string{"cat", "--", file}, Dir: "/"})
	if err != nil {
		return nil, err
	}
	_ = program.CloseWrite()
	return &File{path.Base(file), info.Size, &piped{io.LimitReader(program, info.Size), program}}, nil
}

// piped is a file that a program writes.
type piped struct {
	io.Reader
	program tool.Program
}

func (p *piped) Close() error { return p.program.Close() }

// Archive writes a directory's files to out as a tar archive, without those that
// match. Patterns are those of path.Match; one without a slash is matched against
// every name.
func (w *Workspace) Archive(ctx context.Context, dir string, out io.Writer, exclude []string, limit int64) error {
	dir, err := checkPath(dir)
	if err != nil {
		return err
	}
	return w.hands.GetTar(ctx, dir, out, exclude, limit)
}

// IsDir reports whether there is a directory. Errors are those of Stat.
func (w *Workspace) IsDir(ctx context.Context, dir string) (bool, error) {
	info, err := w.hands.Stat(ctx, dir)
	return info.IsDir, err
}

// BuildDirs are the patterns of what archives leave out unless they are asked not to.
func BuildDirs() []string {
	return slices.DeleteFunc(slices.Clone(pruned), func(name string) bool { return name == ".git" })
}

// Within returns the file that name, relative to dir, means, following links, or
// Invalid (code "outside_workspace") if it is not below dir. NotFound.
func (w *Workspace) Within(ctx context.Context, dir, name string) (string, error) {
	outside := fault.New(fault.Invalid, "outside_workspace", "The path leaves the workspace.")
	if strings.ContainsRune(name, 0) {
		return "", outside
	}
	file := path.Join(dir, name)
	if file != dir && !strings.HasPrefix(file, strings.TrimSuffix(dir, "/")+"/") {
		return "", outside
	}
	top, err := w.hands.Stat(ctx, dir)
	if err != nil {
		return "", err
	}
	info, err := w.hands.Stat(ctx, file)
	if err != nil {
		return "", err
	}
	root, real := cmp.Or(top.Real, dir), cmp.Or(info.Real, file)
	if real != root && !strings.HasPrefix(real, strings.TrimSuffix(root, "/")+"/") {
		return "", outside
	}
	return real, nil
}
