package agentserver

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"parley/internal/api/httpkit"
	"parley/internal/fault"
	"parley/internal/fleet"
	"parley/internal/store"
	"parley/internal/tool"
)

// PreviewConfig says how what programs in sandboxes serve is shown.
type PreviewConfig struct {
	Register *httpkit.Previews // nil = no previews
	URLs     *httpkit.URLs
	// Reach returns the hands of a running sandbox without waking it.
	Reach func(ctx context.Context, owner, id string, use bool) (tool.Hands, error)
	// Exposed says what programs offer, in the order of the sandboxes.
	Exposed func(ctx context.Context, boxes []*store.Sandbox) []fleet.Exposed
	// SharedOrigin lets pages below the server's own paths run as pages of its own
	// origin. Without it they are in an opaque one.
	SharedOrigin bool
	Connections  int           // of one sandbox at a time, 0 = 128
	FirstByte    time.Duration // that a program may take to begin an answer, 0 = 2 min
}

const (
	previewRoute       = "/agent/{sandbox_id}/ports/{port}"
	previewCookie      = "parley_preview"
	ticketParameter    = "ticket"
	previewConnections = 128
	previewFirstByte   = 2 * time.Minute
)

// place is what a request for a preview names.
type place struct {
	sandboxID string
	port      int
	prefix    string // path of the preview as browsers see it, escaped, no slash at its end; "" at an origin of its own
	rest      string // path below it as the client wrote it, escaped; "" without even a slash
	own       bool   // it has an origin of its own
}

// previewPlace reads the path below /agent/{sandbox_id}. False if it is no preview's.
func (s *Server) previewPlace(r *http.Request, sandboxID, rest string) (place, bool) {
	below, ok := strings.CutPrefix(rest, "ports/")
	if !ok || s.cfg.Previews.Register == nil {
		return place{}, false
	}
	digits, _, _ := strings.Cut(below, "/")
	port, ok := previewPort(digits)
	if !ok {
		return place{}, false
	}
	base, err := url.Parse(httpkit.PreviewURL(s.cfg.Previews.URLs.Base(r), sandboxID, port))
	if err != nil {
		return place{}, false
	}
	return place{sandboxID: sandboxID, port: port, prefix: strings.TrimRight(base.EscapedPath(), "/"),
		rest: asWritten(r.RequestURI, below[len(digits):])}, true
}

// previewPort reads a port in the one way to write it.
func previewPort(digits string) (int, bool) {
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || port == 0 || strconv.FormatUint(port, 10) != digits {
		return 0, false
	}
	return int(port), true
}

// asWritten returns the end of a request's path that rest is the canonical form of:
// the guard makes one slash of several, programs may mean them.
func asWritten(requestURI, rest string) string {
	path, _, _ := strings.Cut(requestURI, "?")
	if !strings.HasPrefix(path, "/") {
		return rest
	}
	above := segments(path) - segments(rest)
	at := 0
	for ; above > 0; above-- {
		for at < len(path) && path[at] == '/' {
			at++
		}
		for at < len(path) && path[at] != '/' {
			at++
		}
	}
	return path[at:]
}

// segments counts the parts of a path that are not empty.
func segments(path string) int {
	n := 0
	for part := range strings.SplitSeq(path, "/") {
		if part != "" {
			n++
		}
	}
	return n
}

// ownPlace reads the host of a preview that has an origin of its own.
func (s *Server) ownPlace(r *http.Request) (p place, is bool) {
	if s.cfg.Previews.Register == nil {
		return place{}, false
	}
	label, is := s.cfg.Previews.URLs.PreviewLabel(r.Host)
	digits, id, _ := strings.Cut(label, "-")
	port, _ := previewPort(digits)
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if !strings.HasPrefix(path, "/") {
		path = r.URL.EscapedPath()
	}
	return place{sandboxID: id, port: port, rest: path, own: true}, is
}

// servePreview answers a request for what a program inside serves.
func (s *Server) servePreview(w http.ResponseWriter, r *http.Request, at place) {
	httpkit.SetRoute(r, previewRoute)
	r = r.WithContext(context.WithValue(r.Context(), mountKey{}, at.sandboxID))
	if err := s.preview(w, r, at); err != nil {
		writePreviewFault(w, r, err)
	}
}

func (s *Server) preview(w http.ResponseWriter, r *http.Request, at place) error {
	if at.port == 0 {
		return httpkit.NotFound("Preview")
	}
	if ticket := r.URL.Query().Get(ticketParameter); r.Method == http.MethodGet && httpkit.IsTicket(ticket) {
		return s.redeem(w, r, at, ticket)
	}
	who, err := s.viewer(r, at)
	if err != nil {
		return err
	}
	if at.rest == "" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		http.Redirect(w, r, withQuery(at.prefix+"/", r.URL.RawQuery), http.StatusTemporaryRedirect)
		return nil
	}
	leave, err := s.open.enter(at.sandboxID)
	if err != nil {
		return err
	}
	defer leave()
	ctx, end, err := s.cfg.Streams.Join(r.Context(), who, "preview", "preview:"+at.sandboxID)
	if err != nil {
		return err
	}
	defer end()
	hands, err := s.cfg.Previews.Reach(ctx, who.Owner, at.sandboxID, byUser(r))
	if err != nil {
		return err
	}
	s.proxy(w, r.WithContext(ctx), &visit{place: at, owner: who.Owner, hands: hands, server: s})
	return nil
}

// byUser reports that a user sent a browser somewhere. Only that keeps a sandbox
// awake: a page that is left open and asks for news does not.
func byUser(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-User") == "?1"
}

// redeem turns a ticket into a cookie that opens this preview and nothing else.
func (s *Server) redeem(w http.ResponseWriter, r *http.Request, at place, ticket string) error {
	session, ok := s.cfg.Previews.Register.Redeem(ticket, at.sandboxID, at.port)
	if !ok {
		return fault.New(fault.Unauthenticated, "ticket_invalid", "This link to a preview was used already, or is too old.").
			WithHint("Open the preview from where the link came from again: links work once, for a minute.")
	}
	if v, ok := s.cfg.Previews.Register.Find(session, at.sandboxID, at.port); ok {
		// Who opened it just now looks at it. That it cannot be reached shows next.
		_, _ = s.cfg.Previews.Reach(r.Context(), v.Owner, at.sandboxID, true)
	}
	query := r.URL.Query()
	query.Del(ticketParameter)
	http.SetCookie(w, &http.Cookie{Name: previewCookie, Value: session, Path: at.prefix + slashIf(at.own), HttpOnly: true,
		Secure: strings.HasPrefix(s.cfg.Previews.URLs.Base(r), "https:"), SameSite: http.SameSiteLaxMode,
		MaxAge: int(httpkit.SessionTime.Seconds())})
	path := at.rest
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	w.Header().Set("Location", withQuery(besideNoServer(at.prefix+path), query.Encode()))
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

func slashIf(own bool) string {
	if own {
		return "/"
	}
	return ""
}

func withQuery(path, query string) string {
	if query == "" {
		return path
	}
	return path + "?" + query
}

// viewer returns who may look into a sandbox, of which at least the owner is known: with
// the sandbox's or its owner's key, or with a session of this preview.
func (s *Server) viewer(r *http.Request, at place) (who httpkit.Principal, err error) {
	err = errOtherSandbox()
	for _, key := range previewKeys(r) {
		found, wrong := s.cfg.Auth.Resolve(r.Context(), key)
		if wrong == nil {
			found, wrong = s.admit(r.Context(), found)
		}
		if wrong == nil {
			return found, nil
		}
		if !fault.Is(wrong, fault.Unauthenticated) {
			err = wrong
		}
	}
	for _, c := range r.CookiesNamed(previewCookie) { // a page may have set others of the name
		if v, ok := s.cfg.Previews.Register.Find(c.Value, at.sandboxID, at.port); ok {
			return httpkit.Principal{Owner: v.Owner}, nil
		}
	}
	return httpkit.Principal{}, err
}

// previewKeys are what may be a key of ours. A program's own bearer token may stand
// beside it.
func previewKeys(r *http.Request) []string {
	headers := []string{r.Header.Get("X-Session-API-Key"), r.Header.Get("X-Access-Token"), bearer(r)}
	var keys []string
	for _, key := range headers {
		if key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// openPreviews counts what is under way for each sandbox, so that a page cannot
// take all connections into it.
type openPreviews struct {
	mu    sync.Mutex
	most  int
	count map[string]int
}

func (o *openPreviews) enter(sandboxID string) (leave func(), err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.count[sandboxID] >= o.most {
		return nil, fault.New(fault.RateLimited, "too_many_previews", "%d requests to programs in the sandbox are under way, which is the limit.", o.most).
			WithHint("Close pages that are not needed.")
	}
	o.count[sandboxID]++
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.count[sandboxID]--; o.count[sandboxID] == 0 {
			delete(o.count, sandboxID)
		}
	}, nil
}
