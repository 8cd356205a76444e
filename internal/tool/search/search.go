// Package search has the tools that find files in the sandbox: glob by name, grep
// by text. The search itself runs inside the sandbox, in bounded time and memory
// (tool.Hands); here is what a model asks and reads. Both only read.
package search

import (
	"context"
	"fmt"
	"path"
	"strings"

	"parley/internal/fault"
	"parley/internal/tool"
)

const (
	// maxFiles is how many files a model gets.
	maxFiles = 100
	// maxText bounds what a model reads, in bytes; long paths end sooner than maxFiles.
	maxText = 16_000
)

// found is what a search gave, with names as texts.
type found struct {
	files     []string
	truncated bool
	notes     string
}

// find searches. dir is absolute.
func find(ctx context.Context, env *tool.Env, req tool.SearchRequest) (found, error) {
	req.Max = maxFiles
	result, err := env.Hands.Search(ctx, req)
	if fault.Is(err, fault.NotFound) {
		return found{}, tool.Wrong("The directory %s does not exist.", req.Root)
	}
	if err != nil {
		return found{}, err
	}
	f := found{files: make([]string, 0, len(result.Files)), truncated: result.Truncated || result.Partial != ""}
	for _, info := range result.Files {
		f.files = append(f.files, strings.ToValidUTF8(info.Path, "\ufffd"))
	}
	f.notes = notes(result)
	return f, nil
}

// notes says what a result does not show.
func notes(r tool.SearchResult) string {
	var b strings.Builder
	if r.Truncated {
		fmt.Fprintf(&b, "[There are more; these are the %d that changed last. Narrow the search with a more precise pattern or path.]\n", len(r.Files))
	}
	switch r.Partial {
	case tool.PartialTime:
		b.WriteString("[The search took too long and was ended: there may be more. Give a path further down.]\n")
	case tool.PartialSize:
		b.WriteString("[There are too many files to look at all of them: there may be more. Give a path further down.]\n")
	}
	if r.Unreadable > 0 {
		fmt.Fprintf(&b, "[%d files or directories could not be read.]\n", r.Unreadable)
	}
	if r.Excluded && len(r.Files) == 0 {
		b.WriteString("[What .gitignore files exclude was not searched. Give an excluded directory as path to search in it.]\n")
	}
	return b.String()
}

// text renders what a model reads.
func (f found) text(one, many, none string) string {
	if len(f.files) == 0 {
		return none + "\n" + f.notes
	}
	title := fmt.Sprintf(many, len(f.files))
	if len(f.files) == 1 {
		title = one
	}
	var b strings.Builder
	b.WriteString(title + "\n")
	for i, file := range f.files {
		if b.Len()+len(file) > maxText && i > 0 {
			fmt.Fprintf(&b, "[%d more are not shown.]\n", len(f.files)-i)
			break
		}
		b.WriteString(file + "\n")
	}
	return b.String() + f.notes
}

// place makes a path absolute.
func place(env *tool.Env, p string) string {
	if !path.IsAbs(p) {
		p = path.Join(env.WorkingDir, p)
	}
	return path.Clean(p)
}

// valid refuses what no path can be.
func valid(p *string) error {
	if p != nil && strings.ContainsRune(*p, 0) {
		return fmt.Errorf("%q contains a NUL character", *p)
	}
	return nil
}

func deref(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}
