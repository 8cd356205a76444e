package webui

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

const script = "console.log('hello')"

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// open makes a UI of one page and one script; the brotli form stands for itself.
func open(t *testing.T) http.Handler {
	t.Helper()
	u, err := read(fstest.MapFS{
		"dist/index.html.gz":       {Data: zipped(t, "<!doctype html>")},
		"dist/index.html.br":       {Data: []byte("page in brotli")},
		"dist/assets/app-1a.js.gz": {Data: zipped(t, script)},
		"dist/assets/app-1a.js.br": {Data: []byte("script in brotli")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return u.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot) // the APIs
	}))
}

func get(h http.Handler, method, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestOnlyItsOwnPathsAreServed(t *testing.T) {
	h := open(t)
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/", 200}, {"HEAD", "/", 200}, {"GET", "/?a=b", 200}, {"POST", "/", http.StatusTeapot},
		{"GET", "/assets/app-1a.js", 200}, {"DELETE", "/assets/app-1a.js", http.StatusTeapot},
		{"GET", "/assets/other.js", http.StatusTeapot}, {"GET", "/assets/", http.StatusTeapot}, {"GET", "/index.html", http.StatusTeapot},
		{"GET", "/assets/../assets/app-1a.js", http.StatusTeapot},
		{"GET", "/api/v1/app-conversations", http.StatusTeapot}, {"GET", "/README.md", http.StatusTeapot},
	} {
		if got := get(h, c.method, c.path).Code; got != c.status {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, got, c.status)
		}
	}
}

func TestTheFormThatTheClientTakes(t *testing.T) {
	h := open(t)
	for _, c := range []struct{ accept, coding string }{
		{"", ""}, {"gzip, deflate, br", "br"}, {"gzip", "gzip"}, {"br;q=0, gzip;q=0.5", "gzip"}, {"gzip;q=0.000", ""}, {"zstd", ""}, {"BR", "br"},
	} {
		w := get(h, "GET", "/assets/app-1a.js", "Accept-Encoding", c.accept)
		if got := w.Header().Get("Content-Encoding"); got != c.coding {
			t.Errorf("Accept-Encoding %q: %q, want %q", c.accept, got, c.coding)
		}
		body := w.Body.Bytes()
		if c.coding == "gzip" {
			z, err := gzip.NewReader(bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if body, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		}
		if want := script; c.coding != "br" && string(body) != want {
			t.Errorf("Accept-Encoding %q: body %q", c.accept, body)
		}
		if w.Header().Get("Vary") != "Accept-Encoding" || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/javascript") {
			t.Errorf("headers %v", w.Header())
		}
	}
}

func TestCaches(t *testing.T) {
	h := open(t)
	page, asset := get(h, "GET", "/"), get(h, "GET", "/assets/app-1a.js")
	if got := page.Header().Get("Cache-Control"); got != "no-cache" {
		t.Errorf("the page is kept: %q", got)
	}
	if got := asset.Header().Get("Cache-Control"); !strings.Contains(got, "immutable") {
		t.Errorf("an asset is not kept: %q", got)
	}
	tag := page.Header().Get("ETag")
	if again := get(h, "GET", "/", "If-None-Match", `"other", W/`+tag); again.Code != http.StatusNotModified || again.Body.Len() != 0 {
		t.Errorf("the same page: %d with %d bytes", again.Code, again.Body.Len())
	}
	if other := get(h, "GET", "/", "If-None-Match", tag, "Accept-Encoding", "br"); other.Code != 200 {
		t.Errorf("another form has the same tag: %d", other.Code)
	}
}

func TestPolicyOfThePage(t *testing.T) {
	got := get(open(t), "GET", "/").Header().Get("Content-Security-Policy")
	for _, rule := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
		if !strings.Contains(got, rule) {
			t.Errorf("no %s in %q", rule, got)
		}
	}
	if strings.Contains(got, "unsafe") || strings.Contains(got, "http") {
		t.Errorf("the policy is not strict: %q", got)
	}
}

// A base path without its slash would make relative addresses point beside it.
func TestABasePathEndsWithASlash(t *testing.T) {
	u := open(t)
	strip := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/"
		u.ServeHTTP(w, r)
	})
	w := get(strip, "GET", "/tools/parley?x=1")
	if w.Code != http.StatusPermanentRedirect || w.Header().Get("Location") != "./parley/" {
		t.Errorf("%d to %q", w.Code, w.Header().Get("Location"))
	}
	if w := get(strip, "GET", "/tools/parley/"); w.Code != 200 {
		t.Errorf("with its slash: %d", w.Code)
	}
}

func TestWithoutABuiltUIAllPathsAreTheAPIs(t *testing.T) {
	u, err := read(fstest.MapFS{"dist/README.md": {}})
	if err != nil || u != nil {
		t.Fatalf("%v, %v", u, err)
	}
	next := http.NotFoundHandler()
	if w := get(u.Wrap(next), "GET", "/"); w.Code != http.StatusNotFound {
		t.Errorf("%d", w.Code)
	}
}
