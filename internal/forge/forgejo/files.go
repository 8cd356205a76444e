package forgejo

import (
	"context"
	"strconv"

	"parley/internal/forge"
	"parley/internal/forge/rest"
)

// contents is the path of a file's or a directory's resource.
func contents(repository, path string) (string, error) {
	at, err := repositoryPath(repository)
	if err == nil {
		err = forge.CheckPath(path)
	}
	return at + "/contents/" + rest.Segments(path), err
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
	at, err := repositoryPath(repository)
	if err != nil {
		return false, err
	}
	var pr struct {
		State string `json:"state"`
	}
	_, err = h.rest.Get(ctx, at+"/pulls/"+strconv.Itoa(number), nil, &pr)
	return pr.State == "open", err
}
