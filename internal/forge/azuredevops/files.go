package azuredevops

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"parley/internal/fault"
	"parley/internal/forge"
)

// items asks for what a repository has at a path.
func (h *host) items(ctx context.Context, repository, path string, q url.Values, v any) error {
	at, err := h.path(repository)
	if err == nil {
		err = forge.CheckPath(path)
	}
	if err == nil {
		_, err = h.get(ctx, at+"/items", q, v)
	}
	return err
}

// Files implements forge.Host.
func (h *host) Files(ctx context.Context, repository, dir string) ([]string, error) {
	var found struct {
		Value []struct {
			Path string `json:"path"`
			Type string `json:"gitObjectType"`
		} `json:"value"`
	}
	err := h.items(ctx, repository, dir, url.Values{"scopePath": {"/" + dir}, "recursionLevel": {"full"}}, &found)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	var files []string
	for _, e := range found.Value {
		if e.Type == "blob" && len(files) < forge.MaxFiles {
			files = append(files, strings.TrimPrefix(e.Path, "/"))
		}
	}
	return files, err
}

// File implements forge.Host.
func (h *host) File(ctx context.Context, repository, path string) ([]byte, error) {
	var item struct {
		Content string `json:"content"`
	}
	err := h.items(ctx, repository, path, url.Values{"path": {"/" + path}, "includeContent": {"true"}, "$format": {"json"}}, &item)
	if err != nil {
		return nil, err
	}
	return forge.AtMostFile([]byte(item.Content))
}

// IsOpen implements forge.Host.
func (h *host) IsOpen(ctx context.Context, repository string, number int) (bool, error) {
	at, err := h.path(repository)
	if err != nil {
		return false, err
	}
	var pr struct {
		Status string `json:"status"`
	}
	_, err = h.get(ctx, at+"/pullrequests/"+strconv.Itoa(number), nil, &pr)
	return pr.Status == "active", err
}
