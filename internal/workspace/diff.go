package workspace

import (
	"bytes"
	"context"
	"path"
	"strings"
	"unicode/utf8"

	"parley/internal/fault"
	"parley/internal/tool"
)

// MaxDiffBytes is the size of the largest file whose change is shown.
const MaxDiffBytes = 1 << 20

// Diff is a file before and after: "" where it does not exist, nil where it is no
// text.
type Diff struct {
	Modified *string `json:"modified"`
	Original *string `json:"original"`
}

// FileDiff compares a file with what it was at ref ("" = the base of the branch) or,
// with commit, what that commit made of it. A file that was moved is compared with
// what it was elsewhere. NotFound if it is on neither side, TooLarge (code
// "file_too_large") over MaxDiffBytes, Invalid without a repository.
func (w *Workspace) FileDiff(ctx context.Context, file, ref, commit string) (Diff, error) {
	if ref != "" && commit != "" {
		return Diff{}, fault.New(fault.Invalid, "ref_and_commit", "Ask for ref or for commit, not for both.")
	}
	file, err := w.Absolute(file)
	if err != nil {
		return Diff{}, err
	}
	r, name, err := w.openFile(ctx, file)
	if err != nil {
		return Diff{}, err
	}
	var before, after side
	if commit != "" {
		from, to, err := r.step(ctx, commit)
		if err != nil {
			return Diff{}, err
		}
		if after, err = r.at(ctx, to, name); err != nil {
			return Diff{}, err
		}
		if before, err = r.before(ctx, from, to, name); err != nil {
			return Diff{}, err
		}
	} else {
		from, err := r.base(ctx, ref)
		if err != nil {
			return Diff{}, err
		}
		if after, err = w.now(ctx, file); err != nil {
			return Diff{}, err
		}
		if before, err = r.before(ctx, from, "", name); err != nil {
			return Diff{}, err
		}
	}
	if !before.exists && !after.exists {
		return Diff{}, fault.New(fault.NotFound, "file_not_found", "There is no file %.200q, neither before nor after.", file)
	}
	return Diff{Modified: after.text(), Original: before.text()}, nil
}

// openFile finds the repository of a file that need not exist any more, and the
// file's path below the top of the work tree.
func (w *Workspace) openFile(ctx context.Context, file string) (*repository, string, error) {
	dir, rest := path.Split(file)
	for dir = path.Clean(dir); dir != "/"; dir = path.Dir(dir) {
		info, err := w.hands.Stat(ctx, dir)
		if err == nil && info.IsDir {
			break
		}
		if err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Invalid) {
			return nil, "", err
		}
		rest = path.Base(dir) + "/" + rest
	}
	r, err := w.open(ctx, dir)
	if err != nil {
		return nil, "", err
	}
	return r, r.prefix + rest, nil
}

// side is a file before or after.
type side struct {
	exists bool
	data   []byte
}

func (s side) text() *string {
	if bytes.IndexByte(s.data, 0) >= 0 || !utf8.Valid(s.data) {
		return nil
	}
	text := string(s.data)
	return &text
}

// at reads a file of a commit or a tree. A submodule is the commit it stands at.
func (r *repository) at(ctx context.Context, tree, name string) (side, error) {
	line, err := r.must(ctx, "ls-tree", "-z", "-l", "--full-tree", tree, "--", name)
	if err != nil || line == "" {
		return side{}, err
	}
	head, _, _ := strings.Cut(line, "\t")
	fields := strings.Fields(head)
	switch {
	case len(fields) != 4:
		return side{}, fault.New(fault.Invalid, "git_failed", "git does not say what %.200q is.", name)
	case fields[1] == "commit":
		return side{true, []byte("Subproject commit " + fields[2] + "\n")}, nil
	case fields[1] != "blob":
		return side{}, errNoFile(name)
	case len(fields[3]) > len("1048576"):
		return side{}, errLargeFile(name)
	}
	text, err := r.must(ctx, "cat-file", "blob", fields[2])
	if err == nil && len(text) > MaxDiffBytes {
		err = errLargeFile(name)
	}
	return side{true, []byte(text)}, err
}

// before reads what a file was in a tree, under its former name if it has been moved
// until then: until a commit, or until now ("").
func (r *repository) before(ctx context.Context, tree, until, name string) (side, error) {
	found, err := r.at(ctx, tree, name)
	if err != nil || found.exists {
		return found, err
	}
	args := append([]string{"diff"}, rawFlags()...)
	args = append(args, "--diff-filter=R", tree)
	if until != "" {
		args = append(args, until)
	}
	raw, err := r.must(ctx, append(args, "--")...)
	if err != nil {
		return side{}, err
	}
	for _, c := range parseRaw(raw) {
		if c.Path == name {
			return r.at(ctx, tree, c.From)
		}
	}
	return side{}, nil
}

// now reads a file as it is. A link is where it leads, as in git, so that nothing is
// read through it.
func (w *Workspace) now(ctx context.Context, file string) (side, error) {
	info, err := w.hands.Stat(ctx, file)
	if fault.Is(err, fault.NotFound) || err == nil && info.Link != "" {
		return w.linkAt(ctx, file)
	}
	switch {
	case err != nil:
		return side{}, err
	case info.IsDir:
		r, err := w.open(ctx, file)
		if err != nil || r.prefix != "" {
			return side{}, errNoFile(file)
		}
		id, err := r.commit(ctx, "HEAD") // a submodule
		return side{true, []byte("Subproject commit " + id + "\n")}, err
	case info.Size > MaxDiffBytes:
		return side{}, errLargeFile(file)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, commandTime, errSlowFile)
	defer cancel()
	data, err := w.hands.ReadFile(ctx, file, MaxDiffBytes)
	if fault.Is(err, fault.TooLarge) {
		err = errLargeFile(file)
	}
	return side{true, data}, err
}

// linkAt reads where a link leads; no file if it is none.
func (w *Workspace) linkAt(ctx context.Context, file string) (side, error) {
	res, err := w.run(ctx, tool.ExecRequest{Argv: []string{"readlink", "-n", "--", file}, Dir: "/", MaxOutput: maxPath})
	if err != nil || res.ExitCode != 0 {
		return side{}, err
	}
	return side{true, res.Stdout}, nil
}

var errSlowFile = fault.New(fault.Timeout, "file_too_slow", "The file could not be read within %s.", commandTime)

func errNoFile(name string) error {
	return fault.New(fault.Invalid, "not_a_file", "%.200q is not a file.", name)
}

func errLargeFile(name string) error {
	return fault.New(fault.TooLarge, "file_too_large", "%.200q is larger than %d bytes, too large to show.", name, MaxDiffBytes)
}
