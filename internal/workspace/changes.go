package workspace

import (
	"context"
	"errors"
	"slices"
	"strings"

	"parley/internal/fault"
	"parley/internal/tool"
)

// Status says what became of a file.
type Status string

// The statuses.
const (
	Moved   Status = "MOVED"
	Added   Status = "ADDED"
	Deleted Status = "DELETED"
	Updated Status = "UPDATED"
)

const (
	maxChanges = 10_000 // of one answer
	maxNested  = 50     // repositories directly below a directory
)

// Change is one file that differs. Paths are relative to the directory that was asked
// for; bytes that are no UTF-8 show as U+FFFD.
type Change struct {
	Status Status `json:"status"`
	Path   string `json:"path"`
	From   string `json:"-"` // the former path of what was moved
}

// Changes lists what differs from ref ("" = the base of the branch) in the directory:
// in its repository, with files that git does not know yet, and in the repositories
// directly below it, submodules included. None if there is no repository. Errors of
// git are Invalid.
func (w *Workspace) Changes(ctx context.Context, dir, ref string) ([]Change, error) {
	dir, err := w.Absolute(dir)
	if err != nil {
		return nil, err
	}
	nested, err := w.nested(ctx, dir)
	if err != nil {
		return nil, err
	}
	all, err := w.changesIn(ctx, dir, ref)
	if errors.Is(err, errNoRepository) {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(c Change) bool { // git names a foreign repository as one new file
		return c.Status == Added && slices.Contains(nested, strings.TrimSuffix(c.Path, "/"))
	})
	for _, sub := range nested {
		found, err := w.nestedChanges(ctx, dir+"/"+sub, ref)
		if err != nil {
			return nil, err
		}
		for _, c := range found {
			if c.From != "" {
				c.From = clean(sub) + "/" + c.From
			}
			all = append(all, Change{c.Status, clean(sub) + "/" + c.Path, c.From})
		}
	}
	return bounded(all), nil
}

// nestedChanges are those of a repository below the one that was asked for, which need
// not have the ref.
func (w *Workspace) nestedChanges(ctx context.Context, dir, ref string) ([]Change, error) {
	found, err := w.changesIn(ctx, dir, ref)
	if fault.CodeOf(err) == "bad_ref" {
		found, err = w.changesIn(ctx, dir, "")
	}
	if errors.Is(err, errNoRepository) || fault.Is(err, fault.Invalid) { // one that is broken does not hide the others
		return nil, nil
	}
	return found, err
}

func bounded(all []Change) []Change {
	slices.SortFunc(all, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	if all == nil {
		all = []Change{}
	}
	return all[:min(len(all), maxChanges)]
}

// findNested prints the names of the directories that have a .git, each followed by NUL.
const findNested = `for d in */ .[!.]*/; do d=${d%/}; [ -e "$d/.git" ] && [ ! -L "$d" ] && printf '%s\0' "$d"; done; exit 0`

// nested returns the names of the repositories directly below a directory.
func (w *Workspace) nested(ctx context.Context, dir string) ([]string, error) {
	res, err := w.run(ctx, tool.ExecRequest{Argv: []string{"/bin/sh", "-c", findNested}, Dir: dir, MaxOutput: 64 << 10})
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid) {
		return nil, nil // no such directory
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range strings.SplitSeq(whole(string(res.Stdout)), "\x00") {
		if name != "" && name != ".git" && len(names) < maxNested {
			names = append(names, name)
		}
	}
	return names, nil
}

// whole cuts a list of texts that end with NUL behind the last whole one.
func whole(list string) string { return list[:strings.LastIndexByte(list, 0)+1] }

func (w *Workspace) changesIn(ctx context.Context, dir, ref string) ([]Change, error) {
	r, err := w.open(ctx, dir)
	if err != nil {
		return nil, err
	}
	base, err := r.base(ctx, ref)
	if err != nil {
		return nil, err
	}
	args := append([]string{"diff"}, rawFlags()...)
	raw, err := r.must(ctx, append(args, "--relative", base, "--")...)
	if err != nil {
		return nil, err
	}
	fresh, err := r.must(ctx, "ls-files", "--others", "--exclude-standard", "-z")
	if err != nil {
		return nil, err
	}
	return join(parseRaw(raw), whole(fresh)), nil
}

// rawFlags make diff, diff-tree print what parseRaw reads, and run nothing.
func rawFlags() []string {
	return []string{"--raw", "-z", "-r", "-M", "-l1000", "--abbrev=40", "--no-color", "--no-ext-diff", "--no-textconv",
		"--ignore-submodules=dirty", "--submodule=short", "-O/dev/null"}
}

// join adds the files that git does not know. One that it should forget but that is
// still there is not deleted.
func join(known []Change, fresh string) []Change {
	at := map[string]int{}
	for i, c := range known {
		at[c.Path] = i
	}
	for name := range strings.SplitSeq(fresh, "\x00") {
		if name == "" {
			continue
		}
		name = clean(strings.TrimSuffix(name, "/"))
		if i, ok := at[name]; ok {
			known[i].Status = Updated
			continue
		}
		known = append(known, Change{Status: Added, Path: name})
	}
	return known
}

// parseRaw reads the output of git diff --raw -z, as far as it goes. A file is listed
// once, also if git names it twice, as it does in a merge.
func parseRaw(text string) []Change {
	fields := strings.Split(strings.TrimSuffix(whole(text), "\x00"), "\x00")
	var all []Change
	seen := map[string]bool{}
	for i := 0; i+1 < len(fields); {
		head := fields[i]
		at := strings.LastIndexByte(head, ' ')
		if !strings.HasPrefix(head, ":") || at < 0 || at+1 == len(head) {
			break
		}
		c := Change{Status: statusOf(head[at+1]), Path: clean(fields[i+1])}
		i += 2
		if letter := head[at+1]; letter == 'R' || letter == 'C' {
			if i >= len(fields) || fields[i] == "" {
				break
			}
			c.From, c.Path = c.Path, clean(fields[i])
			i++
		}
		if !seen[c.Path] {
			seen[c.Path] = true
			all = append(all, c)
		}
	}
	return all
}

func statusOf(letter byte) Status {
	switch letter {
	case 'A', 'C':
		return Added
	case 'D':
		return Deleted
	case 'R':
		return Moved
	}
	return Updated
}
