package sandboxd

import (
	"cmp"
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"parley/internal/glob"
	"parley/internal/tool"
)

// Bounds of a search: a sandbox is small, and a model waits.
const (
	defaultSearchFiles = 100
	maxSearchFiles     = 10_000
	defaultSearchTime  = 20 * time.Second
	maxSearchTime      = 2 * time.Minute
	maxSearchEntries   = 2_000_000 // looked at
	maxSearchFound     = 250_000   // held in memory to read the newest first
	maxSearchBody      = 64 << 10
)

func (d *daemon) search(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, maxSearchBody)
	if err != nil {
		return err
	}
	s, err := newFinder(body)
	if err != nil {
		return err
	}
	result, err := s.run(r.Context())
	if err != nil {
		return pathFault(err, "search", s.root)
	}
	answer := wireSearch{SearchResult: result, Found: make([]wireInfo, len(result.Files))}
	for i, info := range result.Files {
		answer.Found[i] = toWireInfo(info)
	}
	answer.Files = nil
	return writeJSON(w, answer)
}

// wireSearch carries names that are no UTF-8.
type wireSearch struct {
	tool.SearchResult
	Found []wireInfo `json:"found"`
}

// finder is one search.
type finder struct {
	root  string
	names *glob.Pattern // nil = all
	text  *matcher      // nil = any
	max   int
	limit time.Duration
}

// newFinder decodes and checks a request.
func newFinder(body []byte) (*finder, error) {
	var req tool.SearchRequest
	if err := decodeJSON(body, &req); err != nil {
		return nil, err
	}
	if req.Max < 0 || req.Max > maxSearchFiles || req.Timeout < 0 {
		return nil, invalid("max must be a number from 0 to %d, and timeout not negative.", maxSearchFiles)
	}
	s := &finder{max: cmp.Or(req.Max, defaultSearchFiles), limit: min(cmp.Or(req.Timeout, defaultSearchTime), maxSearchTime)}
	var err error
	if s.root, err = cleanPath(req.Root); err != nil {
		return nil, err
	}
	if req.Names != "" {
		if s.names, err = glob.Compile(req.Names); err != nil {
			return nil, invalid("The pattern %q cannot be used: %v.", req.Names, err)
		}
	}
	if req.Text != "" {
		s.text, err = newMatcher(req.Text)
	}
	return s, err
}

// run walks the tree, sorts what has the right name, and reads the newest first
// until enough have the text.
func (s *finder) run(ctx context.Context) (tool.SearchResult, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	w := &walk{ctx: ctx, names: s.names, max: maxSearchFound, root: s.root}
	if s.text == nil {
		w.keep = s.max + 1
	}
	if err := w.run(); err != nil {
		return tool.SearchResult{}, err
	}
	result := tool.SearchResult{Partial: w.partial, Excluded: w.excluded, Unreadable: w.unreadable}
	newestFirst(w.found)
	s.pick(ctx, w.found, &result)
	if result.Truncated = len(result.Files) > s.max; result.Truncated {
		result.Files = result.Files[:s.max]
	}
	return result, nil
}

// pick takes files until there is one more than asked for.
func (s *finder) pick(ctx context.Context, found []tool.FileInfo, result *tool.SearchResult) {
	for _, info := range found {
		if len(result.Files) > s.max {
			return
		}
		if s.text != nil {
			has, err := s.text.inFile(ctx, info.Path)
			switch {
			case ctx.Err() != nil:
				result.Partial = tool.PartialTime
				return
			case err != nil:
				result.Unreadable++
			}
			if !has {
				continue
			}
		}
		result.Files = append(result.Files, info)
	}
}

func newestFirst(found []tool.FileInfo) {
	slices.SortFunc(found, func(a, b tool.FileInfo) int {
		return cmp.Or(b.ModTime.Compare(a.ModTime), strings.Compare(a.Path, b.Path))
	})
}

// below joins a directory and a path below it; "" is the directory itself.
func below(dir, rel string) string {
	if rel == "" {
		return dir
	}
	return strings.TrimSuffix(dir, "/") + "/" + rel
}

// relative is the inverse of below; ok is false for what is not below dir.
func relative(dir, path string) (rel string, ok bool) {
	if path == dir {
		return "", true
	}
	return strings.CutPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// isPseudo tells the kernel's own trees, which are endless and not files.
func isPseudo(path string) bool {
	switch filepath.Clean(path) {
	case "/proc", "/sys", "/dev":
		return true
	}
	return false
}
