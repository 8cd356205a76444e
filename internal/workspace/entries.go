package workspace

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"parley/internal/glob"
)

// hiddenEntries are what the listing of a directory never names (V0 section 12).
var hiddenEntries = []string{".git/", ".DS_Store", "node_modules/", "__pycache__/", "lost+found/", ".vscode/"}

const maxIgnoreFile = 1 << 20 // bytes of the .gitignore that is read

// Entries lists one level of a directory, relative to the workspace's: directories
// first, with a slash at their end, each group in the order of the names in lower
// case. Without a path the names stand alone, else behind "path/". Left out is what
// hiddenEntries and the workspace's own .gitignore name. None if there is no such
// directory.
func (w *Workspace) Entries(ctx context.Context, dir string) ([]string, error) {
	at, err := w.Absolute(dir)
	if err != nil {
		return nil, err
	}
	found, err := w.hands.ListDir(ctx, at, 1, maxEntries)
	if isNoDir(err) {
		return []string{}, nil
	}
	if err != nil {
		return nil, err
	}
	rules, err := w.Read(ctx, ".gitignore", maxIgnoreFile)
	if err != nil {
		rules = "" // one that cannot be read hides nothing
	}
	ignore, prefix := glob.ParseIgnore(rules), ""
	if dir != "" {
		prefix = strings.TrimSuffix(dir, "/") + "/"
	}
	slices.SortStableFunc(found, func(a, b entry) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(strings.ToLower(a.Path), strings.ToLower(b.Path)))
	})
	names := []string{}
	for _, e := range found {
		name := clean(prefix + e.Path)
		if ignored(ignore, strings.TrimPrefix(at+"/"+e.Path, w.dir+"/"), e.IsDir) {
			continue
		}
		if e.IsDir {
			name += "/"
		}
		if !slices.Contains(hiddenEntries, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// ignored reports whether rules name a path or a directory above it.
func ignored(rules *glob.Ignore, rel string, dir bool) bool {
	for i, c := range rel {
		if c != '/' || i == 0 {
			continue
		}
		if hit, _ := rules.Match(rel[:i], true); hit {
			return true
		}
	}
	hit, _ := rules.Match(rel, dir)
	return hit
}

func rank(e entry) int {
	if e.IsDir {
		return 0
	}
	return 1
}
