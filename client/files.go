package parley

import (
	"bytes"
	"context"
	"fmt"
	"mime/multipart"
	"net/http"
	"path"
)

// ReadFile returns a file of a conversation's sandbox, of at most 64 MiB. name is an
// absolute path; the agent works in /workspace/project.
func (c *Client) ReadFile(ctx context.Context, id, name string) ([]byte, error) {
	sandbox, err := c.sandboxOf(ctx, id)
	if err != nil {
		return nil, err
	}
	return c.send(ctx, sandbox, http.MethodGet, "/api/file/download"+query("path", name), "", nil)
}

// WriteFile writes a file in a conversation's sandbox, and makes the directories that
// it is in. name is an absolute path.
func (c *Client) WriteFile(ctx context.Context, id, name string, content []byte) error {
	sandbox, err := c.sandboxOf(ctx, id)
	if err != nil {
		return err
	}
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", path.Base(name))
	if err == nil {
		_, err = part.Write(content)
	}
	if err == nil {
		err = form.Close()
	}
	if err != nil {
		return fmt.Errorf("parley: encode %s: %w", name, err)
	}
	_, err = c.send(ctx, sandbox, http.MethodPost, "/api/file/upload"+query("path", name), form.FormDataContentType(), &body)
	return err
}
