package sandboxd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"unicode/utf8"

	"parley/internal/fault"
	"parley/internal/tool"
)

// Stat describes what path means: symbolic links are followed, Link is the target
// if path itself is one, and Real the path with no link in it. NotFound for a link
// that leads nowhere.
func (c *Client) Stat(ctx context.Context, path string) (tool.FileInfo, error) {
	var info wireInfo
	query := url.Values{"path": {path}}
	err := c.json(ctx, call{method: http.MethodGet, path: "/files/stat", query: query}, &info)
	return info.info(), err
}

// ReadFile reads a regular file of at most limit bytes (0 = 16 MiB, at most
// MaxFileBytes). Directories, devices, pipes and sockets are Invalid.
func (c *Client) ReadFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	query := url.Values{"path": {path}, "max": {decimal(limit)}}
	data, _, err := c.raw(ctx, call{method: http.MethodGet, path: "/files/content", query: query, most: mostOf(limit)})
	return data, err
}

// mostOf is how long a file may be that was asked for with a limit.
func mostOf(limit int64) int64 {
	if limit <= 0 {
		return MaxFileBytes
	}
	return min(limit, MaxFileBytes)
}

// WriteFile replaces a file of at most MaxFileBytes atomically, or makes it. An
// existing file keeps mode and owner, or the call fails with CodeKeepOwner; a
// symbolic link is written through, except with New. Hard links are broken. With
// Append, the other options play no part: data is added in place to a file that
// exists.
func (c *Client) WriteFile(ctx context.Context, path string, data []byte, opt tool.WriteOptions) error {
	if len(data) > MaxFileBytes {
		return bodyTooLarge(MaxFileBytes)
	}
	if opt.Append {
		return c.appendTo(ctx, path, data)
	}
	query := url.Values{
		"path": {path}, "parents": {strconv.FormatBool(opt.Parents)}, "new": {strconv.FormatBool(opt.New)},
		"mode": {decimal(int64(opt.Mode.Perm()))},
	}
	return c.discard(ctx, call{
		method: http.MethodPut, path: "/files/content", query: query, body: bytes.NewReader(data), repeatable: !opt.New,
	})
}

// ListDir lists a directory (a link to one is followed, links inside are not).
// The entries are those nearest to the top if there are more than limit (0 = 10,000,
// at most 100,000), each directory followed by its own. Directories below path
// that may not be read are named only.
func (c *Client) ListDir(ctx context.Context, path string, depth, limit int) ([]tool.FileInfo, error) {
	query := url.Values{"path": {path}, "depth": {strconv.Itoa(depth)}, "max": {strconv.Itoa(limit)}}
	var wire []wireInfo
	if err := c.json(ctx, call{method: http.MethodGet, path: "/files/list", query: query}, &wire); err != nil {
		return nil, err
	}
	infos := make([]tool.FileInfo, len(wire))
	for i := range wire {
		infos[i] = wire[i].info()
	}
	return infos, nil
}

// Remove removes a file, a symbolic link itself, but no directory (Invalid).
func (c *Client) Remove(ctx context.Context, path string) error {
	query := url.Values{"path": {path}}
	return c.discard(ctx, call{method: http.MethodDelete, path: "/files", query: query, repeatable: true})
}

// Search finds files inside the sandbox, in bounded time and memory. Invalid if the
// pattern or the expression cannot be used, with a text that says why.
func (c *Client) Search(ctx context.Context, req tool.SearchRequest) (tool.SearchResult, error) {
	body, err := jsonBody(req)
	if err != nil {
		return tool.SearchResult{}, err
	}
	var wire wireSearch
	if err := c.json(ctx, call{method: http.MethodPost, path: "/search", body: body, repeatable: true}, &wire); err != nil {
		return tool.SearchResult{}, err
	}
	wire.Files = make([]tool.FileInfo, len(wire.Found))
	for i := range wire.Found {
		wire.Files[i] = wire.Found[i].info()
	}
	return wire.SearchResult, nil
}

// ChangeFiles changes at most MaxChanges files of MaxChangeBytes together. All new
// contents are on the disk before the first file changes; what fails after that is
// taken back. Only a daemon that is killed in the middle leaves a part done.
func (c *Client) ChangeFiles(ctx context.Context, root string, changes []tool.FileChange) error {
	total := 0
	for _, change := range changes {
		if !utf8.ValidString(change.Path) {
			return fault.New(fault.Invalid, CodeBadPath, "The path %q is not valid UTF-8.", change.Path)
		}
		total += len(change.Data)
	}
	if total > MaxChangeBytes {
		return bodyTooLarge(MaxChangeBytes)
	}
	body, err := jsonBody(changeRequest{Root: root, Changes: changes})
	if err != nil {
		return err
	}
	return c.discard(ctx, call{method: http.MethodPost, path: "/files/change", body: body})
}

// PutTar unpacks an uncompressed tar archive into dir, which is made if it is
// missing. Files have at most limit bytes together (0 = 1 GiB). Existing files are
// replaced; nothing is written outside dir or through symbolic links
// (CodeUnsafeArchive). Owners are not kept. On an error what was unpacked before
// it stays. It returns r's own error if r fails. A Read of r that is under way when
// ctx ends may outlive the call; none begins after it.
func (c *Client) PutTar(ctx context.Context, dir string, r io.Reader, limit int64) error {
	if limit == 0 {
		limit = defaultTarBytes
	}
	source := &boundedReader{r: r, room: archiveBound(limit), limit: limit}
	defer source.stop()
	query := url.Values{"dir": {dir}, "limit": {decimal(limit)}}
	err := c.discard(ctx, call{method: http.MethodPut, path: "/tar", query: query, body: source})
	if failed := source.failure(); failed != nil && ctx.Err() == nil {
		return failed
	}
	return err
}

// GetTar writes dir's files, directories and symbolic links to w as an
// uncompressed tar archive with paths relative to dir, sorted. Patterns of exclude
// are those of path.Match; one without a slash is matched against every name, and
// a directory that matches is left out whole. Files have at most limit bytes
// together (0 = 1 GiB). On an error, what w got is incomplete.
func (c *Client) GetTar(ctx context.Context, dir string, w io.Writer, exclude []string, limit int64) error {
	query := url.Values{"dir": {dir}, "exclude": exclude, "limit": {decimal(limit)}}
	resp, err := c.do(ctx, call{method: http.MethodGet, path: "/tar", query: query})
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	out := &errorWriter{w: w}
	_, err = io.Copy(out, resp.Body)
	switch {
	case out.err != nil:
		return out.err
	case err != nil:
		return c.broken(ctx, err)
	case resp.Trailer.Get(headerFault) != "":
		return parseTrailer(resp.Trailer.Get(headerFault))
	}
	return nil
}

// errorWriter tells errors of the writer from those of the connection.
type errorWriter struct {
	w   io.Writer
	err error
}

func (e *errorWriter) Write(p []byte) (int, error) {
	n, err := e.w.Write(p)
	if err != nil {
		e.err = err
	}
	return n, err
}

// boundedReader passes an archive on up to a bound and remembers what stopped it.
// The transport may still read while the answer is looked at.
type boundedReader struct {
	r     io.Reader
	limit int64

	mu      sync.Mutex
	room    int64
	err     error
	stopped bool
}

func (b *boundedReader) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
}

func (b *boundedReader) isStopped() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stopped
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.isStopped() {
		return 0, io.ErrClosedPipe
	}
	n, err := b.r.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.room -= int64(n); b.room < 0 {
		err = unpackedTooLarge(b.limit)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

func (b *boundedReader) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}
