package image_test

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/klauspost/compress/zstd"

	"parley/internal/fault"
	"parley/internal/sandbox/image"
)

// then is the time of all entries.
var then = time.Date(2020, 5, 17, 8, 0, 0, 0, time.UTC)

// entry is an entry of a tar.
type entry struct {
	name, body, link string
	kind             byte // 0 = a file, or a directory if the name ends in /
	mode             int64
	uid, gid         int
	xattrs           map[string]string
}

func file(name, body string) entry { return entry{name: name, body: body} }
func dir(name string) entry        { return entry{name: name + "/", mode: 0o755} }
func symlink(name, to string) entry {
	return entry{name: name, kind: tar.TypeSymlink, link: to, mode: 0o777}
}
func hardlink(name, to string) entry { return entry{name: name, kind: tar.TypeLink, link: to} }

func (e entry) header() *tar.Header {
	h := &tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.link, Mode: cmp.Or(e.mode, 0o644), Uid: e.uid, Gid: e.gid,
		ModTime: then, Size: int64(len(e.body)), Format: tar.FormatPAX}
	if h.Typeflag == 0 {
		h.Typeflag = tar.TypeReg
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
	}
	for k, v := range e.xattrs {
		if h.PAXRecords == nil {
			h.PAXRecords = map[string]string{}
		}
		h.PAXRecords["SCHILY.xattr."+k] = v
	}
	return h
}

// layerOf makes a layer's tar.
func layerOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if err := w.WriteHeader(e.header()); err != nil {
			t.Fatalf("%s: %v", e.name, err)
		}
		if _, err := io.WriteString(w, e.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data) // into memory
	_ = w.Close()
	return b.Bytes()
}

func zstded(data []byte) []byte {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		panic(err)
	}
	return w.EncodeAll(data, nil)
}

func plainly(data []byte) []byte { return data }

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

type object = map[string]any

// picture is an image to be pushed.
type picture struct {
	layers   [][]byte // tars
	compress func([]byte) []byte
	arch     string // "" = this machine's
	settings object // of its configuration
	diffIDs  []string
	blobs    [][]byte // compressed; set by documents
}

// documents returns configuration and manifest.
func (p *picture) documents() (config, manifest []byte) {
	if p.compress == nil {
		p.compress = gzipped
	}
	layers, diffs := []object{}, []string{}
	for _, l := range p.layers {
		blob := p.compress(l)
		p.blobs = append(p.blobs, blob)
		diffs = append(diffs, digest(l))
		layers = append(layers, object{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "size": len(blob), "digest": digest(blob)})
	}
	if p.diffIDs != nil {
		diffs = p.diffIDs
	}
	config = asJSON(object{"architecture": cmp.Or(p.arch, runtime.GOARCH), "os": "linux", "config": p.settings,
		"rootfs": object{"type": "layers", "diff_ids": diffs}})
	manifest = asJSON(object{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": layers,
		"config": object{"mediaType": "application/vnd.oci.image.config.v1+json", "size": len(config), "digest": digest(config)}})
	return config, manifest
}

func asJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// hub is a registry in this process.
type hub struct {
	t      testing.TB
	url    string
	host   string
	server *httptest.Server

	mu     sync.Mutex
	inner  http.Handler
	before func(w http.ResponseWriter, r *http.Request) bool // true = answered
	asked  []string                                          // "GET /v2/..."
}

func newHub(t testing.TB) *hub {
	h := &hub{t: t, inner: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	h.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		before := h.before
		h.asked = append(h.asked, r.Method+" "+r.URL.Path)
		h.mu.Unlock()
		if before == nil || !before(w, r) {
			h.inner.ServeHTTP(w, r)
		}
	}))
	h.url, h.host = h.server.URL, strings.TrimPrefix(h.server.URL, "http://")
	t.Cleanup(h.server.Close)
	return h
}

func (h *hub) intercept(before func(w http.ResponseWriter, r *http.Request) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.before, h.asked = before, nil
}

// count says how often something was asked for.
func (h *hub) count(part string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, a := range h.asked {
		if strings.HasPrefix(a, "GET ") && strings.Contains(a, part) {
			n++
		}
	}
	return n
}

// put stores something past the interception.
func (h *hub) put(method, path, mediaType string, body []byte) {
	h.t.Helper()
	r := httptest.NewRequest(method, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", mediaType)
	w := httptest.NewRecorder()
	h.inner.ServeHTTP(w, r)
	if w.Code >= 300 {
		h.t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
}

func (h *hub) blob(repo string, data []byte) {
	h.t.Helper()
	h.put(http.MethodPost, "/v2/"+repo+"/blobs/uploads/?digest="+digest(data), "application/octet-stream", data)
}

// push stores an image and returns its reference.
func (h *hub) push(repo, tag string, p *picture) string {
	h.t.Helper()
	config, manifest := p.documents()
	h.blob(repo, config)
	for _, b := range p.blobs {
		h.blob(repo, b)
	}
	h.put(http.MethodPut, "/v2/"+repo+"/manifests/"+tag, "application/vnd.oci.image.manifest.v1+json", manifest)
	return h.host + "/" + repo + ":" + tag
}

// options are those of a store that may use the hub.
func (h *hub) options(dir string) image.Options {
	return image.Options{Dir: dir, Insecure: []string{h.host}}.Quick(2 * time.Second)
}

func open(t testing.TB, o image.Options) *image.Store {
	t.Helper()
	s, err := image.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // twice where the test closes it, too
	return s
}

func get(t testing.TB, s *image.Store, ref string) *image.Image {
	t.Helper()
	im, err := s.Get(context.Background(), image.Request{Ref: ref})
	if err != nil {
		t.Fatal(err)
	}
	return im
}

// refused checks the error of a Get.
func refused(t testing.TB, s *image.Store, ref string, kind fault.Kind, code string) string {
	t.Helper()
	im, err := s.Get(context.Background(), image.Request{Ref: ref})
	if im != nil || fault.CodeOf(err) != code || fault.KindOf(err) != kind {
		t.Fatalf("%v, %v (%v, %q); want %v, %q", im, err, fault.KindOf(err), fault.CodeOf(err), kind, code)
	}
	return fault.PublicText(err)
}

// tree lists what is below a directory: path to "mode body" or "-> target".
func tree(t testing.TB, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		switch info, err := d.Info(); {
		case err != nil:
			return err
		case info.Mode()&os.ModeSymlink != 0:
			to, err := os.Readlink(path)
			found[rel] = "-> " + to
			return err
		case d.IsDir():
			found[rel+"/"] = ""
		default:
			data, err := os.ReadFile(path)
			found[rel] = string(data)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// leftovers lists what is in a store's directory for unfinished things.
func leftovers(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "tmp"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// names lists the entries of a directory of a store.
func names(t testing.TB, parts ...string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func tag(n int) string { return fmt.Sprintf("v%d", n) }
