// Package webui serves the web UI that scripts/build puts into the program: one page
// at the root, and its scripts and styles below /assets/.
package webui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

//go:embed all:dist
var dist embed.FS

// policy lets the page run its own scripts and styles only, show images of its own and
// of conversations, which are data, and talk to the server it came from.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; " +
	"connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// How long browsers keep what they got: names of assets change with their content, the
// page is asked for again each time.
const (
	keepAssets = "public, max-age=31536000, immutable"
	keepPage   = "no-cache"
)

// file is one file as it is embedded: compressed in both ways.
type file struct {
	gzip, brotli []byte
	mime, tag    string
}

// UI is a built web UI.
type UI struct {
	page   file
	assets map[string]file // by path, "assets/..."
}

// New reads the embedded UI. It is nil if none was built.
func New() (*UI, error) { return read(dist) }

func read(tree fs.FS) (*UI, error) {
	page, err := readFile(tree, "dist/index.html")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	u := &UI{page: page, assets: map[string]file{}}
	return u, fs.WalkDir(tree, "dist/assets", func(name string, d fs.DirEntry, err error) error {
		plain, compressed := strings.CutSuffix(name, ".gz")
		if err != nil || d.IsDir() || !compressed {
			return err
		}
		u.assets[strings.TrimPrefix(plain, "dist/")], err = readFile(tree, plain)
		return err
	})
}

// readFile reads both compressed forms of a file.
func readFile(tree fs.FS, name string) (file, error) {
	zipped, err := fs.ReadFile(tree, name+".gz")
	if err != nil {
		return file{}, fmt.Errorf("the web UI: %w", err)
	}
	brotli, err := fs.ReadFile(tree, name+".br")
	if err != nil {
		return file{}, fmt.Errorf("the web UI: %w", err)
	}
	sum := sha256.Sum256(zipped)
	return file{gzip: zipped, brotli: brotli, mime: mimeOf(name), tag: hex.EncodeToString(sum[:12])}, nil
}

// mimeOf does not ask the machine's own tables, which may know it otherwise.
func mimeOf(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return mime.TypeByExtension(path.Ext(name))
}

// Wrap serves the UI's paths and leaves all others to next. A nil UI has none.
func (u *UI) Wrap(next http.Handler) http.Handler {
	if u == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		if r.URL.Path == "/" {
			u.servePage(w, r)
			return
		}
		asset, ok := u.assets[strings.TrimPrefix(r.URL.Path, "/")]
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Cache-Control", keepAssets)
		asset.serve(w, r)
	})
}

// servePage serves the page. Its addresses are relative, so a base path must end with a
// slash: a client that left it out is sent there.
func (u *UI) servePage(w http.ResponseWriter, r *http.Request) {
	asked, _, _ := strings.Cut(r.RequestURI, "?")
	if last := path.Base(asked); strings.HasPrefix(asked, "/") && !strings.HasSuffix(asked, "/") {
		w.Header().Set("Location", "./"+last+"/")
		w.WriteHeader(http.StatusPermanentRedirect)
		return
	}
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Cache-Control", keepPage)
	u.page.serve(w, r)
}

// serve sends a file in the form that the client prefers.
func (f file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.mime)
	h.Set("Vary", "Accept-Encoding")
	coding := chooseCoding(r.Header.Get("Accept-Encoding"))
	tag := fmt.Sprintf("%q", f.tag+"-"+coding)
	h.Set("ETag", tag)
	if hasTag(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.gzip
	switch coding {
	case codingBrotli:
		body = f.brotli
	case codingPlain:
		plain, err := gunzip(f.gzip)
		if err != nil { // it was made by our own build
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		body = plain
	}
	if coding != codingPlain {
		h.Set("Content-Encoding", coding)
	}
	h.Set("Content-Length", fmt.Sprint(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client may be gone
	}
}

func gunzip(data []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// Content codings.
const (
	codingBrotli = "br"
	codingGzip   = "gzip"
	codingPlain  = "identity"
)

// chooseCoding returns the smallest form that a client takes (RFC 9110, 12.5.3).
func chooseCoding(accept string) string {
	best := codingPlain
	for part := range strings.SplitSeq(accept, ",") {
		name, params, _ := strings.Cut(part, ";")
		if refused(params) {
			continue
		}
		switch strings.ToLower(strings.TrimSpace(name)) {
		case codingBrotli:
			return codingBrotli
		case codingGzip:
			best = codingGzip
		}
	}
	return best
}

// refused reports whether the parameters of a coding are a weight of zero.
func refused(params string) bool {
	name, weight, _ := strings.Cut(strings.TrimSpace(params), "=")
	return strings.TrimSpace(name) == "q" && strings.Trim(strings.TrimSpace(weight), "0.") == "" && weight != ""
}

// hasTag reports whether an If-None-Match names the tag.
func hasTag(header, tag string) bool {
	for part := range strings.SplitSeq(header, ",") {
		part = strings.TrimPrefix(strings.TrimSpace(part), "W/")
		if part == tag || part == "*" {
			return true
		}
	}
	return false
}
