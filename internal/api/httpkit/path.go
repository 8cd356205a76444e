package httpkit

import (
	"net/http"
	"net/url"
	"strings"
)

// WithPath returns the request with another path, given escaped.
func WithPath(r *http.Request, escaped string) *http.Request {
	path, err := url.PathUnescape(escaped)
	if err != nil {
		path = escaped // an escaped path can be unescaped
	}
	out, u := *r, *r.URL
	u.Path, u.RawPath = path, ""
	if u.EscapedPath() != escaped {
		u.RawPath = escaped
	}
	out.URL = &u
	return &out
}

// canonical spells paths in one way before anything decides by them: clients that
// join a base URL and a path write "//", which counts as "/". Dot segments are
// nowhere; whoever means them resolves them before sending. There are no
// redirects, which clients follow without their key or not at all.
func canonical(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		if !strings.HasPrefix(path, "/") || hasDots(path) { // "*", or the authority of a CONNECT
			notFound(w, r)
			return
		}
		if strings.Contains(path, "//") {
			r = WithPath(r, squeeze(path))
		}
		next.ServeHTTP(w, r)
	})
}

func hasDots(path string) bool {
	if !strings.Contains(path, "/.") {
		return false
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// squeeze makes one slash of several.
func squeeze(path string) string {
	out := make([]byte, 0, len(path))
	for i := range len(path) {
		if path[i] != '/' || i == 0 || path[i-1] != '/' {
			out = append(out, path[i])
		}
	}
	return string(out)
}

// stripPrefix serves paths below an (escaped) prefix as well as those without it.
func stripPrefix(prefix string, next http.Handler) http.Handler {
	if prefix == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, below := strings.CutPrefix(r.URL.EscapedPath(), prefix)
		switch {
		case below && rest == "":
			r = WithPath(r, "/")
		case below && rest[0] == '/':
			r = WithPath(r, rest)
		}
		next.ServeHTTP(w, r)
	})
}
