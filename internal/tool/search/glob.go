package search

import (
	"context"
	_ "embed"
	"path"
	"strings"

	"parley/internal/content"
	"parley/internal/tool"
)

// NameGlob is the name of the tool that finds files by name.
const NameGlob = "glob"

//go:embed glob.md
var globDescription string

// GlobAction is the input of glob.
type GlobAction struct {
	Pattern string  `json:"pattern" desc:"Pattern of paths, like **/*.py or src/**/*.{ts,tsx}."`
	Path    *string `json:"path,omitempty" desc:"Directory to search in, absolute or relative to the working directory, which is the default."`
}

type globMembers struct {
	Files     []string `json:"files"`
	Pattern   string   `json:"pattern"`
	Path      string   `json:"search_path"`
	Truncated bool     `json:"truncated"`
}

// Glob returns the tool that finds files by name.
func Glob() tool.Tool {
	spec := tool.Spec{Name: NameGlob, Description: globDescription, ReadOnly: true, Idempotent: true}
	return tool.New(spec, runGlob, tool.WithCheck(func(a *GlobAction) error { return valid(a.Path) }))
}

func runGlob(ctx context.Context, env *tool.Env, a GlobAction) (tool.Result, error) {
	root, pattern := place(env, deref(a.Path)), strings.TrimSpace(a.Pattern)
	if path.IsAbs(pattern) {
		root, pattern = splitPattern(pattern)
	}
	f, err := globFiles(ctx, env, root, pattern)
	text := f.text("One file matches:", "%d files match, the last changed first:", "No file matches "+a.Pattern+" in "+root+".")
	if problem, ok := tool.ForModel(err); ok {
		text = problem
	} else if err != nil {
		return tool.Result{}, err
	}
	return tool.Observation{
		Kind: "GlobObservation", Content: []content.Part{content.Text(text)}, IsError: err != nil,
		Members: globMembers{Files: orEmpty(f.files), Pattern: a.Pattern, Path: root, Truncated: f.truncated},
	}.Result()
}

func globFiles(ctx context.Context, env *tool.Env, root, pattern string) (found, error) {
	if pattern == "" {
		return found{}, tool.Wrong("The pattern is empty. Use ** for every file.")
	}
	return find(ctx, env, tool.SearchRequest{Root: root, Names: pattern})
}

// splitPattern separates the directories of an absolute pattern that have no
// wildcards from the rest.
func splitPattern(pattern string) (dir, rest string) {
	names := strings.Split(path.Clean(pattern), "/")
	n := 1
	for n < len(names)-1 && !strings.ContainsAny(names[n], `*?[]{}\`) {
		n++
	}
	return "/" + strings.Join(names[1:n], "/"), "/" + strings.Join(names[n:], "/")
}

func orEmpty(files []string) []string {
	if files == nil {
		return []string{}
	}
	return files
}
