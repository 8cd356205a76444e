package gitlab

import (
	"context"
	"net/url"
	"strconv"

	"parley/internal/fault"
	"parley/internal/forge"
	"parley/internal/forge/rest"
)

// Files implements forge.Host.
func (h *host) Files(ctx context.Context, repository, dir string) ([]string, error) {
	at, err := projectPath(repository)
	if err == nil {
		err = forge.CheckPath(dir)
	}
	if err != nil {
		return nil, err
	}
	var found []struct {
		Type string `json:"type"`
		Path string `json:"path"`
	}
	q := url.Values{"path": {dir}, "recursive": {"true"}}
	if _, err := h.paged(ctx, at+"/repository/tree", q, forge.Page{Limit: forge.MaxFiles}, &found); err != nil {
		if fault.Is(err, fault.NotFound) {
			return nil, nil
		}
		return nil, err
	}
	var files []string
	for _, e := range found {
		if e.Type == "blob" {
			files = append(files, e.Path)
		}
	}
	return files, nil
}

// File implements forge.Host.
func (h *host) File(ctx context.Context, repository, path string) ([]byte, error) {
	at, err := projectPath(repository)
	if err == nil {
		err = forge.CheckPath(path)
	}
	if err != nil {
		return nil, err
	}
	var e forge.Entry
	if _, err := h.rest.Get(ctx, at+rest.Path("/repository/files/%s", path), url.Values{"ref": {"HEAD"}}, &e); err != nil {
		return nil, err
	}
	return e.Bytes()
}

// IsOpen implements forge.Host.
func (h *host) IsOpen(ctx context.Context, repository string, number int) (bool, error) {
	at, err := projectPath(repository)
	if err != nil {
		return false, err
	}
	var mr struct {
		State string `json:"state"`
	}
	_, err = h.rest.Get(ctx, at+"/merge_requests/"+strconv.Itoa(number), nil, &mr)
	return mr.State == "opened", err
}
