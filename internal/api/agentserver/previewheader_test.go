package agentserver

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"parley/internal/api/httpkit"
)

func somewhere() *visit {
	s := &Server{}
	s.cfg.Previews.URLs = &httpkit.URLs{}
	return &visit{place: place{sandboxID: "sb", port: 80, prefix: "/agent/sb/ports/80"}, server: s}
}

// Whatever a program answers with, its cookies stay in its preview and are none of
// ours, and its redirects leave the server or stay in the sandbox's previews.
func FuzzPreviewHeaders(f *testing.F) {
	f.Add("a=1; Path=/; Domain=x", "/a")
	f.Add("parley_preview=x", "http://localhost:80//a")
	f.Add("=parley_preview=x", "//localhost:80/..")
	f.Add(" parley_preview =x; Path=/agent/sb/ports/80/../x", "http://example.com:80")
	r := httptest.NewRequest(http.MethodGet, "http://example.com/agent/sb/ports/80/", nil)
	f.Fuzz(func(t *testing.T, cookie, location string) {
		v := somewhere()
		h := http.Header{"Set-Cookie": {cookie}, "Location": {location}}
		v.sanitise(r, h)
		for _, line := range h.Values("Set-Cookie") {
			c, err := http.ParseSetCookie(line)
			if err != nil || c.Domain != "" || strings.HasPrefix(strings.ToLower(c.Name), "parley") ||
				c.Path != v.prefix && !strings.HasPrefix(c.Path, v.prefix+"/") {
				t.Fatalf("%q became %q", cookie, line)
			}
		}
		to := h.Get("Location")
		if strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "//") && !strings.HasPrefix(to, "/agent/sb/ports/") {
			t.Fatalf("%q leads to %q", location, to)
		}
	})
}

// What is left of a request's cookies never has one of ours.
func FuzzHideCookies(f *testing.F) {
	f.Add("a=1; parley_preview=secret; b=2")
	f.Add("parley_preview=secret;PARLEY_PREVIEW=secret; =parley_preview=secret")
	f.Fuzz(func(t *testing.T, line string) {
		h := http.Header{"Cookie": {line}}
		hideCookies(h)
		r := &http.Request{Header: h}
		for _, c := range r.Cookies() {
			if c.Name == previewCookie {
				t.Fatalf("%q became %q", line, h.Get("Cookie"))
			}
		}
	})
}

// The path below a preview is the end of the path as it was written.
func FuzzAsWritten(f *testing.F) {
	f.Add("/agent/sb/ports/80//a//b?c", "/a/b")
	f.Add("//agent//sb/ports/80", "")
	f.Add("http://x/agent", "/a")
	f.Fuzz(func(t *testing.T, uri, rest string) {
		got := asWritten(uri, rest)
		path, _, _ := strings.Cut(uri, "?")
		if got != rest && !strings.HasSuffix(path, got) {
			t.Fatalf("%q %q: %q", uri, rest, got)
		}
		if strings.HasPrefix(path, "/") && segments(path) >= segments(rest) && segments(got) != segments(rest) {
			t.Fatalf("%q %q: %q", uri, rest, got)
		}
	})
}
