package sandboxd

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"os"

	"golang.org/x/sys/unix"
)

func (d *daemon) appendFile(w http.ResponseWriter, r *http.Request) error {
	q := parseQuery(r.URL.RawQuery)
	path := q.path("path")
	if q.err != nil {
		return q.err
	}
	data, err := readBody(w, r, MaxFileBytes)
	if err != nil {
		return err
	}
	if err := appendRegular(path, data); err != nil {
		return absentPath(err, "append to", path)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// appendRegular looks before it opens, as readRegular does.
func appendRegular(path string, data []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := checkRegular(info); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	if info, err = file.Stat(); err == nil {
		err = checkRegular(info)
	}
	if err == nil {
		_, err = file.Write(data)
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return err
}

// appendTo adds data to the end of a file.
func (c *Client) appendTo(ctx context.Context, path string, data []byte) error {
	query := url.Values{"path": {path}}
	return c.discard(ctx, call{method: http.MethodPost, path: "/files/content", query: query, body: bytes.NewReader(data)})
}
