package search

import (
	"context"
	_ "embed"
	"strings"

	"parley/internal/content"
	"parley/internal/tool"
)

// NameGrep is the name of the tool that finds files by their text.
const NameGrep = "grep"

//go:embed grep.md
var grepDescription string

// GrepAction is the input of grep.
type GrepAction struct {
	Pattern string  `json:"pattern" desc:"Regular expression (RE2) that a line of the file must match; case is ignored."`
	Path    *string `json:"path,omitempty" desc:"Directory or file to search in, absolute or relative to the working directory, which is the default."`
	Include *string `json:"include,omitempty" desc:"Pattern of the paths to look at, like *.py or src/**/*.{ts,tsx}."`
}

type grepMembers struct {
	Matches   []string `json:"matches"`
	Pattern   string   `json:"pattern"`
	Path      string   `json:"search_path"`
	Include   *string  `json:"include_pattern,omitempty"`
	Truncated bool     `json:"truncated"`
}

// Grep returns the tool that finds files by their text.
func Grep() tool.Tool {
	spec := tool.Spec{Name: NameGrep, Description: grepDescription, ReadOnly: true, Idempotent: true}
	return tool.New(spec, runGrep, tool.WithCheck(func(a *GrepAction) error { return valid(a.Path) }))
}

func runGrep(ctx context.Context, env *tool.Env, a GrepAction) (tool.Result, error) {
	root := place(env, deref(a.Path))
	f, err := grepFiles(ctx, env, root, a)
	text := f.text("One file has a line that matches:", "%d files have a line that matches, the last changed first:",
		"No file in "+root+" has a line that matches "+a.Pattern+".")
	if problem, ok := tool.ForModel(err); ok {
		text = problem
	} else if err != nil {
		return tool.Result{}, err
	}
	return tool.Observation{
		Kind: "GrepObservation", Content: []content.Part{content.Text(text)}, IsError: err != nil,
		Members: grepMembers{Matches: orEmpty(f.files), Pattern: a.Pattern, Path: root, Include: a.Include, Truncated: f.truncated},
	}.Result()
}

func grepFiles(ctx context.Context, env *tool.Env, root string, a GrepAction) (found, error) {
	if a.Pattern == "" {
		return found{}, tool.Wrong("The pattern is empty.")
	}
	return find(ctx, env, tool.SearchRequest{Root: root, Text: a.Pattern, Names: strings.TrimSpace(deref(a.Include))})
}
