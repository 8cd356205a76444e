package github

import (
	"context"
	"strconv"

	"parley/internal/forge"
	"parley/internal/forge/rest"
)

// contents is the path of a file's or a directory's resource.
func contents(repository, path string) (string, error) {
	parts, err := forge.SplitName(forge.GitHub, repository)
	if err == nil {
		err = forge.CheckPath(path)
	}
	if err != nil {
		return "", err
	}
	return rest.Path("/repos/%s/%s/contents/", parts[0], parts[1]) + rest.Segments(path), nil
}

// Files implements forge.Host.
func (h *host) Files(ctx context.Context, repository, dir string) ([]string, error) {
	return forge.WalkContents(ctx, dir, func(ctx context.Context, dir string) (found []forge.Entry, err error) {
		at, err := contents(repository, dir)
		if err == nil {
			_, err = h.rest.Get(ctx, at, nil, &found)
		}
		return found, err
	})
}

// File implements forge.Host.
func (h *host) File(ctx context.Context, repository, path string) ([]byte, error) {
	at, err := contents(repository, path)
	if err != nil {
		return nil, err
	}
	var e forge.Entry
	if _, err := h.rest.Get(ctx, at, nil, &e); err != nil {
		return nil, err
	}
	return e.Bytes()
}

// IsOpen implements forge.Host.
func (h *host) IsOpen(ctx context.Context, repository string, number int) (bool, error) {
	parts, err := forge.SplitName(forge.GitHub, repository)
	if err != nil {
		return false, err
	}
	var pr struct {
		State string `json:"state"`
	}
	_, err = h.rest.Get(ctx, rest.Path("/repos/%s/%s/pulls/%s", parts[0], parts[1], strconv.Itoa(number)), nil, &pr)
	return pr.State == "open", err
}
