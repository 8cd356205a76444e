package bitbucketdc

import (
	"context"
	"net/url"
	"strconv"

	"parley/internal/fault"
	"parley/internal/forge"
	"parley/internal/forge/rest"
)

// resource is the path of what a repository has at a path: its files or a raw file.
func resource(repository, kind, path string) (string, error) {
	at, err := repositoryPath(repository)
	if err == nil {
		err = forge.CheckPath(path)
	}
	return at + "/" + kind + "/" + rest.Segments(path), err
}

// Files implements forge.Host.
func (h *host) Files(ctx context.Context, repository, dir string) ([]string, error) {
	at, err := resource(repository, "files", dir)
	if err != nil {
		return nil, err
	}
	found, _, err := get[string](ctx, h, at, url.Values{}, forge.Page{Limit: forge.MaxFiles})
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	for i := range found {
		found[i] = dir + "/" + found[i]
	}
	return found, err
}

// File implements forge.Host.
func (h *host) File(ctx context.Context, repository, path string) ([]byte, error) {
	at, err := resource(repository, "raw", path)
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
	_, err = h.rest.Get(ctx, at+"/pull-requests/"+strconv.Itoa(number), nil, &pr)
	return pr.State == "OPEN", err
}
