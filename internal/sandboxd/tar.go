package sandboxd

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
)

func (d *daemon) getTar(w http.ResponseWriter, r *http.Request) error {
	q := parseQuery(r.URL.RawQuery)
	dir := q.path("dir")
	limit := tarLimit(q)
	if q.err != nil {
		return q.err
	}
	p := packer{ctx: r.Context(), dir: dir, exclude: q.values["exclude"], room: limit, limit: limit}
	if err := p.open(); err != nil {
		return err
	}
	defer func() { _ = p.root.Close() }()
	w.Header().Set("Content-Type", "application/x-tar")
	w.Header().Set("Trailer", headerFault)
	if err := p.pack(w); err != nil {
		d.note(r, err)
		w.Header().Set(headerFault, trailerText(err))
	}
	return nil
}

func tarLimit(q *query) int64 {
	if limit := q.number("limit", 1, MaxTarBytes); limit != 0 {
		return limit
	}
	return defaultTarBytes
}

// trailerText puts a fault into a header's characters.
func trailerText(err error) string {
	text, jsonErr := json.Marshal(toWire(err))
	if jsonErr != nil {
		text = []byte("{}")
	}
	return url.QueryEscape(string(text))
}

func parseTrailer(text string) error {
	plain, err := url.QueryUnescape(text)
	if err != nil {
		return badAnswer(err)
	}
	var wire wireFault
	if err := json.Unmarshal([]byte(plain), &wire); err != nil {
		return badAnswer(err)
	}
	return wire.fault()
}

// packer writes a directory as an archive: files, directories and symbolic
// links; nothing else can be carried.
type packer struct {
	ctx     context.Context
	dir     string
	exclude []string
	room    int64 // bytes of content left
	limit   int64
	root    *os.Root
	out     *tar.Writer
}

func (p *packer) open() error {
	for _, pattern := range p.exclude {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return invalid("The pattern %q is malformed.", pattern)
		}
	}
	root, err := openDir(p.dir)
	if err != nil {
		return pathFault(err, "open", p.dir)
	}
	p.root = root
	return nil
}

// openDir opens a directory as the root of all that follows.
func openDir(dir string) (*os.Root, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() { // OpenRoot's own error has no number
		return nil, unix.ENOTDIR
	}
	return os.OpenRoot(dir)
}

func (p *packer) pack(w io.Writer) error {
	p.out = tar.NewWriter(w)
	if err := fs.WalkDir(p.root.FS(), ".", p.visit); err != nil {
		return err
	}
	if err := p.out.Close(); err != nil {
		return fmt.Errorf("end the archive: %w", err)
	}
	return nil
}

func (p *packer) visit(name string, entry fs.DirEntry, err error) error {
	if ctxErr := p.ctx.Err(); ctxErr != nil {
		return ctxErr
	}
	if errors.Is(err, fs.ErrNotExist) && name != "." {
		return nil // it went away meanwhile
	}
	if err != nil {
		return pathFault(err, "read", filepath.Join(p.dir, name))
	}
	if name == "." {
		return nil
	}
	if excluded(p.exclude, name) {
		if entry.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	return p.add(name, entry)
}

// excluded matches patterns without a slash against every entry's own name, and
// others against the whole path.
func excluded(patterns []string, name string) bool {
	for _, pattern := range patterns {
		subject := name
		if !strings.Contains(pattern, "/") {
			subject = path.Base(name)
		}
		if ok, err := path.Match(pattern, subject); ok && err == nil {
			return true
		}
	}
	return false
}

func (p *packer) add(name string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return pathFault(err, "read", filepath.Join(p.dir, name))
	}
	switch {
	case info.Mode().IsRegular():
		return p.addFile(name)
	case info.IsDir():
		return p.header(name+"/", "", info)
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := p.root.Readlink(name)
		if err != nil {
			return pathFault(err, "read", filepath.Join(p.dir, name))
		}
		return p.header(name, target, info)
	}
	return nil
}

func (p *packer) header(name, link string, info fs.FileInfo) error {
	header, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return fmt.Errorf("describe %s: %w", name, err)
	}
	header.Name = name
	header.ModTime = header.ModTime.Truncate(time.Second) // the format would round up
	header.Uname, header.Gname = "", ""
	header.Uid, header.Gid = 0, 0 // numbers of the sandbox mean nothing outside
	if err := p.out.WriteHeader(header); err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	return nil
}

func (p *packer) addFile(name string) error {
	file, err := p.root.OpenFile(name, os.O_RDONLY|openQuietly, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return pathFault(err, "read", filepath.Join(p.dir, name))
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return pathFault(err, "read", filepath.Join(p.dir, name))
	}
	if info.Size() > p.room {
		return archiveTooLarge(p.limit)
	}
	p.room -= info.Size()
	if err := p.header(name, "", info); err != nil {
		return err
	}
	return p.content(file, name, info.Size())
}

// content writes exactly size bytes: a file that shrinks meanwhile is filled up
// with zeros, as the header cannot be taken back.
func (p *packer) content(file io.Reader, name string, size int64) error {
	n, err := io.Copy(p.out, io.LimitReader(contextReader{p.ctx, file}, size))
	if err != nil {
		return pathFault(err, "read", filepath.Join(p.dir, name))
	}
	if _, err := io.CopyN(p.out, zeros{}, size-n); err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	return nil
}

func archiveTooLarge(limit int64) error {
	return fault.New(fault.TooLarge, CodeTooLarge, "The directory's files have more than %d bytes.", limit).
		WithHint("Leave out what can be made again, such as dependencies and build output.")
}

// contextReader stops reading when its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// zeros is an endless run of zero bytes.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
