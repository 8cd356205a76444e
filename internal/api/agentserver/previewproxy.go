package agentserver

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"parley/internal/fault"
	"parley/internal/fleet"
	"parley/internal/tool"
)

// maxPreviewHeader bounds the headers of a program's answer, in bytes.
const maxPreviewHeader = 256 << 10

// visit is one request to a program inside.
type visit struct {
	place
	owner  string
	hands  tool.Hands
	server *Server
	based  string // path that the program itself is told to serve below; "" = it serves at the root
}

// proxy hands a request to the program and streams the answer. Nothing is kept.
func (s *Server) proxy(w http.ResponseWriter, r *http.Request, v *visit) {
	if v.port == fleet.EditorPort {
		v.based = v.editorBase(r)
	}
	out := &previewWriter{ResponseWriter: w, header: http.Header{}}
	defer out.duplex(r)()
	// A transport of its own: no connection is left over that another request, maybe
	// another user's, might use. It says nothing of closing: programs that close may
	// do so before they have read everything.
	transport := &http.Transport{DialContext: v.dial, DisableCompression: true, IdleConnTimeout: lastRead,
		ResponseHeaderTimeout: s.cfg.Previews.FirstByte, MaxResponseHeaderBytes: maxPreviewHeader}
	defer transport.CloseIdleConnections()
	proxy := &httputil.ReverseProxy{
		Rewrite:        v.rewrite,
		FlushInterval:  -1,
		Transport:      transport,
		ModifyResponse: func(res *http.Response) error { v.sanitise(r, res.Header); return nil },
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) {
			out.closeEarly()
			writePreviewFault(w, r, previewFault(r.Context(), err))
		},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // what programs do wrong is no news of ours
	}
	proxy.ServeHTTP(out, r)
}

func (v *visit) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	conn, err := v.hands.DialPort(ctx, v.port)
	if err != nil && v.port == fleet.EditorPort {
		return v.dialEditor(ctx, err)
	}
	return conn, err
}

// rewrite makes the program's request. The program is told where it is seen and is
// not told who looks: keys and cookies of ours stay here.
func (v *visit) rewrite(p *httputil.ProxyRequest) {
	out, in := p.Out, p.In
	base, err := url.Parse(v.server.cfg.Previews.URLs.Base(in))
	if err != nil { // it was parsed before
		base = &url.URL{}
	}
	escaped := v.programPath()
	path, err := url.PathUnescape(escaped)
	if err != nil { // the server's own parser took it
		path = escaped
	}
	out.URL = &url.URL{Scheme: "http", Host: v.host(), Path: path, RawPath: escaped, RawQuery: in.URL.RawQuery, ForceQuery: in.URL.ForceQuery}
	out.Host = v.host()
	h := out.Header
	h.Del("X-Session-API-Key")
	h.Del("X-Access-Token")
	if token := bearer(in); token != "" {
		// What is not known to be the program's own is ours.
		if _, err := v.server.cfg.Auth.Resolve(in.Context(), token); !fault.Is(err, fault.Unauthenticated) {
			h.Del("Authorization")
		}
	}
	hideCookies(h)
	if seen := v.seenAt(in, base); h.Get("Origin") == seen && v.port != fleet.EditorPort { // code-server compares it with X-Forwarded-Host
		h.Set("Origin", "http://"+v.host())
	}
	h.Set("X-Forwarded-For", v.server.cfg.Previews.URLs.Client(in))
	h.Set("X-Forwarded-Proto", base.Scheme)
	h.Set("X-Forwarded-Host", base.Host)
	if v.own {
		h.Set("X-Forwarded-Host", in.Host)
	}
	h.Del("X-Forwarded-Prefix")
	if v.prefix != "" {
		h.Set("X-Forwarded-Prefix", v.prefix)
	}
}

// host is how a program inside calls itself.
func (v *visit) host() string { return "localhost:" + strconv.Itoa(v.port) }

// seenAt is the origin that a browser sees the preview at.
func (v *visit) seenAt(r *http.Request, base *url.URL) string {
	if v.own {
		return base.Scheme + "://" + r.Host
	}
	return base.Scheme + "://" + base.Host
}

func (v *visit) programPath() string {
	path := v.rest
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	if v.based != "" && path != v.based && !strings.HasPrefix(path, v.based+"/") {
		path = v.based + path
	}
	return path
}

// previewWriter keeps the program's headers apart from those that the guard has set
// until the answer begins, and interim answers to itself.
type previewWriter struct {
	http.ResponseWriter
	header http.Header
	began  bool
	body   *watchedBody // nil = the request has none
}

// watchedBody knows whether it was read to its end.
type watchedBody struct {
	io.ReadCloser
	ended atomic.Bool
}

// Read implements io.Reader.
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.ended.Store(true)
	}
	return n, err
}

// lastRead bounds how long a read of a body goes on that nobody wants any more.
const lastRead = time.Second

// duplex lets the program answer while it still reads the request. What it leaves
// unread would be taken for the next request, so that connection ends then.
func (w *previewWriter) duplex(r *http.Request) (end func()) {
	if r.ContentLength == 0 {
		return func() {}
	}
	rc := http.NewResponseController(w)
	_ = rc.EnableFullDuplex() // test recorders cannot
	w.body = &watchedBody{ReadCloser: r.Body}
	r.Body = w.body
	return func() {
		if !w.body.ended.Load() {
			_ = rc.SetReadDeadline(time.Now().Add(lastRead))
		}
	}
}

// Header implements http.ResponseWriter.
func (w *previewWriter) Header() http.Header { return w.header }

// guardOnly are headers of the guard that are meant for answers of ours.
var guardOnly = []string{"Content-Security-Policy", "X-Frame-Options", "Cross-Origin-Opener-Policy", "Cache-Control", "Pragma", "Expires"}

// WriteHeader implements http.ResponseWriter.
func (w *previewWriter) WriteHeader(status int) {
	if w.began || status < http.StatusOK {
		return
	}
	w.began = true
	to := w.ResponseWriter.Header()
	for _, name := range guardOnly {
		to.Del(name)
	}
	w.header.Del("Trailer")
	w.closeEarly()
	for name, values := range w.header {
		if name == "Vary" {
			to[name] = append(to[name], values...)
			continue
		}
		to[name] = values
	}
	w.ResponseWriter.WriteHeader(status)
}

// closeEarly ends the connection with this answer if there is more of the request.
func (w *previewWriter) closeEarly() {
	if w.body != nil && !w.body.ended.Load() {
		w.ResponseWriter.Header().Set("Connection", "close")
	}
}

// Write implements http.ResponseWriter.
func (w *previewWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.ResponseWriter.Write(b)
}

// Unwrap serves http.ResponseController.
func (w *previewWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
