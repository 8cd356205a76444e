package httpkit

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"parley/internal/fault"
)

// GuardConfig makes a Guard.
type GuardConfig struct {
	Log     *slog.Logger
	Metrics *Metrics
	URLs    *URLs
	Auth    *Authenticator
	Listen  string // host:port the server listens on
	// AllowedHosts are further names the server is reached by; "*" = any.
	AllowedHosts []string
	// AllowedOrigins are the web origins that may use the API besides the server's
	// own; none = all loopback origins, "*" = any.
	AllowedOrigins []string
	// AnyOrigin is a path that pages of all origins may use, because it takes no
	// credential that browsers add by themselves; "" = none.
	AnyOrigin string
	// Rate bounds how many requests a client may make; nil = as many as it likes.
	Rate *RateLimit
	// BodyTime is how long a client may take for a request body beyond what its
	// size needs, 0 = 20 s.
	BodyTime time.Duration
	// AnswerTime is how long a client may take for each 64 KiB of an answer,
	// 0 = 30 s. Streams have limits of their own.
	AnswerTime time.Duration
}

// Guard is what stands around all APIs: request ids, the log, metrics, panics,
// security headers, Host and Origin checks, CORS, and who asks.
type Guard struct {
	cfg   GuardConfig
	sites *sites
}

// NewGuard makes a guard.
func NewGuard(cfg GuardConfig) *Guard {
	return &Guard{cfg: cfg, sites: newSites(cfg.Listen, cfg.URLs, cfg.AllowedHosts, cfg.AllowedOrigins)}
}

// Wrap puts the guard around a handler. If the public URL has a path, requests
// below it are served as well as those at the root, so that it does not matter
// whether a proxy strips it.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	inner := g.cfg.Auth.Wrap(next)
	if u := g.cfg.URLs.Public; u != nil {
		inner = stripPrefix(strings.TrimRight(u.EscapedPath(), "/"), inner)
	}
	inner = canonical(inner)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serve(w, r, inner) })
}

func (g *Guard) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	start := time.Now()
	n := &note{id: requestID(r)}
	out := &recorder{ResponseWriter: w, rc: http.NewResponseController(w), timeout: orDefault(g.cfg.AnswerTime, answerTime)}
	r = r.WithContext(context.WithValue(r.Context(), noteKey{}, n))
	pace(w, r, g.cfg.BodyTime)
	defer func() {
		cut := g.recovered(out, r, recover())
		g.record(out, r, time.Since(start))
		if cut {
			panic(http.ErrAbortHandler)
		}
	}()
	setHeaders(out.Header(), n.id)
	if g.admit(out, r) && g.cfg.Rate.admitRate(out, r, g.cfg.URLs.Client(r)) {
		next.ServeHTTP(out, r)
	}
}

// requestID takes the client's id if it is harmless, else makes one.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-ID")
	plain := strings.IndexFunc(id, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' && c != '_' && c != '.'
	}) < 0
	if id != "" && len(id) <= 64 && plain {
		return id
	}
	return uuid.NewString()
}

func setHeaders(h http.Header, id string) {
	h.Set("X-Request-ID", id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-cache, no-store, must-revalidate, max-age=0")
	h.Set("Pragma", "no-cache")
	h.Set("Expires", "0")
}

// admit checks Host and Origin and answers preflights. It reports whether the
// request goes on.
func (g *Guard) admit(w http.ResponseWriter, r *http.Request) bool {
	if _, preview := g.cfg.URLs.PreviewLabel(r.Host); !preview && !g.sites.ownHost(r.Host) {
		WriteDetail(w, http.StatusMisdirectedRequest, fmt.Sprintf(
			"This server is not reached by the name %q. Set public_url or allowed_hosts to allow it.", clip(r.Host)))
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" || g.forAll(r) {
		return true
	}
	allowed := g.ownOrigin(r, origin)
	if cors(w, r, origin, allowed, slices.Contains(g.sites.origins, anything)) {
		return false
	}
	if !allowed && changes(r) {
		WriteDetail(w, http.StatusForbidden, fmt.Sprintf(
			"Pages of %q may not use this server. Add the origin to allowed_origins to allow it.", clip(origin)))
		return false
	}
	return true
}

// forAll reports whether pages of all origins may make the request.
func (g *Guard) forAll(r *http.Request) bool {
	if g.cfg.AnyOrigin == "" {
		return false
	}
	path := r.URL.Path
	if u := g.cfg.URLs.Public; u != nil {
		path = strings.TrimPrefix(path, strings.TrimRight(u.Path, "/"))
	}
	return strings.TrimRight(path, "/") == g.cfg.AnyOrigin
}

// ownOrigin reports whether a page of that origin may make the request. A preview
// with an origin of its own may use itself, nobody else may, and it nothing else.
func (g *Guard) ownOrigin(r *http.Request, origin string) bool {
	base := g.cfg.URLs.Base(r)
	if g.cfg.URLs.previewed(origin) || g.cfg.URLs.previewed("http://"+r.Host) {
		scheme, _, _ := strings.Cut(base, "://")
		return strings.EqualFold(origin, scheme+"://"+r.Host)
	}
	return g.sites.ownOrigin(origin, base)
}

// recovered answers for a handler that panicked, and reports whether the
// connection must be cut because the answer had begun.
func (g *Guard) recovered(w *recorder, r *http.Request, value any) bool {
	if value == nil {
		return false
	}
	if value == http.ErrAbortHandler { //nolint:errorlint // a panic value is compared, not an error chain
		return true
	}
	p := Describe(fmt.Errorf("panic: %v\n%s", value, debug.Stack()))
	noteOf(r.Context()).problem = p
	if w.status != 0 {
		return true
	}
	encode := noteOf(r.Context()).encode
	if encode == nil {
		encode = AgentErrors
	}
	status, body := encode(r, p)
	return writeProblem(w, status, body, 0) != nil
}

func (g *Guard) record(w *recorder, r *http.Request, took time.Duration) {
	n := noteOf(r.Context())
	status := w.status
	if status == 0 {
		status = http.StatusOK
	}
	route := n.route
	if route == "" {
		route = "unmatched"
	}
	g.cfg.Metrics.observe(r.Method, route, status, took)
	attrs := []any{"request_id", n.id, "method", r.Method, "path", clip(r.URL.Path), "route", route, "status", status,
		"bytes", w.bytes, "ms", float64(took.Microseconds()) / 1000, "client", g.cfg.URLs.Client(r)}
	attrs = append(attrs, principalAttrs(n.principal)...)
	g.cfg.Log.Log(r.Context(), level(n, route), "request", append(attrs, problemAttrs(n)...)...)
}

func principalAttrs(p Principal) []any {
	switch {
	case p.UserID != "":
		return []any{"user", p.UserID}
	case p.SandboxID != "":
		return []any{"sandbox", p.SandboxID}
	}
	return nil
}

func problemAttrs(n *note) []any {
	p := n.problem
	if p == nil {
		return nil
	}
	if p.ErrorID == "" {
		return []any{"code", p.Code}
	}
	return []any{"code", p.Code, "error_id", p.ErrorID, "error", p.Err.Error()}
}

// level keeps health checks out of a normal log and puts our own failures on top.
func level(n *note, route string) slog.Level {
	switch {
	case n.gone:
		return slog.LevelInfo
	case n.problem != nil && n.problem.Kind == fault.Internal:
		return slog.LevelError
	case n.problem != nil && n.problem.ErrorID != "":
		return slog.LevelWarn
	case route == "/alive" || route == "/health" || route == "/ready" || route == "/metrics":
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// recorder remembers what was answered, and gives the client a time to take it.
type recorder struct {
	http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration // of each piece
	own     bool          // the handler sets write deadlines itself
	status  int
	bytes   int64
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	written := 0
	for {
		piece := b[written:min(len(b), written+pieceSize)]
		if !w.own {
			_ = w.rc.SetWriteDeadline(time.Now().Add(w.timeout)) // not supported by test recorders
		}
		n, err := w.ResponseWriter.Write(piece)
		written += n
		w.bytes += int64(n)
		if err != nil || written == len(b) {
			return written, err
		}
	}
}

// Hijack hands the connection over to another protocol.
func (w *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := w.rc.Hijack()
	if err == nil && w.status == 0 {
		w.status = http.StatusSwitchingProtocols
	}
	return conn, buffered, err
}

// SetWriteDeadline leaves the deadlines to the handler.
func (w *recorder) SetWriteDeadline(t time.Time) error {
	w.own = true
	return w.rc.SetWriteDeadline(t)
}

// Unwrap serves http.ResponseController and WebSocket upgrades.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
