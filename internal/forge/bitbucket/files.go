package bitbucket

import (
	"context"
	"net/url"
	"strconv"

	"parley/internal/fault"
	"parley/internal/forge"
	"parley/internal/forge/rest"
)

// source is the path of a file's or a directory's resource on the main branch, which
// has to be named.
func (h *host) source(ctx context.Context, repository, path string) (string, error) {
	at, err := repositoryPath(repository)
	if err == nil {
		err = forge.CheckPath(path)
	}
	if err != nil {
		return "", err
	}
	r, err := h.Repository(ctx, repository)
	if err != nil {
		return "", err
	}
	if r.MainBranch == "" { // there is nothing in it
		return "", fault.New(fault.NotFound, rest.CodeNotFound, "The repository %.200s has no main branch.", repository)
	}
	return at + rest.Path("/src/%s/", r.MainBranch) + rest.Segments(path), nil
}

// Files implements forge.Host.
func (h *host) Files(ctx context.Context, repository, dir string) ([]string, error) {
	at, err := h.source(ctx, repository, dir)
	var found page[forge.Entry]
	if err == nil { // the slash says that it is a directory
		_, err = h.rest.Get(ctx, at+"/", url.Values{"max_depth": {"10"}, "pagelen": {strconv.Itoa(forge.MaxFiles)}}, &found)
	}
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	var files []string
	for _, e := range found.Values {
		if e.Type == "commit_file" {
			files = append(files, e.Path)
		}
	}
	return files, err
}

// File implements forge.Host.
func (h *host) File(ctx context.Context, repository, path string) ([]byte, error) {
	at, err := h.source(ctx, repository, path)
	if err != nil {
		return nil, err
	}
	var raw rest.Raw
	if _, err := h.rest.Get(ctx, at, nil, &raw); err != nil {
		return nil, err
	}
	return forge.AtMostFile(raw)
}

// IsOpen implements forge.Host.
func (h *host) IsOpen(ctx context.Context, repository string, number int) (bool, error) {
	at, err := repositoryPath(repository)
	if err != nil {
		return false, err
	}
	var pr struct {
		State string `json:"state"`
	}
	_, err = h.rest.Get(ctx, at+"/pullrequests/"+strconv.Itoa(number), nil, &pr)
	return pr.State == "OPEN", err
}
